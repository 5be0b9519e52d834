"""A judge's reply is read in whatever form it comes, and what is not one verdict is an error that says why."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import example, given, strategies as st
from tests.tables import cases

from tunecheck import JudgementError
from tunecheck.evaluators import AnswerForm, ResolvedOutput, shorten_reply
from tunecheck.prompts import Kind


def form(score: str, kind: Kind, labels: Mapping[str, float], most: float = 1.0, type_: str = "string") -> AnswerForm:
    outputs = {"reason": {"type": "string"}, score: {"type": type_}}
    least = 1.0 if most > 1 else 0.0
    return AnswerForm(
        ResolvedOutput("m", score, "reason", (least, most), None, True, kind, labels, outputs, (score,)), "here"
    )


FIVE = form("score", "score", {}, 5.0, "number")
PASSED = form("passed", "binary", {}, type_="boolean")
GOOD = form("verdict", "binary", {"good": 1.0, "bad": 0.0})
WINNER = form("winner", "score", {"A": 1.0, "B": 0.0, "C": 0.5})


def score_of(asked: AnswerForm, reply: str) -> float | None:
    """The score in a reply; None where it has to be asked for again."""
    try:
        return asked.read(reply).score
    except JudgementError:
        return None


@cases("judges")
def test_a_score_from_1_to_5_is_read_or_asked_for_again(reply: str, score: float | None) -> None:
    assert score_of(FIVE, reply) == score


FORMS = {"passed": PASSED, "verdict": GOOD, "winner": WINNER}


@cases("judges")
def test_a_word_is_read_or_asked_for_again(asked: str, reply: str, score: float | None) -> None:
    assert score_of(FORMS[asked], reply) == score


@cases("judges")
def test_the_reason_is_read_with_the_score(reply: str) -> None:
    found = FIVE.read(reply)
    assert (found.score, found.reason) == (2, "too short")


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("<think>still thinking", "empty"),
        ("It was a nice answer.", "no JSON object"),
        ('{"reason": "it beg', "breaks off"),
        ('{"reason": "x" "score": 2}', "breaks off or is broken"),
        ("x" * 1_000_001, "1,000,001 characters"),
        ('{"score": 5} {"score": 2}', "contradicts itself: 'score' is 5 and 2"),
        ('{"score": 5, "score": 2}', "gives 'score' twice"),
        ("Score: 7", "7, outside of 1 to 5"),
    ],
)
def test_what_is_no_verdict_is_an_error_that_says_why(reply: str, problem: str) -> None:
    with pytest.raises(JudgementError, match=problem):
        FIVE.read(reply)


SCORES = st.integers(1, 5)
AROUND = st.sampled_from(["{}", "```json\n{}\n```", "I judge:\n{}\nThat is all.", "<think>5? 1?</think>{}", "[{}]"])
SPELLED = st.sampled_from(
    ['{{"reason": "r", "score": {}}}', '{{"score": "{}/5",}}', "{{'score': {}}}", '{{"a": {{"Score": "{}"}}}}']
)


@given(SCORES, AROUND, SPELLED)
def test_a_score_is_found_in_each_spelling_with_each_thing_around_it(score: int, around: str, spelled: str) -> None:
    assert FIVE.read(around.replace("{}", spelled.format(score))).score == score


@given(SCORES, SCORES, SPELLED, SPELLED)
def test_two_objects_agree_or_are_asked_for_again(first: int, second: int, one: str, other: str) -> None:
    found = score_of(FIVE, f"{one.format(first)}\n{other.format(second)}")
    assert found == (first if first == second else None)


def test_a_long_reply_is_shown_by_its_beginning_and_its_end() -> None:
    shown = shorten_reply("begin\n" + "x" * 5_000 + " end")
    assert shown.startswith("begin xxx")
    assert shown.endswith(" end")
    assert "5,010 characters" in shown
    assert len(shown) < 400


NESTED = '{"a":' * 30_000


@given(
    st.one_of(
        st.text(max_size=300),
        st.text(alphabet='{}[]":,\\ \nsSeE<>/0129ct.`', max_size=300),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["score", "reason", "x"]), inner)
            ),
            max_leaves=8,
        ).map(lambda value: f"say {json.dumps(value)} end"),
    )
)
@example(NESTED)
@example('{"score":' + "[" * 50_000)
@example('{"score": ' + "9" * 6_000 + "}")
@example('{"score": 1e999}')
@example('{"score": NaN}')
@example('{"score": "\\ud83d"}')
@example('{"' * 100_000)
@example("<score>" * 50_000)
@example("</score>" * 50_000)
@example('{"score": ' + '{"x": ' * 150 + "1" + "}" * 151)
def test_nothing_but_a_verdict_or_its_own_error_comes_of_any_text(text: str) -> None:
    try:
        found = FIVE.read(text)
    except JudgementError as error:
        assert "\n" not in str(error)
    else:
        assert found.score is None or 1 <= found.score <= 5
