"""Figures of a run's rows: exact sums and their means, and pass@k and pass^k of runs with several trials."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import neg

from tunecheck._json import JSON
from tunecheck.datasets._reading import SOURCE_ID, is_trial
from tunecheck.pipeline._finished_rows import ResultRow, VerdictReader, counted_metrics
from tunecheck.pipeline._scoring import BoundEvaluator

# -- exact sums in constant memory (Shewchuk 1997)


_MOST_NUMBERS = 1_024
"""Number of values that are kept before they are condensed."""


@dataclass(eq=False, slots=True)
class ExactSum:
    """An exact running sum: a few floats with the same exact sum as all added numbers, and their count."""

    numbers: array[float] = field(default_factory=lambda: array("d"))
    count: int = 0

    def append(self, number: float) -> None:
        """Add a number.

        Raises:
            OverflowError: an integer outside the range of a float.
        """
        self.numbers.append(number)
        self.count += 1
        if len(self.numbers) > _MOST_NUMBERS:
            self.condense()

    def condense(self) -> None:
        """Replace the kept numbers by fewer ones with the same sum."""
        self.numbers[:] = array("d", _condensed(self.numbers))


def _condensed(numbers: Sequence[float]) -> list[float]:
    """Return a few floats with the same exact sum as the numbers: the rounded sum, its rounding error, and so on.

    For example, ten times 0.1 become `[1.0, 5.551115123125783e-17]`. A sum that is not finite is returned as that
    single value.
    """
    parts: list[float] = []
    try:
        while error := math.fsum(chain(numbers, map(neg, parts))):  # what the parts so far lack of the exact sum
            if not math.isfinite(error):
                return [error]
            parts.append(error)
    except (OverflowError, ValueError):  # the sum is outside the range of a float
        return [math.inf]
    return parts


def mean_of_sums(sums: Sequence[ExactSum]) -> float | None:
    """Return the mean of all numbers in these sums; None if it is not a finite number."""
    try:
        mean = math.fsum(chain.from_iterable(part.numbers for part in sums)) / sum(part.count for part in sums)
    except (OverflowError, ValueError):  # the sum leaves the range of a float
        return None
    return mean if math.isfinite(mean) else None


# -- metrics of a run with several trials of each item

_MOST_POWERS = 5
"""Number of powers of two that k takes: 1, 2, 4, 8 and 16."""


def trial_metrics(rows: Iterable[ResultRow], evaluators: Sequence[BoundEvaluator]) -> dict[str, JSON]:
    """Return `<evaluator>.pass_at_<k>` and `<evaluator>.pass_hat_<k>` for some k up to the number of trials.

    A row is one trial of an item; the result is empty if the rows are no trials. Items with fewer than k judged trials
    are excluded from the figures for k; without any item the figures are null. With 10 trials, k is 1, 2, 4, 8 and 10.
    """
    from tunecheck.statistics._estimates import pass_at_k, pass_hat_k  # only runs with trials need them

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
                # Rows with an error or without a result are no judged trials.
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
