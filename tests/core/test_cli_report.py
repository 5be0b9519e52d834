"""The report of a run on a terminal: figures, reasons counted by the codes of their faults, gates and notes."""

import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.cli_parts import SCREEN
from tests.tables import cases

from tunecheck import EvaluationResult, Run
from tunecheck._files import Summary
from tunecheck.cli import Options
from tunecheck.cli._evaluate.summary import RunPage, lines_of, run_view
from tunecheck.cli._gates import GateOutcome
from tunecheck.pipeline import (
    FailureGroup,
    Failures,
    VerdictReader,
    _finished_rows as failures_module,
    counted_metric,
    counted_metrics,
    read_failures,
)
from tunecheck.pipeline._plan import Remarks, Tally
from tunecheck.plugins import JSON, EvaluatorEntry, MetricEntry, RunFile, read_fitting
from tunecheck.results import FirstScreen, main_figure_of
from tunecheck.views import console, print_view, text_of

CALLS = EvaluatorEntry(primary="calls", metrics=[MetricEntry("calls", "binary")])


def metrics(passed: int, rows: int, name: str = "calls") -> dict[str, JSON]:
    return {
        f"{name}.binary_aggregate": passed / rows, f"{name}.scored_count": rows, f"{name}.not_applicable_count": 0,
        f"{name}.error_count": 0, "row_count": rows,
    }  # fmt: skip


class PageInMemory(RunPage, frozen=True):
    """The page of a run without a folder."""

    @property
    def screen(self) -> FirstScreen:
        return SCREEN


def summary(**changed: Any) -> RunPage:
    counted: dict[str, Any] = {
        "rows": 150,
        "failed_rows": 0,
        "simulated": False,
        "metrics": metrics(133, 150),
        "by": {"row_kind": {"answer": metrics(48, 48), "call": metrics(85, 102)}},
        "usage": {},
        "notes": [],
    }
    counted |= {name: changed.pop(name) for name in [*changed] if name in counted and name != "notes"}
    values: dict[str, Any] = {
        "options": Options(),
        "data": "val.jsonl",
        "source": "endpoint prod",
        "result": EvaluationResult(Run(Path("eval_results/it-7")), Summary(**counted), [], Tally()),
        "evaluators": {"calls": CALLS},
        "failures": Failures(),
        "gates": [],
        "notes": [],
    }
    return PageInMemory(**(values | changed))


def printed(shown: RunPage, width: int = 80) -> list[str]:
    stream = io.StringIO()
    terminal = console(stream)
    terminal.width = width
    print_view(run_view(shown), terminal)
    return [" ".join(line.split()) for line in stream.getvalue().splitlines()]


def failures_of(page: dict[str, Any]) -> Failures:
    """Take the groups of failures out of a page of the table: title, rows, example and words of each."""

    def groups_of(listed: dict[str, Any]) -> dict[str, FailureGroup]:
        return {key: FailureGroup(*of) for key, of in listed.items()}

    errors = {stage: groups_of(listed) for stage, listed in page.pop("errors", {}).items()}
    return Failures(groups_of(page.pop("causes", {})), groups_of(page.pop("reasons", {})), errors)


@cases("cli")
def test_the_page_of_a_run_has_these_lines_one_after_another(
    page: dict[str, Any], width: int, lines: list[str], absent: list[str]
) -> None:
    changed = dict(page)
    found = printed(summary(failures=failures_of(changed), **changed), width)
    start = found.index(lines[0])
    assert found[start : start + len(lines)] == lines
    assert not set(absent) & set(found)


def test_many_evaluators_by_group_are_split_into_tables_that_fit() -> None:
    names = [f"evaluator_number_{number}" for number in range(8)]
    by = {"city": {city: {key: value for name in names for key, value in metrics(1, 2, name).items()} for city in "AB"}}
    found = printed(summary(evaluators=dict.fromkeys(names, CALLS), by=by))
    heads = [line for line in found if line.startswith("city ")]
    assert len(heads) > 1
    assert [name for head in heads for name in head.split()[1:]] == ["rows", *names]


def test_a_column_of_many_values_shows_those_with_the_most_rows() -> None:
    by = {"user": {f"u{number}": metrics(1, number + 1) for number in range(40)}}
    found = printed(summary(by=by))
    assert "u39 40 2.5%" in found
    assert not any(line.startswith("u0 ") for line in found)
    assert "and 10 more values of user: see metrics.json" in found


def test_notes_and_gates_stand_at_the_end() -> None:
    gates = [GateOutcome("calls >= 0.9", 0.8867, False), GateOutcome("error rate <= 0", 0.0, True)]
    found = printed(summary(gates=gates, notes=["in threads: calls"]))
    assert "note: in threads: calls" in found
    assert "gate NOT met required calls >= 0.9, found 0.8867" in found
    assert "gate met required error rate <= 0, found 0" in found
    assert [line for line in found if line][-2] == "eval_results/it-7 · val.jsonl · 150 rows · endpoint prod"


def test_reasons_of_an_own_evaluator_are_counted_by_their_code() -> None:
    groups = {
        "own: missing call to action": FailureGroup("missing call to action", 5, "r1", ""),
        "missing_call": FailureGroup("missing call", 3, "r2", ""),
        "own: too long": FailureGroup("too long", 2, "r3", ""),
    }
    assert Failures(faults={"mail": groups}).by_code("mail") == {"own": 7, "missing_call": 3}


def test_a_gate_that_found_nothing_says_why() -> None:
    found = printed(summary(gates=[GateOutcome("calls[x] >= 1", None, False, "no row belongs to this group")]), 100)
    assert any(line.endswith("found nothing (no row belongs to this group)") for line in found)


STRANGE = EvaluatorEntry()


def counts(name: str, scored: int, not_applicable: int = 0, errors: int = 0) -> dict[str, JSON]:
    return {
        f"{name}.scored_count": scored,
        f"{name}.not_applicable_count": not_applicable,
        f"{name}.error_count": errors,
    }


@cases("cli")
def test_an_evaluators_figures_stand_in_these_lines(
    name: str, primary: str | None, kind: str | None, groups: list[dict[str, JSON]], lines: list[list[str]]
) -> None:
    metrics = [MetricEntry(primary, kind)] if primary and kind else []
    found = lines_of(name, EvaluatorEntry(primary=primary, metrics=metrics), groups)
    assert [[text_of(cell).strip() for cell in line] for line in found] == lines


def test_the_main_figure_is_the_pass_rate_else_the_mean() -> None:
    assert main_figure_of("calls", CALLS, {"calls.binary_aggregate": 0.5, **counts("calls", 2)}).text == "50.0%"
    assert main_figure_of("mine", STRANGE, {"mine.mine": 7.0, **counts("mine", 2)}).text == "7.000"
    assert main_figure_of("calls", CALLS, {"calls.binary_aggregate": None, **counts("calls", 0)}).text == "–"


def test_what_a_manifest_declares_is_read_and_what_is_damaged_in_it_is_passed_over() -> None:
    metrics: list[JSON] = [{"name": "a", "kind": "binary"}, "rubbish"]
    manifest: dict[str, JSON] = {"evaluators": {"good": {"primary": "a", "metrics": metrics}, "bad": 5}}
    assert read_fitting(manifest, RunFile, "run.json").evaluators == {
        "good": EvaluatorEntry(primary="a", metrics=[MetricEntry("a", "binary")])
    }


def row(row_id: str, name: str, verdict: dict[str, JSON], **more: JSON) -> dict[str, JSON]:
    return {"row_id": row_id, **{f"outputs.{name}.{key}": value for key, value in verdict.items()}, **more}


def failed(row_id: str, *codes: str, reason: str | None = None, **more: JSON) -> dict[str, JSON]:
    faults: list[JSON] = [{"code": code} for code in codes]
    verdict: dict[str, JSON] = {"m_result": "fail", "m_reason": reason, "m_properties": {"faults": faults}, **more}
    return row(row_id, "e", verdict)


@cases("cli")
def test_failed_rows_are_counted_once_under_each_of_these_titles(
    rows: list[dict[str, JSON]], primaries: dict[str, str | None], stage: str, counted: dict[str, int]
) -> None:
    found = read_failures(rows, primaries)
    groups = {**found.faults, **found.errors}.get(stage, {})
    assert {group.title: group.rows for group in groups.values()} == counted


@given(st.text())
def test_any_reason_gives_a_printable_title(reason: str) -> None:
    groups = read_failures([failed("a", reason=reason)], {"e": "m"}).faults["e"].values()
    assert all(group.title.isprintable() and len(group.title) <= 120 for group in groups)


def test_memory_is_bounded_where_every_reason_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures_module, "MAX_FAILURE_GROUPS", 3)

    def failing() -> Iterator[dict[str, JSON]]:
        for letter in "abcdefgh":
            yield failed(letter, reason=f"because of {letter}")

    found = read_failures([*failing()], {"e": "m"}).faults["e"]
    assert len(found) == 4
    assert [(each.title, each.rows) for each in found.values()][-1] == ("other reasons", 5)


@cases("cli")
def test_the_declared_metric_counts_then_the_namesake_then_the_first(
    metrics: list[str], name: str, primary: str | None, counted: str | None
) -> None:
    assert counted_metric(metrics, name, primary) == counted


def test_one_metric_counts_in_all_rows_of_a_run() -> None:
    rows = [
        row("a", "e", {"tone_result": "fail", "style_result": "pass"}),
        row("b", "e", {"style_result": "fail", "tone_result": "pass"}),
        row("c", "e", {"style_result": "fail"}),
    ]
    assert counted_metrics(rows, {"e": None}) == {"e": "tone"}
    assert list(read_failures(rows, {"e": None}).faults) == ["e"]
    assert [VerdictReader("e", "tone").word(each) for each in rows] == ["fail", "pass", "scored"]


def test_only_as_many_rows_are_read_as_it_takes_to_know_the_metric() -> None:
    rows = iter([row("a", "e", {"m_result": "pass"}), row("b", "e", {"m_result": "pass"})])
    assert counted_metrics(rows, {"e": "m"}) == {"e": "m"}
    assert next(rows)["row_id"] == "b"


def test_what_a_run_remarks_is_told_in_these_sentences() -> None:
    tally = Tally()
    tally.remarks.add(Remarks(Counter({"e.x: no": 3}), Counter({"a": 1, "b": 2}), Counter({"e": 1})))
    assert tally.sentences(1.5, 2) == [
        "refused on 2 rows: b",
        "refused on 1 row: a",
        "evaluator 'e' took longer than 1.5 s (--evaluator-timeout) on 1 row",
        "e.x: no: stored as null on 3 rows",
        "2 answers contained an environment variable's value, masked as ***: "
        "if the value is not secret, write ${env:NAME:plain} in the definition or prompt",
    ]
    assert Tally().sentences(1.5) == []
