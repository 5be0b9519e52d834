"""Metrics of a run with several trials of each item: how often one of k trials passes, and how often all k do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tunecheck._json import JSON
from tunecheck.datasets._reading import SOURCE_ID, is_trial
from tunecheck.pipeline._finished_rows import ResultRow, VerdictReader, counted_metrics
from tunecheck.pipeline._scoring import BoundEvaluator
from tunecheck.statistics._estimates import pass_at_k, pass_hat_k

_MOST_POWERS = 5


def trial_metrics(rows: Iterable[ResultRow], evaluators: Sequence[BoundEvaluator]) -> dict[str, JSON]:
    """Return `<evaluator>.pass_at_<k>` and `<evaluator>.pass_hat_<k>` for some k up to the number of trials.

    A row is one trial of an item; the result is empty if the rows are no trials. Items with fewer than k judged trials
    are excluded from the figures for k; without any item the figures are null.
    """
    counted = counted_metrics(rows, {evaluator.name: evaluator.primary for evaluator in evaluators})
    readers = [VerdictReader(name, metric) for name, metric in counted.items() if metric is not None]
    passes: dict[str, dict[str, tuple[int, int]]] = {reader.name: {} for reader in readers}
    made: Counter[str] = Counter()
    for row in rows:
        item = str(row.get(f"inputs.{SOURCE_ID}"))
        if not is_trial(str(row["row_id"]), item):
            return {}
        made[item] += 1
        for reader in readers:
            if (word := reader.word(row)) in ("pass", "fail"):
                passed, judged = passes[reader.name].get(item, (0, 0))
                passes[reader.name][item] = passed + (word == "pass"), judged + 1
    metrics: dict[str, JSON] = {}
    times = max(made.values(), default=1)
    powers = [2**power for power in range(_MOST_POWERS) if 2**power < times]  # few enough for a table
    for name, items in passes.items():
        trials = [*items.values()]
        for k in [*powers, times] if trials and times > 1 else ():
            metrics[f"{name}.pass_at_{k}"] = pass_at_k(trials, k)
            metrics[f"{name}.pass_hat_{k}"] = pass_hat_k(trials, k)
    return metrics
