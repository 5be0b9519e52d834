"""`--no-worse-than RUN --margin M`, `--better-than RUN`: gates that compare a run with another one.

**Before the run**: `check_base` (in `_gates`) checks the options. Then `read_base` reads the base run, pairs its rows
with those that will be judged, and computes the gate's power (`Power`).

**After the run**: `Base.check` compares the run with the base. Each tested metric has an outcome:

| outcome | condition, in the order of the checks |
|---|---|
| met | the non-inferiority test shows that the run is at most the margin worse (`--better-than`: better) |
| not met | the difference is shown to be worse by the margin or more; or no rows pair; or the judges differ |
| undecided | any other: the rows neither show the requirement nor rule it out |

Objections that change the decision add one more outcome, not met or undecided.

**Tested metrics** are those that `--fail-under` names, else the primary metric.

| word | meaning |
|---|---|
| margin | the loss to accept, in the metric's unit: 0.02 is two points of a pass rate; 0 for `--better-than` |
| non-inferiority test | shows that the run is at most the margin worse: the interval of the difference lies within it |
| objection | a finding, such as a worse slice, that may change the decision |
| power | the chance that an identical model meets the gate with these rows |
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy
from msgspec.structs import replace

from tunecheck._errors import ConfigurationError
from tunecheck._faults import CAUSE_METRIC
from tunecheck._json import JSON
from tunecheck._messages import did_you_mean, plural
from tunecheck.cli._gates import Gate, GateOutcome
from tunecheck.cli._running import lasting_name
from tunecheck.comparison._compare import compare_runs
from tunecheck.comparison._comparison import Comparison, MetricComparison
from tunecheck.comparison._deciding import gated_primary
from tunecheck.comparison._measuring import ComparisonSettings, choose_metrics, rows_needed
from tunecheck.comparison._pairs import NothingPairsError, RunPair
from tunecheck.comparison._view import comparison_notes
from tunecheck.comparison._wording import difference_text, interval_text, judge_text, needed_text, value_text
from tunecheck.results import PASS_RATE, AboutToRun, RunTable, read_runs
from tunecheck.runs._store import Run
from tunecheck.statistics._decisions import chance_to_show, margin_result, margin_to_show, rows_to_show
from tunecheck.statistics._estimates import Floats
from tunecheck.statistics._results import Result
from tunecheck.statistics._sequential import ANY_STOPPING

if TYPE_CHECKING:
    from tunecheck.cli._evaluate.options import Options


class Base(msgspec.Struct, frozen=True):
    """The base run of a gate, and the allowed loss.

    `better`: the gate requires an improvement (a margin of 0). `name` finds the run again. The `settings` contain the
    tested metrics. `power` is the gate's power with these rows.
    """

    name: str
    id: str
    settings: ComparisonSettings
    results_dir: Path
    power: tuple[Power, ...] = ()
    better: bool = False

    @property
    def flag(self) -> str:
        """The option that names the base."""
        return "--better-than" if self.better else "--no-worse-than"

    @property
    def margin(self) -> float:
        """The allowed loss."""
        return self.settings.margin or 0.0

    def check(self, run: Path) -> tuple[list[GateOutcome], list[str]]:
        """Compare a finished run with the base; return the outcomes and notes.

        Each tested metric has an outcome. Objections that change the decision have one outcome together. If the runs
        cannot be compared, no error is raised, because the run has finished: the only outcome is then not met, and has
        the reason.
        """
        try:
            comparison = compare_runs([self.name, run], self.results_dir, self.settings)
        except ConfigurationError as error:
            # The remedy of a NothingPairsError is an option of `compare`, which gates lack.
            reason = error.why if isinstance(error, NothingPairsError) else str(error)
            gate = self._requirement(f"{self.margin:g}")
            return [GateOutcome(gate, found=None, met=False, remark=f"cannot be compared: {reason}")], []

        outcomes = [self._metric_outcome(metric, comparison) for metric in comparison.against[-1].tested]
        notes = [f"{self.flag}: {note}" for note in comparison_notes(comparison)]
        return [*outcomes, *self._objection_outcomes(comparison)], notes

    def _objection_outcomes(self, comparison: Comparison) -> Iterator[GateOutcome]:
        """Yield an outcome, not met or undecided, if rows are paired and objections change the decision."""
        effective = [objection for objection in comparison.decision.objections if objection.effect != "none"]

        if effective and any(metric.difference.n for metric in comparison.against[-1].tested):
            yield GateOutcome(
                f"no objection to replacing {self.id}",
                found=None,
                met=False,
                remark="; ".join(objection.text for objection in effective),
                undecided=effective[0].effect == "undecided",
                found_as=plural(len(effective), "objection"),
                decision=comparison.decision.to_json(),
            )

    def _requirement(self, margin: str) -> str:
        """Return the gate's requirement in words, such as `shown to be at most 2 points worse than base-…`."""
        relation = "better" if self.better else f"at most {margin} worse"
        return f"shown to be {relation} than {self.id}"

    def _metric_outcome(self, metric: MetricComparison, comparison: Comparison) -> GateOutcome:
        """Return the gate's outcome on one metric of a comparison: met, not met, or undecided.

        If it is undecided, its remark has the number of rows that would decide it.
        """
        margin = f"{100 * self.margin:g} points" if metric.kind == "binary" else f"{self.margin:g}"

        test, stopped = metric.non_inferiority, comparison.new.stopped
        met = test is not None and test.shown is True

        result = margin_result(metric.difference, self.margin, higher_is_better=metric.higher_is_better)

        # Undecided: neither shown nor refuted, but more rows could decide. They could not if judges differ.
        undecided = not met and result != "refuted" and metric.difference.n > 0 and metric.judge != "different"

        remark = _figures_text(metric, is_prediction=met and stopped is not None and stopped.outcome == "not_worse")

        rows: int | None = None
        if undecided and test is not None and test.shown is not None:
            rows = rows_needed(metric, self.margin)
            effect = "an improvement" if self.better else f"a loss of {margin}"
            remark += f"; {effect} is neither shown nor ruled out: {needed_text(metric.difference.n, rows)}"

        figures: dict[str, JSON] = {
            "metric": metric.key,
            "base": comparison.base.id,
            "margin": self.margin,
            "base_value": metric.base.value,
            "new_value": metric.new.value,
            "difference": metric.difference.to_json(),
            "bound": None if test is None else test.bound,
            "higher_is_better": metric.higher_is_better,
            "pairs": metric.difference.n,
            "pairs_to_decide": rows,
            "only_in_base": len(comparison.pairs.only_in_base),
            "only_in_new": len(comparison.pairs.only_in_new),
        }

        return GateOutcome(
            f"{metric.name}: {self._requirement(margin)}",
            found=metric.difference.value,
            met=met,
            remark=remark,
            comparison=figures,
            undecided=undecided,
            found_as=difference_text(metric.kind, metric.difference.value),
        )


def _figures_text(metric: MetricComparison, *, is_prediction: bool) -> str:
    """Return the figures of a compared metric in words, or the reason why there are none.

    For example `88.7% → 84.0%, 95% interval −8.1 to −1.3 points, 300 rows`. `is_prediction`: the run stopped early
    because a complete run would meet the gate; the text says so.
    """
    test, difference = metric.non_inferiority, metric.difference
    if test is None or test.shown is None:
        reason = (None if test is None else test.remark) or "too little data"
        text = f"cannot be compared: {reason}" + (f"; {metric.why}" if metric.judge == "different" else "")
    else:
        base, new = (value_text(metric.kind, side.value) for side in (metric.base, metric.new))
        unit = " points" if metric.kind == "binary" else ""
        interval = f"{100 * difference.confidence:.3g}% interval {interval_text(metric.kind, difference)}{unit}"
        text = f"{base} → {new}, {interval}"
        if difference.method == ANY_STOPPING:
            text += ", valid for any early stop" + ("; a complete run would meet the gate" if is_prediction else "")

    rows = plural(difference.n, "row") if difference.n else ""
    direction = "lower is better" if rows and not metric.higher_is_better else ""
    return ", ".join(filter(None, (text, judge_text(metric), rows, direction)))


def gated_metrics(gates: Iterable[Gate], evaluators: Collection[str], columns: Collection[str]) -> dict[str, str]:
    """Return the metrics and slices that `--fail-under` names, in order, each with its evaluator's name.

    For example `{"match[row_kind=call]": "match", "rouge.f1": "rouge"}` for `match[call]>=0.8` and
    `rouge.f1_score>=0.4`. If a figure is not among the `columns` of rows, such as a count, the evaluator's name
    replaces it.
    """
    gated: dict[str, str] = {}
    for gate in gates:
        owners = [name for name in evaluators if gate.metric == name or gate.metric.startswith(f"{name}.")]
        if owners:
            owner = max(owners, key=len)  # an evaluator's name may begin with another one's
            candidates = (gate.metric, gate.metric.removesuffix("_score"))
            name = next((name for name in candidates if name in columns), owner)
            gated[name if gate.slice is None else f"{name}[{'='.join(gate.slice)}]"] = owner
    return gated


def read_base(options: Options, gates: Sequence[Gate], evaluators: Collection[str], rows: AboutToRun | Run) -> Base:
    """Read the base run of a gate and pair it with the rows that will be judged, before any call.

    Raises:
        ConfigurationError: the base cannot be compared with these rows, or `--until-decided` is given for a gate that
            needs all rows; the text names the option.
    """
    name = str(options.against)
    better, margin = options.better_than is not None, options.margin or 0.0
    flag = f"--better-than {name}" if better else f"--no-worse-than {name}"

    base, new = read_runs([name, rows], options.folder)
    named = gated_metrics(gates, evaluators, base.columns)
    _check_base_run(base, named.values(), options, flag)

    primary = new.opened.primary or base.opened.primary
    metrics = tuple(named or [gated_primary(base, evaluators, primary)])
    settings = ComparisonSettings(
        metrics=metrics,
        confidence=0.95 if options.confidence is None else options.confidence,
        margin=margin,
        allow_simulated=options.allow_simulated,
        allow_changed_evaluator=options.allow_changed_evaluator,
        rows=0,  # a gate shows no rows that differ
    )

    try:
        pair = RunPair(base, new, settings)
    except NothingPairsError as error:
        raise ConfigurationError(f"{flag}: {error.why}") from None

    rates = pass_rates(pair)
    # `--margin 2` may be meant as two points; as a share it accepts any run.
    if margin > 1 and rates:
        metric = next(iter(rates))
        remedy = f"for {margin:g} points, write --margin {margin / 100:g}" if margin <= 100 else "write a share below 1"
        raise ConfigurationError(
            f"{flag}: {metric} is at most 1, so a margin of {margin:g} accepts every run: {remedy}"
        )

    if options.until_decided:
        _require_decidable_gates({*evaluators, *metrics}, gates)

    repeat = max(options.repeat or 1, new.info.trials)

    # Only pass rates have a power: the variance of other metrics is unknown. Every run meets a margin of 1.
    rates = rates if margin < 1 else {}
    power = tuple(_power_on(name, rate, base.info.trials, margin, repeat) for name, rate in rates.items())

    settings = replace(settings, cluster=options.cluster)
    # Results of other programs keep their name.
    lasting = lasting_name(Path(base.info.place), options.folder) if base.info.source == "run" else name
    return Base(lasting, base.info.id, settings, options.folder, power, better)


def _check_base_run(base: RunTable, evaluators: Iterable[str], options: Options, flag: str) -> None:
    """Check that a run can be the base of a gate on these evaluators; `flag` names it in the error.

    Raises:
        ConfigurationError: its answers are simulated, it is the resumed run itself, or it lacks an evaluator.
    """
    if base.info.simulated and not options.allow_simulated:
        advice = "give --allow-simulated to try the gate out"
        raise ConfigurationError(f"{flag}: the run's answers are simulated, not a model's: {advice}")

    if options.resume is not None and Path(base.info.place).resolve() == Path(options.resume).resolve():
        raise ConfigurationError(f"{flag}: a run cannot be compared with itself: name another run")

    for name in evaluators:
        if name not in base.evaluators:
            hint = did_you_mean(name, base.evaluators)
            advice = f"name another run, or the new run of `tunecheck score {options.against} --evaluators {name}`"
            raise ConfigurationError(f"{flag}: the run has no evaluator {name!r}{hint}; {advice}")


def _require_decidable_gates(decided: Collection[str], gates: Iterable[Gate]) -> None:
    """Check that each gate is on one of the `decided` metrics. Only these can be decided before all rows are done.

    Raises:
        ConfigurationError: a gate's metric needs all rows, such as a weighted mean.
    """
    for gate in gates:
        named = {gate.metric, gate.metric.removesuffix("_score"), gate.metric.removesuffix(f".{PASS_RATE}")}
        if named.isdisjoint(decided) and not gate.metric.startswith(CAUSE_METRIC):
            advice = "leave out --until-decided or the metric's --fail-under"
            raise ConfigurationError(f"--until-decided cannot decide {gate.metric}, which needs all rows: {advice}")


# -- the power of a gate, computed before the endpoint is called


ASSUMED_CHANGE = 0.05
"""Assumed share of rows whose verdict changes in the next run of the same model, if no repeated base measures it."""

ENOUGH = 0.8
"""If an identical model meets a gate in less than this share of runs, the margin is too narrow for the rows."""


class Power(Result, frozen=True):
    """The chance that an identical model meets the gate on one pass rate.

    `pairs_needed` and `margin_needed` would raise a low chance to 80%; each is None if it is not needed or no value
    suffices. `change` is the share of rows that change from run to run, measured if the base has trials. `margin` is 0
    if the gate requires an improvement, which an identical model does not show. Shares and margins are between 0 and 1.
    """

    metric: str
    pairs: int
    margin: float
    change: float
    change_is_measured: bool
    chance: float
    pairs_needed: int | None = None
    margin_needed: float | None = None

    def __str__(self) -> str:
        """Return the power in words, and if it is low, the rows or the margin that would be enough."""
        if self.margin == 0:
            return f"{self.metric}: this gate requires an improvement; an equal model ends undecided (exit 4)"

        source = "as in the base's trials" if self.change_is_measured else "assumed; a base with --repeat measures this"
        start = f"{self.metric}: with {plural(self.pairs, 'row')} and a margin of {100 * self.margin:g} points,"
        change = f"if {self.change:.1%} of rows change between runs ({source})"

        if self.chance >= ENOUGH:
            return f"{start} an identical model meets the gate in {self.chance:.0%} of runs {change}"

        undecided = f"{start} an identical model ends undecided in {1 - self.chance:.0%} of runs {change}"

        remedies = [] if self.pairs_needed is None else [f"{self.pairs_needed:,} rows in all"]
        if self.margin_needed is not None:
            remedies.append(f"a margin of {math.ceil(1000 * self.margin_needed) / 10:g} points")

        end = f". With {' or '.join(remedies)}, only 20% of runs would end undecided" if remedies else ""
        return undecided + end


def pass_rates(pair: RunPair) -> dict[str, Floats]:
    """Return the base's value on each paired row for every gated pass rate, by the name of its metric or slice."""
    # The new run may have no metrics yet, so the base stands for both.
    metrics, _ = choose_metrics(pair.base, pair.base, pair.settings.named)
    values = {metric.name: pair.sides(metric.key) for metric in metrics if metric.tested}
    # `passes` names a metric's pass/fail column. For a pass rate, it is the metric's own column.
    return {name: sides.base for name, sides in values.items() if sides.metric.passes == sides.metric.name}


def _power_on(name: str, passing: Floats, trials: int, margin: float, repeat: int) -> Power:
    """Return the gate's power on one pass rate, if the new run judges each row `repeat` times.

    `passing` has the share of the base's `trials` that passed on each row; NaN without a verdict. The chance to meet
    the gate is 0 without rows and for a margin of 0, which requires an improvement.
    """
    passing = passing[~numpy.isnan(passing)]
    rows = len(passing)

    measured = trials > 1 and rows > 0
    change = ASSUMED_CHANGE
    if measured:  # the chance that two trials of a row differ
        # p(1 − p) is the variance of one trial; with few trials it is too small by the factor (trials − 1) / trials.
        change = float(2 * numpy.mean(passing * (1 - passing)) * trials / (trials - 1))
    # One trial has the variance change / 2; the mean of several trials, that variance by their number.
    variance = change * (1 / trials + 1 / repeat) / 2  # of the difference of a row's two means

    can_be_met = margin > 0 and rows > 0
    chance = chance_to_show(rows, variance, margin) if can_be_met else 0.0
    if chance >= ENOUGH or not can_be_met:
        return Power(name, rows, margin, change, measured, chance)
    pairs_needed, margin_needed = rows_to_show(variance, margin, ENOUGH), margin_to_show(rows, variance, ENOUGH)
    return Power(name, rows, margin, change, measured, chance, pairs_needed, margin_needed)
