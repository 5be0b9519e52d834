"""Compute the numbers of a report's charts; the page draws them."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tunecheck._faults import causes
from tunecheck._json import JSON, loads
from tunecheck.pipeline._costs import cost_text
from tunecheck.report._index import FAIL, PASS, Coded, RowIndex
from tunecheck.report._reading import Evaluated, ReportedRun
from tunecheck.statistics._results import wilson

_BINS = 20
_MOST_FUNCTIONS = 40
_MOST_CONFUSED = 12
_MOST_BARS = 15
_BARS = ("reasons", "errors", "differences")
_WIDE = 50.0
"""Values that span more than this factor are shown on a logarithmic axis."""


def charts(run: ReportedRun, table: RowIndex) -> dict[str, JSON]:
    """Return all charts of a run that have data."""
    coded = table.coded
    drawn: dict[str, JSON] = {
        "functions": _functions(run.evaluators, table),
        "distributions": [*_distributions(run.evaluators, table)],
        "confusion": _confusion(coded["confused"]),
        "causes": _causes(coded["causes"]),
        **{name: [[value, n] for value, n in _count_values(coded[name]).most_common(_MOST_BARS)] for name in _BARS},
        **{name.removesuffix("_ms"): _histogram(numbers) for name, numbers in table.figures.items()},
        "spent": _spent(run.metrics.get("usage")),
    }
    return {name: chart for name, chart in drawn.items() if chart}


def _functions(evaluators: Sequence[Evaluated], table: RowIndex) -> JSON:
    """Return passed and judged rows by evaluator and expected function (at most 40); None without verdicts."""
    called, rows_of = table.coded["functions"], table.coded["functions"].rows_by_value()
    most = sorted(range(len(rows_of)), key=lambda code: -len(rows_of[code]))[:_MOST_FUNCTIONS]
    functions: dict[str, JSON] = {}
    for evaluator, outcomes in zip(evaluators, table.outcomes, strict=True):
        shown: list[JSON] = []
        for code in most:
            results = [outcomes.results[row] for row in rows_of[code]]
            passed, judged = results.count(PASS), results.count(PASS) + results.count(FAIL)
            if judged:
                rate = wilson(passed, judged)
                shown.append([called.values[code], passed, judged, rate.low, rate.high])
        if shown:
            functions[evaluator.name] = shown
    return {"shown": len(most), "all": len(rows_of), "by": functions} if functions else None


def _distributions(evaluators: Sequence[Evaluated], table: RowIndex) -> Iterator[JSON]:
    """Yield a histogram for each graded metric with more than two values; the threshold, if all rows share one."""
    for evaluator, outcome, counts in zip(evaluators, table.outcomes, table.thresholds, strict=True):
        for metric in evaluator.graded:
            values = [value for value in outcome.scores.get(metric.name, ()) if math.isfinite(value)]
            if len(set(values[:1_000])) > 2 or len(set(values)) > 2:
                thresholds = [value for value, _ in counts.most_common(2)]
                main = metric.name in (evaluator.primary, evaluator.name)
                only = thresholds[0] if main and len(thresholds) == 1 else None
                name = evaluator.name if main else f"{evaluator.name} {metric.name}"
                unit = min(values) >= 0 and max(values) <= 1
                bins = histogram(values, 0.0, 1.0) if unit else histogram(values, min(values), max(values))
                yield {"name": name, "threshold": only, "mean": sum(values) / len(values), **bins}


def histogram(values: Sequence[float], low: float, high: float, *, logarithmic: bool = False) -> dict[str, JSON]:
    """Count the values in equally wide bins from `low` to `high`, or in equally wide ones of their logarithms."""
    span = (math.log(high) - math.log(low)) if logarithmic else high - low
    counts = [0] * _BINS
    for value in values:
        part = (math.log(value) - math.log(low) if logarithmic else value - low) / span if span else 0.0
        counts[min(_BINS - 1, max(0, int(part * _BINS))) if math.isfinite(part) else 0] += 1
    return {"low": low, "high": high, "counts": [*counts], "log": logarithmic}


def _histogram(numbers: Iterable[float]) -> JSON:
    """Return the histogram and quantiles of latencies or lengths; None if no number is above 0."""
    values = sorted(number for number in numbers if math.isfinite(number) and number >= 0)
    if not values or values[-1] == 0:
        return None
    positive = values[next(at for at, value in enumerate(values) if value > 0) :]
    wide = len(positive) == len(values) and values[-1] / values[0] > _WIDE
    # Nearest-rank quantiles are values that occurred.
    quantiles: dict[str, JSON] = {
        f"p{share}": values[max(0, math.ceil(share / 100 * len(values)) - 1)] for share in (50, 90, 99)
    }
    bins = histogram(values, values[0] if wide else 0.0, values[-1], logarithmic=wide)
    return {**bins, **quantiles, "n": len(values), "sum": sum(values)}


def _confusion(confused: Coded) -> JSON:
    """Return a table of expected by called functions, with the most confused ones by name; None without confusion."""
    counts = _count_values(confused)
    pairs = {tuple(map(str, loads(text))): count for text, count in counts.items() if text.startswith("[")}  # type: ignore[arg-type]
    if not any(expected != called for expected, called in pairs):
        return None
    weight: Counter[str] = Counter()
    for pair, count in pairs.items():
        for name in pair:
            # One confusion outweighs any number of right calls.
            weight[name] += count * (1_000_000 if len({*pair}) > 1 else 1)
    names = [name for name, _ in weight.most_common(_MOST_CONFUSED)]
    cells: Counter[tuple[int, ...]] = Counter()  # -1 stands for all functions that are not named
    for pair, count in pairs.items():
        cells[tuple(names.index(name) if name in names else -1 for name in pair)] += count
    del cells[-1, -1]
    return {"names": [*names], "cells": [[*place, count] for place, count in cells.items()]}


def _causes(coded: Coded) -> JSON:
    """Return `[title, rows, advice]` of each cause, by side: serving first, the most frequent cause first."""
    counts = _count_values(coded)
    sides: dict[str, JSON] = {}
    for side in ("serving", "unknown", "model"):
        listed = [cause for cause in causes().values() if cause.side == side and counts[cause.title]]
        if listed:
            listed.sort(key=lambda cause: -counts[cause.title])
            sides[side] = [[cause.title, counts[cause.title], cause.advice] for cause in listed]
    return sides


def _count_values(coded: Coded) -> Counter[str]:
    """Return the number of rows with each value."""
    return Counter(dict(zip(coded.values, map(len, coded.rows_by_value()), strict=True)))


def _spent(usage: JSON) -> JSON:
    """Return a row for each caller of models: `[who, calls, tokens in, tokens out, cost]`."""
    rows = usage.items() if isinstance(usage, Mapping) else ()
    return [
        [name, *(spent.get(key) for key in ("calls", "input_tokens", "output_tokens")), cost_text(spent)]
        for name, spent in rows
        if isinstance(spent, dict)
    ]
