"""One evaluator's verdicts and numbers, read a batch of rows at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tunecheck._json import dumps, loads
from tunecheck.comparison._table import Column, EvaluatorColumns, State

Batch = Mapping[str, Sequence[bytes]]
"""A few rows of one shape by column, each value as JSON."""

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
            values = [_number(text) for text in texts]
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


def _number(text: bytes) -> float:
    if text[0] in _NUMERIC:
        return float(text)
    return _NUMBERS.get(text, math.nan)


def _hashed(reason: bytes) -> int:
    """A number that equal reasons share, however they are escaped; never 0."""
    return hash(reason if b"\\" not in reason else dumps(loads(reason))) or 1
