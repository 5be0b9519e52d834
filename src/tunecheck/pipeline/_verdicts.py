"""The one reader of verdicts: which result of an evaluator counts, and what it says of a row.

An evaluator may return several metrics with a `<metric>_result`. Of a whole run one of them counts: that of the primary
metric that it declares; else that of the metric named like the evaluator; else the first, in the order of the rows.
Pass rates, tables, charts, comparisons, calibration and pass^k all read that one, and no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

import msgspec

from tunecheck._faults import Fault, read_faults
from tunecheck._json import JSON
from tunecheck._messages import clean

Word: TypeAlias = Literal["pass", "fail", "not_applicable", "scored", "error"]
"""What became of a row: `scored` has a number and neither passes nor fails, `error` has nothing."""

WORDS: Mapping[str, Word] = MappingProxyType(
    {"pass": "pass", "fail": "fail", "not_applicable": "not_applicable", "not applicable": "not_applicable"}
)
"""What a `<metric>_result` may say; Azure AI Evaluation writes a space."""

RESULT = "_result"
_MOST_FAULTS = 1_000


class Verdict(msgspec.Struct, frozen=True):
    """What an evaluator says of one row; `score` is its number as it stands there."""

    word: Word
    score: JSON = None
    threshold: float | None = None
    reason: str = ""
    faults: tuple[Fault, ...] = ()
    """Of a row that failed: never empty."""


def counted_metric(with_result: Iterable[str], name: str, primary: str | None) -> str | None:
    """Of the metrics that have a result, in the order of the rows, the one that counts."""
    known = list(with_result)
    return next((metric for metric in (primary, name) if metric in known), known[0] if known else None)


def counted_metrics(rows: Iterable[Mapping[str, JSON]], primaries: Mapping[str, str | None]) -> dict[str, str | None]:
    """The metric that counts, by evaluator; `primaries` has each evaluator's declared primary metric.

    Reads no further than it must: one row, where every evaluator has the result that comes first.
    """
    known: dict[str, dict[str, None]] = {name: {} for name in primaries}
    left = dict(primaries)
    for row in rows:
        for name, primary in list(left.items()):
            known[name] |= dict.fromkeys(_with_result(row, name))
            if (primary or name) in known[name]:
                del left[name]
        if not left:
            break
    return {name: counted_metric(known[name], name, primary) for name, primary in primaries.items()}


def _with_result(row: Mapping[str, JSON], name: str) -> Iterable[str]:
    own = f"outputs.{name}."
    for key, value in row.items():
        if key.startswith(own) and key.endswith(RESULT) and isinstance(value, str) and value in WORDS:
            yield key[len(own) : -len(RESULT)]


class VerdictReader:
    """Reads one evaluator's verdict out of result rows; `metric` is the one that counts, None where none does.

    `keys` are what says why a row failed.
    """

    def __init__(self, name: str, metric: str | None) -> None:
        self.name = name
        self.metric = metric
        self._own = f"outputs.{name}."
        key = f"{self._own}{metric}"
        self._score, self._other_score, self._result = key, f"{key}_score", f"{key}{RESULT}"
        self._reason, self._threshold = f"{key}_reason", f"{key}_threshold"
        self._properties, self._differences = f"{key}_properties", f"{key}_differences"
        self.keys = (self._result, self._reason, self._threshold, self._properties, self._differences)

    def read(self, row: Mapping[str, JSON]) -> Verdict:
        """The verdict on this row."""
        word = self.word(row)
        if self.metric is None or word == "error":
            return Verdict(word)
        score = row[self._score] if self._score in row else row.get(self._other_score)
        threshold, reason = row.get(self._threshold), row.get(self._reason)
        if type(threshold) is not float or threshold != threshold:  # a float in nearly every row
            threshold = _number(threshold)
        reason = reason if isinstance(reason, str) else ""
        faults = self._faults(row, threshold, reason) if word == "fail" else ()
        return Verdict(word, score, threshold, reason, faults)

    def word(self, row: Mapping[str, JSON]) -> Word:
        """Only what became of the row."""
        result = row.get(self._result)
        if self.metric is not None and isinstance(result, str) and (word := WORDS.get(result)) is not None:
            return word
        # The keys of its errors have another prefix: an evaluator that failed has none of its own.
        return "scored" if any(key.startswith(self._own) for key in row) else "error"

    def _faults(self, row: Mapping[str, JSON], threshold: float | None, reason: str) -> tuple[Fault, ...]:
        named = read_faults(row.get(self._properties)) or _judged(row.get(self._differences))
        return named[:_MOST_FAULTS] or (
            Fault(code="below_threshold" if threshold is not None and not reason else "own"),
        )


def _number(value: JSON) -> float | None:
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    return None if number is None or number != number else number


def _judged(differences: JSON) -> tuple[Fault, ...]:
    """The differences that a judge lists, each of a kind in its own words."""
    listed = [item for item in differences if isinstance(item, dict)] if isinstance(differences, list) else []
    kinds = [item.get("kind") for item in listed[:_MOST_FAULTS]]
    return tuple(Fault(code=clean(kind, 100)) for kind in kinds if isinstance(kind, str))
