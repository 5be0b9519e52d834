"""An evaluator's columns in result rows: its verdicts and numbers, and which metric speaks for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tunecheck._files import EvaluatorEntry, MetricEntry
from tunecheck._json import JSON, dumps
from tunecheck.pipeline._finished_rows import ResultRow, counted_metric
from tunecheck.results._table import PASS_RATE, EvaluatorColumns, Kind, MetricColumn, State

MOST_COLUMNS = 300
"""Most metrics that are read of an evaluator."""

_LEFT_OUT = ("_result", "_reason", "_status", "_properties", "_threshold", "_model", "_finish_reason")
_SAMPLES = ("_sample_input", "_sample_output", "_prompt_tokens", "_completion_tokens", "_total_tokens")

_SKIPPED, _NEITHER = 2, 3
_WORDS = {"fail": 0, "pass": 1, "not_applicable": _SKIPPED, "not applicable": _SKIPPED}
_AS_NUMBER = (0.0, 1.0, math.nan, math.nan)
_AS_STATE = (State.SCORED, State.SCORED, State.NOT_APPLICABLE)
_KINDS: Mapping[str, Kind] = {"binary": "binary", "score": "score", "count": "count"}

NameOf = Callable[[str], "tuple[str, str] | None"]


def evaluator_names(declared: Mapping[str, EvaluatorEntry] | None) -> NameOf:
    """What splits `<evaluator>.<key>`: by the declared names, which may hold dots; without them at the first dot."""
    if declared is None:
        return _split_at_first_dot
    names = sorted(declared, key=len, reverse=True)

    def split(rest: str) -> tuple[str, str] | None:
        name = next((name for name in names if rest.startswith(f"{name}.")), None)
        return None if name is None else (name, rest[len(name) + 1 :])

    return split


def _split_at_first_dot(rest: str) -> tuple[str, str] | None:
    name, _, key = rest.partition(".")
    return (name, key) if name and key else None


@dataclass(slots=True)
class EvaluatorPart:
    """One evaluator's keys in a run's rows. `nulls_are_errors`: a row in which all of them are null failed.

    `numbers` pairs keys with columns, `verdicts` has the key of the reason between both.
    """

    evaluator: EvaluatorColumns
    declared: EvaluatorEntry
    nulls_are_errors: bool
    keys: list[str] = field(default_factory=list)
    numbers: list[tuple[str, MetricColumn]] = field(default_factory=list)
    verdicts: list[tuple[str, str, MetricColumn]] = field(default_factory=list)

    @classmethod
    def of(cls, name: str, declared: EvaluatorEntry, *, nulls_are_errors: bool) -> EvaluatorPart:
        """Return the empty part of an evaluator, before any row is read."""
        arguments, judge = declared.arguments or {}, declared.judge
        columns = EvaluatorColumns(
            name, [], None, bytearray(), bool(declared.metrics), arguments, declared.fingerprint, judge
        )
        return cls(columns, declared, nulls_are_errors)

    def learn(self, added: Sequence[str], columns: dict[str, MetricColumn]) -> None:
        """Say of each new key whether it is a verdict, a number, or neither."""
        start = f"outputs.{self.evaluator.name}."
        self.keys += [start + key for key in added]
        known = {key.removeprefix(start) for key in self.keys}
        for key in added:
            metric = key.removesuffix("_result")
            if metric and metric != key:
                column = self._column(f"{metric}_passed", metric, MetricEntry(metric, "binary"), columns)
                if column is not None:
                    column.passes = column.name
                    self.verdicts.append((start + key, f"{start}{metric}_reason", column))
            elif not key.endswith((*_LEFT_OUT, *_SAMPLES)) and not _is_repeated(key, known):
                means = self.declared.metric(key) or MetricEntry(key, "binary")
                column = self._column(key, key, means, columns)
                if column is not None:
                    self.numbers.append((start + key, column))

    def _column(
        self, key: str, metric: str, means: MetricEntry, columns: dict[str, MetricColumn]
    ) -> MetricColumn | None:
        evaluator = self.evaluator
        name = f"{evaluator.name}.{key}"
        if name not in columns and len(evaluator.columns) >= MOST_COLUMNS:
            evaluator.left_out += 1
            return None
        if name not in columns:
            kind = _KINDS.get(means.kind, "score")
            columns[name] = MetricColumn(name, evaluator.name, metric, kind, means.higher_is_better, means.bounds)
            evaluator.columns.append(name)
        return columns[name]

    def take(self, rows: Sequence[ResultRow], start: int) -> bytes:
        """Put the values of these rows, which `start` others came before, where they belong; give their states."""
        error = f"error.{self.evaluator.name}"
        failed = [error in row for row in rows]
        counted = rows if not any(failed) else [{} if error in row else row for row in rows]
        words = [self._verdicts(counted, start, *each) for each in self.verdicts]
        numbers = [self._numbers(counted, start, *each) for each in self.numbers]
        if len(words) == 1 and _NEITHER not in words[0]:
            states = bytes(map(_AS_STATE.__getitem__, words[0]))
        else:
            said, values = [*zip(*words, strict=True)], [*zip(*numbers, strict=True)]
            states = bytes(
                State.ERROR if has_failed else self._state(row, said[at] if said else (), values[at] if values else ())
                for at, (row, has_failed) in enumerate(zip(rows, failed, strict=True))
            )
        self.evaluator.states.extend(bytes(start - len(self.evaluator.states)) + states)
        return states

    def _verdicts(
        self, rows: Sequence[Mapping[str, JSON]], start: int, key: str, reason: str, column: MetricColumn
    ) -> list[int]:
        try:
            words = [_WORDS.get(row.get(key), _NEITHER) for row in rows]  # type: ignore[arg-type]
        except TypeError:  # some value is a list or an object
            words = [_WORDS.get(str(row.get(key)), _NEITHER) for row in rows]
        column.has_results = column.has_results or min(words) != _NEITHER
        column.fill(start)
        column.values.extend(map(_AS_NUMBER.__getitem__, words))
        column.reasons.extend([0 if word else _hash(row.get(reason)) for word, row in zip(words, rows, strict=True)])
        return words

    def _numbers(self, rows: Sequence[Mapping[str, JSON]], start: int, key: str, column: MetricColumn) -> list[float]:
        found = [row.get(key) for row in rows]
        values = [value if type(value) is float else number_of(value) for value in found]
        column.fill(start)
        column.values.extend(values)
        if column.kind == "binary" and not all(value in (0.0, 1.0) or value != value for value in values):
            column.kind = "score"
        return values

    def _state(self, row: ResultRow, words: Sequence[int], numbers: Sequence[float]) -> int:
        if any(word < _SKIPPED for word in words):
            return State.SCORED
        if _SKIPPED in words:
            return State.NOT_APPLICABLE
        if any(value == value for value in numbers):
            return State.SCORED
        own = [row[key] for key in self.keys if key in row]
        if not own:
            return State.ERROR if "error.target" in row else State.ABSENT
        all_null = all(value is None for value in own)
        return State.ERROR if self.nulls_are_errors and all_null else State.NOT_APPLICABLE


def number_of(value: JSON) -> float:
    """A value as a number; NaN of what is none, or beyond any float."""
    try:
        return float(value) if isinstance(value, (int, float)) else math.nan
    except OverflowError:
        return math.nan


def _hash(reason: JSON) -> int:
    """A number that equal reasons share; never 0."""
    return hash(reason if isinstance(reason, str) else dumps(reason)) or 1


def _is_repeated(key: str, known: set[str]) -> bool:
    """True if a column repeats another one: `m_score` repeats `m`, and `m_passed` repeats `m_result`."""
    if key.endswith("_score"):
        return key.removesuffix("_score") in known
    return key.endswith("_passed") and f"{key.removesuffix('_passed')}_result" in known


def choose_main_metric(evaluator: EvaluatorColumns, columns: dict[str, MetricColumn], declared: EvaluatorEntry) -> None:
    """Drop an evaluator's columns without numbers, name its pass rate, and choose its main metric.

    The main metric is the pass rate of its primary metric if rows passed or failed, else the number that it declares as
    its primary, else the number with the evaluator's name, else the first number.
    """
    name = evaluator.name
    with_result = [columns[each].metric for each in evaluator.columns if columns[each].has_results]
    counted = counted_metric(with_result, name, declared.primary)
    for each in list(evaluator.columns):
        if all(value != value for value in columns[each].values):
            del columns[each]
            evaluator.columns.remove(each)
    verdicts = [columns[each] for each in evaluator.columns if columns[each].passes]
    primary = next((column for column in verdicts if column.metric == counted), None)
    if primary is not None:
        del columns[primary.name]
        evaluator.columns[evaluator.columns.index(primary.name)] = f"{name}.{PASS_RATE}"
        primary.name = primary.passes = f"{name}.{PASS_RATE}"
        columns[primary.name] = primary
    for verdict in verdicts:
        _link_score_to_verdict(verdict, evaluator, columns, declared)
    evaluator.main = _main(evaluator, columns, primary, declared)


def _link_score_to_verdict(
    verdict: MetricColumn, evaluator: EvaluatorColumns, columns: dict[str, MetricColumn], declared: EvaluatorEntry
) -> None:
    """Link a score column to its pass/fail column and record whether the two differ."""
    name = evaluator.name
    number = columns.get(f"{name}.{verdict.metric}") or columns.get(f"{name}.{verdict.metric}_score")
    if number is None or number is verdict:
        return
    known = declared.metric(verdict.metric)
    same = number.values.tobytes() == verdict.values.tobytes()
    number.repeats = known.kind == "binary" if known is not None else same
    number.passes, number.metric = verdict.name, verdict.metric


def _main(
    evaluator: EvaluatorColumns,
    columns: dict[str, MetricColumn],
    primary: MetricColumn | None,
    declared: EvaluatorEntry,
) -> str | None:
    if primary is not None:
        return primary.name
    named = (f"{evaluator.name}.{name}" for name in (declared.primary, evaluator.name))
    return next((own for own in named if own in columns), next(iter(evaluator.columns), None))
