"""The decision whether to ship a candidate: by its primary metric, and by objections from all other data."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from shlex import quote
from statistics import median
from typing import NamedTuple

import numpy

from tunecheck import plugins
from tunecheck._faults import cause_named
from tunecheck._json import object_or_empty
from tunecheck._messages import clean, plural
from tunecheck.comparison._common_metrics import choose_metrics, split_slice
from tunecheck.comparison._comparison import CauseChange, Choice, Decision, Effect, MetricComparison, Objection, Part
from tunecheck.comparison._judged import assumption_of
from tunecheck.comparison._measuring import (
    FEWEST,
    Chosen,
    Mask,
    PairedValues,
    compare_pairs,
    correct_by_holm,
    rows_for_verdict,
    rows_needed,
    shown_verdict,
)
from tunecheck.comparison._pairs import RunPair
from tunecheck.comparison._parts import FEWEST_OF_A_SLICE
from tunecheck.comparison._wording import (
    change_text,
    difference_of,
    headline,
    margin_text,
    needed_text,
    size_text,
    value_text,
)
from tunecheck.results import EvaluatorColumns, RunTable, State
from tunecheck.runs._manifest import changed_settings
from tunecheck.runs._store import Run, endpoint_of
from tunecheck.statistics._margins import margin_result, refutes, rows_to_decide
from tunecheck.statistics._results import Estimate, normal_quantile

EFFECTS: tuple[Effect, ...] = ("invalid", "keep", "undecided", "none")
"""All effects, the strongest first."""

_IRRELEVANT = 0.02
"""Differences within this share of the metric's range (2 points of a pass rate) are irrelevant."""

_MORE = 1.1
"""Cost and latency are objections if they grew by more than a tenth."""

_DRAWS = 2_000
_NOT_COMPARABLE = frozenset({"evaluator_changed", "judge_changed", "calls_reading_changed"})
_NOT_KNOWN = frozenset({"missing_verdicts", "errors", "serving_changed"})
_BY_MARGIN: Mapping[str, Choice] = {"shown": "ship", "refuted": "keep", "open": "undecided"}


def decide_pair(
    pair: RunPair,
    metric: MetricComparison,
    parts: Sequence[Part],
    causes: Sequence[CauseChange],
    names: Mapping[str, str],
) -> Decision:
    """Decide whether the new run of a pair replaces the base, by its primary metric with its verdict.

    `parts` are the metric's slices and `causes` the changes of causes. `names` are the runs' names in sentences.
    """
    evidence = _Evidence(pair, metric, parts, causes, names)
    objections = sorted(evidence.objections(), key=lambda objection: EFFECTS.index(objection.effect))
    strongest = objections[0].effect if objections else "none"
    choice: Choice = evidence.choice if strongest == "none" else strongest
    if choice == "invalid":  # runs that do not measure the same thing cannot be called better or worse
        because = [f"{clean(metric.name, 60)}: {change_text(metric)}"]
    else:
        because = [f"{clean(metric.name, 60)}: {headline(metric)}"]
        because += filter(None, [margin_text(metric), evidence.assumed])
    if choice == "keep" and strongest == "none" and metric.verdict != "worse" and pair.settings.margin is None:
        size = size_text(metric.kind, evidence.relevant)
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
        next=evidence.next_step(choice, objections),
    )


@dataclass(frozen=True)
class _Evidence:
    """A pair of runs with the data for and against the new run."""

    pair: RunPair
    metric: MetricComparison
    parts: Sequence[Part]
    causes: Sequence[CauseChange]
    names: Mapping[str, str]

    @property
    def _base(self) -> str:
        return self.names[self.pair.base.info.id]

    @property
    def _new(self) -> str:
        return self.names[self.pair.new.info.id]

    @cached_property
    def _sides(self) -> PairedValues:
        return self.pair.sides(self.metric.key)

    @cached_property
    def choice(self) -> Choice:
        """The choice by the primary metric, before objections."""
        return self._choice_of(self.metric.difference, self.metric.p_adjusted)

    def _choice_of(self, difference: Estimate, p_adjusted: float | None) -> Choice:
        """Return the choice for a difference: by the margin if there is one, else by verdict and relevance."""
        margin, up = self.pair.settings.margin, self.metric.higher_is_better
        if margin is not None:
            return _BY_MARGIN[margin_result(difference, margin, higher_is_better=up)]
        verdict = shown_verdict(difference, p_adjusted, higher_is_better=up)
        if verdict is not None:
            return "ship" if verdict == "better" else "keep"
        relevant = self.relevant
        if relevant is None or difference.low is None or difference.high is None:
            return "undecided"
        return "keep" if -relevant < difference.low and difference.high < relevant else "undecided"

    @property
    def _correction(self) -> float:
        """The factor by which the correction for several runs multiplied the p-value."""
        metric = self.metric
        return metric.p_adjusted / metric.p_value if metric.p_value and metric.p_adjusted else 1.0

    @property
    def relevant(self) -> float | None:
        """The size below which a difference is irrelevant; None if the metric has no range."""
        bounds = self._sides.bounds
        return None if bounds is None else _IRRELEVANT * (bounds[1] - bounds[0])

    def objections(self) -> Iterator[Objection]:
        """Yield all objections to the new run."""
        for rule in plugins.objection_rules():
            yield from rule(self.pair.base.info, self.pair.new.info)
        yield from self._changed_evaluators()
        yield from self._judges()
        yield from self._call_reading()
        yield from self._losses()
        yield from self._guards()
        yield from self._unknown_verdicts()
        yield from self._serving_problems()
        yield from self._data()
        yield from self._cost_and_latency()

    # -- evaluators and judges

    def _changed_evaluators(self) -> Iterator[Objection]:
        """Yield objections to evaluators and judges that differ between the runs."""
        base, new, own = self.pair.base.evaluators, self.pair.new.evaluators, self.metric.evaluator
        changes = {name: _evaluator_change(base[name], new[name]) for name in base if name in new}
        own_change = changes.pop(own)
        if own_change is not None:
            yield self._change_objection(own_change)
        elif None in (base[own].fingerprint, new[own].fingerprint):
            yield Objection("evaluator_unknown", f"{clean(own, 60)}: a run does not record its evaluator")
        others = [f"{clean(name, 60)} ({clean(change.text, 200)})" for name, change in changes.items() if change]
        if others:
            text = f"other evaluators are not the same in both runs: {', '.join(others)}"
            yield Objection("evaluator_changed", text)

    def _judges(self) -> Iterator[Objection]:
        """Yield objections to an uncalibrated judge, and to a judge that errs more often on one of the runs."""
        if self.metric.judge == "uncalibrated":
            yield Objection("judge_uncalibrated", f"{clean(self.metric.name, 60)}: the judge is uncalibrated")
        text, is_refuted = self._assumption
        if is_refuted:
            yield Objection("judge_errors_differ", text)

    @property
    def assumed(self) -> str:
        """The assumption of a corrected figure about its judge; empty if labels refute it, which is an objection."""
        text, is_refuted = self._assumption
        return "" if is_refuted else text

    @cached_property
    def _assumption(self) -> tuple[str, bool]:
        """What a corrected figure assumes about its judge ("" if not corrected), and whether labels refute it."""
        if self.metric.judge != "corrected":
            return "", False
        return assumption_of(self.metric, self.pair.base, self.pair.new)

    def _call_reading(self) -> Iterator[Objection]:
        """Yield objections to answers with calls that the server did not parse, or that only one run counts."""
        base, new = self.pair.base.info.calls, self.pair.new.info.calls
        for name, calls in ((self._base, base), (self._new, new)):
            if calls is not None:
                yield Objection("calls_unparsed", f"{name}: {next(calls.sentences())}")
        if base is not None and new is not None and base.reading != new.reading:
            text = "calls in the text count in one run only: score both with tunecheck score RUN --calls strict"
            yield Objection("calls_reading_changed", text, "undecided")

    def _change_objection(self, change: _EvaluatorChange) -> Objection:
        """Return the objection to a changed evaluator of the primary metric, with its effect."""
        effect: Effect = "invalid" if change.code == "evaluator_changed" else "undecided"
        if self.pair.settings.allow_changed_evaluator and change.code != "judge_changed":
            effect = "none"
        own = clean(self.metric.evaluator, 60)
        text = f"{own} is not the same in both runs ({clean(change.text, 300)}): its verdicts are not comparable"
        return Objection(change.code, text, effect)

    # -- metrics, slices and causes that got worse

    def _losses(self) -> Iterator[Objection]:
        """Yield objections to other metrics and slices that got worse (corrected together), and to causes that grew."""
        pair, metric = self.pair, self.metric
        others = [pair.measured(chosen) for chosen in self._secondary()]
        slices = [part for part in self.parts if part.difference.n >= FEWEST_OF_A_SLICE]
        tested: list[MetricComparison | Part] = [*others, *slices]
        adjusted = iter(correct_by_holm([(test.p_value, test.moved) for test in tested]))
        for other, p_adjusted in zip(others, adjusted, strict=False):  # the p-values of slices follow
            if self._is_worse(other.difference, p_adjusted, up=other.higher_is_better):
                text = difference_of(other.kind, other.base, other.new, other.difference)
                yield Objection("metric_worse", f"{clean(other.name, 60)} is worse: {text}", "keep")
        for part, p_adjusted in zip(slices, adjusted, strict=True):
            if self._is_worse(part.difference, p_adjusted, up=metric.higher_is_better):
                text = difference_of(metric.kind, part.base, part.new, part.difference)
                where = f"{clean(part.column, 40)}={clean(part.value, 40)}"
                name = clean(split_slice(metric.name)[0], 60)
                yield Objection("slice_worse", f"{name}[{where}] is worse: {text}", "keep")
        alpha = 1 - pair.settings.confidence
        for cause in self.causes:
            if cause.new > cause.base and cause.p_adjusted < alpha:
                yield Objection("cause_grew", f"{cause.title}: {plural(cause.new, 'row')}, {cause.base:,} in the base")

    def _secondary(self) -> list[Chosen]:
        """Return all other tested metrics: each evaluator's main metric, and those that are named."""
        pair = self.pair
        by_key: dict[str, Chosen] = {}
        for names in (None, pair.settings.named):
            metrics, _ = choose_metrics(pair.base, pair.new, names)
            by_key |= {metric.key: metric for metric in metrics if metric.tested}
        by_key.pop(self.metric.key, None)
        return [*by_key.values()]

    def _is_worse(self, difference: Estimate, p_adjusted: float | None, *, up: bool) -> bool:
        """Return whether a loss is shown, with a margin a loss of at least the margin; `up`: higher is better."""
        margin = self.pair.settings.margin or 0.0
        is_shown = shown_verdict(difference, p_adjusted, higher_is_better=up) == "worse"
        return is_shown and refutes(difference, margin, higher_is_better=up)

    def _guards(self) -> Iterator[Objection]:
        """Yield objections to guards that are violated, or that these rows do not decide."""
        for name, (metric, result) in self._guarded.items():
            size = size_text(metric.kind, self.pair.settings.guards[name])
            if result == "refuted":
                yield Objection("metric_worse", f"{clean(name, 100)} is more than {size} worse (guard)", "keep")
            elif result == "open":
                figures = difference_of(metric.kind, metric.base, metric.new, metric.difference)
                text = f"{clean(name, 100)} is not shown to be at most {size} worse (guard): {figures}"
                yield Objection("guard_open", text, "undecided")

    @cached_property
    def _guarded(self) -> Mapping[str, tuple[MetricComparison, str]]:
        """Each guard's metric, and whether the guard is shown to hold, refuted or open."""
        results = {}
        for name, margin in self.pair.settings.guards.items():
            metric = self.pair.measured(choose_metrics(self.pair.base, self.pair.new, [name])[0][0])
            up = metric.higher_is_better
            results[name] = metric, margin_result(metric.difference, margin, higher_is_better=up)
        return results

    # -- rows with an unknown verdict

    def _unknown_verdicts(self) -> Iterator[Objection]:
        """Yield objections to rows without a verdict in one run, and to rows that failed in both."""
        no_base, no_new = self._without_number
        lost, gained = int((no_new & ~no_base).sum()), int((no_base & ~no_new).sum())
        base, new = self._unknown
        failed_in_both = int((base & new).sum())
        effect = self._effect_of(base, new)
        if lost or gained:
            where = f"in one run only: {gained:,} in {self._new}, {lost:,} in {self._base}"
            text = f"rows with a verdict on {clean(self.metric.name, 60)} {where}; {self._range_text(base, new)}"
            yield Objection("missing_verdicts", text, effect)
        if failed_in_both:
            yield Objection("errors", f"{plural(failed_in_both, 'row')} failed in both runs", effect)

    def _serving_problems(self) -> Iterator[Objection]:
        """Yield an objection if rows failed because of serving in one run only: their verdicts count as unknown."""
        faults = self._serving_faults()
        if faults is None:
            return
        _, best = self._worst_and_best
        # A row that got the best score all the same did not fail.
        base, new = faults[0] & (self._sides.base != best), faults[1] & (self._sides.new != best)
        if ((base ^ new) & self._sides.both).any():
            unknown_base, unknown_new = self._unknown
            effect = self._effect_of(unknown_base | base & ~new, unknown_new | new & ~base)
            counts = f"{new.sum():,} in {self._new}, {base.sum():,} in {self._base}"
            yield Objection("serving_changed", f"rows that failed because of serving: {counts}", effect)

    @cached_property
    def _without_number(self) -> tuple[Mask, Mask]:
        """For the base and for the new run, a mask of the pairs in which the run has no number."""
        inside = self.pair.inside(self.metric.key)
        return numpy.isnan(self._sides.base) & inside, numpy.isnan(self._sides.new) & inside

    @cached_property
    def _unknown(self) -> tuple[Mask, Mask]:
        """A mask of the pairs with an unknown verdict, for each run.

        Without a number in either run, a row counts only if its evaluator failed; otherwise it does not apply.
        """
        base, new = self._without_number
        base_failed, new_failed = (self._errors(table, items) for table, items in self._items)
        return base & (~new | base_failed), new & (~base | new_failed)

    @property
    def _items(self) -> tuple[tuple[RunTable, array[int]], tuple[RunTable, array[int]]]:
        """Each run with its items in the order of the pairs."""
        pairing = self.pair.pairing
        return (self.pair.base, pairing.base), (self.pair.new, pairing.new)

    def _errors(self, table: RunTable, items: array[int]) -> Mask:
        """Return a mask of these items: True where the primary metric's evaluator failed on a trial."""
        states = numpy.frombuffer(bytes(table.evaluators[self.metric.evaluator].states), dtype=numpy.uint8)
        failed: Mask = states == State.ERROR
        if table.items.of_row is not None:
            rows = numpy.array(table.items.of_row, dtype=numpy.int64)
            failed = numpy.bincount(rows, weights=failed, minlength=len(table.items.ids)) > 0
        return failed[items]

    def _serving_faults(self) -> tuple[Mask, Mask] | None:
        """Return a mask of the pairs that failed because of serving, for each run; None if a run has no causes."""
        masks = []
        for table, items in self._items:
            causes = table.causes
            if causes is None:
                return None
            codes = {code for own in {*causes.values()} for code in own if cause_named(code).side == "serving"}
            serving = numpy.zeros(len(table.items.ids), dtype=bool)
            serving[[item for item, own in causes.items() if not codes.isdisjoint(own)]] = True
            masks.append(serving[items])
        return masks[0], masks[1]

    @cached_property
    def _worst_and_best(self) -> tuple[float, float]:
        """The worst and the best value of the metric: by its declared range, else among the values of both runs."""
        values = numpy.concatenate([self._sides.base, self._sides.new])
        low, high = self._sides.bounds or (float(numpy.nanmin(values)), float(numpy.nanmax(values)))
        return (low, high) if self.metric.higher_is_better else (high, low)

    def _fill(self, base: Mask, new: Mask, *, favours_new: bool) -> PairedValues:
        """Return the metric with the best or worst value on the masked pairs, in the new run's favour or against it."""
        worst, best = self._worst_and_best
        base_value, new_value = (worst, best) if favours_new else (best, worst)
        sides = self._sides
        return replace(
            sides, base=numpy.where(base, base_value, sides.base), new=numpy.where(new, new_value, sides.new)
        )

    def _effect_of(self, base: Mask, new: Mask) -> Effect:
        """Return `undecided` if the best or worst possible verdicts on the masked rows change the choice, else `none`.

        `base` and `new` mask the rows with an unknown verdict in each run.
        """
        if not (base | new).any():
            return "none"
        metric = self.metric
        choice = self._choice_of(metric.difference if metric.raw is None else metric.raw.difference, metric.p_adjusted)
        for favours_new in (True, False):
            sides = self._fill(base, new, favours_new=favours_new)
            filled = compare_pairs(sides, sides.both, self.pair.settings, most_draws=_DRAWS)
            p_adjusted = None if filled.p_value is None else min(1.0, self._correction * filled.p_value)
            if self._choice_of(filled.difference, p_adjusted) != choice:
                return "undecided"
        return "none"

    def _range_text(self, base: Mask, new: Mask) -> str:
        """Say between which values the new run's figure lies, whatever the verdicts of the rows in the masks."""
        filled = [self._fill(base, new, favours_new=favours_new) for favours_new in (False, True)]
        ends = sorted(float(sides.new[sides.both].mean()) for sides in filled)
        low, high = (value_text(self.metric.kind, end) for end in ends)
        return f"with all verdicts, {self._new} would be between {low} and {high}"

    # -- data, cost and latency

    def _data(self) -> Iterator[Objection]:
        """Yield objections to too few rows, repeated rows and simulated answers."""
        pair, difference = self.pair, self.metric.difference
        units, what = (difference.n, "row") if difference.clusters is None else (difference.clusters, "cluster")
        if units < FEWEST or self.metric.verdict == "too little data":
            needed = rows_for_verdict(self.metric, self._sides.bounds)
            enough = f", which needs at least about {needed:,} rows" if needed > difference.n else ""
            verb = "is" if units == 1 else "are"
            yield Objection("few_rows", f"{plural(units, what)} {verb} too few for a verdict{enough}", "undecided")
        contents = pair.base.items.contents
        repeated = len(contents) - len(set(contents))
        if repeated and all(contents) and pair.clusters is None:
            yield Objection("repeated_rows", f"{plural(repeated, 'row')} repeat another row's content")
        if pair.base.info.simulated or pair.new.info.simulated:
            yield Objection("simulated", "answers are simulated: they say nothing about a model")

    def _cost_and_latency(self) -> Iterator[Objection]:
        """Yield objections to a cost per row or a median latency that grew by more than a tenth."""
        base, new = self.pair.base, self.pair.new
        (before, unit), (after, other) = _cost(base), _cost(new)
        if before and after and unit == other and after > _MORE * before:
            yield Objection("cost", f"a row costs {after:.3g} {unit}, {before:.3g} in {self._base}")
        slow, slower = (median(table.latencies_ms or [0.0]) / 1_000 for table in (base, new))
        if slow and slower > _MORE * slow:
            yield Objection("latency", f"the median answer takes {slower:.3g} s, {slow:.3g} s in {self._base}")

    # -- the next step

    def next_step(self, choice: Choice, objections: Sequence[Objection]) -> str | None:
        """Return the step that would settle an open decision; None if it is settled."""
        if choice not in ("undecided", "invalid"):
            return None
        codes = {each.code for each in objections if each.effect == choice}
        base, new = self.pair.base.info.id, self.pair.new.info.id
        if codes & _NOT_COMPARABLE:
            score = f"tunecheck score {base} --evaluators {self.metric.evaluator}"
            return f"`{score}`, and the same for {new}, scores both runs alike"
        if codes & _NOT_KNOWN:
            if "serving_changed" in codes:
                runs = [table.opened.run for table in (self.pair.base, self.pair.new)]
                names = [None if run is None else endpoint_of(run.manifest()) for run in runs]
                checks = [f"`tunecheck check {quote(name)}`" for name in dict.fromkeys(names) if name]
                by = f" ({', '.join(checks)})" if checks else ""
                return f"mend how the endpoints are served{by}, then evaluate again"
            return f"get a verdict for every row of {new}, then compare again"
        if codes == {"guard_open"}:
            name, metric = next((name, metric) for name, (metric, result) in self._guarded.items() if result == "open")
            rows = rows_needed(metric, self.pair.settings.guards[name])
            return f"{clean(name, 100)}: {needed_text(metric.difference.n, rows)}"
        return needed_text(self.metric.difference.n, self._rows_needed())

    def _rows_needed(self) -> int | None:
        """Estimate how many rows would decide; None if no number of rows would.

        If there is too little data for a verdict, the result is at least the number of rows that a verdict needs.
        """
        estimates = (self._rows_to_show_difference(), self._rows_to_show_irrelevance())
        needed = min((rows for rows in estimates if rows is not None), default=None)
        if self.metric.verdict == "too little data":
            return max(needed or 0, rows_for_verdict(self.metric, self._sides.bounds))
        return needed

    def _rows_to_show_difference(self) -> int | None:
        """Return about how many rows would show the difference, or decide the margin; None if no number would."""
        margin, confidence = self.pair.settings.margin, self.pair.settings.confidence
        rows = rows_needed(self.metric, margin or 0.0)
        if rows is None or margin is not None:
            return rows
        # The correction for several runs makes the test stricter, so it needs more rows.
        stricter = 1 - (1 - confidence) / self._correction
        return math.ceil(rows * (normal_quantile(stricter) / normal_quantile(confidence)) ** 2)

    def _rows_to_show_irrelevance(self) -> int | None:
        """Return about how many rows would show that the difference is too small to matter; None if no number would."""
        difference, relevant = self.metric.difference, self.relevant
        if self.pair.settings.margin is not None or relevant is None or abs(difference.value or 0.0) >= relevant:
            return None
        # The whole interval must lie within ± the relevant size.
        lower, upper = (rows_to_decide(difference, relevant, higher_is_better=up) for up in (True, False))
        return None if lower is None or upper is None else max(lower, upper)


def _cost(table: RunTable) -> tuple[float | None, object]:
    """Return the target's cost per row and the currency; None for both if the cost is unknown."""
    run = Run(Path(table.info.place))
    if table.info.source != "run" or not run.metrics_file.is_file():
        return None, None
    spending = object_or_empty(object_or_empty(run.metrics().get("usage")).get("target"))
    cost = spending.get("cost")
    return (cost / table.info.rows, spending.get("currency")) if isinstance(cost, (int, float)) else (None, None)


class _EvaluatorChange(NamedTuple):
    """A difference of an evaluator between two runs: the code of its objection, and what has changed."""

    code: str
    text: str


def _evaluator_change(before: EvaluatorColumns, after: EvaluatorColumns) -> _EvaluatorChange | None:
    """Return how an evaluator differs between two runs: judge, settings or code.

    Return None if the evaluators are equal, or a run does not record its evaluator.
    """
    settings = [*changed_settings(before.arguments, after.arguments)]
    text = ", ".join(f"{key} {was} → {now}" for key, was, now in settings[:5])
    if None not in (before.judge, after.judge) and before.judge != after.judge:
        return _EvaluatorChange("judge_changed", f"each run has a judge of its own; {text}" if text else "its judge")
    if None in (before.fingerprint, after.fingerprint):
        return None
    if [key for key, _, _ in settings] == ["format"]:
        return _EvaluatorChange("calls_reading_changed", text)
    if settings or before.fingerprint != after.fingerprint:
        return _EvaluatorChange("evaluator_changed", text or "its code")
    return None
