"""A finished run held against labels that people gave to its rows: where its evaluator agrees with them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tunecheck._errors import ConfigurationError
from tunecheck._files import FORMAT_VERSION, JSON, JudgeCalibration, LabelledVerdict
from tunecheck._messages import did_you_mean
from tunecheck.evaluation._calibration.labels import FAIL, PASS, LabelKind, as_class, as_number, as_pass_or_fail
from tunecheck.pipeline._finished_rows import RESULT, WORDS, ResultRow, counted_metric
from tunecheck.pipeline._journal import recorded_verdicts
from tunecheck.runs._calibrations import save_calibration
from tunecheck.runs._store import Run
from tunecheck.statistics._agreement import Agreement, Kappa
from tunecheck.statistics._proportions import CONFIDENCE, Proportion
from tunecheck.statistics._results import Result
from tunecheck.statistics._score_agreement import FittedThreshold, ScoreAgreement, fit_threshold, score_agreement

_LISTED = 6


@dataclass(frozen=True, slots=True)
class Labels:
    """Where the labels are, and how they are read.

    `threshold` is what labels that are scores are compared with; None takes the evaluator's own. `chosen` is whether
    somebody said of what kind they are. `missing` rows have no label, and are left out of the run.
    """

    column: str
    kind: LabelKind
    threshold: float | None = None
    chosen: bool = False
    missing: int = 0


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A row on which label and verdict differ; `label` is as it stands in the data."""

    row_id: str
    label: JSON
    label_class: str
    verdict: str
    score: JSON
    reason: JSON


@dataclass(frozen=True, slots=True)
class _Compared:
    """A row with a label and a verdict, which are classes; `given` is the label as it stands in the data."""

    index: int
    row: ResultRow
    output: Mapping[str, JSON]
    given: JSON
    label: str
    verdict: str
    score: float | None


@dataclass(frozen=True, slots=True)
class ClassFigures(Result):
    """How reliable one class of verdicts is, the labels being right."""

    precision: Proportion
    recall: Proportion


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration(Result):
    """How well an evaluator's verdicts agree with labels: what `tunecheck judge calibrate --out FILE` writes.

    Of `rows` rows, `compared` are in the figures; left out are those `unlabelled`, `not_applicable` and in `errors`.
    `confusion` counts them: `{label: {verdict: rows}}`. `by_class` has, with verdicts of pass and fail, an entry for
    `fail`, which is what an evaluator is there to find; with other classes one for each. `scores` is there where labels
    and verdicts are numbers, `threshold` where rows pass from some score on.
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
    classes: tuple[str, ...]
    confusion: Mapping[str, Mapping[str, int]]
    by_class: Mapping[str, ClassFigures]
    differences: tuple[Disagreement, ...]
    scores: ScoreAgreement | None = None
    threshold: FittedThreshold | None = None
    simulated: bool = False
    saved: Path | None = None
    usage: Mapping[str, JSON] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_calibration(
    run: Run,
    evaluator: str,
    labels: Labels,
    *,
    metric: str | None = None,
    confidence: float = CONFIDENCE,
    save: bool = False,
) -> Calibration:
    """Compare a finished run's verdicts with the labels in its rows; `save` keeps both beside the runs.

    Raises:
        ConfigurationError: the run is not finished, the evaluator has no such metric, or its verdicts are of another
            kind than the labels; what is to be kept is no judge's, or no pass or fail.
    """
    reading = _Reading(run, evaluator, labels, metric)
    if not labels.chosen and labels.kind == "pass_fail" and reading.gives_classes():
        reading = _Reading(run, evaluator, replace(labels, kind="class"), metric)
    counts, found = reading.compare()
    agreement = Agreement.of((each.label, each.verdict) for each in found)
    summary = run.metrics()
    usage = summary.get("usage")
    simulated = summary.get("simulated") is True
    saved = _save(run, evaluator, reading.kind, found, simulated=simulated) if save else None
    classes = reading.ordered(agreement)
    shown = (FAIL,) if reading.kind != "class" else classes
    return Calibration(
        evaluator=evaluator,
        metric=reading.metric,
        label_column=labels.column,
        label_kind=reading.kind,
        run=run.id,
        run_dir=run.folder,
        rows=sum(counts.values()) + len(found) + labels.missing,
        compared=agreement.total,
        unlabelled=labels.missing,
        not_applicable=counts["not_applicable"],
        errors=counts["error"],
        confidence=confidence,
        accuracy=agreement.accuracy(confidence),
        kappa=agreement.kappa(confidence),
        classes=classes,
        confusion={one: {other: agreement.counts.get((one, other), 0) for other in classes} for one in classes},
        by_class={
            name: ClassFigures(agreement.precision(name, confidence), agreement.recall(name, confidence))
            for name in shown
        },
        differences=tuple(reading.difference(each) for each in found if each.label != each.verdict),
        scores=_scores(found, confidence),
        threshold=reading.fitted(found, confidence),
        simulated=simulated,
        saved=saved,
        usage=usage if isinstance(usage, dict) else {},
        notes=tuple(_notes(summary, agreement)),
    )


def _save(run: Run, evaluator: str, kind: LabelKind, found: Sequence[_Compared], *, simulated: bool) -> Path:
    """Keep what this judge said of labelled rows, for runs that it judges."""
    if kind == "class":
        raise ConfigurationError("--save: the labels are classes, and only a pass rate can be corrected")
    manifest = run.manifest()
    judge = manifest.evaluators[evaluator].judge
    if judge is None:
        raise ConfigurationError(f"--save: {evaluator!r} asks no model, or cannot be told from another judge")
    if not found:
        raise ConfigurationError("--save: no row could be compared")
    recorded = recorded_verdicts(run.journal, evaluator)
    labels = [
        LabelledVerdict(
            str(each.row["row_id"]),
            str(each.row["row_fingerprint"]),
            recorded[each.index][0] if each.index in recorded else None,
            PASS if each.label == PASS else FAIL,
            PASS if each.verdict == PASS else FAIL,
        )
        for each in found
    ]
    kept = JudgeCalibration(
        judge=judge, evaluator=evaluator, run=run.id, created=manifest.created or "", simulated=simulated, labels=labels
    )
    return save_calibration(run.folder.parent, kept)


def _scores(found: Sequence[_Compared], confidence: float) -> ScoreAgreement | None:
    """How far scores agree, where labels and verdicts are some, and not only 0 and 1."""
    pairs = [(as_number(each.given), each.score) for each in found]
    numbers = [(label, score) for label, score in pairs if label is not None and score is not None]
    if len(numbers) < len(pairs) or {label for label, _ in numbers} <= {0.0, 1.0}:
        return None
    return score_agreement(numbers, confidence)


def _notes(summary: Mapping[str, JSON], agreement: Agreement) -> Iterator[str]:
    notes = summary.get("notes")
    yield from (str(note) for note in notes) if isinstance(notes, list) else ()
    if agreement.total and not agreement.first.keys() & agreement.second.keys():
        said, given = (", ".join(sorted(each)[:_LISTED]) for each in (agreement.first, agreement.second))
        yield f"labels and verdicts have no class in common: labels say {said}; verdicts say {given}"


class _Reading:
    """Reads one run's rows: which metric speaks, what it says, and what the label says."""

    def __init__(self, run: Run, evaluator: str, labels: Labels, metric: str | None) -> None:
        self._rows = run.rows()
        self._evaluator = evaluator
        self._labels = labels
        self.kind: LabelKind = labels.kind
        self.metric: str | None = None
        declared = run.manifest().evaluators
        if evaluator not in declared:
            raise ConfigurationError(f"the run has no evaluator {evaluator!r}{did_you_mean(evaluator, declared)}")
        self.metric = self._metric(metric, declared[evaluator].primary)
        meaning = declared[evaluator].metric(self.metric)
        self._higher_is_better = meaning is None or meaning.higher_is_better

    def gives_classes(self) -> bool:
        """Whether some verdict is a text other than pass and fail."""
        values = (self._raw(output) for _, output in self._outputs() if output is not None)
        return any(isinstance(value, str) and as_pass_or_fail(value) is None for value in values)

    def compare(self) -> tuple[Counter[str], list[_Compared]]:
        """What became of the rows, and those with a label and a verdict."""
        counts: Counter[str] = Counter()
        found: list[_Compared] = []
        for index, (row, output) in enumerate(self._outputs()):
            raw = None if output is None else self._raw(output)
            if output is None or raw is None:
                counts["error" if output is None else "not_applicable"] += 1
                continue
            given = row.get(f"inputs.{self._labels.column}")
            label, verdict = self._label(row, output), self._verdict(row, output, raw)
            found.append(_Compared(index, row, output, given, label, verdict, self._score(output)))
        return counts, found

    def fitted(self, found: Sequence[_Compared], confidence: float) -> FittedThreshold | None:
        """The threshold that would fit the labels best, where verdicts come of one."""
        if self.kind == "class" or not found or any(each.score is None for each in found):
            return None
        if as_number(found[0].output.get(f"{self.metric}_threshold")) is None:
            return None
        scores = [(each.label == PASS, each.score) for each in found if each.score is not None]
        return fit_threshold(scores, higher_is_better=self._higher_is_better, confidence=confidence)

    def _score(self, output: Mapping[str, JSON]) -> float | None:
        own = output.get(f"{self.metric}_score", output.get(f"{self.metric}"))
        return None if isinstance(own, (str, bool)) else as_number(own)

    def ordered(self, agreement: Agreement) -> tuple[str, ...]:
        """The classes in the order in which people expect them."""
        if self.kind != "class":
            return (PASS, FAIL)
        names = {*agreement.first, *agreement.second}
        return tuple(sorted(names, key=lambda name: (as_number(name) is None, as_number(name) or 0.0, name)))

    def _outputs(self) -> Iterator[tuple[ResultRow, dict[str, JSON] | None]]:
        """Each row with what the evaluator said of it, None where that is an error."""
        prefix = f"outputs.{self._evaluator}."
        for row in self._rows:
            output = {key.removeprefix(prefix): value for key, value in row.items() if key.startswith(prefix)}
            failed = f"error.{self._evaluator}" in row or not output
            yield row, None if failed or (output.get(f"{self.metric}_status") == "error") else output

    def _metric(self, wanted: str | None, primary: str | None) -> str | None:
        """The metric whose verdict is compared: the one asked for, else the evaluator's main one."""
        keys = next((list(output) for _, output in self._outputs() if output is not None), [])
        results = [key.removesuffix(RESULT) for key in keys if key.endswith(RESULT)]
        bases = [*keys, *results]
        if wanted is not None:
            if keys and wanted not in bases:
                raise ConfigurationError(f"{self._evaluator!r} has no metric {wanted!r}{did_you_mean(wanted, bases)}")
            return wanted
        counted = counted_metric(results, self._evaluator, primary)
        if counted is not None and (counted in (primary, self._evaluator) or len(results) == 1):
            return counted
        # Of several results that nobody declares the first counts elsewhere; here people say which one they labelled.
        for name in (primary, self._evaluator):
            if name is not None and (not keys or name in keys):
                return name
        if len(keys) > 1:
            raise ConfigurationError(f"{self._evaluator!r} gives {', '.join(keys[:_LISTED])}: say which metric it is")
        return keys[0] if keys else None

    def _raw(self, output: Mapping[str, JSON]) -> JSON:
        """What the evaluator says, None where it says nothing."""
        own, result = output.get(f"{self.metric}"), output.get(f"{self.metric}_result")
        if any(isinstance(said, str) and WORDS.get(said) == "not_applicable" for said in (result, own)):
            return None
        if self.kind == "class":
            return result if own is None else own
        return own if result is None else result

    def _label(self, row: ResultRow, output: Mapping[str, JSON]) -> str:
        label = row.get(f"inputs.{self._labels.column}")
        if self.kind == "class":
            return as_class(label) or ""
        if self.kind == "pass_fail":
            return as_pass_or_fail(label) or ""
        threshold = self._labels.threshold
        if threshold is None:
            threshold = as_number(output.get(f"{self.metric}_threshold"))
        if threshold is None:
            raise ConfigurationError(
                f"the labels are numbers, and {self._evaluator!r} gives no threshold to compare them with: "
                "give one for the labels (label_threshold), or label rows pass or fail"
            )
        return self._held_against(threshold, as_number(label) or 0.0)

    def _verdict(self, row: ResultRow, output: Mapping[str, JSON], raw: JSON) -> str:
        if self.kind == "class":
            name = as_class(raw)
            return name if name is not None else self._refuse(row, raw, "a class")
        threshold = as_number(output.get(f"{self.metric}_threshold"))
        number = None if isinstance(raw, str) else as_number(raw)
        if number is not None and threshold is not None:
            return self._held_against(threshold, number)
        verdict = as_pass_or_fail(raw)
        return verdict if verdict is not None else self._refuse(row, raw, "pass or fail")

    def _held_against(self, threshold: float, score: float) -> str:
        return PASS if (score >= threshold if self._higher_is_better else score <= threshold) else FAIL

    def _refuse(self, row: ResultRow, raw: JSON, wanted: str) -> str:
        shown = raw if isinstance(raw, (int, float)) else f"{str(raw)[:60]!r}"
        raise ConfigurationError(
            f"row {row.get('row_id')}: {self._evaluator!r} says {shown} as {self.metric!r}, which is not {wanted}"
        )

    def difference(self, found: _Compared) -> Disagreement:
        """The row as it is told of."""
        own, output = found.output.get(f"{self.metric}"), found.output
        score = output.get(f"{self.metric}_score", own if isinstance(own, (int, float)) else None)
        reason = output.get(f"{self.metric}_reason", output.get("reason"))
        return Disagreement(str(found.row["row_id"]), found.given, found.label, found.verdict, score, reason)
