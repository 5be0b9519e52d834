"""What several trials of each row say: pass@k and pass^k of every evaluator that passes or fails rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tunecheck._json import JSON
from tunecheck.pipeline._aggregate import Metrics
from tunecheck.pipeline._results import ResultRow
from tunecheck.pipeline._scoring import BoundEvaluator
from tunecheck.pipeline._verdicts import VerdictReader, counted_metrics

_MOST_STEPS = 5


def trial_metrics(
    rows: Iterable[ResultRow], evaluators: Sequence[BoundEvaluator], times: int, source_column: str
) -> Metrics:
    """`<evaluator>.pass_at_<k>` and `<evaluator>.pass_hat_<k>` for some k up to the number of trials.

    Items with fewer than k trials that were judged are left out of the figures for k; where none is left, they are
    null. `source_column` holds what the trials of one item share.
    """
    from tunecheck.statistics._estimates import pass_at_k, pass_hat_k

    counted = counted_metrics(rows, {evaluator.name: evaluator.primary for evaluator in evaluators})
    readers = [VerdictReader(name, metric) for name, metric in counted.items() if metric is not None]
    found: dict[str, dict[JSON, list[int]]] = {reader.name: {} for reader in readers}
    for row in rows:
        item = row.get(source_column)
        for reader in readers:
            word = reader.word(row)
            if word in ("pass", "fail"):
                counts = found[reader.name].setdefault(str(item), [0, 0])
                counts[0] += word == "pass"
                counts[1] += 1
    metrics: Metrics = {}
    for name, items in found.items():
        trials = [(passed, judged) for passed, judged in items.values()]
        for k in _steps(times) if trials else ():
            metrics[f"{name}.pass_at_{k}"] = pass_at_k(trials, k).estimate.value
            metrics[f"{name}.pass_hat_{k}"] = pass_hat_k(trials, k).estimate.value
    return metrics


def _steps(times: int) -> Iterator[int]:
    """1, the number of trials, and powers of two between: what a table has room for."""
    k = 1
    while k < times and k < 2**_MOST_STEPS:
        yield k
        k *= 2
    yield times
