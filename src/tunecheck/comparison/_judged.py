"""Metrics of LLM judges: pass rates corrected for the judge's errors, and runs with different judges.

One run's pass rate (`_choose_correction`), by the first that applies:

  30 labels or more of the run's own rows   `prediction_powered`, from these labels
  a usable calibration                      `rogan_gladen`, from all labels
  all others                                not corrected

Two runs' metric (`correct_judge_errors`), by the first that applies; the first column is `MetricComparison.judge`:

  None           a run has no judge
  different      the judges differ: no difference and no verdict on it
  uncalibrated   there is no usable calibration
  corrected      a pass rate over all rows: both rates and the difference are corrected
  scores         means and slices: as judged
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from msgspec.structs import replace

from tunecheck._files import JudgeCalibration
from tunecheck._messages import clean, plural
from tunecheck.comparison._comparison import MetricComparison, RawFigures
from tunecheck.comparison._measuring import split_slice
from tunecheck.comparison._wording import p_text
from tunecheck.pipeline._finished_rows import RESULT, WORDS
from tunecheck.pipeline._journal_reader import recorded_verdicts
from tunecheck.results import PASS_RATE, RunTable, number_text, read_run
from tunecheck.runs._store import Run, find_calibration
from tunecheck.statistics import LabelCounts, corrected_difference, effective_rows, errors_alike, non_inferiority
from tunecheck.statistics._agreement import Agreement
from tunecheck.statistics._corrected import prediction_powered, rogan_gladen
from tunecheck.statistics._estimates import RESAMPLES, estimate_mean, estimate_proportion
from tunecheck.statistics._results import Estimate, NonInferiority, Result

_FEWEST_OF_THE_RUN = 30
"""With this many labels or more among a run's own rows, only these labels correct its rate."""
_ALPHA = 0.05  # of the test whether the judge errs equally often on two runs


class Correction(Result, frozen=True):
    """A judge's raw pass rate, and the rate corrected for the judge's errors; None if it cannot be corrected.

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

    A judge without a calibration gets a Correction without a corrected rate. If no judge has a calibration, the raw
    rates are left out, too.

    Raises:
        ConfigurationError, DataError: the run, or a calibration, cannot be read.
    """
    judges = {name: entry for name, entry in run.manifest().evaluators.items() if entry.judge is not None}
    calibrations = {name: find_calibration(run.folder.parent, entry.judge) for name, entry in judges.items()}

    # All rows are read only if a calibration may correct a rate.
    if not any(calibrations.values()):
        return dict.fromkeys(calibrations, Correction())
    table = read_run(run, run.folder.parent)

    found = {}
    for name, calibration in calibrations.items():
        raw = rate_of(table, f"{name}.{PASS_RATE}")
        found[name] = Correction(raw)
        if calibration is not None and raw is not None and raw.value is not None:
            # Labels of a calibration may be of this run's own answers: equal judge inputs have equal hashes.
            own_labels = LabelCounts.of(_labelled_rows(run, name, judges[name].primary or name, calibration).values())
            found[name] = _choose_correction(raw, raw.value, _label_counts(calibration), own_labels)

    return found


def _choose_correction(raw: Estimate, rate: float, labels: LabelCounts, own: LabelCounts) -> Correction:
    """Return a rate's correction by the labels of the run's `own` rows if there are 30, else by all `labels`.

    `rate` is the value of `raw`.
    """
    if own.total >= _FEWEST_OF_THE_RUN:
        # Dependent rows are worth fewer independent ones: counts shrink by the same factor.
        weight = _effective_rows(raw) / raw.n
        unlabelled, passed = raw.n - own.total, rate * raw.n - own.pass_pass - own.fail_pass

        # `unlabelled` and `passed` count the rows without a label and those of them that the judge passed.
        corrected = prediction_powered(passed * weight, unlabelled * weight, own, raw.confidence)
        return Correction(raw, corrected, own.total)

    if labels.problem is not None:
        return Correction(raw, None, labels.total, labels.problem)
    return Correction(raw, corrected_rate(raw, labels), labels.total)


def _labelled_rows(run: Run, name: str, metric: str, calibration: JudgeCalibration) -> dict[str, tuple[str, str]]:
    """Return human label and judge's verdict of a run's labelled rows, by the hash of the judge's inputs.

    `name` is the evaluator, and `metric` the metric with its verdicts. Rows with a verdict other than pass or fail are
    left out.
    """
    recorded = recorded_verdicts(run.journal, name).values()
    verdicts = {inputs: WORDS.get(str(output.get(f"{metric}{RESULT}"))) for inputs, output in recorded}
    labels = {label.inputs: label.label for label in calibration.labels if label.inputs is not None}

    rows = ((inputs, label, verdicts.get(inputs)) for inputs, label in labels.items())
    return {inputs: (label, verdict) for inputs, label, verdict in rows if verdict in ("pass", "fail")}


def _label_counts(calibration: JudgeCalibration) -> LabelCounts:
    """Return the counts of all labels of a calibration by label and verdict."""
    return LabelCounts.of((label.label, label.verdict) for label in calibration.labels)


def rate_of(
    table: RunTable, name: str | None, rows: Iterable[int] | None = None, *, resamples: int | None = None
) -> Estimate | None:
    """Return the pass rate or the mean score in the column `name` of a run; None if the run has no such column.

    `rows` has the numbers of the rows that count; with None, all rows count. `resamples` is the number of bootstrap
    samples of a mean.
    """
    column = table.columns.get(name or "")
    if column is None:
        return None
    numbers = column.values

    # NaN, a missing number, differs from itself.
    with_number = [row for row in (range(len(numbers)) if rows is None else rows) if numbers[row] == numbers[row]]
    values = [numbers[row] for row in with_number]

    of_row = table.items.of_row
    items = None if of_row is None else [of_row[row] for row in with_number]  # trials of an item are dependent

    if column.passes == column.name:
        return estimate_proportion(values, items)
    return estimate_mean(values, items, bounds=column.bounds, resamples=resamples or RESAMPLES)


def _effective_rows(rate: Estimate) -> float:
    """Return the number of independent rows that would give the same standard error; `rate.n` without clusters."""
    if rate.clusters is None or rate.value is None or rate.standard_error is None:
        return rate.n
    independent_error = math.sqrt(rate.value * (1 - rate.value) / rate.n)
    return effective_rows(rate.n, rate.clusters, independent_error, rate.standard_error)


# -- two runs


def correct_judge_errors(metric: MetricComparison, base: RunTable, new: RunTable) -> MetricComparison:
    """Return a metric corrected for its judge's known errors; unchanged if a run has no judge.

    A metric of an uncalibrated judge is only marked as `uncalibrated`. A mean, or a slice, of a calibrated judge is
    marked as `scores`, because labels of all rows do not correct it. If the runs have different judges, the result has
    no difference.
    """
    base_judge, new_judge = (table.evaluators[metric.evaluator].entry.judge for table in (base, new))
    if base_judge is None or new_judge is None:
        return metric

    # The difference would be that of the judges, too, not of the runs alone.
    if base_judge != new_judge:
        return _without_difference(metric, base, new)

    labels = labels_of(metric.evaluator, base, new)
    if labels is None:
        return replace(metric, judge="uncalibrated")

    _, slice_text = split_slice(metric.key)  # labels of all rows say nothing about a judge's errors on a slice
    is_corrected = metric.kind == "binary" and slice_text is None
    return _corrected(metric, labels) if is_corrected else replace(metric, judge="scores")


def labels_of(evaluator: str, base: RunTable, new: RunTable) -> LabelCounts | None:
    """Return the label counts that correct the judge of both runs; None if it has no usable calibration."""
    calibration = _shared_calibration(evaluator, base, new)
    labels = None if calibration is None else _label_counts(calibration)
    return None if labels is None or labels.problem is not None else labels


def assumption_of(metric: MetricComparison, base: RunTable, new: RunTable) -> tuple[str, bool]:
    """Return a sentence on the assumption of a corrected difference, and whether labels refute the assumption.

    The assumption is that the judge errs as often on either run. Only labels of judge inputs that one run has test it,
    because the judge's errors are the same on inputs that both runs have.
    """
    name = metric.evaluator
    start = f"{clean(name, 60)}: the correction assumes that the judge errs equally often on both runs"

    calibration = _shared_calibration(name, base, new)
    runs = [Run(Path(table.info.place)) for table in (base, new)]
    # Without labels of a run's own inputs there is no test, and the sentence says how to get one.
    base_counts = new_counts = LabelCounts.of(())
    if calibration is not None and all(run.journal.is_file() for run in runs):
        primaries = (run.manifest().evaluators[name].primary or name for run in runs)
        # By the hash of the judge's inputs, so an answer that both runs gave is in both.
        labelled = [_labelled_rows(run, name, own, calibration) for run, own in zip(runs, primaries, strict=True)]
        base_counts = LabelCounts.of(pair for inputs, pair in labelled[0].items() if inputs not in labelled[1])
        new_counts = LabelCounts.of(pair for inputs, pair in labelled[1].items() if inputs not in labelled[0])

    p_value = errors_alike(base_counts, new_counts)
    if p_value is None:
        return f"{start}; to test this, label both answers of rows that the runs answered differently", False

    is_refuted = p_value < _ALPHA
    finding = "show that this is false" if is_refuted else "show no difference"
    labels = f"{plural(base_counts.total, 'labelled answer')} of the base and {new_counts.total:,} of the new run"
    return f"{start}; {labels} {finding} (p {p_text(p_value)})", is_refuted


def _shared_calibration(evaluator: str, base: RunTable, new: RunTable) -> JudgeCalibration | None:
    """Return the calibration of the judge of both runs, from either run's results folder; None without one."""
    judge = new.evaluators[evaluator].entry.judge
    return _calibration(new, judge) or _calibration(base, judge)


def _calibration(table: RunTable, judge: str | None) -> JudgeCalibration | None:
    """Return the calibration of the judge with this hash from the run's results folder; None without one."""
    return find_calibration(Path(table.info.place).parent, judge) if table.info.source == "run" else None


def _corrected(metric: MetricComparison, labels: LabelCounts) -> MetricComparison:
    """Return a metric with both rates and their difference corrected by the judge's error rates on labelled rows.

    The test of no difference needs no correction.
    """
    difference = corrected_difference(metric.difference, labels)
    test, smallest = metric.non_inferiority, metric.smallest_difference

    # The margin is in true pass rates, so it is tested on the corrected difference.
    if test is not None:
        test = non_inferiority(difference, test.margin, higher_is_better=metric.higher_is_better)

    # A true difference shows as itself times the gain, so the smallest true one is larger.
    if smallest is not None and smallest.value is not None:
        smallest = replace(smallest, value=min(1.0, smallest.value / labels.gain))

    return replace(
        metric,
        base=corrected_rate(metric.base, labels),
        new=corrected_rate(metric.new, labels),
        difference=difference,
        non_inferiority=test,
        smallest_difference=smallest,
        judge="corrected",
        raw=RawFigures(metric.base, metric.new, metric.difference),
    )


def corrected_rate(rate: Estimate, labels: LabelCounts) -> Estimate:
    """Return the pass rate corrected for the judge's errors, as measured on other rows."""
    rows = _effective_rows(rate)
    found = rogan_gladen((rate.value or 0.0) * rows, rows, labels, rate.confidence)
    return replace(found, n=rate.n, clusters=rate.clusters)


def _without_difference(metric: MetricComparison, base: RunTable, new: RunTable) -> MetricComparison:
    """Return the metric with both rates but no difference, because the runs have different judges."""
    test, n, confidence = metric.non_inferiority, metric.difference.n, metric.difference.confidence
    reason, clusters = "the runs have different judges", metric.difference.clusters

    return replace(
        metric,
        judge="different",
        difference=Estimate(None, None, None, n, confidence, "none", clusters=clusters, remark=reason),
        p_value=None,
        p_exact=None,
        smallest_difference=None,
        non_inferiority=None if test is None else NonInferiority(None, None, test.margin, test.alpha, reason),
        verdict="judges differ" if metric.tested else None,
        why=_agreement_text(metric.evaluator, base, new) if metric.tested else "",
    )


def _agreement_text(evaluator: str, base: RunTable, new: RunTable) -> str:
    """Return in words how often two runs' judges agree on rows with labels for both, or how to measure it."""
    base_labels, new_labels = (_calibration(table, table.evaluators[evaluator].entry.judge) for table in (base, new))
    remedy = "score both runs with one judge: `tunecheck score RUN --judge F`"

    if base_labels is None or new_labels is None:
        return f"{remedy}; to see how the judges differ, run `judge calibrate --save` for each on the same labels"

    # Both judges have judged the same labelled answers if the rows have the same fingerprint.
    base_verdicts = {label.row_fingerprint: label.verdict for label in base_labels.labels}
    new_verdicts = {label.row_fingerprint: label.verdict for label in new_labels.labels}
    agreement = Agreement((base_verdicts[row], new_verdicts[row]) for row in base_verdicts if row in new_verdicts)

    if not agreement.total:
        return f"{remedy}; the judges have been calibrated on different labels"

    kappa = agreement.kappa()
    value, low, high = map(number_text, (kappa.value, kappa.low, kappa.high))
    agreed = f"{agreement.agreed / agreement.total:.1%} of {plural(agreement.total, 'labelled row')}"
    return f"the judges agree on {agreed} (kappa {value}, {low} to {high}); {remedy}"
