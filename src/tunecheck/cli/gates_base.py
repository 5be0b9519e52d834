"""`--no-worse-than RUN --margin M`: a run held against another one, row by row, by a test of non-inferiority."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck.cli.gates import Gate, Outcome
from tunecheck.cli.options import Options
from tunecheck.errors import ConfigurationError
from tunecheck.suggest import did_you_mean

if TYPE_CHECKING:
    from tunecheck.comparison import Comparison, MetricComparison
    from tunecheck.comparison.table import RunTable

__all__ = ["Base", "RowKey", "check_margin", "gated_evaluators", "read_base"]

RowKey = tuple[str, str]
"""A row's id and the fingerprint of its content."""

_HINT_OF_COMPARE = "; --pair-by id compares them all the same"


@dataclass(frozen=True, slots=True)
class Base:
    """What the run must be no worse than.

    `name` finds it again; `evaluators` are those whose main metric is tested, None for all that both runs have.
    `bounds` has the range of each metric that has one, by its key.
    """

    name: str
    id: str
    margin: float
    evaluators: tuple[str, ...] | None
    allow_simulated: bool
    results_dir: Path
    bounds: Mapping[str, tuple[float, float]]

    def check(self, run: Path) -> tuple[list[Outcome], list[str]]:
        """Hold a finished run against it: an outcome for each metric, and what else is to be said of the comparison.

        Raises:
            ConfigurationError: the runs cannot be compared; says why.
            DataError: the base's files are damaged.
        """
        from tunecheck.comparison import compare

        try:
            found = compare(
                self.name,
                run,
                metrics=self.evaluators,
                margin=self.margin,
                allow_simulated=self.allow_simulated,
                rows=0,
                results_dir=self.results_dir,
            )
        except ConfigurationError as error:
            raise _about(self.name, str(error).replace(_HINT_OF_COMPARE, "")) from None
        tested = found.against[-1].tested
        if not tested:
            raise _about(self.name, "the two runs have no metric in common")
        return [self._outcome(metric, found) for metric in tested], _notes(found)

    def _outcome(self, metric: MetricComparison, comparison: Comparison) -> Outcome:
        bound = metric.non_inferiority.bound if metric.non_inferiority is not None else None
        met, remark = metric.non_inferior is True, _remark(metric)
        unchanged = _unchanged(metric, self.bounds.get(metric.key))
        if unchanged is not None:
            bound, met = -unchanged if metric.higher_is_better else unchanged, unchanged < self.margin
            remark = f"the same on each of {metric.difference.n:,} rows, 95% interval ±{unchanged:.3f}"
        return Outcome(
            f"{metric.name}: worse by less than {self.margin:g} than {self.id}",
            metric.difference.value,
            met,
            remark,
            {
                "metric": metric.key,
                "base": comparison.base.id,
                "margin": self.margin,
                "base_value": metric.base.value,
                "new_value": metric.new.value,
                "difference": metric.difference.as_json(),
                "bound": bound,
                "higher_is_better": metric.higher_is_better,
                "pairs": metric.difference.n,
                "only_in_base": len(comparison.pairs.only_in_base),
                "only_in_new": len(comparison.pairs.only_in_new),
            },
        )


def _unchanged(metric: MetricComparison, bounds: tuple[float, float] | None) -> float | None:
    """How far a score may have moved of which no row did: resampling has no interval for that, but its range has.

    Its mean moves by no more than the share of rows that change, times the range; and the share's limit, where none of
    n pairs did, is z² / (n + z²): Tango's interval of a paired difference, Statistics in Medicine 17 (1998), 891-908,
    which is what a pass rate has here.
    """
    from tunecheck.proportions import normal_quantile

    found = metric.difference
    still = found.value == 0 and found.standard_error == 0 and found.low is None
    if bounds is None or not still or metric.non_inferior is not None or not found.n:
        return None
    square = normal_quantile(found.confidence) ** 2
    return (bounds[1] - bounds[0]) * square / (found.n + square)


def _remark(metric: MetricComparison) -> str:
    """`88.7% → 84.0%, 95% interval −8.1 to −1.3, 300 rows`."""
    from tunecheck.comparison.wording import interval_text, value_text

    base, new = (value_text(metric.kind, side.value) for side in (metric.base, metric.new))
    unit = " points" * (metric.kind == "binary")
    level = f"{100 * metric.difference.confidence:.3g}%"
    said = f"{base} → {new}, {level} interval {interval_text(metric.kind, metric.difference)}{unit}"
    if metric.non_inferior is None:
        why = metric.non_inferiority.remark if metric.non_inferiority is not None else None
        said = f"cannot be said: {why or 'too little data'}"
    pairs = metric.difference.n
    return f"{said}, {pairs:,} {'row' if pairs == 1 else 'rows'}" + (
        "" if metric.higher_is_better else ", lower is better"
    )


def _notes(comparison: Comparison) -> list[str]:
    """What a gate over part of the rows, or of the evaluators, must not keep to itself."""
    notes = list(comparison.notes)
    for run, ids in ((comparison.base, comparison.pairs.only_in_base), (comparison.new, comparison.pairs.only_in_new)):
        if ids:
            shown = ", ".join(ids[:3]) + (" …" if len(ids) > 3 else "")
            notes.append(f"only in {run.id}, so in no comparison: {len(ids):,} of {run.rows:,} rows ({shown})")
    for metric in comparison.against[-1].tested:
        if any(metric.one_sided):
            before, after = metric.one_sided
            notes.append(f"{metric.name}: {before:,} rows have a verdict only in the base, {after:,} only in this run")
    return [f"--no-worse-than: {note}" for note in notes]


def check_margin(options: Options) -> None:
    """See that the margin and the run it belongs to are given together.

    Raises:
        ConfigurationError: one without the other, or a margin that is none.
    """
    if options.no_worse_than is None and options.margin is None:
        return
    if options.margin is None:
        raise ConfigurationError(
            f"--no-worse-than {options.no_worse_than} needs --margin: how much worse is still accepted, in its "
            "metric's unit, e.g. --margin 0.02 for two points of a pass rate"
        )
    if options.no_worse_than is None:
        raise ConfigurationError("--margin needs --no-worse-than RUN: the run that this one is held against")
    if not 0 <= options.margin < math.inf:
        raise ConfigurationError(f"--margin: expected a number of 0 or more, got {options.margin!r}")


def gated_evaluators(gates: Iterable[Gate], evaluators: Collection[str]) -> tuple[str, ...] | None:
    """The evaluators that `--fail-under` names, in order; None where it names none."""
    found: dict[str, None] = {}
    for gate in gates:
        owners = [name for name in evaluators if gate.metric == name or gate.metric.startswith(f"{name}.")]
        if owners:
            found[max(owners, key=len)] = None
    return tuple(found) or None


def read_base(
    options: Options, gates: Sequence[Gate], evaluators: Mapping[str, object], rows: Iterable[RowKey]
) -> tuple[Base, Options]:
    """The base, read and found fit for a comparison before anybody is asked, and the options with a lasting name of it.

    `last` is another run once this one has begun. `rows` are those that are about to be judged.

    Raises:
        ConfigurationError: it is not there, not finished, simulated, of other evaluators, or of other rows.
        DataError: its files are damaged.
    """
    from tunecheck.comparison.reading import read_run

    name, margin = options.no_worse_than, options.margin
    assert name is not None and margin is not None
    table = read_run(name, options.folder)
    allowed = bool(options.allow_simulated)
    if table.info.simulated and not allowed:
        raise _about(
            name, "its answers are simulated, so it says nothing of a model; --allow-simulated to try the gate"
        )
    if options.resume is not None and Path(table.info.place).resolve() == Path(options.resume).resolve():
        raise _about(name, "that is the run itself; name another one")
    named = gated_evaluators(gates, evaluators)
    _check_evaluators(name, table, named, evaluators)
    _check_rows(name, table, rows)
    lasting = _lasting_name(name, table, options.folder)
    base = Base(lasting, table.info.id, margin, named, allowed, options.folder, dict(_ranges(evaluators)))
    return base, replace(options, no_worse_than=lasting)


def _ranges(evaluators: Mapping[str, object]) -> Iterator[tuple[str, tuple[float, float]]]:
    from tunecheck.evaluators.base import Metric

    for name, evaluator in evaluators.items():
        metrics = getattr(evaluator, "metrics", ())
        for metric in metrics if isinstance(metrics, tuple) else ():
            if isinstance(metric, Metric) and metric.range is not None:
                yield f"{name}.{metric.name}", metric.range


def _lasting_name(name: str, table: RunTable, folder: Path) -> str:
    if table.info.source != "run":
        return name
    place = Path(table.info.place)
    return table.info.id if place.parent.resolve() == folder.resolve() else str(place)


def _check_evaluators(name: str, table: RunTable, named: tuple[str, ...] | None, evaluators: Collection[str]) -> None:
    known = list(table.evaluators)
    for each in named or ():
        if each not in known:
            raise _about(name, f"it has no evaluator {each!r}{did_you_mean(each, known)}; `tunecheck score` adds one")
    if not set(known) & set(evaluators):
        raise _about(name, f"it has none of the evaluators {', '.join(evaluators)}; its own: {', '.join(known)}")


def _check_rows(name: str, table: RunTable, rows: Iterable[RowKey]) -> None:
    """Refuse before the run what cannot pair after it; of part of the rows the outcome tells."""
    ids, contents = set(table.items.ids), set(table.items.contents) - {""}
    compared = table.info.source == "run" and len(table.items.contents) > 0 and all(table.items.contents)
    shared_id = ""
    for row_id, content in rows:
        if content in contents or (row_id in ids and not (compared and content)):
            return
        shared_id = shared_id or (row_id if row_id in ids else "")
    if shared_id:
        raise _about(name, f"no row of it has the same content: {shared_id!r} is in both, with other columns or values")
    example = table.items.ids[0][:100] if table.items.ids else "none"
    raise _about(
        name, f"it has other rows: none is in this data, neither by id nor by content (its first is {example!r})"
    )


def _about(name: str, what: str) -> ConfigurationError:
    return ConfigurationError(f"--no-worse-than {name}: {what}")
