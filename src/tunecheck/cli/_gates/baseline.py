"""`--no-worse-than RUN --margin M`: a run held against another one, row by row, by a test of non-inferiority."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck._errors import ConfigurationError
from tunecheck._messages import did_you_mean
from tunecheck.cli._gates.gates import Gate, Outcome
from tunecheck.cli._gates.power import Power, pass_rates, powers

if TYPE_CHECKING:
    from tunecheck.comparison._comparison import Comparison, MetricComparison
    from tunecheck.comparison._reading import AboutToRun
    from tunecheck.comparison._run_table import RunTable
    from tunecheck.runs._store import Run


@dataclass(frozen=True, slots=True)
class Base:
    """What the run must be no worse than.

    `name` finds it again; `metrics` are those that are tested, None for every evaluator that both runs have. `power` is
    what the gate can show with these rows.
    """

    name: str
    id: str
    margin: float
    metrics: tuple[str, ...] | None
    allow_simulated: bool
    results_dir: Path
    power: tuple[Power, ...] = ()

    def check(self, run: Path) -> tuple[list[Outcome], list[str]]:
        """Hold a finished run against it: an outcome for each metric, and what else is to be said of the comparison.

        Where the two cannot be compared after all, that is the outcome: the run is there, and its files are written.
        """
        from tunecheck.comparison._compare import compare_runs
        from tunecheck.comparison._measuring import Settings
        from tunecheck.comparison._pairing import NothingPairsError

        settings = Settings(
            metrics=self.metrics, margin=self.margin, allow_simulated=self.allow_simulated, rows=0, gated=True
        )
        try:
            comparison = compare_runs([self.name, run], self.results_dir, settings).comparison
        except NothingPairsError as error:  # its remedy is an option of `compare`
            return [self._impossible(error.why)], []
        except ConfigurationError as error:
            return [self._impossible(str(error))], []
        tested = comparison.against[-1].tested
        if not tested:
            return [self._impossible("the two runs have no metric in common")], []
        return [self._outcome(metric, comparison) for metric in tested], _notes(comparison)

    def _impossible(self, why: str) -> Outcome:
        return Outcome(
            f"shown to be worse by less than {self.margin:g} than {self.id}", None, False, f"cannot be said: {why}"
        )

    def _outcome(self, metric: MetricComparison, comparison: Comparison) -> Outcome:
        from tunecheck.comparison._wording import difference_text
        from tunecheck.statistics._margins import refutes, rows_to_decide

        margin = f"{100 * self.margin:g} points" if metric.kind == "binary" else f"{self.margin:g}"
        met, up = metric.non_inferior is True, metric.higher_is_better
        undecided = (
            not met and metric.difference.n > 0 and not refutes(metric.difference, self.margin, higher_is_better=up)
        )
        rows: int | None = None
        remark = _remark(metric)
        if undecided and metric.non_inferior is not None:
            discordant = None if metric.b is None or metric.c is None else (metric.b, metric.c)
            rows = rows_to_decide(metric.difference, self.margin, higher_is_better=up, discordant=discordant)
            remark += f"; a loss of {margin} is neither shown nor ruled out: {_needed(metric.difference.n, rows)}"
        return Outcome(
            f"{metric.name}: shown to be worse by less than {margin} than {self.id}",
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
                "bound": None if metric.non_inferiority is None else metric.non_inferiority.bound,
                "higher_is_better": metric.higher_is_better,
                "pairs": metric.difference.n,
                "pairs_to_decide": rows,
                "only_in_base": len(comparison.pairs.only_in_base),
                "only_in_new": len(comparison.pairs.only_in_new),
            },
            undecided,
            difference_text(metric.kind, metric.difference.value),
        )


def _needed(pairs: int, rows: int | None) -> str:
    """How many more rows it takes, to two figures: it is an estimate."""
    if rows is None:
        return "as the difference is the margin, no number of rows would decide it; another margin would"
    more = max(1, rows - pairs)
    unit = 10 ** max(0, len(str(more)) - 2)
    return f"about {-(-more // unit) * unit:,} more rows like these would decide it"


def _remark(metric: MetricComparison) -> str:
    """`88.7% → 84.0%, 95% interval −8.1 to −1.3, 300 rows`."""
    from tunecheck.comparison._wording import interval_text, value_text

    base, new = (value_text(metric.kind, side.value) for side in (metric.base, metric.new))
    unit = " points" * (metric.kind == "binary")
    level = f"{100 * metric.difference.confidence:.3g}%"
    said = f"{base} → {new}, {level} interval {interval_text(metric.kind, metric.difference)}{unit}"
    if metric.non_inferior is None:
        why = metric.non_inferiority.remark if metric.non_inferiority is not None else None
        said = f"cannot be said: {why or 'too little data'}"
    pairs = metric.difference.n
    if not pairs:
        return said
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
        lone = metric.one_sided
        if lone.base or lone.new:
            said = f"{lone.base:,} rows have a verdict only in the base, {lone.new:,} only in this run"
            notes.append(f"{metric.name}: {said}")
    return [f"--no-worse-than: {note}" for note in notes]


def check_margin(run: str | None, margin: float | None, undecided: str | None) -> None:
    """See that the margin and the run it belongs to are given together, and what stands for an undecided gate."""
    if undecided not in (None, "fail", "pass"):
        raise ConfigurationError(f"--undecided: expected fail or pass, got {undecided!r}")
    if undecided is not None and run is None:
        raise ConfigurationError("--undecided needs --no-worse-than RUN: no other gate can be undecided")
    if run is None and margin is None:
        return
    if margin is None:
        raise ConfigurationError(
            f"--no-worse-than {run} needs --margin: how much worse is still accepted, in its "
            "metric's unit, e.g. --margin 0.02 for two points of a pass rate"
        )
    if run is None:
        raise ConfigurationError("--margin needs --no-worse-than RUN: the run that this one is held against")
    if not 0 <= margin < math.inf:
        raise ConfigurationError(f"--margin: expected a number of 0 or more, got {margin!r}")


def gated_metrics(
    gates: Iterable[Gate], evaluators: Collection[str], columns: Collection[str]
) -> dict[str, str] | None:
    """The metrics that `--fail-under` names, in order, with the evaluator of each; None where it names none.

    A figure that rows have no number of (they are not among the `columns`), such as a count, stands for its evaluator.
    """
    gated: dict[str, str] = {}
    for gate in gates:
        owners = [name for name in evaluators if gate.metric == name or gate.metric.startswith(f"{name}.")]
        if owners:
            owner = max(owners, key=len)
            alike = (gate.metric, gate.metric.removesuffix("_score"))
            gated[next((name for name in alike if name in columns), owner)] = owner
    return gated or None


def read_base(
    name: str,
    margin: float,
    *,
    results_dir: Path,
    resumed: str | None,
    allow_simulated: bool,
    gates: Sequence[Gate],
    evaluators: Collection[str],
    rows: AboutToRun | Run,
    repeat: int,
) -> Base:
    """The base, read and checked before the endpoint is asked; `rows` are those that are about to be judged.

    Each of them is judged `repeat` times. `resumed` is the folder of the run that goes on, which cannot be its own
    base.
    """
    from tunecheck.comparison._pairing import NothingPairsError, pair
    from tunecheck.comparison._reading import read_runs

    table, asked = read_runs([name, rows], results_dir)
    if table.info.simulated and not allow_simulated:
        raise _about(
            name, "its answers are simulated, so it says nothing of a model; --allow-simulated to try the gate"
        )
    if resumed is not None and Path(table.info.place).resolve() == Path(resumed).resolve():
        raise _about(name, "that is the run itself; name another one")
    named = gated_metrics(gates, evaluators, table.columns)
    _check_evaluators(name, table, {} if named is None else named, evaluators)
    try:
        paired = pair(table, asked)
    except NothingPairsError as error:
        raise _about(name, error.why) from None
    if table.info.source == "run":  # a name that lasts: `last` is another run once this one has begun
        place = Path(table.info.place)
        name = table.info.id if place.parent.resolve() == results_dir.resolve() else str(place)
    tested = [each for each in table.evaluators if each in evaluators] if named is None else list(named)
    rates = pass_rates(table, tested)
    if margin > 1 and rates:
        points = f": --margin {margin / 100:g} is {margin:g} points" if margin <= 100 else ""
        raise _about(name, f"{rates[0]} lies between 0 and 1, so every run is within a margin of {margin:g}{points}")
    power = powers(table, paired.base, rates, margin, max(repeat, asked.info.trials))
    metrics = None if named is None else tuple(named)
    return Base(name, table.info.id, margin, metrics, allow_simulated, results_dir, power)


def _check_evaluators(name: str, table: RunTable, named: Mapping[str, str], evaluators: Collection[str]) -> None:
    known = list(table.evaluators)
    for each in named.values():
        if each not in known:
            raise _about(name, f"it has no evaluator {each!r}{did_you_mean(each, known)}; `tunecheck score` adds one")
    if not set(known) & set(evaluators):
        raise _about(name, f"it has none of the evaluators {', '.join(evaluators)}; its own: {', '.join(known)}")


def _about(name: str, what: str) -> ConfigurationError:
    return ConfigurationError(f"--no-worse-than {name}: {what}")
