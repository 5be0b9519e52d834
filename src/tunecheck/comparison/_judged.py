"""Metrics of LLM judges: pass rates corrected for the judge's errors, and runs with different judges."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from tunecheck._files import JudgeCalibration
from tunecheck._messages import clean, plural
from tunecheck.comparison._common_metrics import split_slice
from tunecheck.comparison._comparison import MetricComparison, RawFigures
from tunecheck.comparison._wording import p_text
from tunecheck.pipeline._finished_rows import RESULT, WORDS
from tunecheck.pipeline._journal_reader import recorded_verdicts
from tunecheck.results import PASS_RATE, RunTable, read_run
from tunecheck.runs._store import Run, find_calibration
from tunecheck.statistics._agreement import Agreement
from tunecheck.statistics._corrected import (
    LabelCounts,
    corrected_difference,
    errors_alike,
    prediction_powered,
    rogan_gladen,
)
from tunecheck.statistics._decisions import non_inferiority
from tunecheck.statistics._distributions import effective_rows
from tunecheck.statistics._estimates import RESAMPLES, estimate_mean, estimate_proportion
from tunecheck.statistics._results import Estimate, NonInferiority, Result

_FEWEST_OF_THE_RUN = 30
"""With this many labels or more among a run's own rows, only these labels correct its rate."""
_ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Correction(Result):
    """A judge's raw pass rate and the rate corrected for its errors, None if the judge is uncalibrated.

    `labels` is the number of labels used. `remark` is the reason why a calibration cannot correct the rate.
    """

    raw: Estimate | None = None
    corrected: Estimate | None = None
    labels: int = 0
    remark: str | None = None

    corrected_label: ClassVar[str] = "corrected for judge errors"

    @property
    def raw_label(self) -> str:
        """The label of the raw rate in outputs."""
        return "as judged, uncalibrated" if self.corrected is None else "as judged"


def corrections(run: Run) -> dict[str, Correction]:
    """Return the correction of each judge by name, from the calibrations in the run's results folder.

    A judge without a calibration gets a Correction without a corrected rate.

    Raises:
        ConfigurationError, DataError: the run, or a calibration, cannot be read.
    """
    judges = {name: entry for name, entry in run.manifest().evaluators.items() if entry.judge is not None}
    kept = {name: find_calibration(run.folder.parent, entry.judge) for name, entry in judges.items()}
    if not any(kept.values()):
        return dict.fromkeys(kept, Correction())
    table = read_run(run, run.folder.parent)
    found = {}
    for name, calibration in kept.items():
        raw = rate_of(table, f"{name}.{PASS_RATE}")
        found[name] = Correction(raw)
        if calibration is not None and raw is not None and raw.value is not None:
            own_labels = LabelCounts.of(_labelled(run, name, judges[name].primary or name, calibration).values())
            found[name] = _correction(raw, raw.value, _counts(calibration), own_labels)
    return found


def _correction(raw: Estimate, rate: float, labels: LabelCounts, own: LabelCounts) -> Correction:
    """Return a rate's correction: by 30 or more labels of the run's `own` rows, else by all `labels` of the judge."""
    if own.total >= _FEWEST_OF_THE_RUN:
        worth = _worth(raw) / raw.n
        unlabelled, passed = raw.n - own.total, rate * raw.n - own.pass_pass - own.fail_pass
        corrected = prediction_powered(passed * worth, unlabelled * worth, own, raw.confidence)
        return Correction(raw, corrected, own.total)
    if labels.problem is not None:
        return Correction(raw, None, labels.total, labels.problem)
    return Correction(raw, corrected_rate(raw, labels), labels.total)


def _labelled(run: Run, name: str, metric: str, calibration: JudgeCalibration) -> dict[str, tuple[str, str]]:
    """Return the human label and the judge's verdict of this run's labelled rows, by the hash of the judge's inputs."""
    verdicts = recorded_verdicts(run.journal, name).values()
    said = {inputs: WORDS.get(str(output.get(f"{metric}{RESULT}"))) for inputs, output in verdicts}
    labels = {each.inputs: each.label for each in calibration.labels if each.inputs is not None}
    pairs = ((inputs, label, said.get(inputs)) for inputs, label in labels.items())
    return {inputs: (label, word) for inputs, label, word in pairs if word in ("pass", "fail")}


def _counts(calibration: JudgeCalibration) -> LabelCounts:
    return LabelCounts.of((each.label, each.verdict) for each in calibration.labels)


def rate_of(
    table: RunTable, name: str | None, rows: Iterable[int] | None = None, *, resamples: int | None = None
) -> Estimate | None:
    """Return a run's pass rate or mean score over some or all rows; None if it has no such column."""
    column = table.columns.get(name or "")
    if column is None:
        return None
    numbers = column.values
    # Rows with a number: NaN alone differs from itself.
    there = [row for row in (range(len(numbers)) if rows is None else rows) if numbers[row] == numbers[row]]
    values = [numbers[row] for row in there]
    of_row = table.items.of_row
    trials = None if of_row is None else [of_row[row] for row in there]
    if column.passes == column.name:
        return estimate_proportion(values, trials)
    return estimate_mean(values, trials, bounds=column.bounds, resamples=resamples or RESAMPLES)


def _worth(rate: Estimate) -> float:
    """Return how many independent rows the rate is worth: fewer than it has if they come in clusters."""
    if rate.clusters is None or rate.value is None or rate.standard_error is None:
        return rate.n
    plain = math.sqrt(rate.value * (1 - rate.value) / rate.n)
    return effective_rows(rate.n, rate.clusters, plain, rate.standard_error)


# -- two runs


def correct_judge_errors(metric: MetricComparison, base: RunTable, new: RunTable) -> MetricComparison:
    """Correct a metric for its judge's known errors.

    A metric of an uncalibrated judge is only marked as `uncalibrated`. A mean, or a slice, of a calibrated judge is
    marked as `scores`, because labels of all rows do not correct it. If the runs have different judges, the difference
    is dropped.
    """
    before, after = (table.evaluators[metric.evaluator].judge for table in (base, new))
    if before is None or after is None:
        return metric
    if before != after:
        return _refuse(metric, base, new)
    labels = labels_of(metric.evaluator, base, new)
    if labels is None:
        return replace(metric, judge="uncalibrated")
    _, where = split_slice(metric.key)  # labels of all rows say nothing about a judge's errors on a slice
    is_corrected = metric.kind == "binary" and where is None
    return _correct(metric, labels) if is_corrected else replace(metric, judge="scores")


def labels_of(evaluator: str, base: RunTable, new: RunTable) -> LabelCounts | None:
    """Return the label counts that correct the judge of both runs; None if it has no usable calibration."""
    calibration = _shared_calibration(evaluator, base, new)
    labels = None if calibration is None else _counts(calibration)
    return None if labels is None or labels.problem is not None else labels


def assumption_of(metric: MetricComparison, base: RunTable, new: RunTable) -> tuple[str, bool]:
    """Return a sentence on the assumption of a corrected difference, and whether labels refute the assumption.

    The assumption is that the judge errs as often on either run. Labels of judge inputs that are equal in both runs are
    left out, because they cannot show a difference.
    """
    name = metric.evaluator
    start = f"{clean(name, 60)}: the correction assumes that the judge errs as often on either run"
    calibration = _shared_calibration(name, base, new)
    runs = [Run(Path(table.info.place)) for table in (base, new)]
    before = after = LabelCounts.of(())
    if calibration is not None and all(run.journal.is_file() for run in runs):
        primaries = (run.manifest().evaluators[name].primary or name for run in runs)
        one, two = (_labelled(run, name, own, calibration) for run, own in zip(runs, primaries, strict=True))
        before = LabelCounts.of(pair for inputs, pair in one.items() if inputs not in two)
        after = LabelCounts.of(pair for inputs, pair in two.items() if inputs not in one)
    p_value = errors_alike(before, after)
    if p_value is None:
        return f"{start}; to test this, label answers of each run that the other run did not give", False
    against = p_value < _ALPHA
    shown = "show that this is false" if against else "show no difference"
    labels = f"{plural(before.total, 'labelled answer')} of the base and {after.total:,} of the new run"
    return f"{start}; {labels} {shown} (p {p_text(p_value)})", against


def _shared_calibration(evaluator: str, base: RunTable, new: RunTable) -> JudgeCalibration | None:
    """Return the saved calibration of the judge of both runs, or None."""
    judge = new.evaluators[evaluator].judge
    return _calibration(new, judge) or _calibration(base, judge)


def _calibration(table: RunTable, judge: str | None) -> JudgeCalibration | None:
    """Return the judge's calibration in the run's results folder, or None."""
    return find_calibration(Path(table.info.place).parent, judge) if table.info.source == "run" else None


def _correct(metric: MetricComparison, labels: LabelCounts) -> MetricComparison:
    """Correct both rates and their difference by the judge's error rates on labelled rows.

    The test of no difference needs no correction and stays.
    """
    difference = corrected_difference(metric.difference, labels)
    held, smallest, up = metric.non_inferiority, metric.smallest_difference, metric.higher_is_better
    if held is not None:
        held = non_inferiority(difference, held.margin, higher_is_better=up)
    if smallest is not None and smallest.value is not None:
        smallest = replace(smallest, value=min(1.0, smallest.value / labels.gain))
    return replace(
        metric,
        base=corrected_rate(metric.base, labels),
        new=corrected_rate(metric.new, labels),
        difference=difference,
        non_inferiority=held,
        smallest_difference=smallest,
        judge="corrected",
        raw=RawFigures(metric.base, metric.new, metric.difference),
    )


def corrected_rate(rate: Estimate, labels: LabelCounts) -> Estimate:
    """Return the pass rate corrected for the judge's errors, as measured on other rows."""
    rows = _worth(rate)
    found = rogan_gladen((rate.value or 0.0) * rows, rows, labels, rate.confidence)
    return replace(found, n=rate.n, clusters=rate.clusters)


def _refuse(metric: MetricComparison, base: RunTable, new: RunTable) -> MetricComparison:
    """Return the metric with both rates but no difference, because the runs have different judges."""
    held, none = metric.non_inferiority, metric.difference
    why = "each run has a judge of its own"
    return replace(
        metric,
        judge="different",
        difference=Estimate(None, None, None, none.n, none.confidence, "none", clusters=none.clusters, remark=why),
        p_value=None,
        p_exact=None,
        p_mid=None,
        smallest_difference=None,
        non_inferiority=None if held is None else NonInferiority(None, None, held.margin, held.alpha, why),
        verdict="judges differ" if metric.tested else None,
        why=_how_they_differ(metric.evaluator, base, new) if metric.tested else "",
    )


def _how_they_differ(evaluator: str, base: RunTable, new: RunTable) -> str:
    """Say how often two runs' judges agree on labelled rows, or how to find out."""
    kept = [_calibration(table, table.evaluators[evaluator].judge) for table in (base, new)]
    remedy = "score both runs with one judge: `tunecheck score RUN --judge F`"
    if kept[0] is None or kept[1] is None:
        return f"{remedy}; `judge calibrate --save` of both on the same labels shows how the judges differ"
    said = [{each.row_fingerprint: each.verdict for each in one.labels} for one in kept if one is not None]
    both = Agreement.of((said[0][row], said[1][row]) for row in said[0] if row in said[1])
    if not both.total:
        return f"{remedy}; they have been calibrated on different labels"
    kappa = both.kappa()
    interval = "" if kappa.low is None or kappa.high is None else f", {kappa.low:.2f} to {kappa.high:.2f}"
    value = "not defined" if kappa.value is None else f"{kappa.value:.2f}{interval}"
    share = f"{both.agreed / both.total:.1%}"
    return f"the judges agree on {share} of {plural(both.total, 'labelled row')} (kappa {value}); {remedy}"
