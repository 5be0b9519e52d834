"""A run's result as an HTML page for notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tunecheck._messages import counted
from tunecheck.comparison._judged import corrections
from tunecheck.comparison._wording import value_text
from tunecheck.results import PASS_RATE
from tunecheck.runs._store import Run
from tunecheck.statistics._proportions import wilson
from tunecheck.views import SIMULATED, Chart, Interval, Table, Text, View, html

if TYPE_CHECKING:
    from tunecheck._files import EvaluatorEntry
    from tunecheck.comparison._judged import Correction
    from tunecheck.evaluation._ending import EvaluationResult


def result_html(result: EvaluationResult) -> str:
    """Return each evaluator's pass rate, else its mean, as HTML; a judge's rate is corrected by its calibration."""
    run = Run(result.run_dir)
    errors = f", {result.failed_row_count:,} with an error" if result.failed_row_count else ""
    said = [f"{run.id} · {counted(result.row_count, 'row')}{errors}"]
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
    evaluators: Mapping[str, EvaluatorEntry], metrics: Mapping[str, object], judges: Mapping[str, Correction]
) -> Iterator[tuple[str, Interval]]:
    for name, entry in evaluators.items():
        rate, judge = metrics.get(f"{name}.{PASS_RATE}"), judges.get(name)
        if judge is not None and judge.corrected is not None:
            found = judge.corrected
            yield name, Interval(f"{name}, corrected", found.value, found.low, found.high)
        elif isinstance(rate, float):
            rows = metrics.get(f"{name}.scored_count")
            of = rows if isinstance(rows, int) else 0
            share = wilson(round(rate * of), of)
            yield name, Interval(name + ", uncalibrated" * (judge is not None), rate, share.low, share.high)
        else:
            mean = metrics.get(f"{name}.{entry.primary or name}")
            yield name, Interval(name, mean if isinstance(mean, float) else None, None, None)


def _count(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else ""
