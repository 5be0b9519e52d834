"""Tests of every kind, made from any seed: whole, repeatable, and scored full marks when answered as expected."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from tests.cli_parts import ROOT
from tests.memory_kinds_parts import SCRIPTED, replies_since, right_replies, test_of, tests_of
from tests.memory_scoring_parts import score_by_words

from tunecheck import ConfigurationError, ReplyError
from tunecheck.endpoints import load_endpoint
from tunecheck_memory import FinishedTest, GenerationContext, MemoryTest, Wait, find_kind
from tunecheck_memory._kind import shipped_kind
from tunecheck_memory._kinds.recall import read_content

kinds = st.sampled_from(SCRIPTED)
seeds = st.integers(-(2**63), 2**63)

JUDGED = ("delayed_recall", "instruction_recall", "how_to_think")


@given(kinds, seeds)
def test_every_test_is_whole(name: str, seed: int) -> None:
    test = test_of(name, seed)
    lines = len(test.script)
    assert len(test.is_question) == len(test.waits) == lines + test.is_temporal
    assert any(test.is_question)
    assert test.is_question[-1]
    assert test.waits[-1] == Wait()
    assert all(line.strip() for line in test.script)
    assert test.expected
    assert not any("{" in line and name != "kv" and '{"answer"' not in line for line in test.script)


@given(kinds, seeds)
def test_waits_spread_the_lines_evenly_over_nine_tenths_of_the_span(name: str, seed: int) -> None:
    test = test_of(name, seed)
    lines = len(test.is_question)
    assert [wait.percentage for wait in test.waits[:-1]] == pytest.approx(
        [(at + 1) * 90 / (lines - 1) for at in range(lines - 1)]
    )
    assert all(wait.tokens == 0 for wait in test.waits)
    assert all((wait.seconds > 0) == (name == "jokes") for wait in test.waits[:-1])


@given(kinds, seeds, st.integers(1, 5), st.integers(1, 5))
def test_a_test_is_the_same_however_many_are_made(name: str, seed: int, few: int, more: int) -> None:
    one, other = tests_of(name, seed, few), tests_of(name, seed, few + more)
    assert other[:few] == one
    assert [test.example for test in other] == [str(number) for number in range(few + more)]


@pytest.mark.parametrize("name", SCRIPTED)
def test_another_seed_and_another_number_give_another_test(name: str) -> None:
    scripts = {test.script for seed in range(4) for test in tests_of(name, seed, 4)}
    assert len(scripts) > 10


def test_tests_do_not_depend_on_how_a_process_orders_its_sets() -> None:
    program = (
        "from tests.memory_kinds_parts import SCRIPTED, tests_of\nprint([tests_of(name, 5, 12) for name in SCRIPTED])\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": salt, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
            timeout=120,
        ).stdout
        for salt in ("1", "2", "3")
    }
    assert len(outputs) == 1


@given(st.sampled_from([name for name in SCRIPTED if name not in JUDGED]), seeds)
def test_the_expected_answer_scores_full_marks(name: str, seed: int) -> None:
    test = test_of(name, seed)
    score = score_by_words(_answered(test))
    assert score is not None
    assert score.score == pytest.approx(1.0), (test, score)


@given(st.sampled_from([name for name in SCRIPTED if name not in JUDGED]), seeds)
def test_no_answer_scores_nothing(name: str, seed: int) -> None:
    test = test_of(name, seed)
    silence = FinishedTest(
        test.title, test.expected, ["I do not know."] * sum(test.is_question), since_question=["…"] * 9,
        script=test.script,
    )  # fmt: skip
    score = score_by_words(silence)
    assert score is None or score.score == 0


def _answered(test: MemoryTest) -> FinishedTest:
    return FinishedTest(
        test.title,
        test.expected,
        right_replies(test) if not test.uses_callback else ["All right."],
        questions=[line for line, asked in zip(test.script, test.is_question, strict=False) if asked],
        since_question=replies_since(test) if test.uses_callback else (),
        script=test.script,
    )


@pytest.mark.parametrize("name", SCRIPTED)
def test_a_kind_is_found_by_its_title_as_well_as_by_its_name(name: str) -> None:
    kind = find_kind(name)
    assert shipped_kind(kind.title) is shipped_kind(name) is type(kind)
    assert kind.definitions(1, GenerationContext(0, 32_000))[0].title == kind.title


def test_those_kinds_say_goodbye_whose_content_would_disturb_the_next() -> None:
    resetting = {name for name in (*SCRIPTED, "chapterbreak", "restaurant") if find_kind(name).resets}
    assert resetting == {
        "chapterbreak", "delayed_recall", "instruction_recall", "locations", "locations_directions", "name_list",
        "prospective_memory", "restaurant", "shopping", "trigger_response",
    }  # fmt: skip


def test_kinds_that_speak_of_the_same_share_a_topic() -> None:
    assert find_kind("names").topics & find_kind("name_list").topics
    assert find_kind("locations").topics & find_kind("locations_directions").topics
    assert not find_kind("names").topics & find_kind("locations").topics


# -- conflicting personal information: a generator endpoint writes the content; what it writes is checked


WRITER = '''
import json

asked = []

def write(messages):
    """Writes nonsense first, then content, in a fence as models do."""
    asked.append(messages[-1]["content"])
    if len(asked) <= {nonsense}:
        return "Sure, here you go!"
    content = ["I live in " + place + "." for place in ("Bergen", "Oslo", "Turku")]
    reply = {{"content": content, "question": "Where do I live?", "answer": "Turku"}}
    return "```json\\n" + json.dumps(reply) + "\\n```"
'''


def make(folder: Path, nonsense: int = 0, count: int = 1) -> list[MemoryTest]:
    (folder / "writer.py").write_text(WRITER.format(nonsense=nonsense))
    (folder / "writer.yaml").write_text("kind: python\nfunction: writer.py:write\n")
    generator = load_endpoint(folder / "writer.yaml")
    return find_kind("conflicting_personal_info").definitions(count, GenerationContext(0, 32_000, generator=generator))


def test_without_a_generator_it_says_what_to_give() -> None:
    with pytest.raises(ConfigurationError, match="with --generator, or give existing definitions with --definitions"):
        find_kind("conflicting_personal_info").definitions(1, GenerationContext(0, 32_000))


def test_the_content_is_told_and_the_current_fact_asked_for(tmp_path: Path) -> None:
    one, other = make(tmp_path, count=2)
    assert one.script == ("I live in Bergen.", "I live in Oslo.", "I live in Turku.", "Where do I live?")
    assert list(one.expected) == ["Turku"]
    assert one.is_question == (False, False, False, True)
    assert (one.example, other.example) == ("0", "1")


def test_a_reply_that_cannot_be_used_is_asked_for_again(tmp_path: Path) -> None:
    assert make(tmp_path, nonsense=4)[0].expected == ("Turku",)


def test_a_generator_that_never_writes_anything_usable_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        ReplyError,
        match=r"writer wrote no usable test in 5 attempts \(the model's reply contains no JSON\); use another model",
    ):
        make(tmp_path, nonsense=99)


def test_it_can_be_made_within_a_running_event_loop(tmp_path: Path) -> None:
    async def within() -> list[MemoryTest]:
        return make(tmp_path)

    assert asyncio.run(within())[0].expected == ("Turku",)


@pytest.mark.parametrize(
    "reply",
    [
        "", "[]", "{}", '{"content": "a", "question": "b", "answer": "c"}',
        '{"content": ["a"], "question": "b", "answer": "c"}', '{"content": ["a", 3], "question": "b", "answer": "c"}',
        '{"content": ["a", "b"], "question": "", "answer": "c"}',
        '{"content": ["a", ""], "question": "b", "answer": "c"}',
        '{"content": ["a", "b"], "question": "b", "answer": null}', "{" * 5000,
    ],
)  # fmt: skip
def test_what_is_no_content_is_refused(reply: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_content(reply)
