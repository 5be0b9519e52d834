"""For any content of a test, its rules give a score or a reason: they never fail, and never take long."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from checks.goodai_rescore import rescore_row
from hypothesis import given, strategies as st
from tests.memory_scoring_parts import ROUTE, judged, told
from tests.text_fragments import WITH_NAN

from tunecheck_memory import FinishedTest, Score

TITLES = (
    "Names", "NameList", "Colours", "Shopping", "Locations", "Locations Directions", "Jokes", "SallyAnne",
    "Key-Value Pairs", "ChapterBreak", "Prospective Memory", "Trigger Response", "Spy Meeting", "Restaurant",
    "Delayed Recall",
)  # fmt: skip
EXPECTED: dict[str, list[Any]] = {
    "Locations Directions": [ROUTE],
    "Locations": ["From Mill, go 4km East to Chapel."],
    "Shopping": [["soap", 1]],
    "Spy Meeting": [["boat"], ["night"], ["port"]],
    "Prospective Memory": [["to be or not", "W", 2]],
}
PIECES = (
    "a", " ", "\n", "9", "N", "4 km ", "4 km east ", "(", "[", '{"a":', '"', "*", "```json", ".", ", ", "1. ", "→",
    "Bakery ", "red ", "not ", "is ", "most recently red, ", "one was ", "option 1 of 6 ", " of ", "\\u", "½", "\x00",
    "due to the in ", "the umbrella hangs there ",
)  # fmt: skip


def is_sound(found: object) -> bool:
    return not isinstance(found, Score) or 0 <= found.score <= 1


@given(
    st.sampled_from(TITLES) | st.text(max_size=20),
    st.lists(WITH_NAN, max_size=4),
    st.lists(st.text(max_size=200), max_size=4),
)
def test_any_replies_have_a_score_or_a_reason(title: str, expected: list[Any], responses: list[str]) -> None:
    test = told(title, expected, *responses, since_question=responses)
    assert is_sound(judged(test))
    judged(test, compat=True)


@given(st.dictionaries(st.sampled_from(("dataset", "expected", "responses", "script", "log_from_question")), WITH_NAN))
def test_any_row_is_rescored(row: dict[str, Any]) -> None:
    assert "our_score" in rescore_row(row).row


@pytest.mark.parametrize("title", TITLES)
def test_replies_of_the_wrong_type_are_left_out(title: str) -> None:
    wrong: Any = [None, 3, ["x"], {"a": 1}]
    assert is_sound(judged(FinishedTest(title, wrong, wrong, since_question=wrong, script=wrong)))


@pytest.mark.parametrize("title", TITLES[:-2])
def test_long_repetitions_do_not_hang(title: str) -> None:
    """Exponential work would hang; what grows with their square, `checks/` finds in longer ones."""
    for text in repetitions(2_000):
        judge_both_ways(title, text)


def repetitions(length: int) -> Iterator[str]:
    """Texts of one piece, or of two in turns."""
    for first, second in itertools.chain(
        itertools.product(PIECES, ("",)), itertools.product(PIECES[::4], PIECES[1::4])
    ):
        yield (first + second) * (length // len(first + second)) + "x"


def judge_both_ways(title: str, text: str) -> None:
    expected = EXPECTED.get(title, ["the umbrella hangs there"])
    for compat in (False, True):
        judged(told(title, expected, text, text, since_question=[text], script=[text]), compat=compat)
