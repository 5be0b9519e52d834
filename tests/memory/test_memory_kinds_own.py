"""Kinds of one's own: a class in a file, a declaration in YAML, and what goes wrong with either."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tunecheck._errors import ConfigurationError, PluginError
from tunecheck_memory._kind import Kind, Making
from tunecheck_memory._kinds.registry import find_kind
from tunecheck_memory._model import Definition, Given, Wait

HAIKU = """
from tunecheck_memory._kind import Kind
from tunecheck_memory._kinds.scripts import scripted_test


class Haiku(Kind):
    name = "haiku"
    title = "Haiku"

    def __init__(self, *, lines: int = 3) -> None:
        self.lines = lines
        self.arguments = {"lines": lines}

    def definitions(self, count, making):
        return [scripted_test(self, str(n), ["Frog."] * self.lines, ["Recite."], ["Frog."]) for n in range(count)]
"""

PARKING = """\
title: Parking
topics: [car]
values:
  level: [first, second, third]
  colour: [red, blue]
script:
  - My {colour} car is on the {level} level.
  - say: I am in a meeting now.
    wait: {tokens: 500, minutes: 90, percentage: 50}
questions:
  - ask: On which level is my car?
    expected: "{level}"
  - ask: What is its colour?
    expected: "{colour}"
"""


def write(folder: Path, name: str, content: str) -> str:
    (folder / name).write_text(content, "utf-8")
    return name


def declared(folder: Path, content: str) -> Kind:
    return find_kind(write(folder, "parking.yaml", content), folder=folder)


def make(kind: Kind, count: int = 1, seed: int = 0) -> list[Definition]:
    return kind.definitions(count, Making(seed, 1000))


def test_a_class_in_a_file_beside_the_configuration_is_a_kind(tmp_path: Path) -> None:
    kind = find_kind(write(tmp_path, "haiku.py", HAIKU), {"lines": 2}, folder=tmp_path)
    assert (kind.title, make(kind)[0].script) == ("Haiku", ("Frog.", "Frog.", "Recite."))
    assert list(tmp_path.iterdir()) == [tmp_path / "haiku.py"]


def test_its_arguments_are_checked_by_their_names(tmp_path: Path) -> None:
    name = write(tmp_path, "haiku.py", HAIKU)
    with pytest.raises(ConfigurationError, match="has no argument 'line'; did you mean 'lines'"):
        find_kind(name, {"line": 2}, folder=tmp_path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("x = 1", r"must define one class derived from .*Kind; found: none"),
        (HAIKU + "\nclass Tanka(Haiku): title = 'Tanka'\n", "found: Haiku, Tanka"),
        ("1 / 0", r"haiku\.py does not load: ZeroDivisionError: division by zero"),
        ("def (", r"haiku\.py does not load: SyntaxError"),
        ("raise SystemExit('no')", r"haiku\.py does not load: SystemExit: no"),
    ],
)
def test_a_file_without_one_kind_in_it_is_an_error_that_names_it(tmp_path: Path, content: str, problem: str) -> None:
    with pytest.raises(PluginError, match=problem):
        find_kind(write(tmp_path, "haiku.py", content), folder=tmp_path)


def test_a_class_in_the_workspaces_folder_is_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "memory").mkdir()
    write(tmp_path / "memory", "haiku.py", HAIKU.replace("from tunecheck", "from tunecheck", 1))
    monkeypatch.chdir(tmp_path)
    assert find_kind("haiku").title == "Haiku"


def test_a_declaration_makes_tests_with_values_put_in(tmp_path: Path) -> None:
    kind = declared(tmp_path, PARKING)
    assert (kind.title, kind.topics, kind.name) == ("Parking", frozenset({"car"}), "parking.yaml")
    for test in make(kind, 5):
        level, colour = test.expected
        assert test.script == (
            f"My {colour} car is on the {level} level.",
            "I am in a meeting now.",
            "On which level is my car?",
            "What is its colour?",
        )
        assert test.is_question == (False, False, True, True)
        assert test.waits == (Wait(), Wait(500, 5400, 50.0), Wait(), Wait())
    assert len({test.expected for test in make(kind, 60)}) == 6
    assert make(kind, 2) == make(kind, 9)[:2]


def test_without_waits_of_its_own_the_lines_are_spread_evenly(tmp_path: Path) -> None:
    content = PARKING.replace("    wait: {tokens: 500, minutes: 90, percentage: 50}\n", "")
    (test,) = make(declared(tmp_path, content))
    assert [wait.percentage for wait in test.waits] == [30, 60, 90, 0]


def test_cases_are_taken_one_after_the_other(tmp_path: Path) -> None:
    content = PARKING.replace("values:", "cases:\n  - {place: Rome}\n  - {place: Oslo}\nvalues:").replace(
        "is on the", "in {place} is on the"
    )
    tests = make(declared(tmp_path, content), 3)
    assert [place for test in tests for place in ("Rome", "Oslo") if place in test.script[0]] == [
        "Rome",
        "Oslo",
        "Rome",
    ]


@pytest.mark.parametrize(
    ("how", "replies", "score"),
    [
        ("words", ["On the SECOND level, I think.", "red"], 1.0),
        ("words", ["On the second-hand level", "reddish"], 0.5),
        ("words", ["no idea"], 0.0),
        ("exact", [" Second.", '"red"'], 1.0),
        ("exact", ["the second", "red"], 0.5),
    ],
)
def test_replies_are_scored_as_declared(tmp_path: Path, how: str, replies: list[str], score: float) -> None:
    kind = declared(tmp_path, PARKING + f"score: {how}\n")
    found = kind.score(Given("Parking", ["second", "red"], replies))
    assert found is not None
    assert found.score == score
    assert len(found.reasons) == 2


def test_what_only_a_judge_can_tell_has_no_score_by_words(tmp_path: Path) -> None:
    assert declared(tmp_path, PARKING + "score: judge\n").score(Given("Parking", ["a"], ["a"])) is None


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("title: Parking", "titel: Parking",
         r"parking\.yaml, line 1: Object contains unknown field `titel`; did you mean 'title'\?"),
        ("{level} level", "{levle} level", r"\{levle\} has no values; did you mean 'level'"),
        ("minutes: 90", "minuets: 90",
         r"line 9: Object contains unknown field `minuets` - at `\$\.script\[1\]\.wait`; did you mean 'minutes'\?"),
        ("minutes: 90", "minutes: -1", r"line 9: Expected `float` >= 0\.0 - at `\$\.script\[1\]\.wait\.minutes`"),
        ("minutes: 90", "minutes: true", r"Expected `float`, got `bool` - at `\$\.script\[1\]\.wait\.minutes`"),
        ("script:", "script: []\nscrip:", r"Expected `array` of length >= 1 - at `\$\.script`"),
        ("[first, second, third]", "first", r"line 4: Expected `array`, got `str` - at `\$\.values\[\.\.\.\]`"),
        ("[first, second, third]", "[]", r"line 4: Expected `array` of length >= 1 - at `\$\.values\[\.\.\.\]`"),
        ("  - ask: What is its colour?\n", "  - asks: What?\n",
         r"Object contains unknown field `asks` - at `\$\.questions\[1\]`; did you mean 'ask'\?"),
        ("    expected: \"{colour}\"\n", "", r"Object missing required field `expected` - at `\$\.questions\[1\]`"),
        ("topics: [car]", "score: word", r"Invalid enum value 'word' - at `\$\.score`; did you mean 'words'\?"),
        ("topics: [car]", "cases: [{a: b}, {c: d}]", "all cases must have the same names"),
        ("topics: [car]", "cases: [1]", r"line 2: Expected `object`, got `int` - at `\$\.cases\[0\]`"),
    ],
)  # fmt: skip
def test_a_declaration_that_is_wrong_is_refused_with_its_line(tmp_path: Path, old: str, new: str, problem: str) -> None:
    assert old in PARKING
    with pytest.raises(ConfigurationError, match=problem):
        declared(tmp_path, PARKING.replace(old, new))


@given(st.text(max_size=40), st.text(max_size=40))
def test_scoring_by_words_takes_any_text(tmp_path_factory: pytest.TempPathFactory, expected: str, reply: str) -> None:
    kind = declared(tmp_path_factory.getbasetemp(), PARKING)
    found = kind.score(Given("Parking", [expected], [reply]))
    assert found is not None
    assert found.score in (0, 1)
