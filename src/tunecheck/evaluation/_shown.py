"""A run's result as an HTML page for notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tunecheck._messages import plural
from tunecheck.comparison._judged import corrections
from tunecheck.comparison._wording import value_text
from tunecheck.results import PASS_RATE, main_figure_of
from tunecheck.runs._store import Run
from tunecheck.views import SIMULATED, Chart, Interval, Table, Text, View, html

if TYPE_CHECKING:
    from tunecheck._files import EvaluatorEntry
    from tunecheck._json import JSON
    from tunecheck.comparison._judged import Correction
    from tunecheck.evaluation._ending import EvaluationResult


def result_html(result: EvaluationResult) -> str:
    """Return each evaluator's pass rate or mean as HTML; a calibrated judge's rate is corrected."""
    run = Run(result.run_dir)
    errors = f", {result.failed_row_count:,} with an error" if result.failed_row_count else ""
    said = [f"{run.id} · {plural(result.row_count, 'row')}{errors}"]
    said += [SIMULATED] if result.simulated else []
    metrics = result["metrics"]
    assert isinstance(metrics, dict)
    judges = corrections(run)
    figures = list(_figures(run.manifest().evaluators, metrics, judges))
    rows = [
        (
            each.label,
            value_text("binary" if f"{name}.{PASS_RATE}" in metrics else "score", each.value),
            "" if each.low is None or each.high is None else f"{each.low:.1%} to {each.high:.1%}",
            *(_count(metrics.get(f"{name}.{key}_count")) for key in ("scored", "not_applicable", "error")),
        )
        for name, each in figures
    ]
    heads = ("evaluator", "pass rate or mean", "95% interval", "scored", "not applicable", "errors")
    chart = Chart([each for _, each in figures if each.low is not None])
    return html(View(run.id, [Text(said), chart, Table(heads, rows)], result.notes))


def _figures(
    evaluators: Mapping[str, EvaluatorEntry], metrics: Mapping[str, JSON], judges: Mapping[str, Correction]
) -> Iterator[tuple[str, Interval]]:
    for name, entry in evaluators.items():
        judge = judges.get(name)
        if judge is not None and judge.corrected is not None:
            found = judge.corrected
            yield name, Interval(f"{name}, {judge.corrected_label}", found.value, found.low, found.high)
        else:
            figure = main_figure_of(name, entry, metrics)
            told = f", {judge.raw_label}" if judge is not None and figure.is_rate else ""
            yield name, Interval(f"{name}{told}", figure.value, figure.low, figure.high)


def _count(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else ""
