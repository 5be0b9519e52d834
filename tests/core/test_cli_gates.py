"""Gates: how they are written, and what meets them."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.judge_parts import Scripted, plain_prompt
from tests.tables import cases

from tunecheck import ConfigurationError, MatchEvaluator, Metric, PromptyEvaluator
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
    "cause.unreadable": 0.02,
}
BY: dict[str, dict[str, dict[str, JSON]]] = {
    "row_kind": {
        "call": {"calls.binary_aggregate": 0.5},
        "answer": {"calls.binary_aggregate": 1.0, "cause.unreadable": 0.04},
    },
    "city": {"Oslo": {"calls.binary_aggregate": 0.25}, "call": {"calls.binary_aggregate": 0.0}},
}
PRIMARIES = {"calls": "calls", "length": None, "empty": None, "words": None}


@cases("cli")
def test_a_gate_is_a_metric_perhaps_a_group_a_sign_and_a_number(text: str, parts: list[Any]) -> None:
    assert parse_gate(text) == Gate(*parts)


@cases("cli")
def test_a_gate_holds_a_figure_of_the_rows_it_names_against_a_number(text: str, found: float | None, met: bool) -> None:
    outcome = parse_gate(text).check(METRICS, BY, PRIMARIES)
    assert (outcome.found, outcome.met) == (found, met)


@cases("cli")
def test_a_figure_that_cannot_be_meant_is_refused(text: str, refusal: str) -> None:
    with pytest.raises(ConfigurationError, match=refusal):
        parse_gate(text).check(METRICS, BY, PRIMARIES)


@cases("cli")
def test_before_the_run_what_a_gate_names_must_be_known(known: str, text: str, refusal: str) -> None:
    parse_gate(known).check_names(["calls"])
    with pytest.raises(ConfigurationError, match=refusal):
        parse_gate(text).check_names(["calls"])


@pytest.mark.parametrize(
    "text", ["", "calls", "calls=0.8", "calls>=", ">=0.8", "calls>=high", "calls=>0.8", "calls[>=1", "a>=nan", "a>=inf"]
)
def test_what_is_no_gate_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a gate: write metric>=number"):
        parse_gate(text)


@given(st.text(max_size=40))
def test_any_text_is_a_gate_or_a_clear_error(text: str) -> None:
    with contextlib.suppress(ConfigurationError):
        parse_gate(text)


@cases("cli")
def test_a_percentage_without_its_sign_is_refused_on_a_share(gate: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        parse_gate(gate).check_scale({"match": MatchEvaluator(), "own": lambda response: 1})


@pytest.mark.parametrize("gate", ["match>=95%", "match>=1", "match.error_count<=3", "own>=95", "own.words>=95"])
def test_what_may_be_larger_than_1_is_held_against_any_number(gate: str) -> None:
    parse_gate(gate).check_scale({"match": MatchEvaluator(), "own": lambda response: 1})


@pytest.mark.parametrize("name", ["own", "own.evaluator"])
def test_the_name_of_a_declared_share_may_have_dots(name: str) -> None:
    class Own:
        metrics = (Metric("words.rate"),)

    with pytest.raises(ConfigurationError, match=f"{name}.words.rate lies between 0 and 1"):
        parse_gate(f"{name}.words.rate>=80").check_scale({name: Own()})


def test_the_name_of_a_judge_means_its_mean_unless_a_threshold_gives_it_a_pass_rate(tmp_path: Path) -> None:
    prompt = plain_prompt(tmp_path, "helpful")
    gate = parse_gate("helpful>=3")
    gate.check_scale({"helpful": PromptyEvaluator(prompt, Scripted())})
    with pytest.raises(ConfigurationError, match="helpful lies between 0 and 1"):
        gate.check_scale({"helpful": PromptyEvaluator(prompt, Scripted(), threshold=3)})


def test_the_error_rate_is_rows_with_an_error_by_rows() -> None:
    assert check_error_rate(0.1, 1, 10).met
    assert not check_error_rate(0.0, 1, 10).met
    assert check_error_rate(0.0, 0, 10).met
