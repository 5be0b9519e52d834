"""`calibrate()`: run an evaluator over labelled rows and compare its verdicts with the labels.

Labels and verdicts become `pass` or `fail` under these rules:

*   Labels are of the kind `pass_fail` if all of them have such a meaning, else of the kind `score`.
*   A score is a pass if it reaches the threshold: `label_threshold` for labels, else the metric's own
    `<metric>_threshold`. If lower is better, it must not exceed the threshold.
*   A verdict is the metric's `<metric>_result`, else its value. A number is compared with the metric's threshold if it
    has one.

The metric is the first that exists:

1.  the caller's `metric`
2.  the declared main metric, or the metric named like the evaluator, if it has a result
3.  the only metric with a result
4.  the declared main metric, or the metric named like the evaluator, without a result
5.  the only key of the output

Rows without a label are not judged. Rows with an error, or to which the metric does not apply, are not compared.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, Unpack

import msgspec
from msgspec.structs import replace

from tunecheck._describe import one_of
from tunecheck._errors import ConfigurationError
from tunecheck._faults import cut
from tunecheck._files import FORMAT_VERSION, JSON, JudgeCalibration, LabelledVerdict
from tunecheck._json import dumps
from tunecheck._messages import did_you_mean
from tunecheck.datasets._reading import Data, Dataset, open_dataset
from tunecheck.evaluation._ending import EvaluationResult
from tunecheck.evaluation._evaluate import evaluate
from tunecheck.evaluation._settings import RunArguments
from tunecheck.pipeline._finished_rows import RESULT, WORDS, ResultRow
from tunecheck.pipeline._journal_reader import recorded_verdicts
from tunecheck.plugins import find
from tunecheck.runs._store import Run, save_calibration
from tunecheck.statistics._agreement import (
    Agreement,
    FittedThreshold,
    Kappa,
    ScoreAgreement,
    fit_threshold,
    score_agreement,
)
from tunecheck.statistics._results import CONFIDENCE, Proportion, Result

LabelKind: TypeAlias = Literal["pass_fail", "score"]
"""The kind of the labels: classes, or scores that a threshold turns into classes."""

PassFail: TypeAlias = Literal["pass", "fail"]

PASS: Final = "pass"  # noqa: S105 - no password
FAIL: Final = "fail"

# The kinds in the order in which they are tried, with the words of errors.
_KINDS: Mapping[LabelKind, str] = MappingProxyType(
    {"pass_fail": "pass or fail (true or false, yes or no, 1 or 0)", "score": "a number"}
)

_MEANINGS: Mapping[str | float, PassFail] = MappingProxyType(
    {
        **dict.fromkeys(("pass", "passed", "true", "yes", 1), PASS),
        **dict.fromkeys(("fail", "failed", "false", "no", 0), FAIL),
    }
)
"""The meaning of labels and verdicts that are words, in lower case, or numbers."""

_LISTED = 6
"""Maximum number of metrics that an error lists."""

_MOST_SHOWN = 60
"""Maximum number of characters of a label or verdict in an error."""


class Disagreement(msgspec.Struct, frozen=True):
    """A row for which the verdict differs from the label; `label` is the value in the data."""

    row_id: str
    label: JSON
    label_class: str
    verdict: str
    score: JSON
    reason: JSON


class Calibration(Result, frozen=True, kw_only=True):
    """Agreement of an evaluator's verdicts with labels: the report of `tunecheck judge calibrate --out FILE`.

    The figures cover the `compared` rows; rows that are `unlabelled` or `not_applicable` and `errors` are left out.
    `confusion` counts rows: `{label: {verdict: rows}}`. `precision` and `recall` are those of the verdict `fail`.
    `scores` is set if labels and verdicts are numbers, `threshold` if the verdict depends on a threshold.
    """

    format_version: int = FORMAT_VERSION
    evaluator: str
    metric: str | None
    label_column: str
    label_kind: LabelKind
    run: str
    run_dir: Path
    rows: int
    compared: int
    unlabelled: int
    not_applicable: int
    errors: int
    confidence: float
    accuracy: Proportion
    kappa: Kappa
    confusion: Mapping[str, Mapping[str, int]]
    precision: Proportion
    recall: Proportion
    differences: tuple[Disagreement, ...]
    scores: ScoreAgreement | None = None
    threshold: FittedThreshold | None = None
    simulated: bool = False
    saved: Path | None = None
    usage: Mapping[str, JSON] = {}
    notes: tuple[str, ...] = ()


def calibrate(
    *,
    labels: Data,
    evaluator: object,
    name: str | None = None,
    label_column: str = "label",
    label_kind: LabelKind | None = None,
    label_threshold: float | None = None,
    metric: str | None = None,
    column_mapping: Mapping[str, object] | None = None,
    confidence: float = CONFIDENCE,
    save: bool = False,
    evaluation_name: str | None = None,
    workers: int | None = None,
    limit: int | None = None,
    **arguments: Unpack[RunArguments],
) -> Calibration:
    """Run an evaluator over labelled rows, as `evaluate()` does, and measure its agreement with the labels.

    Args:
        labels: the rows, with the evaluator's inputs and the human labels.
        evaluator: a name, an instance, a class or a function.
        name: the evaluator's name in the run; by default its own name, or that of its main metric.
        label_column: the column of the labels. Rows without a label are not judged.
        label_kind: `pass_fail` (also true, yes, 1 …) or `score`; by default the first kind that all labels fit.
        label_threshold: the threshold for labels that are scores; by default the evaluator's threshold.
        metric: the metric to compare; by default the evaluator's main metric.
        column_mapping: the sources of the evaluator's parameters; other arguments are those of `evaluate()`.
        confidence: the level of the intervals.
        save: write verdicts and labels to `judges/` beside the runs, and replace an earlier calibration of the same
            judge. They correct the judge's pass rates.

    Raises:
        ConfigurationError: An argument is wrong, a label cannot be read, or a verdict is neither pass nor fail.
        RunError: The run was stopped; its finished rows are kept, and the message says how to resume.
    """
    if label_kind is not None:
        one_of(label_kind, [*_KINDS], "label_kind")
    if not 0 < confidence < 1:
        raise ConfigurationError(f"confidence must be above 0 and below 1, not {confidence!r}")
    if label_threshold is not None and label_kind == "pass_fail":
        raise ConfigurationError("label_threshold is only for label_kind='score': leave label_threshold out")

    function = find("evaluators", evaluator) if isinstance(evaluator, str) else evaluator
    name = name or _name_of(evaluator)
    # Labels are checked before the evaluator is called, because a judge costs money.
    dataset = open_dataset(labels, limit=limit)
    dataset = dataset.with_defaults(replace(dataset.defaults, target=None))
    dataset, kind, unlabelled = _labelled_rows(dataset, label_column, label_kind, label_threshold)

    result = evaluate(
        data=dataset,
        evaluators={name: function},
        evaluator_config={name: {"column_mapping": dict(column_mapping or {})}},
        evaluation_name=evaluation_name or f"calibrate-{name}",
        workers=workers,
        **arguments,
    )

    judged = _LabelledRun(result, name, label_column, kind, label_threshold, metric)
    return judged.calibration(confidence, unlabelled, save=save)


# -- reading labels


def _name_of(evaluator: object) -> str:
    """Return an evaluator's name in the run: the given text, else the name of its main metric, else its own `__name__`.

    If the name of an object is no identifier, the evaluator is called "evaluator".
    """
    if isinstance(evaluator, str):
        return evaluator

    own = getattr(evaluator, "primary", None) or getattr(evaluator, "__name__", None)
    return own if isinstance(own, str) and own.isidentifier() else "evaluator"


def _labelled_rows(
    dataset: Dataset, column: str, kind: LabelKind | None, threshold: float | None
) -> tuple[Dataset, LabelKind, int]:
    """Return the rows that have a label, the kind of their labels, and how many rows have none.

    All labels must be of the given `kind`; by default it is the first that they fit. With a `threshold`, labels must be
    scores.

    Raises:
        ConfigurationError: The column does not exist or has no label, or a label is not of the kind.
    """
    columns = dataset.scan().columns
    if column not in columns:
        hint = f"{did_you_mean(column, columns)}; name the column with --label-column (label_column=…)"
        raise ConfigurationError(f"{dataset.name} has no label column {column!r}{hint}")

    rows = list(dataset.rows())
    # Null and blank texts are no labels.
    given = [row for row in rows if str(row.values.get(column, "")).strip() and row.values.get(column) is not None]
    if not given:
        advice = "name another column with --label-column (label_column=…)"
        raise ConfigurationError(f"{dataset.name}: no row has a label in the column {column!r}: {advice}")

    # A threshold is given for scores only, so labels 0 and 1 are scores, too.
    found = _kind_of(((row.id, row.values[column]) for row in given), kind if threshold is None else "score")

    if len(given) < len(rows):
        # Ids stay those of the labelled data, although rows are missing.
        kept = [{**row.values, "id": row.id} for row in given]
        dataset = open_dataset(kept).with_defaults(dataset.defaults, name=dataset.name)
    return dataset, found, len(rows) - len(given)


def _kind_of(labels: Iterable[tuple[str, JSON]], wanted: LabelKind | None) -> LabelKind:
    """Return the first kind that all labels fit, or check that they fit `wanted`; each label comes with its row's id.

    Raises:
        ConfigurationError: A label does not fit; the message names the row.
    """
    # A label such as 1 fits both kinds, until another label excludes one.
    candidates = fitting_kinds = [*_KINDS] if wanted is None else [wanted]
    for row_id, label in labels:
        meanings = {"pass_fail": as_pass_or_fail(label), "score": as_number(label)}
        fitting_kinds = [kind for kind in fitting_kinds if meanings[kind] is not None]
        if not fitting_kinds:
            fitting_labels = ", or all rows ".join(_KINDS[kind] for kind in candidates)
            shown = cut(dumps(label).decode("utf-8"), _MOST_SHOWN)
            raise ConfigurationError(f"row {row_id}: the label {shown} does not fit: give all rows {fitting_labels}")

    return fitting_kinds[0]


def as_pass_or_fail(label: JSON) -> PassFail | None:
    """Return `pass` or `fail` for a label or verdict with that meaning (true, yes, 1, …), else None.

    For example, `"Yes"`, `True`, 1 and `"1.0"` are `pass`, `"0"` is `fail`, and 0.5 is neither.
    """
    number = as_number(label)
    if number is not None:
        return _MEANINGS.get(number)
    return _MEANINGS.get(str(label).strip().casefold()) if isinstance(label, (str, bool)) else None


def as_number(label: JSON) -> float | None:
    """Return a label as a finite number, also if it is a text; None for anything else, such as true or "1_000"."""
    if isinstance(label, bool) or not isinstance(label, (int, float, str)):
        return None

    # float() also reads "1_000", which is no number in JSON.
    try:
        number = float(label) if "_" not in str(label) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


# -- comparing verdicts with labels


class _Compared(msgspec.Struct, frozen=True):
    """A row with its label (`given` is the value in the data) and the evaluator's verdict, score and threshold."""

    index: int
    row: ResultRow
    given: JSON
    label: PassFail
    verdict: PassFail
    score: JSON
    threshold: float | None
    reason: JSON

    @property
    def number(self) -> float | None:
        """The score as a number; None if it is a text or missing."""
        return None if isinstance(self.score, str) else as_number(self.score)


@dataclass(eq=False)
class _LabelledRun:
    """The labels in `column`, and one metric's verdicts, in the rows of a finished run.

    `threshold` turns numeric labels into pass or fail; `metric` is the metric to compare, by default the main one.
    """

    result: EvaluationResult
    evaluator: str
    column: str
    kind: LabelKind
    threshold: float | None
    metric: str | None

    def __post_init__(self) -> None:
        """Read the rows of the finished run and compare the evaluator's verdicts with the labels.

        Raises:
            ConfigurationError: the metric does not exist, or a label or verdict cannot be read as pass or fail.
        """
        self.run = Run(self.result.run_dir)
        self._entry = self.run.manifest().evaluators[self.evaluator]
        self._metric = self._chosen_metric(self.metric, self._entry.primary)
        meaning = self._entry.metric(self._metric)
        self._higher_is_better = meaning is None or meaning.higher_is_better

        self._counts: Counter[str] = Counter()
        self._compared = [*self._comparisons()]

    def calibration(self, confidence: float, unlabelled: int, *, save: bool) -> Calibration:
        """Return the figures of agreement over all compared rows, and save the calibration if `save` is true."""
        agreement = Agreement((row.label, row.verdict) for row in self._compared)
        classes, counts = (PASS, FAIL), agreement.counts

        # Precision and recall say how well the evaluator finds failures.
        return Calibration(
            evaluator=self.evaluator,
            metric=self._metric,
            label_column=self.column,
            label_kind=self.kind,
            run=self.run.id,
            run_dir=self.run.folder,
            rows=self.result.row_count + unlabelled,
            compared=agreement.total,
            unlabelled=unlabelled,
            not_applicable=self._counts["not_applicable"],
            errors=self._counts["error"],
            confidence=confidence,
            accuracy=agreement.accuracy(confidence),
            kappa=agreement.kappa(confidence),
            confusion={label: {verdict: counts.get((label, verdict), 0) for verdict in classes} for label in classes},
            precision=agreement.precision(FAIL, confidence),
            recall=agreement.recall(FAIL, confidence),
            differences=tuple(
                Disagreement(str(row.row["row_id"]), row.given, row.label, row.verdict, row.score, row.reason)
                for row in self._compared
                if row.label != row.verdict
            ),
            scores=_score_figures(self._compared, confidence),
            threshold=self._fitted_threshold(confidence),
            simulated=self.result.simulated,
            saved=self._save() if save else None,
            usage=self.result.usage,
            notes=tuple(self.result.notes),
        )

    def _save(self) -> Path:
        """Save the labels and the judge's verdicts in the results folder, for other runs with this judge.

        Raises:
            ConfigurationError: The evaluator is not a judge, or no row could be compared.
        """
        judge = self._entry.judge
        if judge is None:
            raise ConfigurationError(f"--save is only for LLM judges, not for {self.evaluator!r}: leave --save out")
        if not self._compared:
            advice = f"see why with `tunecheck report {self.run.folder}`, or leave --save out"
            raise ConfigurationError(f"--save needs a row with a label and a verdict, but there is none: {advice}")

        # By the hash of a verdict's inputs, other runs find the label of the same inputs.
        recorded, labels = recorded_verdicts(self.run.journal, self.evaluator), []
        for row in self._compared:
            inputs, _ = recorded.get(row.index, (None, None))
            row_id, fingerprint = str(row.row["row_id"]), str(row.row["row_fingerprint"])
            labels.append(LabelledVerdict(row_id, fingerprint, inputs, row.label, row.verdict))

        kept = JudgeCalibration(
            judge=judge,
            evaluator=self.evaluator,
            run=self.run.id,
            created=self.run.manifest().created or "",
            simulated=self.result.simulated,
            labels=labels,
        )
        return save_calibration(self.run.folder.parent, kept)

    def _outputs(self) -> Iterator[tuple[ResultRow, dict[str, JSON] | None]]:
        """Yield each row with the evaluator's output by key; None as output if it failed or returned nothing."""
        prefix = f"outputs.{self.evaluator}."
        for row in self.result.rows:
            output = {key.removeprefix(prefix): value for key, value in row.items() if key.startswith(prefix)}
            # A failed evaluator may still have returned some keys.
            yield row, (output if output and f"error.{self.evaluator}" not in row else None)

    def _chosen_metric(self, wanted: str | None, primary: str | None) -> str:
        """Return the requested metric (`wanted`), else the evaluator's main one.

        The main one is the declared `primary`, else the metric named like the evaluator, else its only one. Metrics
        with a result come before other keys. The choice is unchecked if the evaluator gave no output.

        Raises:
            ConfigurationError: There is no such metric, or the evaluator has several and declares no main one.
        """
        # The first row with an output shows which metrics there are.
        keys = next((list(output) for _, output in self._outputs() if output is not None), [])
        results = [key.removesuffix(RESULT) for key in keys if key.endswith(RESULT)]

        if wanted is not None:
            known = [*keys, *results]
            if keys and wanted not in known:
                raise ConfigurationError(f"{self.evaluator!r} has no metric {wanted!r}{did_you_mean(wanted, known)}")
            return wanted

        # Elsewhere the first of several undeclared results counts; here people may have labelled another one.
        main = [name for name in (primary, self.evaluator) if name is not None]
        for known in (results, keys):
            if named := [name for name in main if name in known]:
                return named[0]
            if len(known) == 1:
                return known[0]

        if keys:
            several = f"evaluator {self.evaluator!r} has several metrics ({', '.join(keys[:_LISTED])})"
            raise ConfigurationError(f"{several}: choose one with --metric (metric=…)")
        return main[0]

    def _comparisons(self) -> Iterator[_Compared]:
        """Yield each row with a verdict and its label; count the rows that failed or are not applicable.

        Every row has a label: rows without one were left out before the run.

        Raises:
            ConfigurationError: A verdict is neither pass nor fail, or a numeric label has no threshold.
        """
        for index, (row, output) in enumerate(self._outputs()):
            if output is None or output.get(f"{self._metric}_status") == "error":
                self._counts["error"] += 1
                continue

            value, result = output.get(f"{self._metric}"), output.get(f"{self._metric}_result")
            words = [word for word in (result, value) if isinstance(word, str)]
            raw = value if result is None else result
            if raw is None or any(WORDS.get(word) == "not_applicable" for word in words):
                self._counts["not_applicable"] += 1
                continue

            given, threshold = row.get(f"inputs.{self.column}"), as_number(output.get(f"{self._metric}_threshold"))
            label, verdict = self._label(given, threshold), self._verdict(row, raw, threshold)
            score = output.get(f"{self._metric}_score", value if isinstance(value, (int, float)) else None)
            reason = output.get(f"{self._metric}_reason", output.get("reason"))
            yield _Compared(index, row, given, label, verdict, score, threshold, reason)

    def _label(self, given: JSON, threshold: float | None) -> PassFail:
        """Return a label as `pass` or `fail`; a number is compared with a threshold.

        `given` is the label as it stands in the data. `threshold`, the metric's own, counts only without a label
        threshold in the settings.

        Raises:
            ConfigurationError: The label is a number and there is no threshold.
        """
        # Every label was checked to be of this kind before the run, so the values after `or` are never used.
        if self.kind == "pass_fail":
            return as_pass_or_fail(given) or FAIL

        threshold = threshold if self.threshold is None else self.threshold
        if threshold is None:
            advice = "give --label-threshold (label_threshold=…)"
            raise ConfigurationError(f"labels are numbers, but evaluator {self.evaluator!r} has no threshold: {advice}")
        return self._result(as_number(given) or 0.0, threshold)

    def _verdict(self, row: ResultRow, raw: JSON, threshold: float | None) -> PassFail:
        """Return the evaluator's verdict `raw` as `pass` or `fail`; a number is compared with the metric's threshold.

        A text, or a number of a metric without a threshold, counts by its meaning: `yes` and 1 are `pass`.

        Raises:
            ConfigurationError: The verdict has no such meaning; the text names the row.
        """
        number = None if isinstance(raw, str) else as_number(raw)
        if number is not None and threshold is not None:
            return self._result(number, threshold)

        verdict = as_pass_or_fail(raw)
        if verdict is None:
            shown = raw if isinstance(raw, (int, float)) else f"{str(raw)[:_MOST_SHOWN]!r}"
            problem = f"the metric {self._metric!r} of evaluator {self.evaluator!r} is {shown}, not pass or fail"
            raise ConfigurationError(f"row {row.get('row_id')}: {problem}: choose another with --metric (metric=…)")
        return verdict

    def _result(self, score: float, threshold: float) -> PassFail:
        """Return `pass` if the score reaches the threshold, in the metric's direction, else `fail`."""
        reaches_threshold = score >= threshold if self._higher_is_better else score <= threshold
        return PASS if reaches_threshold else FAIL

    def _fitted_threshold(self, confidence: float) -> FittedThreshold | None:
        """Return the threshold with which verdicts would agree best with the labels.

        None if a score is missing or the metric has no threshold.
        """
        scores = [(row.label == PASS, row.number) for row in self._compared if row.number is not None]
        if not scores or len(scores) < len(self._compared) or self._compared[0].threshold is None:
            return None
        return fit_threshold(scores, higher_is_better=self._higher_is_better, confidence=confidence)


def _score_figures(found: Sequence[_Compared], confidence: float) -> ScoreAgreement | None:
    """Return the agreement of scores; None if a label or a score is no number, or all labels are 0 or 1."""
    pairs = [(as_number(row.given), row.number) for row in found]
    numbers = [(label, score) for label, score in pairs if label is not None and score is not None]
    if len(numbers) < len(pairs) or {label for label, _ in numbers} <= {0.0, 1.0}:
        return None
    return score_agreement(numbers, confidence)
