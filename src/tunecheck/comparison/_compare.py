"""The front doors: `compare()` reads runs, pairs their rows, and says of each metric what the data show.

`compare_runs()` also hands over what was read, to who shows the runs themselves.
"""

from __future__ import annotations

import math
import os
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck._errors import ConfigurationError
from tunecheck._messages import did_you_mean
from tunecheck.comparison._cause_changes import cause_changes
from tunecheck.comparison._changes import RunPair, add_reasons, changes_of
from tunecheck.comparison._common_metrics import choose_metrics, evaluator_notes
from tunecheck.comparison._comparison import Comparison, History, MetricComparison, Pairs, RunComparison
from tunecheck.comparison._judged import corrected_rate, labels_of, reckoned
from tunecheck.comparison._measuring import (
    Settings,
    Sides,
    decided_metric,
    estimate,
    item_values,
    judge,
    measure,
    sides_of,
)
from tunecheck.comparison._memory_runs import memory_pair
from tunecheck.comparison._pairing import PAIR_BY, Pairing, pair
from tunecheck.comparison._reading import RunLike, read_runs
from tunecheck.comparison._run_table import RunTable

if TYPE_CHECKING:
    from tunecheck.statistics._samples import Codes


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison, and of each run against the base both tables and their pairs."""

    comparison: Comparison
    runs: Sequence[RunPair]


def compare(
    base: RunLike,
    *new: RunLike,
    metrics: str | Sequence[str] | None = None,
    margin: float | None = None,
    cluster: str | None = None,
    confidence: float = 0.95,
    allow_simulated: bool = False,
    pair_by: str = "content",
    rows: int | None = 1_000,
    seed: int = 0,
    results_dir: str | os.PathLike[str] = "eval_results",
) -> Comparison:
    """Compare one or more runs with a base, row by row.

    Args:
        base: a run's folder, id, the beginning of its id, or `last`; Azure's evaluation_results.json, or its folder;
            BFCL's score files; or what `evaluate()` returned.
        new: the runs to compare with it, in order.
        metrics: what to test: evaluators, or metrics as metrics.json names them; by default each evaluator's main one.
        margin: how much worse is still accepted, in the metric's unit (0.02: two points of a pass rate); adds a test
            of non-inferiority.
        cluster: a column of the data; rows with equal values in it are not independent.
        confidence: of the two-sided intervals; what the verdicts hold for.
        allow_simulated: compare runs that asked no model, too.
        pair_by: `content` pairs rows of equal id and content, then of equal content; `id` rows of equal id alone.
        rows: how many rows of each list are kept; None for all. Their counts are always complete.
        seed: of resampling; the same seed gives the same figures.
        results_dir: where runs are looked for.

    Raises:
        ConfigurationError: a run that is not there, not finished, or simulated; rows that do not pair; an option.
        DataError: a run whose files are damaged.
    """
    settings = Settings(
        metrics=metrics,
        confidence=confidence,
        margin=margin,
        cluster=cluster,
        allow_simulated=allow_simulated,
        pair_by=pair_by,
        rows=rows,
        seed=seed,
    )
    return compare_runs([base, *new], Path(results_dir), settings).comparison


def compare_runs(runs: Sequence[RunLike], results_dir: Path, settings: Settings) -> Compared:
    """Compare runs with the first of them; arguments and errors as of `compare`."""
    if len(runs) < 2:
        raise ConfigurationError("compare takes a base and at least one run to compare with it")
    return compare_tables(open_runs(runs, results_dir, settings), settings)


def open_runs(runs: Sequence[RunLike], results_dir: Path, settings: Settings) -> list[RunTable]:
    """Runs that may be compared, as the settings say; errors as of `compare`."""
    _check(settings)
    tables = read_runs(runs, results_dir, cluster=settings.cluster)
    if not settings.allow_simulated:
        _refuse_simulated(tables)
    return tables


def compare_tables(tables: Sequence[RunTable], settings: Settings) -> Compared:
    """Compare runs that are read with the first of them."""
    first = tables[0].info
    sides = [_Against(tables[0], table, settings) for table in tables[1:]]
    adjusted = _adjusted([metric.p_value for each in sides for metric in each.measured.values() if metric.tested])
    against = [each.finish(adjusted) for each in sides]
    history = _history(sides, settings)
    found = Comparison(
        base=first,
        against=against,
        history=history,
        confidence=settings.confidence,
        margin=settings.margin,
        cluster=settings.cluster,
        simulated=any(table.info.simulated for table in tables),
    )
    return Compared(found, [each.runs for each in sides])


def _check(settings: Settings) -> None:
    if not 0.5 <= settings.confidence < 1:
        raise ConfigurationError(f"a confidence lies between 0.5 and 1, not {settings.confidence!r}")
    if settings.margin is not None and not 0 <= settings.margin < math.inf:
        raise ConfigurationError(f"a margin is 0 or more, not {settings.margin!r}")
    if settings.rows is not None and settings.rows < 0:
        raise ConfigurationError(f"rows is 0 or more, not {settings.rows!r}")
    how = settings.pair_by
    if how not in PAIR_BY:
        raise ConfigurationError(f"pair_by: there is no way {how!r}{did_you_mean(how, PAIR_BY)}")


def _refuse_simulated(tables: Sequence[RunTable]) -> None:
    simulated = list(dict.fromkeys(table.info.id for table in tables if table.info.simulated))
    if simulated:
        which = f"{', '.join(simulated)} {'is' if len(simulated) == 1 else 'are'} simulated: no model was asked"
        raise ConfigurationError(
            f"{which}, so a comparison says nothing of one; --allow-simulated compares all the same"
        )


def _adjusted(p_values: Sequence[float | None]) -> list[float | None]:
    from tunecheck.statistics._decisions import holm

    return holm(p_values)[::-1]  # taken from the end


def _codes(labels: Sequence[Hashable]) -> Codes:
    from tunecheck.statistics._samples import as_codes

    return as_codes(labels)


class _Against:
    """One run against the base: measured at once, judged when all runs are measured."""

    def __init__(self, base: RunTable, new: RunTable, settings: Settings) -> None:
        self._settings = settings
        self.runs = RunPair(base, new, pair(base, new, settings.pair_by))
        self.labels = cluster_labels(base, new, self.runs.pairing, settings.cluster)
        codes = None if self.labels is None else _codes(self.labels)
        chosen, notes = choose_metrics(base, new, settings.named, gated=settings.gated)
        same = [f"{base.info.id} is held against itself"] if base.info.place == new.info.place != "memory" else []
        stopped = _stopping_notes(base, new, [each.key for each in chosen if each.tested], settings)
        self.notes = [*stopped, *same, *base.info.notes, *new.info.notes, *evaluator_notes(base, new), *notes]
        self.sides: dict[str, Sides] = {}
        self.measured: dict[str, MetricComparison] = {}
        for each in chosen:
            sides = sides_of(each.key, base, new, self.runs.pairing, codes)
            self.sides[each.name] = sides
            self.measured[each.name] = reckoned(measure(each, sides, base, new, settings), base, new)

    def finish(self, adjusted: list[float | None]) -> RunComparison:
        judged: dict[str, MetricComparison] = {}
        for name, metric in self.measured.items():
            judged[name] = judge(metric, adjusted.pop(), self.sides[name].bounds) if metric.tested else metric
        changes = {
            name: changes_of(metric, self.sides[name], self.runs, self._settings.rows)
            for name, metric in judged.items()
            if metric.tested
        }
        found = add_reasons(judged, changes, self.runs)
        notes = tuple(dict.fromkeys(self.notes))
        memory = memory_pair(self.runs.base.info, self.runs.new.info)
        return RunComparison(self.runs.new.info, self._pairs(), found, notes, cause_changes(self.runs), memory)

    def _pairs(self) -> Pairs:
        pairing = self.runs.pairing
        base, new = self.runs.base.items.ids, self.runs.new.items.ids
        clusters = None
        if self.labels is not None:
            clusters = len({label for label in self.labels if label is not None}) + self.labels.count(None)
        return Pairs(
            paired=len(pairing.base),
            by_content=pairing.by_content,
            by_id_alone=pairing.by_id_alone,
            only_in_base=tuple(base[item] for item in pairing.only_base),
            only_in_new=tuple(new[item] for item in pairing.only_new),
            other_content=tuple(pairing.changed),
            clusters=clusters,
        )


def _stopping_notes(base: RunTable, new: RunTable, tested: Sequence[str], settings: Settings) -> Iterator[str]:
    """Of runs that stopped early, which figures allow for it."""
    stopped = [info.id for info in (base.info, new.info) if info.stopped is not None]
    valid = [key for key in tested if decided_metric(key, base, new, settings.confidence) is not None]
    if valid and len(valid) == len(tested):
        yield f"{new.info.id} stopped early: the tested intervals and p-values hold whenever one stops"
    elif stopped:
        but = f", but for {', '.join(valid)}" if valid else ""
        yield f"{' and '.join(stopped)} stopped early: the intervals and p-values of complete runs claim too much{but}"


def cluster_labels(base: RunTable, new: RunTable, pairing: Pairing, cluster: str | None) -> list[Hashable] | None:
    """The label of each pair: of the base, else of the new run."""
    if cluster is None:
        return None
    table, items = (base, pairing.base) if base.labels is not None else (new, pairing.new)
    if table.labels is None:
        known = dict.fromkeys([*base.column_names, *new.column_names])
        raise ConfigurationError(f"--cluster: the rows have no column {cluster!r}{did_you_mean(cluster, known)}")
    labels: Sequence[str | None] = table.labels
    if table.items.of_row is not None:
        first: dict[int, str | None] = {}
        for row, item in enumerate(table.items.of_row):
            first.setdefault(item, labels[row])
        return [first[item] for item in items]
    return [labels[item] for item in items]


def _history(compared: Sequence[_Against], settings: Settings) -> list[History]:
    """Each tested metric over the base and all runs, over the rows that all of them have a number for."""
    if len(compared) == 1:
        tested = (metric for metric in compared[0].measured.values() if metric.tested)
        return [History(metric.name, metric.kind, (metric.base, metric.new)) for metric in tested]
    return [
        _metric_history(name, compared, settings)
        for name, metric in compared[0].measured.items()
        if metric.tested and all(name in each.measured for each in compared)
    ]


def _metric_history(name: str, compared: Sequence[_Against], settings: Settings) -> History:
    import numpy

    base = compared[0].runs.base
    key = compared[0].measured[name].key
    count = len(base.items.ids)
    columns = [item_values(base, key)]
    for each in compared:
        values = numpy.full(count, numpy.nan)
        values[list(each.runs.pairing.base)] = each.sides[name].new
        columns.append(values)
    together = ~numpy.isnan(numpy.column_stack(columns)).any(axis=1)
    labels = _labels_of_items(compared, count)
    chosen = None if labels is None else [labels[at] for at in numpy.flatnonzero(together).tolist()]
    sides = compared[0].sides[name]
    kinds = {each.sides[name].kind for each in compared}
    kind = "score" if len(kinds) > 1 else sides.kind
    sides = replace(sides, kind=kind, averaged=any(each.sides[name].averaged for each in compared))
    figures = [estimate(each[together], sides, chosen, settings) for each in columns]
    against = [each.measured[name] for each in compared]
    known = labels_of(against[-1].evaluator, base, compared[-1].runs.new)
    if known is not None and all(each.judge == "corrected" for each in against):
        figures = [corrected_rate(each, known) for each in figures]
    return History(name, sides.kind, tuple(figures))


def _labels_of_items(compared: Sequence[_Against], count: int) -> list[Hashable] | None:
    found: Mapping[int, Hashable] = {
        item: label
        for each in compared
        if each.labels is not None
        for item, label in zip(each.runs.pairing.base, each.labels, strict=True)
    }
    return [found.get(item) for item in range(count)] if found else None
