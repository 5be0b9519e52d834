"""Which figures of a run stand in the table."""

from __future__ import annotations

from tests.tables import cases

from tunecheck.cli._evaluate.summary import lines_of
from tunecheck.plugins import JSON, EvaluatorEntry, MetricEntry, RunFile, read_fitting
from tunecheck.results import main_figure_of

CALLS = EvaluatorEntry(primary="calls", metrics=[MetricEntry("calls", "binary")])
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
    assert [[line.label, *line.cells] for line in found] == lines


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
