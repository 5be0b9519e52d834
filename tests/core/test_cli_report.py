"""The report of a run on a terminal."""

from __future__ import annotations

import io
from typing import Any

from tunecheck.cli._evaluate.summary import RunPage, run_view
from tunecheck.cli._gates.gates import GateOutcome
from tunecheck.pipeline import FailureGroup, Failures
from tunecheck.plugins import JSON, EvaluatorEntry, MetricEntry
from tunecheck.views import console, print_view

CALLS = EvaluatorEntry(primary="calls", metrics=[MetricEntry("calls", "binary")])


def metrics(passed: int, rows: int, name: str = "calls") -> dict[str, JSON]:
    return {
        f"{name}.binary_aggregate": passed / rows, f"{name}.scored_count": rows, f"{name}.not_applicable_count": 0,
        f"{name}.error_count": 0, "row_count": rows,
    }  # fmt: skip


def summary(**changed: Any) -> RunPage:
    values: dict[str, Any] = {
        "name": "it-7",
        "data": "val.jsonl",
        "source": "endpoint prod",
        "folder": "eval_results/it-7",
        "rows": 150,
        "failed_rows": 0,
        "simulated": False,
        "metrics": metrics(133, 150),
        "by": {"row_kind": {"answer": metrics(48, 48), "call": metrics(85, 102)}},
        "evaluators": {"calls": CALLS},
        "failures": Failures(),
        "gates": [],
        "notes": [],
        "usage": {},
    }
    return RunPage(**(values | changed))


def lines(shown: RunPage, width: int = 80) -> list[str]:
    stream = io.StringIO()
    terminal = console(stream)
    terminal.width = width
    print_view(run_view(shown), terminal)
    return [" ".join(line.split()) for line in stream.getvalue().splitlines()]


def test_calls_stand_before_answers() -> None:
    found = lines(summary())
    assert "all 150 rows call (102) answer (48)" in found
    assert "calls 133 of 150 (88.7%) 85 of 102 (83.3%) 48 of 48 (100.0%)" in found


def test_one_kind_of_rows_needs_no_column_of_its_own() -> None:
    assert "all 150 rows" in lines(summary(by={"row_kind": {"call": metrics(133, 150)}}))


def test_reasons_are_counted_the_commonest_first_with_an_example_of_each() -> None:
    groups = {"a": FailureGroup("own: too long", 6, "r2", ""), "b": FailureGroup("own: too rude", 11, "r1", "")}
    found = lines(summary(failures=Failures(reasons=groups)))
    start = found.index("failed for a reason that an evaluator gives")
    assert found[start + 1 : start + 3] == ["11 7.3% own: too rude e.g. r1", "6 4.0% own: too long e.g. r2"]


def test_rare_kinds_are_left_out_and_counted() -> None:
    groups = {letter: FailureGroup(f"kind {letter}", 1, "r", "") for letter in "abcdefghijkl"}
    assert "and 4 more" in lines(summary(failures=Failures(reasons=groups)))


def test_errors_of_evaluators_are_shown_in_their_own_words() -> None:
    errors = {"calls": {"timed out after …": FailureGroup("", 3, "r9", "TimedOutError: nothing in 60 s")}}
    found = lines(summary(failed_rows=3, failures=Failures(errors=errors)), 120)
    assert found[found.index("errors") + 1] == "3 2.0% calls: TimedOutError: nothing in 60 s e.g. r9"


def test_a_row_without_an_answer_stands_under_its_cause_with_the_error_in_its_own_words() -> None:
    errors = {"target": {"timed out after …": FailureGroup("", 3, "r9", "TimedOutError: nothing in 60 s")}}
    causes = {"unreachable": FailureGroup("no answer", 3, "r9", "")}
    found = lines(summary(failed_rows=3, failures=Failures(causes=causes, errors=errors)), 120)
    start = found.index("failed because of how the model is served")
    told = "no answer: the service could not be reached e.g. r9 TimedOutError: nothing in 60 s"
    assert found[start + 1] == f"3 2.0% {told}"
    assert "errors" not in found


def test_many_evaluators_by_group_are_split_into_tables_that_fit() -> None:
    names = [f"evaluator_number_{number}" for number in range(8)]
    by = {"city": {city: {key: value for name in names for key, value in metrics(1, 2, name).items()} for city in "AB"}}
    found = lines(summary(evaluators=dict.fromkeys(names, CALLS), by=by))
    heads = [line for line in found if line.startswith("city ")]
    assert len(heads) > 1
    assert [name for head in heads for name in head.split()[1:]] == ["rows", *names]


def test_a_column_of_many_values_shows_those_with_the_most_rows() -> None:
    by = {"user": {f"u{number}": metrics(1, number + 1) for number in range(40)}}
    found = lines(summary(by=by))
    assert "u39 40 2.5%" in found
    assert not any(line.startswith("u0 ") for line in found)
    assert "and 10 more values of user: see metrics.json" in found


def test_notes_and_gates_stand_at_the_end() -> None:
    gates = [GateOutcome("calls >= 0.9", 0.8867, False), GateOutcome("error rate <= 0", 0.0, True)]
    found = lines(summary(gates=gates, notes=["in threads: calls"]))
    assert "note: in threads: calls" in found
    assert "gate NOT met required calls >= 0.9 found 0.8867" in found
    assert "gate met required error rate <= 0 found 0" in found
    assert [line for line in found if line][-3] == "files in eval_results/it-7"


def test_a_gate_that_found_nothing_says_why() -> None:
    found = lines(summary(gates=[GateOutcome("calls[x] >= 1", None, False, "no row belongs to this group")]), 100)
    assert any(line.endswith("found nothing (no row belongs to this group)") for line in found)


def test_what_the_calls_came_to_stands_in_a_table() -> None:
    spent = {"calls": 1200, "input_tokens": 345_000, "output_tokens": 6_000, "cost": 1.25, "currency": "EUR"}
    found = lines(summary(usage={"difference": spent, "target": {**spent, "cost": None, "currency": None}}))
    assert "difference 1,200 345,000 6,000 1.2500 EUR" in found
    assert "target 1,200 345,000 6,000 no price" in found
