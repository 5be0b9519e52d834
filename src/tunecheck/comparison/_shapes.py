"""Which columns of result rows are whose: evaluators' verdicts and numbers, the data's columns, errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tunecheck.comparison._batches import Part
from tunecheck.comparison._declared import Declared, DeclaredMetric
from tunecheck.comparison._table import Column, EvaluatorColumns
from tunecheck.datasets._repeated import SOURCE_ID, TRIAL

MOST_COLUMNS = 300
"""Most metrics that are read of an evaluator."""

_LEFT_OUT = ("_result", "_reason", "_status", "_properties", "_threshold", "_model", "_finish_reason")
_SAMPLES = ("_sample_input", "_sample_output", "_prompt_tokens", "_completion_tokens", "_total_tokens")
_MOST_NAMES = 1_000

NameOf = Callable[[str], tuple[str, str] | None]


@dataclass(frozen=True, slots=True)
class Shape:
    """What is to be read of rows that have the same columns; `needed` are the columns that evaluators' parts read.

    `content` are the data's columns that make up a row's content; `label` the cluster's column.
    """

    parts: list[Part]
    needed: list[str]
    has_error: bool
    target_failed: bool
    label: str | None
    content: list[str]
    trials: bool


class Shapes:
    """Takes rows' columns apart and keeps a table's columns and evaluators."""

    def __init__(
        self,
        declared: Mapping[str, Declared] | None,
        cluster: str | None,
        answers: frozenset[str],
        *,
        nulls_are_errors: bool,
    ) -> None:
        self._declared = declared or {}
        self._split = _at_declared_names(declared) if declared is not None else _at_the_first_dot
        self._cluster, self._answers, self._nulls_are_errors = cluster, answers, nulls_are_errors
        self.columns: dict[str, Column] = {}
        self.evaluators: dict[str, EvaluatorColumns] = {name: self._evaluator(name) for name in self._declared}
        self.column_names: dict[str, None] = {}

    def _evaluator(self, name: str) -> EvaluatorColumns:
        known = self.declared(name)
        return EvaluatorColumns(name, [], None, bytearray(), bool(known.metrics), known.arguments, known.fingerprint)

    def declared(self, name: str) -> Declared:
        """What an evaluator says of itself."""
        return self._declared.get(name, Declared())

    def of(self, keys: Sequence[str]) -> Shape:
        """What is to be read of rows with these columns."""
        parts = {name: self._part(evaluator, keys) for name, evaluator in self.evaluators.items() if self._declared}
        own: dict[str, list[str]] = {}
        for key in keys:
            split = self._split(key)
            if split is not None:
                own.setdefault(split[0], []).append(split[1])
        for name, found in own.items():
            evaluator = self.evaluators.setdefault(name, self._evaluator(name))
            part = parts.setdefault(name, self._part(evaluator, keys))
            part.keys = [f"outputs.{name}.{key}" for key in found]
            self._assign(part, name, found)
        inputs = [key for key in keys if key.startswith("inputs.")]
        for key in inputs[: _MOST_NAMES - len(self.column_names)]:
            self.column_names[key.removeprefix("inputs.")] = None
        return Shape(
            parts=list(parts.values()),
            needed=list(dict.fromkeys(key for part in parts.values() for key in part.needed())),
            has_error=any(key.startswith("error.") for key in keys),
            target_failed="error.target" in keys,
            label=self._label(keys),
            content=self._content(inputs),
            trials=f"inputs.{TRIAL}" in keys and f"inputs.{SOURCE_ID}" in keys,
        )

    def _part(self, evaluator: EvaluatorColumns, keys: Sequence[str]) -> Part:
        return Part(evaluator, f"error.{evaluator.name}" in keys, self._nulls_are_errors)

    def _label(self, keys: Sequence[str]) -> str | None:
        if self._cluster is None:
            return None
        places = (f"inputs.{self._cluster}", self._cluster, f"outputs.{self._cluster}")
        return next((place for place in places if place in keys), None)

    def _content(self, inputs: Sequence[str]) -> list[str]:
        """The columns that make up a row's content; `a.b` beside `a` only says a part of it once more (Azure's)."""
        names = {key.removeprefix("inputs.") for key in inputs}
        skipped = self._answers | {TRIAL, SOURCE_ID}
        return [
            key for key in inputs if (name := key.removeprefix("inputs.")) not in skipped and not _part(name, names)
        ]

    def _assign(self, part: Part, name: str, keys: Sequence[str]) -> None:
        """Say of each key whether it is a verdict, a number, or neither."""
        known = set(keys)
        for key in keys:
            metric = key.removesuffix("_result")
            if metric and metric != key:
                column = self._column(part.evaluator, f"{metric}_passed", metric, DeclaredMetric("binary"))
                if column is not None:
                    column.passes = column.name
                    reason = f"outputs.{name}.{metric}_reason" if f"{metric}_reason" in known else None
                    part.verdicts.append((f"outputs.{name}.{key}", reason, column))
            elif not key.endswith((*_LEFT_OUT, *_SAMPLES)) and not _is_repeated(key, known):
                means = self.declared(name).metrics.get(key, DeclaredMetric("binary"))
                column = self._column(part.evaluator, key, key, means)
                if column is not None:
                    part.numbers.append((f"outputs.{name}.{key}", column))

    def _column(self, evaluator: EvaluatorColumns, key: str, metric: str, means: DeclaredMetric) -> Column | None:
        name = f"{evaluator.name}.{key}"
        column = self.columns.get(name)
        if column is None and len(evaluator.columns) >= MOST_COLUMNS:
            evaluator.left_out += 1
            return None
        if column is None:
            column = Column(name, evaluator.name, metric, means.kind, means.higher_is_better, means.bounds)
            self.columns[name] = column
            evaluator.columns.append(name)
        return column


def _at_declared_names(declared: Mapping[str, Declared]) -> NameOf:
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
