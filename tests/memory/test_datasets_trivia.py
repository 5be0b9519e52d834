"""`tunecheck datasets get trivia`: questions and answers for filler, from the forms in which they are published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.memory_kinds_parts import DATA

from tunecheck._errors import ConfigurationError, DataError
from tunecheck.cli._app import main
from tunecheck.datasets._trivia import convert_trivia
from tunecheck_memory._data import read_words, spy_words
from tunecheck_memory._filler import load_filler

OFFICIAL = {
    "Data": [
        {
            "Answer": {
                "Aliases": ["Sunset Blvd", "Sunset Boulevard"],
                "NormalizedValue": "sunset boulevard",
                "Type": "WikipediaEntity",
                "Value": "Sunset Boulevard",
            },
            "EntityPages": [],
            "Question": "Which Lloyd Webber musical?",
            "QuestionId": "tc_33",
            "SearchResults": [{"Description": 'says "Data": [ in passing'}],
        },
        {"Answer": {"NormalizedValue": "7", "Type": "Numerical"}, "Question": "How many dwarfs?"},
        {"Question": "A question of the test split, without an answer?", "QuestionId": "tc_40"},
    ],
    "Domain": "unfiltered-web",
    "VerifiedEval": False,
}

WANTED = [("Which Lloyd Webber musical?", "Sunset Boulevard"), ("How many dwarfs?", "7")]


def converted(folder: Path, content: str) -> list[tuple[str, str]]:
    (folder / "in.json").write_text(content, "utf-8")
    convert_trivia(folder / "in.json", folder / "out.jsonl", overwrite=True)
    return list(load_filler(folder / "out.jsonl").pairs)


@pytest.mark.parametrize("indent", [None, 2])
def test_triviaqas_own_files_are_read(tmp_path: Path, indent: int | None) -> None:
    assert converted(tmp_path, json.dumps(OFFICIAL, indent=indent)) == WANTED


def test_the_list_need_not_stand_first(tmp_path: Path) -> None:
    assert converted(tmp_path, json.dumps({"Domain": "web", **OFFICIAL, "Data": OFFICIAL["Data"]})) == WANTED


@pytest.mark.parametrize(
    "entry",
    [
        {"question": "Q?", "answer": "A"},
        {"Question": "Q?", "AnswerValue": "A"},
        {"question": "Q?", "answer": {"value": "A", "normalized_value": "a"}},
        {"question": "Q?", "answer": {"value": "", "normalized_value": "A"}},
    ],
)
@pytest.mark.parametrize("form", ["lines", "array", "object"])
def test_entries_of_every_form_are_read_from_every_sort_of_file(
    tmp_path: Path, entry: dict[str, Any], form: str
) -> None:
    text = {"lines": json.dumps(entry) + "\n", "array": json.dumps([entry]), "object": json.dumps({"Data": [entry]})}
    assert converted(tmp_path, text[form]) == [("Q?", "A")]


def test_the_benchmarks_own_pool_comes_over_word_for_word(shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "ltm" / "trivia" / "trivia.json"
    report = convert_trivia(source, tmp_path / "out.jsonl")
    assert (report.questions, report.left_out) == (11_313, 0)
    assert load_filler(tmp_path / "out.jsonl").pairs == load_filler(source).pairs
    assert load_filler(tmp_path / "out.jsonl").sha256 == load_filler(source).sha256


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"Data": [{"Question": "Q?"}]}', "none of its 1 entries has a question with an answer"),
        ('{"Data": [{"Question": "Q?"},\n oops]}', "line 2, column 2: not JSON"),
        ('{"Data": [{"Question"', "but the file ends"),
        ("[]", "holds no entries"),
        ("nothing of the sort", "not JSON"),
        ("", "holds no entries"),
    ],
)
def test_what_is_no_pool_is_named_and_nothing_is_written(tmp_path: Path, content: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        converted(tmp_path, content)
    assert [each.name for each in tmp_path.iterdir()] == ["in.json"]


def test_what_is_there_is_replaced_only_when_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text(json.dumps(OFFICIAL))
    (tmp_path / "out.jsonl").write_text("mine")
    with pytest.raises(ConfigurationError, match="exists"):
        convert_trivia(tmp_path / "in.json", tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_text() == "mine"
    with pytest.raises(ConfigurationError, match=r"name it out\.jsonl"):
        convert_trivia(tmp_path / "in.json", tmp_path / "out.json")
    with pytest.raises(ConfigurationError, match="is the source itself"):
        convert_trivia(tmp_path / "out.jsonl", tmp_path / "out.jsonl", overwrite=True)


entries: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["Question", "Answer", "AnswerValue", "answer", "Value", "x"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(st.lists(entries, max_size=5))
def test_entries_of_any_shape_are_taken_or_left_out(tmp_path_factory: pytest.TempPathFactory, found: list[Any]) -> None:
    folder = tmp_path_factory.getbasetemp()
    whole = [*found, {"Question": "Q?", "AnswerValue": "A"}]
    assert converted(folder, json.dumps({"Data": whole}))[-1] == ("Q?", "A")


def test_the_command_puts_them_where_a_run_is_told_to_find_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.json").write_text(json.dumps(OFFICIAL))
    assert main(["datasets", "get", "trivia", "--from", "in.json"]) == 0
    said = capsys.readouterr().out
    assert "written datasets/trivia.jsonl: 2 questions, 1 entries without question or answer left out" in said
    assert "--filler datasets/trivia.jsonl" in said
    assert len(load_filler("datasets/trivia.jsonl").pairs) == 2
    assert main(["datasets", "get", "trivia", "--from", "in.json"]) == 2
    assert main(["datasets", "get", "trivia", "--from", "in.json", "--overwrite"]) == 0
    assert main(["datasets", "get", "trivia"]) == 2
    assert "give it with --from FILE" in capsys.readouterr().err


def test_our_own_pool_is_large_enough_and_has_no_question_twice() -> None:
    pairs = load_filler().pairs
    assert len(pairs) >= 300
    assert len({question for question, _ in pairs}) == len(pairs)
    assert all(question.endswith("?") and answer.strip() == answer for question, answer in pairs)


def test_our_own_pool_speaks_of_nothing_that_our_tests_ask_for() -> None:
    said = [f" {question} {answer} ".lower() for question, answer in load_filler().pairs]
    scenery = json.loads((DATA / "data" / "scenery.json").read_bytes())["containers"]
    asked = [word for words in spy_words() for word in words] + scenery
    for words in ("colours", "first_names", "groceries", "places"):
        asked += read_words(words)
    assert not [word for word in asked if any(_holds(text, word.lower()) for text in said)]


def _holds(text: str, word: str) -> bool:
    return any(f"{before}{word}{after}" in text for before in " -'\"(" for after in " -'\".,?)")
