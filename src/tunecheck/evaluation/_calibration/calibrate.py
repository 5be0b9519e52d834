"""`calibrate()`: an evaluator is run over labelled rows, and its verdicts are held against the labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Unpack

from tunecheck._errors import ConfigurationError
from tunecheck._messages import did_you_mean
from tunecheck.datasets._reading import Data, Dataset, open_dataset
from tunecheck.evaluation._arguments import RunArguments
from tunecheck.evaluation._calibration.labelled_run import Calibration, Labels, read_calibration
from tunecheck.evaluation._calibration.labels import KINDS, LabelKind, is_empty, kind_of
from tunecheck.evaluation._evaluate import evaluate
from tunecheck.plugins import find
from tunecheck.runs._store import Run
from tunecheck.statistics._proportions import CONFIDENCE


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
    """Run an evaluator over labelled rows, as `evaluate()` does, and measure how well it agrees with the labels.

    Args:
        labels: the rows: what the evaluator judges, and what people said of it.
        evaluator: a name, an instance, a class or a function.
        name: what it is called in the run; by default its name, or that of its main metric.
        label_column: the column of the labels. Rows without one are not judged.
        label_kind: `pass_fail` (also true, yes, 1 …), `score` or `class`; by default what the labels look like.
        label_threshold: the number from which labels that are scores pass; by default the evaluator's threshold.
        metric: the metric whose verdict is compared; by default the evaluator's main one.
        column_mapping: where the evaluator's parameters come from; this and what is not named here as in `evaluate()`.
        confidence: of the intervals.
        save: keep the judge's verdicts and the labels beside the runs, in `judges/`, in place of an earlier calibration
            of the same judge: its pass rates are corrected by them.

    Raises:
        ConfigurationError: an argument is wrong, a label cannot be read, or labels and verdicts are of different kinds.
        RunError: the run was stopped; what it finished is kept, and the text says how to go on.
    """
    _check(label_kind, confidence)
    function = find("evaluators", evaluator) if isinstance(evaluator, str) else evaluator
    called = name or _name_of(evaluator)
    rows, given = _labelled(_rereadable(labels, limit), label_column, label_kind, label_threshold, function)
    result = evaluate(
        data=rows,
        evaluators={called: function},
        evaluator_config={called: {"column_mapping": dict(column_mapping or {})}},
        evaluation_name=evaluation_name or f"calibrate-{called}",
        workers=workers,
        **arguments,
    )
    return read_calibration(Run(result.run_dir), called, given, metric=metric, confidence=confidence, save=save)


def _check(label_kind: str | None, confidence: float) -> None:
    if label_kind is not None and label_kind not in KINDS:
        raise ConfigurationError(f"label_kind is {label_kind!r}; it is one of {', '.join(KINDS)}")
    if not 0 < confidence < 1:
        raise ConfigurationError(f"confidence lies between 0 and 1, not {confidence!r}")


def _name_of(evaluator: object) -> str:
    if isinstance(evaluator, str):
        return evaluator
    own = getattr(evaluator, "primary", None) or getattr(evaluator, "__name__", None)
    return own if isinstance(own, str) and own.isidentifier() else "evaluator"


def _rereadable(labels: Data, limit: int | None) -> Dataset:
    """The rows without a target of their own: what is judged stands in them. An iterable is read into memory."""
    dataset = open_dataset(labels, limit=limit)
    if dataset.scan().rows is None:
        return open_dataset([dict(row.values) for row in dataset.rows()])
    return dataset.with_defaults(replace(dataset.defaults, target=None))


def _labelled(
    dataset: Dataset, column: str, kind: LabelKind | None, threshold: float | None, evaluator: object
) -> tuple[Dataset, Labels]:
    """The rows that have a label (a verdict on the others would be paid for nothing), and how labels are read.

    Raises:
        ConfigurationError: there is no such column, or no label in it; a label is not like the others, or not what it
            is said to be.
    """
    if threshold is not None and kind not in (None, "score"):
        raise ConfigurationError(f"label_threshold is for labels that are scores, and label_kind is {kind!r}")
    scan = dataset.scan()
    if column not in scan.columns:
        raise ConfigurationError(f"{dataset.name}: there is no column {column!r}{did_you_mean(column, scan.columns)}")
    given = [(row.id, label) for row in dataset.rows() if not is_empty(label := row.values.get(column))]
    if not given:
        raise ConfigurationError(f"{dataset.name}: no row has a label in the column {column!r}")
    # Evaluators that declare their metrics say pass or fail; of others, verdicts may be classes.
    classes = not getattr(evaluator, "metrics", ())
    chosen = kind is not None or threshold is not None
    read = kind_of(given, "score" if threshold is not None else kind, classes=classes)
    missing = (scan.rows or 0) - len(given)
    if missing:
        kept = [{**row.values, "id": row.id} for row in dataset.rows() if not is_empty(row.values.get(column))]
        dataset = open_dataset(kept).with_defaults(dataset.defaults, name=dataset.name)
    return dataset, Labels(column, read, threshold, chosen, missing)
