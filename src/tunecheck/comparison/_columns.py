"""Rows' columns as numbers: whose each is, its values batch by batch, and which one speaks for its evaluator."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tunecheck._files import EvaluatorEntry, MetricEntry
from tunecheck._json import dumps, loads
from tunecheck.comparison._clusters import may_cluster
from tunecheck.comparison._run_table import PASS_RATE, Column, EvaluatorColumns, Kind, State
from tunecheck.datasets._repeated import SOURCE_ID, TRIAL
from tunecheck.pipeline._finished_rows import counted_metric

MOST_COLUMNS = 300
"""Most metrics that are read of an evaluator."""

LATENCY = "outputs.latency_ms"
"""How long a target took to answer."""

_LEFT_OUT = ("_result", "_reason", "_status", "_properties", "_threshold", "_model", "_finish_reason")
_SAMPLES = ("_sample_input", "_sample_output", "_prompt_tokens", "_completion_tokens", "_total_tokens")
_MOST_NAMES = 1_000

NameOf = Callable[[str], tuple[str, str] | None]


@dataclass(frozen=True, slots=True)
class Shape:
    """What is to be read of rows that have the same columns; `needed` are the columns that evaluators' parts read.

    `content` are the data's columns that make up a row's content; `labels` where each column is that groups rows.
    """

    parts: list[Part]
    needed: list[str]
    has_error: bool
    target_failed: bool
    labels: Sequence[tuple[str, str]]
    content: tuple[str, ...]
    answers: bool
    trials: bool


class Shapes:
    """Takes rows' columns apart and keeps a table's columns and evaluators."""

    def __init__(
        self,
        declared: Mapping[str, EvaluatorEntry] | None,
        labels: Sequence[str],
        answers: frozenset[str],
        *,
        finds_clusters: bool,
        nulls_are_errors: bool,
    ) -> None:
        self._declared = declared or {}
        self._split = _at_declared_names(declared) if declared is not None else _at_the_first_dot
        self._wanted, self._finds_clusters = labels, finds_clusters
        self._answers, self._nulls_are_errors = answers, nulls_are_errors
        self.columns: dict[str, Column] = {}
        self.evaluators: dict[str, EvaluatorColumns] = {name: self._evaluator(name) for name in self._declared}
        self.column_names: dict[str, None] = {}

    def _evaluator(self, name: str) -> EvaluatorColumns:
        known = self.declared(name)
        return EvaluatorColumns(
            name, [], None, bytearray(), bool(known.metrics), known.arguments or {}, known.fingerprint, known.judge
        )

    def declared(self, name: str) -> EvaluatorEntry:
        """What an evaluator says of itself."""
        return self._declared.get(name, EvaluatorEntry())

    def of(self, keys: Sequence[str]) -> Shape:
        """What is to be read of rows with these columns."""
        parts = {name: self._part(evaluator, keys) for name, evaluator in self.evaluators.items() if self._declared}
        own: dict[str, list[str]] = {}
        for key in keys:
            split = self._split(key)
            if split is not None:
                own.setdefault(split[0], []).append(split[1])
        for name, column in own.items():
            evaluator = self.evaluators.setdefault(name, self._evaluator(name))
            part = parts.setdefault(name, self._part(evaluator, keys))
            part.keys = [f"outputs.{name}.{key}" for key in column]
            self._assign(part, name, column)
        inputs = [key for key in keys if key.startswith("inputs.")]
        labels = self._labels(keys, inputs)
        others = [key for _, key in labels] + [LATENCY] * (LATENCY in keys)
        for key in inputs[: _MOST_NAMES - len(self.column_names)]:
            self.column_names[key.removeprefix("inputs.")] = None
        return Shape(
            parts=list(parts.values()),
            needed=list(dict.fromkeys([*(key for part in parts.values() for key in part.needed()), *others])),
            has_error=any(key.startswith("error.") for key in keys),
            target_failed="error.target" in keys,
            labels=labels,
            content=self._content(inputs),
            answers=any(key.removeprefix("inputs.") in self._answers for key in inputs),
            trials=f"inputs.{TRIAL}" in keys and f"inputs.{SOURCE_ID}" in keys,
        )

    def _part(self, evaluator: EvaluatorColumns, keys: Sequence[str]) -> Part:
        return Part(evaluator, f"error.{evaluator.name}" in keys, self._nulls_are_errors)

    def _labels(self, keys: Sequence[str], inputs: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Each column that groups rows, and its key: of the data, else of the row itself, else of the target."""
        found = [name for key in inputs if may_cluster(name := key.removeprefix("inputs."))]
        places = {
            name: next((key for key in (f"inputs.{name}", name, f"outputs.{name}") if key in keys), None)
            for name in [*self._wanted, *(found if self._finds_clusters else ())]
        }
        return [(name, key) for name, key in places.items() if key is not None]

    def _content(self, inputs: Sequence[str]) -> tuple[str, ...]:
        """The columns that make up a row's content; `a.b` beside `a` only says a part of it once more (Azure's)."""
        names = {key.removeprefix("inputs.") for key in inputs}
        skipped = self._answers | {TRIAL, SOURCE_ID}
        return tuple(
            key for key in inputs if (name := key.removeprefix("inputs.")) not in skipped and not _part(name, names)
        )

    def _assign(self, part: Part, name: str, keys: Sequence[str]) -> None:
        """Say of each key whether it is a verdict, a number, or neither."""
        known = set(keys)
        for key in keys:
            metric = key.removesuffix("_result")
            if metric and metric != key:
                column = self._column(part.evaluator, f"{metric}_passed", metric, MetricEntry(metric, "binary"))
                if column is not None:
                    column.passes = column.name
                    reason = f"outputs.{name}.{metric}_reason" if f"{metric}_reason" in known else None
                    part.verdicts.append((f"outputs.{name}.{key}", reason, column))
            elif not key.endswith((*_LEFT_OUT, *_SAMPLES)) and not _is_repeated(key, known):
                means = self.declared(name).metric(key) or MetricEntry(key, "binary")
                column = self._column(part.evaluator, key, key, means)
                if column is not None:
                    part.numbers.append((f"outputs.{name}.{key}", column))

    def _column(self, evaluator: EvaluatorColumns, key: str, metric: str, means: MetricEntry) -> Column | None:
        name = f"{evaluator.name}.{key}"
        column = self.columns.get(name)
        if column is None and len(evaluator.columns) >= MOST_COLUMNS:
            evaluator.left_out += 1
            return None
        if column is None:
            kind = _KINDS.get(means.kind, "score")
            column = Column(name, evaluator.name, metric, kind, means.higher_is_better, means.bounds)
            self.columns[name] = column
            evaluator.columns.append(name)
        return column


def _at_declared_names(declared: Mapping[str, EvaluatorEntry]) -> NameOf:
    """Splits `outputs.<evaluator>.<key>` by the names that the run declares: they may hold dots."""
    names = sorted(declared, key=len, reverse=True)

    def split(key: str) -> tuple[str, str] | None:
        rest = key.removeprefix("outputs.")
        name = next((name for name in names if rest.startswith(f"{name}.")), None)
        return (name, rest[len(name) + 1 :]) if name is not None and rest is not key else None

    return split


def _at_the_first_dot(key: str) -> tuple[str, str] | None:
    name, dot, rest = key.removeprefix("outputs.").partition(".")
    return (name, rest) if key.startswith("outputs.") and dot and name and rest else None


def _is_repeated(key: str, known: set[str]) -> bool:
    """`m_score` beside `m`, and `m_passed` beside `m_result`, give the same once more."""
    if key.endswith("_score"):
        return key.removesuffix("_score") in known
    return key.endswith("_passed") and f"{key.removesuffix('_passed')}_result" in known


def _part(name: str, names: set[str]) -> bool:
    return any(letter == "." and name[:at] in names for at, letter in enumerate(name))


Batch = Mapping[str, Sequence[bytes]]
"""A few rows of one shape by column, each value as JSON."""

_KINDS: Mapping[str, Kind] = {"binary": "binary", "score": "score", "count": "count"}
_SKIPPED, _NEITHER = 2, 3
_WORDS = {b'"fail"': 0, b'"pass"': 1, b'"not_applicable"': _SKIPPED, b'"not applicable"': _SKIPPED}
_AS_NUMBER = (0.0, 1.0, math.nan, math.nan)
_AS_STATE = (State.SCORED, State.SCORED, State.NOT_APPLICABLE)
_NUMBERS = {b"true": 1.0, b"false": 0.0, b"null": math.nan}
_NUMERIC = frozenset(b"-0123456789")


@dataclass(slots=True)
class Part:
    """One evaluator's keys in rows of one shape; `failed` where they say that it ended in an error.

    `nulls_are_errors`: a row in which all of its keys are null failed.
    """

    evaluator: EvaluatorColumns
    failed: bool = False
    nulls_are_errors: bool = False
    keys: list[str] = field(default_factory=list)
    numbers: list[tuple[str, Column]] = field(default_factory=list)
    verdicts: list[tuple[str, str | None, Column]] = field(default_factory=list)

    def needed(self) -> list[str]:
        """The keys whose values are looked at."""
        if self.failed:
            return []
        reasons = [reason for _, reason, _ in self.verdicts if reason is not None]
        read = [key for key, _, _ in self.verdicts] + [key for key, _ in self.numbers]
        return [*read, *reasons, *(self.keys if self.nulls_are_errors else [])]

    def take(self, batch: Batch, start: int, count: int, *, without: int) -> bytes:
        """Put the rows' values where they belong, rows before `start` first; gives what became of each row.

        `without` is what became of rows in which the evaluator has no keys.
        """
        if self.failed:
            return bytes([State.ERROR]) * count
        if not self.keys:
            return bytes([without]) * count
        words = [self._verdicts(key, reason, column, batch, start) for key, reason, column in self.verdicts]
        numbers = [self._numbers(key, column, batch, start) for key, column in self.numbers]
        if len(words) == 1 and _NEITHER not in words[0]:
            return bytes(map(_AS_STATE.__getitem__, words[0]))
        return bytes(self._state(batch, row, words, numbers) for row in range(count))

    def _verdicts(self, key: str, reason: str | None, column: Column, batch: Batch, start: int) -> list[int]:
        words = [_WORDS.get(text, _NEITHER) for text in batch[key]]
        column.has_results = column.has_results or min(words) != _NEITHER
        column.fill(start)
        column.values.extend(map(_AS_NUMBER.__getitem__, words))
        reasons = batch[reason] if reason is not None else ()
        column.reasons.extend(
            [0 if word else _hashed(text) for word, text in zip(words, reasons, strict=True)]
            if reasons
            else [0] * len(words)
        )
        return words

    def _numbers(self, key: str, column: Column, batch: Batch, start: int) -> list[float]:
        texts = batch[key]
        try:
            values = list(map(float, texts))
        except ValueError:
            values = [number_of(text) for text in texts]
        column.fill(start)
        column.values.extend(values)
        if column.kind == "binary" and not all(value in (0.0, 1.0) or value != value for value in values):
            column.kind = "score"
        return values

    def _state(self, batch: Batch, row: int, words: Sequence[list[int]], numbers: Sequence[list[float]]) -> int:
        said = [each[row] for each in words]
        if any(word < _SKIPPED for word in said):
            return State.SCORED
        if _SKIPPED in said:
            return State.NOT_APPLICABLE
        if any(each[row] == each[row] for each in numbers):
            return State.SCORED
        failed = self.nulls_are_errors and all(batch[key][row] == b"null" for key in self.keys)
        return State.ERROR if failed else State.NOT_APPLICABLE


def number_of(text: bytes) -> float:
    """A value as a number; NaN of what is none."""
    if text[0] in _NUMERIC:
        return float(text)
    return _NUMBERS.get(text, math.nan)


def _hashed(reason: bytes) -> int:
    """A number that equal reasons share, however they are escaped; never 0."""
    return hash(reason if b"\\" not in reason else dumps(loads(reason))) or 1


def settle(evaluator: EvaluatorColumns, columns: dict[str, Column], declared: EvaluatorEntry) -> None:
    """Drop an evaluator's columns without numbers, name its pass rate, and choose its main metric.

    The main metric is the one that it declares as its primary: as a pass rate if its kind is binary, as a number if
    it is a score or a count. Where it declares nothing, its pass rate; else the number that is called as it is; else
    its first.
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
        _tie(verdict, evaluator, columns, declared)
    evaluator.main = _main(evaluator, columns, primary, declared)


def _tie(verdict: Column, evaluator: EvaluatorColumns, columns: dict[str, Column], declared: EvaluatorEntry) -> None:
    """The number beside a verdict knows its verdicts, and whether it says anything else."""
    name = evaluator.name
    number = columns.get(f"{name}.{verdict.metric}") or columns.get(f"{name}.{verdict.metric}_score")
    if number is None or number is verdict:
        return
    known = declared.metric(verdict.metric)
    same = number.values.tobytes() == verdict.values.tobytes()
    number.repeats = known.kind == "binary" if known is not None else same
    number.passes, number.metric = verdict.name, verdict.metric


def _main(
    evaluator: EvaluatorColumns, columns: dict[str, Column], primary: Column | None, declared: EvaluatorEntry
) -> str | None:
    own = f"{evaluator.name}.{declared.primary}"
    known = declared.metric(declared.primary)
    kind = known.kind if known is not None else "binary"
    if own in columns and (kind != "binary" or primary is None):
        return own
    if primary is not None:
        return primary.name
    own = f"{evaluator.name}.{evaluator.name}"
    return own if own in columns else next(iter(evaluator.columns), None)
