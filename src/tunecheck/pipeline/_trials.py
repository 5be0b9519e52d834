"""Metrics of a run with several trials of each item: how often one of k trials passes, and how often all k do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tunecheck._json import JSON
from tunecheck.pipeline._finished_rows import ResultRow, VerdictReader, counted_metrics
from tunecheck.pipeline._scoring import BoundEvaluator
from tunecheck.statistics._estimates import pass_at_k, pass_hat_k

_MOST_POWERS = 5


def trial_metrics(
    rows: Iterable[ResultRow], evaluators: Sequence[BoundEvaluator], times: int, source_column: str
) -> dict[str, JSON]:
    """Return `<evaluator>.pass_at_<k>` and `<evaluator>.pass_hat_<k>` for some k up to the number of trials.

    A row is one trial; `source_column` identifies its item, and `times` is the number of trials of each item. Items
    with fewer than k judged trials are excluded from the figures for k; without any item the figures are null.
    """
    counted = counted_metrics(rows, {evaluator.name: evaluator.primary for evaluator in evaluators})
    readers = [VerdictReader(name, metric) for name, metric in counted.items() if metric is not None]
    passes: dict[str, dict[str, list[int]]] = {reader.name: {} for reader in readers}
    for row in rows:
        item = str(row.get(source_column))
        for reader in readers:
            word = reader.word(row)
            if word in ("pass", "fail"):
                counts = passes[reader.name].setdefault(item, [0, 0])
                counts[0] += word == "pass"
                counts[1] += 1
    metrics: dict[str, JSON] = {}
    powers = [2**power for power in range(_MOST_POWERS) if 2**power < times]  # few enough for a table
    for name, items in passes.items():
        trials = [(passed, judged) for passed, judged in items.values()]
        for k in [*powers, times] if trials else ():
            metrics[f"{name}.pass_at_{k}"] = pass_at_k(trials, k)
            metrics[f"{name}.pass_hat_{k}"] = pass_hat_k(trials, k)
    return metrics
