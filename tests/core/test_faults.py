"""Faults as data: what is stored, what is read back, and the sentences and titles made from them."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.matching_parts import nested
from tests.tables import cases

from tunecheck import Fault, MatchEvaluator, verdict
from tunecheck.plugins import MAX_FAULTS, causes, dumps, fault_titles, loads, read_faults, sentence, title, to_json

FAULT = Fault(code="wrong_argument.other", call="f", path="a.b[0]", expected=None, actual=[1, {"x": "é"}])


def test_a_fault_is_read_back_as_it_was_stored() -> None:
    stored = loads(dumps({"faults": to_json([FAULT])}))
    assert stored == {
        "faults": [
            {"code": "wrong_argument.other", "call": "f", "path": "a.b[0]", "expected": None, "actual": [1, {"x": "é"}]}
        ]
    }
    assert read_faults(stored) == (FAULT,)


@pytest.mark.parametrize(
    "value", [10**4000, nested(150), list(range(100_000)), {str(n): n for n in range(10_000)}, {"a": "x" * 600}]
)
def test_large_values_are_left_out(value: Any) -> None:
    (stored,) = to_json([Fault(code="extra_call", call="f", actual=value)])
    assert stored == {"code": "extra_call", "call": "f"}


def test_long_texts_are_cut_and_half_characters_can_be_written() -> None:
    (stored,) = to_json([Fault(code="own", call="f" * 900, message="m" * 900, expected="x" * 900, actual="\ud83d")])
    assert isinstance(stored, dict)
    assert {len(str(stored[name])) for name in ("call", "message", "expected")} == {501}
    dumps(stored)


def test_few_faults_are_stored_and_every_code_is_among_them() -> None:
    many = [Fault(code="wrong_argument.other", call="f", path=f"x[{n}]") for n in range(1_000)]
    stored = to_json([*many, Fault(code="missing_call", call="g"), Fault(code="missing_call", call="h")])
    assert len(stored) == MAX_FAULTS + 1
    assert read_faults({"faults": stored})[-1] == Fault(code="missing_call", call="g")


@cases("scoring")
def test_what_is_no_fault_is_passed_over(properties: object) -> None:
    assert read_faults(properties) == ()


def test_a_fault_among_others_that_are_none_is_read() -> None:
    found = read_faults({"faults": [None, {"code": "tone.rude", "path": "greeting", "more": 1}]})
    assert found == (Fault(code="tone.rude", path="greeting"),)


# Hypothesis also draws texts that stand in the source, "Unset" among them; a sentence quotes such a value rightly.
_TEXT = st.text().filter(lambda text: "Unset" not in text)
_ANYTHING = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | _TEXT, st.lists, max_leaves=5)


@given(
    st.sampled_from([*fault_titles(), *causes(), "wrong_argument", "judged.date format", "mine.too"]),
    st.none() | _TEXT,
    st.none() | _TEXT,
    _ANYTHING,
    _ANYTHING,
    st.booleans(),
)
def test_any_fault_makes_one_line_and_a_title(
    code: str, call: str | None, path: str | None, expected: Any, actual: Any, any_of: bool
) -> None:
    fault = Fault(code=code, call=call, path=path, expected=expected, actual=actual, any_of=any_of)
    for one in (fault, Fault(code=code, call=call, path=path, any_of=any_of)):
        line = sentence([one])
        assert line
        assert "Unset" not in line
        assert len(line.splitlines()) == 1
        assert title(code).isprintable()
        assert len(read_faults({"faults": to_json([one])})) == 1


@cases("scoring")
def test_a_title_is_readable(code: str, name: str) -> None:
    assert title(code) == name


def test_every_code_has_a_title() -> None:
    assert all(title(code) == name for code, name in fault_titles().items())


DOCS = Path(__file__).parents[2] / "docs"


def test_every_code_is_documented() -> None:
    codes = {code.partition(".")[0] for code in fault_titles()}
    own, causes = ((DOCS / page).read_text(encoding="utf-8") for page in ("own-evaluators.md", "causes.md"))
    listed = re.findall(r"^\* `(\w+)`: ", own.partition("The other codes:\n")[2], re.MULTILINE)
    assert {*listed} == codes - {*re.findall(r"^\| `(\w+)` \|", causes, re.MULTILINE)}


def test_a_failing_verdict_has_its_faults_and_a_sentence_made_from_them() -> None:
    found = verdict("m", score=0.0, passed=False, faults=[Fault(code="tone.rude", path="greeting", actual="Oi")])
    assert found["m_reason"] == 'greeting: tone: rude, got "Oi"'
    assert found["m_properties"] == {"faults": [{"code": "tone.rude", "path": "greeting", "actual": "Oi"}]}


def test_a_reason_that_is_given_stays() -> None:
    found = verdict("m", passed=False, reason="too rude", faults=[Fault(code="tone.rude")], properties={"n": 1})
    assert found["m_reason"] == "too rude"
    assert found["m_properties"] == {"n": 1, "faults": [{"code": "tone.rude"}]}


def test_a_fault_made_of_anything_is_passed_over() -> None:
    wrong: Any = [Fault(code=5), Fault(code="a", call=5), Fault(code="a", turn="1"), "own"]  # type: ignore[arg-type]
    found = verdict("m", passed=False, faults=[*wrong, Fault(code="tone.rude")])
    assert found["m_properties"] == {"faults": [{"code": "tone.rude"}]}


@pytest.mark.parametrize("more", [{"passed": True}, {"passed": None}, {"passed": False, "not_applicable": True}])
def test_only_a_row_that_fails_has_faults(more: dict[str, Any]) -> None:
    found = verdict("m", faults=[Fault(code="tone.rude")], **more)
    assert (found["m_reason"], found["m_properties"]) == (None, None)


def test_an_answer_below_the_threshold_names_both_numbers() -> None:
    found = MatchEvaluator()(response="It is", ground_truth="It is booked for you.")
    assert isinstance(found["match_properties"], dict)
    (fault,) = read_faults(found["match_properties"])
    assert (fault.code, fault.expected, fault.actual) == ("below_threshold.rouge_l", 0.75, found["match"])
