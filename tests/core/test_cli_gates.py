"""Gates: how they are written, and what meets them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, strategies as st
from tests.tables import cases

from tunecheck import ConfigurationError, MatchEvaluator
from tunecheck.cli._gates import Gate, check_error_rate, parse_gate
from tunecheck.plugins import JSON

METRICS: dict[str, JSON] = {
    "calls.calls": 0.9,
    "calls.binary_aggregate": 0.8,
    "calls.scored_count": 10,
    "length.words": 12.5,
    "length.scored_count": 10,
    "empty.binary_aggregate": None,
    "empty.scored_count": 0,
    "words.note": "text",
}
BY: dict[str, dict[str, dict[str, JSON]]] = {
    "row_kind": {"call": {"calls.binary_aggregate": 0.5}, "answer": {"calls.binary_aggregate": 1.0}},
    "city": {"Oslo": {"calls.binary_aggregate": 0.25}, "call": {"calls.binary_aggregate": 0.0}},
}
PRIMARIES = {"calls": "calls", "length": None, "empty": None, "words": None}


def found(text: str) -> tuple[float | None, bool]:
    outcome = parse_gate(text).check(METRICS, BY, PRIMARIES)
    return outcome.found, outcome.met


@pytest.mark.parametrize(
    ("text", "gate"),
    [
        ("calls>=0.8", Gate("calls", None, ">=", 0.8)),
        (" calls > .5 ", Gate("calls", None, ">", 0.5)),
        ("calls.error_count==0", Gate("calls.error_count", None, "==", 0.0)),
        ("a.b<=1e-3", Gate("a.b", None, "<=", 0.001)),
        ("a<-2", Gate("a", None, "<", -2.0)),
        ("calls[call]>=80%", Gate("calls", "call", ">=", 0.8)),
        ("calls[city=New York]>=1", Gate("calls", "city=New York", ">=", 1.0)),
    ],
)
def test_a_gate_is_a_metric_perhaps_a_group_a_sign_and_a_number(text: str, gate: Gate) -> None:
    assert parse_gate(text) == gate


@pytest.mark.parametrize(
    "text", ["", "calls", "calls=0.8", "calls>=", ">=0.8", "calls>=high", "calls=>0.8", "calls[>=1", "a>=nan", "a>=inf"]
)
def test_what_is_no_gate_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: write metric>=number"):
        parse_gate(text)


@given(st.text(max_size=40))
def test_any_text_is_a_gate_or_a_clear_error(text: str) -> None:
    with contextlib.suppress(ConfigurationError):
        parse_gate(text)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("calls>=0.8", (0.8, True)),  # a bare evaluator means its pass rate
        ("length>=13", (12.5, False)),  # without a pass rate, its main mean
        ("calls.calls>0.9", (0.9, False)),
        ("calls>0.8", (0.8, False)),
        ("calls<=0.8", (0.8, True)),
        ("calls<0.8", (0.8, False)),
        ("calls==0.8", (0.8, True)),
        ("calls[answer]>=1", (1.0, True)),
        ("calls[Oslo]>=0.5", (0.25, False)),
        ("calls[city=call]>=0", (0.0, True)),
        ("calls[Rome]>=0", (None, False)),  # a group without rows
        ("empty<=1", (None, False)),  # a metric that counted no row
    ],
)
def test_a_gate_holds_a_figure_of_the_rows_it_names_against_a_number(
    text: str, outcome: tuple[float | None, bool]
) -> None:
    assert found(text) == outcome


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("calls[call]>=0", r"write \[row_kind=call\] or \[city=call\]"),
        ("calls.binary_agregate>=1", r"no metric 'calls.binary_agregate'; did you mean 'calls.binary_aggr"),
        ("words.note>=1", r"words\.note is not a number"),
    ],
)
def test_a_figure_that_cannot_be_meant_is_refused(text: str, refusal: str) -> None:
    with pytest.raises(ConfigurationError, match=refusal):
        found(text)


def test_before_the_run_the_evaluator_must_be_known() -> None:
    parse_gate("calls.anything>=1").check_names(["calls"], [])
    with pytest.raises(ConfigurationError, match="no evaluator of this run gives 'cals'; did you mean 'calls'"):
        parse_gate("cals>=1").check_names(["calls"], [])


@cases("cli")
def test_a_percentage_without_its_sign_is_refused_on_a_share(gate: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        parse_gate(gate).check_scale({"match": MatchEvaluator(), "own": lambda response: 1})


@pytest.mark.parametrize("gate", ["match>=95%", "match>=1", "match.error_count<=3", "own>=95", "own.words>=95"])
def test_what_may_be_larger_than_1_is_held_against_any_number(gate: str) -> None:
    parse_gate(gate).check_scale({"match": MatchEvaluator(), "own": lambda response: 1})


def test_before_the_run_a_group_must_be_one_that_there_can_be() -> None:
    parse_gate("calls[call]>=1").check_names(["calls"], [])
    parse_gate("calls[Oslo]>=1").check_names(["calls"], ["city"])
    with pytest.raises(ConfigurationError, match="no group 'cal'; did you mean 'call'"):
        parse_gate("calls[cal]>=1").check_names(["calls"], [])


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("cause.unreadable<=0.01", (0.02, False)),
        ("cause.cut_off<=0.01", (0, True)),
        ("cause.cut_off[call]==0", (0, True)),
        ("cause.unreadable[call]<=5%", (0.04, True)),
    ],
)
def test_a_cause_that_no_row_has_is_0(text: str, outcome: tuple[float, bool]) -> None:
    by: dict[str, dict[str, dict[str, JSON]]] = {"row_kind": {"call": {"cause.unreadable": 0.04}}}
    found = parse_gate(text).check(METRICS | {"cause.unreadable": 0.02}, by, PRIMARIES)
    assert (found.found, found.met) == outcome


def test_a_gate_names_a_cause_that_there_is() -> None:
    parse_gate("cause.wrong_argument.list_order<=0.1").check_names(["calls"], [])
    with pytest.raises(ConfigurationError, match="there is no cause 'cutoff'; did you mean 'cut_off'"):
        parse_gate("cause.cutoff<=0.1").check_names(["calls"], [])


def test_the_error_rate_is_rows_with_an_error_by_rows() -> None:
    assert check_error_rate(0.1, 1, 10).met
    assert not check_error_rate(0.0, 1, 10).met
    assert check_error_rate(0.0, 0, 10).met
