"""A comparison's figures as text: pass rates in percent, differences of pass rates in points.

A kind "binary" is a pass rate, with figures from 0 to 1: 0.887 is `88.7%`, and a difference of −0.047 is `−4.7 points`.
Other kinds are scores with three decimals, without a unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tunecheck._faults import cause_named
from tunecheck._files import DecidedMetric, EarlyStop
from tunecheck._messages import plural
from tunecheck.results import Kind, RunInfo, number_text
from tunecheck.runs._store import given_name, stopped_text
from tunecheck.statistics._results import Estimate

if TYPE_CHECKING:
    from tunecheck.comparison import _comparison as results

# The text of a figure that is missing.
NOTHING = "–"

NOT_SIGNIFICANT = "the interval excludes 0, but the adjusted p-value is not significant"
"""The remark on a difference that is not shown, although its interval excludes 0."""

_JUDGE_REMARKS: Mapping[str, str] = {
    "corrected": "corrected for the judge's errors",
    "uncalibrated": "by an uncalibrated judge",
    "scores": "as judged, not corrected for the judge's errors",
}
"""The remark on a figure by how its judge's errors were treated."""


def value_text(kind: Kind, value: float | None) -> str:
    """Format a figure, as `88.7%` or `0.812`; a missing one as `–`."""
    if value is None or value != value:  # NaN alone differs from itself
        return NOTHING
    return f"{value:.1%}" if kind == "binary" else number_text(float(value))


def difference_text(kind: Kind, value: float | None, *, unit: bool = True) -> str:
    """Format a difference with its sign, as `−4.7 points` or `+0.012`; a missing one as `–`.

    Without `unit`, the word "points" is left out.
    """
    if value is None:
        return NOTHING
    size = _size(kind, abs(value))

    # ±0.0: a difference that is 0 after rounding has no direction.
    sign = "±" if float(size.replace(",", "")) == 0 else "+" if value > 0 else "−"
    return f"{sign}{size}" + (" points" if unit and kind == "binary" else "")


def interval_text(kind: Kind, estimate: Estimate | DecidedMetric) -> str:
    """Format the interval of a difference, as `−8.1 to −1.3`; a missing one as `–`."""
    if estimate.low is None or estimate.high is None:
        return NOTHING
    low, high = (difference_text(kind, bound, unit=False) for bound in (estimate.low, estimate.high))
    return f"{low} to {high}"


def size_text(kind: Kind, value: float | None) -> str:
    """Format the size of a difference without a sign, as `4.7 points` or `0.012`; a missing one as `–`."""
    if value is None:
        return NOTHING
    return _size(kind, value) + (" points" if kind == "binary" else "")


def _size(kind: Kind, value: float) -> str:
    """Format a number of points for a pass rate, any other number with few digits."""
    return f"{100 * value:.1f}" if kind == "binary" else number_text(float(value))


def p_text(value: float | None) -> str:
    """Format a p-value, as `0.025`, `<0.001` or `1` (from 0.995); a missing one as `–`."""
    if value is None:
        return NOTHING
    rounded = f"{value:.3f}" if value < 0.995 else "1"
    return "<0.001" if value < 0.001 else rounded


def headline(metric: results.MetricComparison) -> str:
    """Summarize a metric after its name, as `worse, 88.7% → 84.0%, −4.7 points (−8.1 to −1.3)`."""
    texts = [str(metric.verdict or "not tested"), change_text(metric.kind, metric), judge_text(metric)]
    return ", ".join(filter(None, texts)) + (f"; {metric.why}" if metric.why else "")


def change_text(kind: Kind, compared: results.MetricComparison | results.Part) -> str:
    """Format the change of a metric or a slice, as `88.7% → 84.0%, −4.7 points (−8.1 to −1.3)`."""
    difference = "" if compared.difference.value is None else f", {shown_difference(kind, compared.difference)}"
    return f"{value_text(kind, compared.base.value)} → {value_text(kind, compared.new.value)}{difference}"


def shown_difference(kind: Kind, difference: Estimate, *, unit: bool = True) -> str:
    """Format a difference with its interval if it has one, as `−4.7 points (−8.1 to −1.3)`; `unit`: say "points"."""
    interval = interval_text(kind, difference)
    text = difference_text(kind, difference.value, unit=unit)
    return text if interval == NOTHING else f"{text} ({interval})"


def judge_text(metric: results.MetricComparison) -> str:
    """Say how the judge's errors were treated; empty if no model judges or the judges differ."""
    remark = _JUDGE_REMARKS.get(metric.judge or "", "")
    if metric.raw is None:
        return remark
    base, new = (value_text(metric.kind, rate.value) for rate in (metric.raw.base, metric.raw.new))
    return f"{remark} (uncorrected {base} → {new})"


def margin_text(metric: results.MetricComparison) -> str:
    """Say whether the run is at most the margin worse; empty without a margin, or if it is better."""
    test = metric.non_inferiority
    if test is None or metric.verdict == "better":
        return ""

    size = size_text(metric.kind, test.margin)
    if test.shown is None:
        return f"a loss of at most {size} could not be tested"
    return f"shown to be at most {size} worse" if test.shown else f"NOT shown to be at most {size} worse"


def sentences_of(decision: EarlyStop, resuming: str) -> Iterator[str]:
    """Yield sentences on a run's early decision and its figures; `resuming` is the command for the other rows."""
    if not decision.stopped:
        yield f"not decided early: all {plural(decision.of, 'row')} ran, as in any complete run"
        return

    beyond = f"{plural(decision.asked_beyond, 'more row')} in flight finished, " if decision.asked_beyond else ""
    rest = f"{beyond}{decision.not_asked:,} did not run: journal.jsonl lists them. To run them: {resuming}"
    yield f"{stopped_text(decision)}, in random order (seed {decision.seed}); {rest}"

    for metric in decision.metrics:
        level = f"{100 * decision.confidence:.3g}%"
        base, new = (value_text(metric.kind, side) for side in (metric.base, metric.new))
        interval = f"{interval_text(metric.kind, metric)}: {level} interval, valid for any early stop"
        yield f"{metric.name}: {base} → {new}, {difference_text(metric.kind, metric.difference)} ({interval})"


def shared_text(compared_run: results.RunComparison, base: RunInfo) -> str:
    """Say how many rows the runs share; empty if they share all rows, or if a run stopped early."""
    pairs, stopped = compared_run.pairs, base.stopped or compared_run.new.stopped
    if stopped is not None or not (pairs.only_in_base or pairs.only_in_new):
        return ""

    of_base, of_new = (pairs.paired + len(alone) for alone in (pairs.only_in_base, pairs.only_in_new))
    sizes = f"{base.id} has {plural(of_base, 'row')}, {compared_run.new.id} has {of_new:,}"
    return f"not the same data: {sizes}; only common rows are compared ({pairs.paired:,})"


def short_names(ids: Sequence[str]) -> Mapping[str, str]:
    """Return the names of runs in sentences: the given name if it is unique among them, else the id.

    Example: `val-20260101T120000Z-0a1b2c` is called `val` unless another of the runs is called so, too.
    """
    names = [*map(given_name, ids)]
    return {run_id: name if names.count(name) == 1 else run_id for run_id, name in zip(ids, names, strict=True)}


def decision_lines(
    decision: results.Decision, most: int | None = None, *, chosen: bool = True
) -> Iterator[tuple[str, results.Choice | results.Effect]]:
    """Yield each line with its choice or effect: the answer, the objections (at most `most`), and the next step.

    `chosen` is False for a decision among several that is not the one to act on.

    Example: `Keep a, not b. match: worse, 88.7% → 84.0%, −4.7 points (−8.1 to −1.3)`, then `- keep: bleu is worse:
    0.812 → 0.700`, then `Next: …`.
    """
    yield f"{head_of(decision, chosen=chosen)}. {'; '.join(decision.because)}", decision.decision
    for objection in decision.objections[:most]:
        effect = "" if objection.effect == "none" else f"{objection.effect}: "
        yield f"- {effect}{objection.text}", objection.effect

    hidden = 0 if most is None else len(decision.objections) - most
    if hidden > 0:
        yield f"- and {plural(hidden, 'more objection')}", "none"

    # Silence could also mean that nothing was checked, so the line names what was.
    if chosen and decision.decision == "ship" and not decision.objections:
        yield "No objection found (checked: slices, other metrics, errors, data, evaluators).", "none"

    if decision.next is not None:
        yield f"Next: {decision.next}", "none"


def head_of(decision: results.Decision, *, chosen: bool = True) -> str:
    """Say what to do, as `Keep a, not b`.

    `chosen` is False for a decision that is not the one to act on. It is described, as `b should not replace a`.
    """
    names = short_names([decision.candidate, decision.base])
    heads, choice = _CHOICES if chosen else _OTHER_CHOICES, str(decision.decision)
    # An undecided comparison without an estimate has no pair of verdicts, or different judges: the head says so.
    if choice == "undecided" and decision.difference[1] is None:
        choice = "no rows"
    return heads[choice].format(new=names[decision.candidate], base=names[decision.base])


_CHOICES: Mapping[str, str] = {
    "ship": "Ship {new}",
    "keep": "Keep {base}, not {new}",
    "undecided": "Undecided: keep {base} for now, not {new}",
    "no rows": "Undecided: {base} and {new} have no comparable verdicts",
    "invalid": "Invalid: {new} and {base} were not measured in the same way",
}
_OTHER_CHOICES: Mapping[str, str] = {
    **_CHOICES,
    "ship": "{new} could replace {base}, too, but was not chosen",
    "keep": "{new} should not replace {base}",
    "undecided": "Undecided whether {new} should replace {base}",
}


def needed_text(pairs: int, rows: int | None) -> str:
    """Say about how many more rows would decide if the difference stays as found, to two digits.

    `pairs` is the number of compared rows, `rows` the total that would decide; None if no total would.

    Example: 1,000 pairs, and 4,140 rows that would decide: 3,140 more, given as `about 3,200 more rows like these …`.
    """
    if rows is None:
        return "more rows like these would not decide it; another margin may"

    # Rounded up to two digits.
    more = max(1, rows - pairs)
    unit = 10 ** max(0, len(str(more)) - 2)
    return f"about {plural(-(-more // unit) * unit, 'more row')} like these would decide it if the difference stays"


def regression_text(selection: results.Selection, last: str) -> str:
    """Say that the last run regressed since the best one; empty if that is not shown."""
    best = selection.regressed_since
    if best is None:
        return ""

    ranked = {ranked_run.run: ranked_run for ranked_run in selection.ranking}
    names, kind = short_names([*ranked]), selection.kind
    values = " → ".join(value_text(kind, ranked[run].value.value) for run in (best, last))

    difference = shown_difference(kind, ranked[last].difference)
    return f"{names[last]} regressed since {names[best]}: {selection.metric} {values}, {difference}"


def row_text(change: results.RowChange, kind: Kind) -> str:
    """Describe how a row changed, as `0.2 → 0.9, now: …, no more: …`: both numbers, then problems in one run only.

    The problems are those of serving, else the faults. The numbers are left out if they are equal, or pass and fail.
    """
    before, after = serving_titles(change.base_causes), serving_titles(change.new_causes)
    only_new = [title for title in after if title not in before] or change.come
    only_base = [title for title in before if title not in after] or change.gone

    texts = [f"now: {'; '.join(only_new)}"] if only_new else []
    texts += [f"no more: {'; '.join(only_base)}"] if only_base else []

    if kind != "binary" and change.base != change.new:
        texts.insert(0, f"{value_text(kind, change.base)} → {value_text(kind, change.new)}")
    return ", ".join(texts)


def serving_titles(causes: Sequence[str]) -> list[str]:
    """Return the titles of causes that are problems of serving; evaluators see only their effects."""
    return [cause.title for cause in map(cause_named, causes) if cause.side == "serving"]
