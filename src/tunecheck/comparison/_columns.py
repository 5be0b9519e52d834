"""Which of an evaluator's columns speaks for it, and what each is called."""

from __future__ import annotations

from tunecheck.comparison._declared import Declared
from tunecheck.comparison._table import PASS_RATE, Column, EvaluatorColumns


def settle(evaluator: EvaluatorColumns, columns: dict[str, Column], declared: Declared) -> None:
    """Drop an evaluator's columns without numbers, name its pass rate, and choose its main metric.

    The main metric is the one that it declares as its primary: as a pass rate if its kind is binary, as a number if
    it is a score or a count. Where it declares nothing, its pass rate; else the number that is called as it is; else
    its first.
    """
    name = evaluator.name
    for each in list(evaluator.columns):
        if all(value != value for value in columns[each].values):
            _drop(each, evaluator, columns)
    verdicts = [columns[each] for each in evaluator.columns if columns[each].passes]
    primary = _primary(verdicts, name, declared)
    if primary is not None:
        _rename(primary, f"{name}.{PASS_RATE}", evaluator, columns)
    for verdict in verdicts:
        _tie(verdict, evaluator, columns, declared)
    evaluator.main = _main(evaluator, columns, primary, declared)


def _primary(verdicts: list[Column], name: str, declared: Declared) -> Column | None:
    for metric in (declared.primary, name):
        for column in verdicts:
            if column.metric == metric:
                return column
    return verdicts[0] if verdicts else None


def _tie(verdict: Column, evaluator: EvaluatorColumns, columns: dict[str, Column], declared: Declared) -> None:
    """The number beside a verdict knows its verdicts, and whether it says anything else."""
    name = evaluator.name
    number = columns.get(f"{name}.{verdict.metric}") or columns.get(f"{name}.{verdict.metric}_score")
    if number is None or number is verdict:
        return
    known = declared.metrics.get(verdict.metric)
    same = number.values.tobytes() == verdict.values.tobytes()
    number.repeats = known.kind == "binary" if known is not None else same
    number.passes, number.metric = verdict.name, verdict.metric


def _main(
    evaluator: EvaluatorColumns, columns: dict[str, Column], primary: Column | None, declared: Declared
) -> str | None:
    own = f"{evaluator.name}.{declared.primary}"
    known = declared.metrics.get(declared.primary or "")
    kind = known.kind if known is not None else "binary"
    if own in columns and (kind != "binary" or primary is None):
        return own
    if primary is not None:
        return primary.name
    own = f"{evaluator.name}.{evaluator.name}"
    return own if own in columns else next(iter(evaluator.columns), None)


def _drop(name: str, evaluator: EvaluatorColumns, columns: dict[str, Column]) -> None:
    del columns[name]
    evaluator.columns.remove(name)


def _rename(column: Column, name: str, evaluator: EvaluatorColumns, columns: dict[str, Column]) -> None:
    del columns[column.name]
    evaluator.columns[evaluator.columns.index(column.name)] = name
    column.name = column.passes = name
    columns[name] = column
