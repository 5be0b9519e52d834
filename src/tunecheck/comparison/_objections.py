"""The decision whether to ship a candidate: by its primary metric, and by objections from all other data.

The choice by the primary metric is the first that applies (`_choice_of`):

  with a margin   ship, keep or undecided, if the margin is shown, refuted or open
  ship, keep      the metric is better, or worse
  keep            the whole interval lies within ±2% of the metric's range: the difference is irrelevant
  undecided       all others

Each objection has an effect: invalid, keep, undecided or none. The strongest effect, in this order, replaces the choice
by the metric. So an objection can stop a candidate, but never ship one (`Evidence.decision`).

Rows with an unknown verdict count only if they matter. They are filled with the best values for one run and the worst
for the other, and the other way round. If the choice changes in either case, the effect is undecided
(`_effect_of_unknown`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from statistics import median

import msgspec
import numpy
from msgspec.structs import replace

from tunecheck import plugins
from tunecheck._faults import cause_named
from tunecheck._files import EvaluatorEntry
from tunecheck._json import object_or_empty
from tunecheck._messages import clean, command_line, plural
from tunecheck.comparison import _measuring as measuring
from tunecheck.comparison._changes import FEWEST_OF_A_SLICE
from tunecheck.comparison._comparison import CauseChange, Choice, Decision, Effect, MetricComparison, Objection, Part
from tunecheck.comparison._judged import assumption_of
from tunecheck.comparison._pairs import RunPair
from tunecheck.comparison._wording import change_text, headline, margin_text, needed_text, size_text, value_text
from tunecheck.results import RunTable, State
from tunecheck.runs._manifest import changed_settings
from tunecheck.runs._store import Run
from tunecheck.statistics._decisions import margin_result, rows_to_decide
from tunecheck.statistics._results import Estimate, normal_quantile

EFFECTS: tuple[Effect, ...] = ("invalid", "keep", "undecided", "none")
"""All effects, the strongest first."""

_IRRELEVANT = 0.02
"""Differences within this share of the metric's range (2 points of a pass rate) are irrelevant."""

_GROWTH = 1.1
"""Cost and latency are objections if they grew by more than a tenth."""

# Bootstrap samples and sign flips for filled rows: fewer than usual, because each objection needs two comparisons.
_DRAWS = 2_000
# Objections that scoring both runs again settles, and those that verdicts for more rows settle: see `next_step`.
_NOT_COMPARABLE = frozenset({"evaluator_changed", "judge_changed", "calls_reading_changed"})
_NOT_KNOWN = frozenset({"missing_verdicts", "errors", "serving_changed"})
_BY_MARGIN: Mapping[str, Choice] = {"shown": "ship", "refuted": "keep", "open": "undecided"}


class Evidence(msgspec.Struct, frozen=True, dict=True):
    """A pair of runs, with the choice by the primary `metric` and the objections to the new run.

    `parts` are the metric's slices and `causes` the changes of causes. `base_name` and
    `new_name` are the runs' names in sentences. Masks are over the pairs of rows.
    """

    pair: RunPair
    metric: MetricComparison
    parts: Sequence[Part]
    causes: Sequence[CauseChange]
    base_name: str
    new_name: str

    def decision(self) -> Decision:
        """Return the decision whether the new run replaces the base: the strongest objection, else the metric's choice.

        Raises:
            ConfigurationError: a guard names a metric or a slice that is not in both runs.
        """
        pair, metric = self.pair, self.metric
        found = {objection.text: objection for objection in self.objections()}  # a named metric may be a slice
        objections = sorted(found.values(), key=lambda objection: EFFECTS.index(objection.effect))

        # Sorted by strength, so the first objection has the strongest effect.
        strongest = objections[0].effect if objections else "none"
        choice_by_metric = self._choice_of(metric.difference, metric.p_adjusted)
        choice: Choice = choice_by_metric if strongest == "none" else strongest

        if choice == "invalid":  # without the verdict, because the runs do not measure the same thing
            because = [f"{clean(metric.name, 60)}: {change_text(metric.kind, metric)}"]
        else:
            because = [f"{clean(metric.name, 60)}: {headline(metric)}"]
            assumption, is_refuted = self._judge_assumption
            because += filter(None, [margin_text(metric), "" if is_refuted else assumption])

        # The only choice that neither a verdict nor an objection explains.
        if choice == "keep" and strongest == "none" and metric.verdict != "worse" and pair.settings.margin is None:
            size = size_text(metric.kind, self.relevant_size)
            because.append(f"the whole interval lies within ±{size}, which is too small to matter")

        difference = metric.difference
        return Decision(
            decision=choice,
            candidate=pair.new.info.id,
            base=pair.base.info.id,
            metric=metric.name,
            difference=(difference.low, difference.value, difference.high),
            because=tuple(because),
            objections=tuple(objections),
            next=self.next_step(choice, objections),
        )

    @cached_property
    def _sides(self) -> measuring.PairedValues:
        """The primary metric's numbers by pair."""
        return self.pair.sides(self.metric.key)

    def _choice_of(self, difference: Estimate, p_adjusted: float | None) -> Choice:
        """Return the choice for a difference: by the margin if there is one, else by the verdict.

        Without either, keep the base if the interval shows that the difference is irrelevant.
        """
        margin, higher_is_better = self.pair.settings.margin, self.metric.higher_is_better
        if margin is not None:
            return _BY_MARGIN[margin_result(difference, margin, higher_is_better=higher_is_better)]

        verdict = measuring.shown_verdict(difference, p_adjusted, higher_is_better=higher_is_better)
        if verdict is not None:
            return "ship" if verdict == "better" else "keep"

        relevant = self.relevant_size
        if relevant is None or difference.low is None or difference.high is None:
            return "undecided"
        return "keep" if -relevant < difference.low and difference.high < relevant else "undecided"

    @property
    def _correction_factor(self) -> float:
        """The factor by which the correction for several runs multiplied the p-value."""
        metric = self.metric
        return metric.p_adjusted / metric.p_value if metric.p_value and metric.p_adjusted else 1.0

    @property
    def relevant_size(self) -> float | None:
        """The size below which a difference is irrelevant; None if the metric has no range."""
        bounds = self._sides.bounds
        return None if bounds is None else _IRRELEVANT * (bounds[1] - bounds[0])

    def objections(self) -> Iterator[Objection]:
        """Yield all objections to the new run."""
        # Objections of equal effect stay in this order: `decision` sorts them by effect alone.
        for _, rule in plugins.load_all("objections"):
            yield from rule(self.pair.base.info, self.pair.new.info)
        yield from self._evaluator_objections()
        yield from self._call_objections()
        yield from self._loss_objections()
        yield from self._guard_objections()
        yield from self._missing_verdict_objections()
        yield from self._serving_objections()
        yield from self._row_objections()
        yield from self._cost_objections()

    # -- evaluators and judges

    def _primary_evaluators(self) -> Sequence[str]:
        """Return the evaluators behind the primary metric that both runs have; usually one."""
        own, runs = self.metric.evaluator, (self.pair.base, self.pair.new)
        # A plug-in may derive an evaluator from several others; then these decide whether verdicts are comparable.
        names = self.pair.base.opened.derived.get(own, ())
        return [name for name in names if all(name in table.evaluators for table in runs)] or [own]

    def _evaluator_objections(self) -> Iterator[Objection]:
        """Yield objections to evaluators and judges that differ between the runs, and to a judge's own errors."""
        base, new, sources = self.pair.base.evaluators, self.pair.new.evaluators, self._primary_evaluators()
        others = []
        for name in [name for name in base if name in new]:
            change = _evaluator_change(base[name].entry, new[name].entry)
            text = "" if change is None else f"{clean(name, 60)} {clean(change.text, 300)}"
            if change is not None and name in sources:
                yield self._change_objection(change, text)
            # Only the evaluators of the primary metric matter if nothing is known to have changed.
            elif change is not None and change.code != "evaluator_unknown":
                others.append(text)

        # One objection for all, so that a page with few objections has room for those of other kinds.
        if others:
            yield Objection("evaluator_changed", "; ".join(others))

        if self.metric.judge == "uncalibrated":
            yield Objection("judge_uncalibrated", f"{clean(self.metric.name, 60)}: the judge is uncalibrated")

        text, is_refuted = self._judge_assumption
        if is_refuted:
            yield Objection("judge_errors_differ", text)

    @cached_property
    def _judge_assumption(self) -> tuple[str, bool]:
        """The assumption of a corrected figure about its judge, as a sentence, and whether labels refute it.

        The sentence is empty for other figures.
        """
        if self.metric.judge != "corrected":
            return "", False
        return assumption_of(self.metric, self.pair.base, self.pair.new)

    def _call_objections(self) -> Iterator[Objection]:
        """Yield objections to calls that a server left in the text, and to counting such calls in one run only."""
        base, new = self.pair.base.info.calls, self.pair.new.info.calls
        for name, calls in ((self.base_name, base), (self.new_name, new)):
            if calls is not None:
                yield Objection("calls_unparsed", f"{name}: {next(calls.sentences())}")

        # One run's verdicts then count calls in the text as calls, and the other's do not.
        if base is not None and new is not None and base.reading != new.reading:
            text = "only one run counts calls in the text: score both with `tunecheck score RUN --calls strict`"
            yield Objection("calls_reading_changed", text, "undecided")

    def _change_objection(self, change: Objection, text: str) -> Objection:
        """Return the objection with this text to a changed evaluator of the primary metric, with its effect.

        The effect is none if the change is unknown or accepted, else invalid for another evaluator, and undecided for
        another judge or another way to read calls.
        """
        effect: Effect = "invalid" if change.code == "evaluator_changed" else "undecided"
        # The user may accept a changed evaluator, but not that two judges gave the verdicts.
        is_accepted = self.pair.settings.allow_changed_evaluator and change.code != "judge_changed"
        return Objection(change.code, text, "none" if is_accepted or change.code == "evaluator_unknown" else effect)

    # -- metrics, slices and causes that got worse

    def _loss_objections(self) -> Iterator[Objection]:
        """Yield objections to other metrics and slices (of 20 rows or more) that got worse, and to causes that grew.

        Metrics and slices that got worse keep the base; causes have no effect. Holm's correction is over these metrics
        and slices together.
        """
        pair, metric = self.pair, self.metric
        # Each test with its objection's code and name, and the metric that has its kind and direction.
        tests: list[tuple[str, str, MetricComparison, MetricComparison | Part]] = []
        tests += [("metric_worse", clean(other.name, 60), other, other) for other in self._secondary_metrics()]
        for part in self.parts:
            # Smaller slices would add tests that can show nothing, and make the correction stricter.
            if part.difference.n >= FEWEST_OF_A_SLICE:
                name, column = clean(measuring.split_slice(metric.name)[0], 60), clean(part.column, 40)
                tests.append(("slice_worse", f"{name}[{column}={clean(part.value, 40)}]", metric, part))

        adjusted = measuring.correct_by_holm([(test.p_value, test.moved) for *_, test in tests])
        for (code, name, owner, test), p_adjusted in zip(tests, adjusted, strict=True):
            if self._is_worse(test.difference, p_adjusted, up=owner.higher_is_better):
                yield Objection(code, f"{name} is worse: {change_text(owner.kind, test)}", "keep")

        # Causes are corrected by themselves: their p-values were adjusted over all causes.
        alpha = 1 - pair.settings.confidence
        for cause in self.causes:
            if cause.new > cause.base and cause.p_adjusted < alpha:
                yield Objection("cause_grew", f"{cause.title}: {plural(cause.new, 'row')}, {cause.base:,} in the base")

    def _secondary_metrics(self) -> list[MetricComparison]:
        """Return all other tested metrics: those that are tested by default, and those that the settings name."""
        pair, own = self.pair, self.metric.key
        # Without names, `choose_metrics` returns the metrics that are tested by default.
        chosen = [measuring.choose_metrics(pair.base, pair.new, names)[0] for names in (None, pair.settings.named)]
        by_key = {metric.key: metric for metrics in chosen for metric in metrics if metric.tested}
        return [pair.measured(metric) for key, metric in by_key.items() if key != own]

    def _is_worse(self, difference: Estimate, p_adjusted: float | None, *, up: bool) -> bool:
        """Return True if a loss is shown; with a margin, the loss must be shown to be at least as large as it.

        `up` is True if higher values are better.
        """
        margin = self.pair.settings.margin or 0.0
        is_shown = measuring.shown_verdict(difference, p_adjusted, higher_is_better=up) == "worse"
        return is_shown and margin_result(difference, margin, higher_is_better=up) == "refuted"

    def _guard_objections(self) -> Iterator[Objection]:
        """Yield objections to guards that are violated, or that these rows do not decide."""
        for name, (metric, result) in self._guards.items():
            size = size_text(metric.kind, self.pair.settings.guards[name])
            # A guard has a margin of its own, so it is a test of this metric alone, without a correction.
            if result == "refuted":
                yield Objection("metric_worse", f"{clean(name, 100)} is more than {size} worse (guard)", "keep")
            elif result == "open":
                text = f"{clean(name, 100)} is not shown to be at most {size} worse (guard): "
                text += change_text(metric.kind, metric)
                yield Objection("guard_open", text, "undecided")

    @cached_property
    def _guards(self) -> Mapping[str, tuple[MetricComparison, str]]:
        """Each guard's metric and result by name: `shown` to hold, `refuted` or `open`."""
        results = {}
        for name, margin in self.pair.settings.guards.items():
            (guard, *_), _ = measuring.choose_metrics(self.pair.base, self.pair.new, [name])
            metric = self.pair.measured(guard)
            result = margin_result(metric.difference, margin, higher_is_better=metric.higher_is_better)
            results[name] = metric, result
        return results

    # -- rows with an unknown verdict

    def _missing_verdict_objections(self) -> Iterator[Objection]:
        """Yield objections to rows without a verdict in one run, and to rows that failed in both."""
        missing, unknown = self._missing, self._unknown
        # Missing in the base means that only the new run has the verdict.
        only_new, only_base = (missing & ~missing[::-1]).sum(axis=1).tolist()

        # Without a number in either run, a verdict is unknown only if the evaluator failed.
        failed_in_both = int(unknown.all(axis=0).sum())
        effect = self._effect_of_unknown(unknown)

        if only_new or only_base:
            counts = f"in one run only: {only_new:,} in {self.new_name}, {only_base:,} in {self.base_name}"
            text = f"rows with a verdict on {clean(self.metric.name, 60)} {counts}; {self._range_text(unknown)}"
            yield Objection("missing_verdicts", text, effect)

        if failed_in_both:
            yield Objection("errors", f"{plural(failed_in_both, 'row')} failed in both runs", effect)

    def _serving_objections(self) -> Iterator[Objection]:
        """Yield an objection if rows failed because of serving in one run only; their verdicts count as unknown."""
        if self.pair.base.causes is None or self.pair.new.causes is None:
            return

        # A row with the best score did not fail, whatever causes it has.
        not_best = numpy.array([self._sides.base, self._sides.new]) != self._worst_and_best[1]
        failed = numpy.array([_failed_by_serving(*run) for run in self.pair.tables_with_items]) & not_best
        only_here = failed & ~failed[::-1]

        # Rows that failed because of serving in both runs say nothing about a change of serving.
        if (only_here & self._sides.both).any():
            # A row that failed because of serving in one run only: its verdict in this run is unknown as well.
            effect = self._effect_of_unknown(self._unknown | only_here)
            base_count, new_count = failed.sum(axis=1)
            counts = f"{new_count:,} in {self.new_name}, {base_count:,} in {self.base_name}"
            yield Objection("serving_changed", f"rows that failed because of serving: {counts}", effect)

    @cached_property
    def _missing(self) -> measuring.Mask:
        """A mask of the pairs in which the base, and in which the new run, has no number, shape (2, pairs)."""
        missing: measuring.Mask = numpy.isnan([self._sides.base, self._sides.new]) & self.pair.inside(self.metric.key)
        return missing

    @cached_property
    def _unknown(self) -> measuring.Mask:
        """A mask of the pairs in which the base's, and in which the new run's verdict is unknown, shape (2, pairs).

        If neither run has a number, the verdict is unknown only where the evaluator failed; else it does not apply.
        """
        failed = numpy.array([self._failed(*run) for run in self.pair.tables_with_items])
        unknown: measuring.Mask = self._missing & (~self._missing[::-1] | failed)
        return unknown

    def _failed(self, table: RunTable, items: Sequence[int]) -> measuring.Mask:
        """Return a mask of a run's `items`: True where the primary metric's evaluator failed on a trial."""
        states = numpy.frombuffer(bytes(table.evaluators[self.metric.evaluator].states), dtype=numpy.uint8)
        rows, of_row = numpy.flatnonzero(states == State.ERROR), table.items.of_row
        return numpy.isin(items, rows if of_row is None else numpy.array(of_row)[rows])

    @cached_property
    def _worst_and_best(self) -> tuple[float, float]:
        """The worst and the best value of the metric: by its declared range, else among the values of both runs."""
        values = numpy.concatenate([self._sides.base, self._sides.new])
        low, high = self._sides.bounds or (float(numpy.nanmin(values)), float(numpy.nanmax(values)))
        return (low, high) if self.metric.higher_is_better else (high, low)

    def _with_extremes(self, unknown: measuring.Mask) -> Iterator[measuring.PairedValues]:
        """Yield the metric's numbers with extreme values in place of the unknown ones, of shape (2, pairs).

        First the base gets the worst value and the new run the best, then the other way round.
        """
        sides, ends = self._sides, self._worst_and_best
        for base_end, new_end in (ends, ends[::-1]):
            base, new = numpy.where(unknown[0], base_end, sides.base), numpy.where(unknown[1], new_end, sides.new)
            yield replace(sides, base=base, new=new)

    def _effect_of_unknown(self, unknown: measuring.Mask) -> Effect:
        """Return `undecided` if extreme values in place of unknown verdicts would change the choice, else `none`.

        `unknown` has the shape (2, pairs), for the base and the new run.

        Example: 3 of 200 rows have no verdict in the new run. The choice is ship. If it stays ship with all three
        failed, and with all three passed, the effect is `none`.
        """
        if not unknown.any():
            return "none"

        # The filled numbers are not corrected for a judge's errors, so they are compared with the uncorrected choice.
        metric = self.metric
        choice = self._choice_of(metric.difference if metric.raw is None else metric.raw.difference, metric.p_adjusted)

        for sides in self._with_extremes(unknown):
            filled = measuring.compare_pairs(sides, sides.both, self.pair.settings, draws=_DRAWS)
            # The other runs keep their p-values, so the correction multiplies by the same factor as before.
            p_adjusted = None if filled.p_value is None else min(1.0, self._correction_factor * filled.p_value)
            if self._choice_of(filled.difference, p_adjusted) != choice:
                return "undecided"
        return "none"

    def _range_text(self, unknown: measuring.Mask) -> str:
        """Return in words the lowest and the highest possible figure of the new run, if unknown verdicts were known."""
        ends = sorted(float(sides.new[sides.both].mean()) for sides in self._with_extremes(unknown))
        low, high = (value_text(self.metric.kind, end) for end in ends)
        return f"with all verdicts, {self.new_name} would be between {low} and {high}"

    # -- data, cost and latency

    def _row_objections(self) -> Iterator[Objection]:
        """Yield objections to too few rows, repeated rows and simulated answers."""
        pair, difference = self.pair, self.metric.difference
        units, unit = (difference.n, "row") if difference.clusters is None else (difference.clusters, "cluster")
        if units < measuring.FEWEST or self.metric.verdict == "too little data":
            # Without a range of the metric, the estimate may not exceed the present number. Then it is not shown.
            needed = measuring.rows_for_verdict(self.metric, self._sides.bounds)
            enough = f"; at least about {needed:,} rows are needed" if needed > difference.n else ""
            verb = "is" if units == 1 else "are"
            yield Objection("few_rows", f"{plural(units, unit)} {verb} too few for a verdict{enough}", "undecided")

        # Repeated rows are dependent. With clusters, the intervals already allow for rows that depend on each other.
        contents = pair.base.items.contents
        repeated = len(contents) - len(set(contents))
        if repeated and all(contents) and pair.clusters is None:
            yield Objection("repeated_rows", f"{plural(repeated, 'row')} with the same content as another row")

        if pair.base.info.simulated or pair.new.info.simulated:
            yield Objection("simulated", "answers are simulated: they say nothing about a model")

    def _cost_objections(self) -> Iterator[Objection]:
        """Yield objections to a cost per row or a median latency that grew by more than a tenth."""
        base, new = self.pair.base, self.pair.new
        (base_cost, currency), (new_cost, new_currency) = _cost(base), _cost(new)
        if base_cost and new_cost and currency == new_currency and new_cost > _GROWTH * base_cost:
            yield Objection("cost", f"a row costs {new_cost:.3g} {currency}, {base_cost:.3g} in {self.base_name}")

        # Milliseconds to seconds. A run without latencies has 0 and no objection.
        base_s, new_s = (median(table.latencies_ms or [0.0]) / 1_000 for table in (base, new))
        if base_s and new_s > _GROWTH * base_s:
            yield Objection("latency", f"the median latency is {new_s:.3g} s, {base_s:.3g} s in {self.base_name}")

    # -- the next step

    def next_step(self, choice: Choice, objections: Sequence[Objection]) -> str | None:
        """Return the step that would settle an open decision; None if it is settled.

        Runs must be comparable before anything else helps, so that step comes first. Then come missing verdicts, then
        an open guard. Otherwise only more rows help, if any number does.
        """
        if choice not in ("undecided", "invalid"):
            return None

        # Only objections with the effect that decided: settling a weaker one would not change the decision.
        codes = {objection.code for objection in objections if objection.effect == choice}
        if codes & _NOT_COMPARABLE:
            return self._score_again(["--judge", "NAME"] if "judge_changed" in codes else [])

        if codes & _NOT_KNOWN:
            if "serving_changed" in codes:
                return "fix how the endpoints are served (`tunecheck check ENDPOINT`), then evaluate again"

            sides = zip((self.pair.base, self.pair.new), self._unknown, strict=True)
            gaps = " and ".join(table.info.id for table, unknown in sides if unknown.any())
            return f"get a verdict for every row of {gaps}, then compare again"

        if codes == {"guard_open"}:
            name, metric = next((name, metric) for name, (metric, result) in self._guards.items() if result == "open")
            rows = measuring.rows_needed(metric, self.pair.settings.guards[name])
            return f"{clean(name, 100)}: {needed_text(metric.difference.n, rows)}"

        return needed_text(self.metric.difference.n, self._rows_needed())

    def _score_again(self, options: Sequence[str]) -> str:
        """Return the commands that score both runs with the same evaluator, or what to do if only a script has it.

        Both commands get the `options`, too.
        """
        names = self._primary_evaluators()
        # An evaluator that exists only in a script has no name for the command line.
        if not {candidate.name for candidate in plugins.discover("evaluators")}.issuperset(names):
            shown = ", ".join(repr(clean(name, 60)) for name in names)
            return f"score both runs with the same {shown} in Python (tunecheck.score), then compare the new runs"

        base, new = self.pair.base.info.calls, self.pair.new.info.calls
        if base is not None and new is not None and base.reading != new.reading:
            options = [*options, "--calls", "strict"]

        options = ["--evaluators", ",".join(names), *options]
        runs = [Run(Path(table.info.place)) for table in (self.pair.base, self.pair.new)]
        commands = [command_line(["tunecheck", "score", run.id, *options, *run.place]) for run in runs]
        return f"score both runs alike with `{commands[0]}` and `{commands[1]}`, then compare the new runs"

    def _rows_needed(self) -> int | None:
        """Estimate how many rows would decide; None if no number of rows would.

        If there is too little data for a verdict, the result is at least the number of rows that a verdict needs.
        """
        metric, margin, confidence = self.metric, self.pair.settings.margin, self.pair.settings.confidence
        estimates = [measuring.rows_needed(metric, margin or 0.0)]

        if margin is None:
            # The correction for several runs makes the test stricter, so it needs more rows.
            strict = normal_quantile(1 - (1 - confidence) / self._correction_factor) / normal_quantile(confidence)
            estimates = [None if rows is None else math.ceil(rows * strict**2) for rows in estimates]

            # The cheaper way out may be to show that the whole interval lies within ± the relevant size.
            relevant = self.relevant_size
            if relevant is not None and abs(metric.difference.value or 0.0) < relevant:
                ends = [rows_to_decide(metric.difference, relevant, higher_is_better=up) for up in (True, False)]
                estimates.append(max(ends, key=lambda rows: math.inf if rows is None else rows))

        needed = min((rows for rows in estimates if rows is not None), default=None)
        if metric.verdict == "too little data":
            return max(needed or 0, measuring.rows_for_verdict(metric, self._sides.bounds))
        return needed


def _failed_by_serving(table: RunTable, items: Sequence[int]) -> measuring.Mask:
    """Return a mask of a run's `items`: True where a cause of failure is one of serving."""
    causes = table.causes or {}
    serving = {codes for codes in {*causes.values()} if any(cause_named(code).side == "serving" for code in codes)}
    return numpy.isin(items, [item for item, codes in causes.items() if codes in serving])


def _cost(table: RunTable) -> tuple[float | None, object]:
    """Return the target's cost per row and the currency; None for both if the cost is unknown."""
    run = Run(Path(table.info.place))
    if table.info.source != "run" or not run.metrics_file.is_file():
        return None, None

    spending = object_or_empty(object_or_empty(run.metrics().get("usage")).get("target"))
    cost = spending.get("cost")
    return (cost / table.info.rows, spending.get("currency")) if isinstance(cost, (int, float)) else (None, None)


def _evaluator_change(before: EvaluatorEntry, after: EvaluatorEntry) -> Objection | None:
    """Return an objection that says how an evaluator differs between two runs: its judge, its settings or its code.

    Return None if the evaluators are equal. If a run records no fingerprint, only their judges are compared. If these
    do not differ, the objection says that a fingerprint is missing.
    """
    settings = [*changed_settings(before.arguments or {}, after.arguments or {})]
    text = ", ".join(f"{key} {old} → {new}" for key, old, new in settings[:5])

    if None not in (before.judge, after.judge) and before.judge != after.judge:
        return Objection("judge_changed", f"has different judges in the runs{text and f' ({text})'}")
    if None in (before.fingerprint, after.fingerprint):
        return Objection("evaluator_unknown", "has no fingerprint in at least one of the runs")
    if not settings and before.fingerprint == after.fingerprint:
        return None

    # `format` is the setting by which `match` reads calls from the text.
    code = "calls_reading_changed" if [key for key, _, _ in settings] == ["format"] else "evaluator_changed"
    return Objection(code, f"differs between the runs ({text or 'its code'})")
