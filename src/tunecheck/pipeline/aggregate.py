"""From rows to metrics: means, pass rates, counts of every outcome, over all rows and by group, in flat memory.

Sums are exact (`math.fsum`), so the order in which rows finish changes no digit.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeAlias

from tunecheck.errors import ConfigurationError
from tunecheck.jsontext import JSON, plain
from tunecheck.pipeline.results import ResultRow, RowState
from tunecheck.pipeline.scoring import BoundEvaluator, Output

__all__ = ["Aggregator", "Group", "Metrics"]

Metrics: TypeAlias = dict[str, JSON]
Group: TypeAlias = tuple[JSON, ...]
"""The values of the grouping columns, in their order."""

_Filter: TypeAlias = Callable[[ResultRow], bool]

MAX_GROUPS = 1_000
"""Most groups that metrics are kept for; a column with more values identifies rows rather than grouping them."""

_NOT_APPLICABLE = ("not_applicable", "not applicable")
_NO_MEAN_SUFFIXES = ("_threshold", "_tokens")


@dataclass(slots=True)
class _Tally:
    """What is counted for one evaluator in one group."""

    scored: int = 0
    not_applicable: int = 0
    errors: int = 0
    results: dict[str, Counter[str]] = field(default_factory=dict)
    numbers: dict[str, array[float]] = field(default_factory=dict)

    def number(self, key: str, value: float) -> None:
        numbers = self.numbers.get(key)
        if numbers is None:
            numbers = self.numbers[key] = array("d")
        numbers.append(_as_float(value))

    def result(self, key: str, word: str) -> None:
        counter = self.results.get(key)
        if counter is None:
            counter = self.results[key] = Counter()
        counter[word] += 1


class Aggregator:
    """Collects outcomes row by row; `group_columns` are `row_kind` and what `--group-by` names."""

    def __init__(self, evaluators: Sequence[BoundEvaluator], group_columns: Sequence[str]) -> None:
        self._evaluators = evaluators
        self._columns = group_columns
        self._tallies: dict[Group, list[_Tally]] = {}
        self.rows = 0
        self.failed_rows = 0

    def add(self, state: RowState, group: Group) -> None:
        """Count one finished row."""
        self.rows += 1
        self.failed_rows += bool(state.errors)
        for evaluator, tally in zip(self._evaluators, self._of(group), strict=True):
            output = state.outputs.get(evaluator.name)
            if output is None:
                tally.errors += 1
            else:
                _count(tally, output, evaluator)

    def _of(self, group: Group) -> list[_Tally]:
        tallies = self._tallies.get(group)
        if tallies is None:
            if len(self._tallies) >= MAX_GROUPS:
                raise ConfigurationError(
                    f"more than {MAX_GROUPS} groups by {', '.join(self._columns)}: choose a column with fewer values"
                )
            tallies = self._tallies[group] = [_Tally() for _ in self._evaluators]
        return tallies

    def metrics(self, rows: Iterable[ResultRow]) -> Metrics:
        """The metrics over all rows; `rows` are read again only for evaluators with an `__aggregate__` of their own."""
        return self._metrics(list(self._tallies.values()), rows, lambda _: True)

    def by_group(self, rows: Iterable[ResultRow]) -> dict[str, dict[str, Metrics]]:
        """The metrics by each grouping column's values: `{column: {value: metrics}}`."""
        return {column: self._by_column(position, column, rows) for position, column in enumerate(self._columns)}

    def _by_column(self, position: int, column: str, rows: Iterable[ResultRow]) -> dict[str, Metrics]:
        values = {group[position]: None for group in self._tallies if group[position] is not None}
        found = {}
        for value in values:
            tallies = [tallies for group, tallies in self._tallies.items() if group[position] == value]
            found[str(value)] = self._metrics(tallies, rows, _has_value(column, value)) | {
                "row_count": sum(sum(_outcomes(tally[0])) for tally in tallies if tally)
            }
        return found

    def _metrics(self, groups: Sequence[Sequence[_Tally]], rows: Iterable[ResultRow], wanted: _Filter) -> Metrics:
        metrics: Metrics = {}
        for position, evaluator in enumerate(self._evaluators):
            tallies = [group[position] for group in groups]
            metrics |= _evaluator_metrics(evaluator, tallies)
            metrics |= _own_aggregate(evaluator, rows, wanted, any(tally.scored for tally in tallies))
        return metrics


def _has_value(column: str, value: JSON) -> _Filter:
    key = column if column == "row_kind" else f"inputs.{column}"
    return lambda row: row.get(key) == value


def _count(tally: _Tally, output: Output, evaluator: BoundEvaluator) -> None:
    results: dict[str, str] = {}
    for key, value in output.items():
        if isinstance(value, str):
            if key.endswith("_result"):
                results[key] = value
        elif isinstance(value, (bool, int, float)) and not key.endswith(_NO_MEAN_SUFFIXES):
            tally.number(key, value)
    for key, result in results.items():
        tally.result(key, result)
    primary = _primary_result(evaluator, results)
    if primary is not None and results[primary] in _NOT_APPLICABLE:
        tally.not_applicable += 1
    else:
        tally.scored += 1


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer beyond any float
        return math.copysign(math.inf, value)


def _primary_result(evaluator: BoundEvaluator, results: Iterable[str]) -> str | None:
    """The key whose pass and fail count: what the evaluator declares, its own name's, else the first."""
    keys = list(results)
    for candidate in (f"{evaluator.primary}_result", f"{evaluator.name}_result"):
        if candidate in keys:
            return candidate
    return keys[0] if keys else None


def _evaluator_metrics(evaluator: BoundEvaluator, tallies: Sequence[_Tally]) -> Metrics:
    name = evaluator.name
    metrics: Metrics = {f"{name}.{key}": _mean(tallies, key) for key in _keys(tally.numbers for tally in tallies)}
    primary = _primary_result(evaluator, _keys(tally.results for tally in tallies))
    if primary is not None:
        passed, failed = (
            sum(tally.results.get(primary, Counter())[word] for tally in tallies) for word in ("pass", "fail")
        )
        metrics[f"{name}.binary_aggregate"] = passed / (passed + failed) if passed + failed else None
    scored, not_applicable, errors = (sum(counts) for counts in zip(*map(_outcomes, tallies), strict=True))
    return metrics | {
        f"{name}.scored_count": scored,
        f"{name}.not_applicable_count": not_applicable,
        f"{name}.error_count": errors,
    }


def _outcomes(tally: _Tally) -> tuple[int, int, int]:
    return tally.scored, tally.not_applicable, tally.errors


def _keys(tables: Iterable[Mapping[str, object]]) -> list[str]:
    return list(dict.fromkeys(key for table in tables for key in table))


def _mean(tallies: Sequence[_Tally], key: str) -> float | None:
    columns = [tally.numbers[key] for tally in tallies if key in tally.numbers]
    try:
        mean = math.fsum(chain.from_iterable(columns)) / sum(map(len, columns))
    except (OverflowError, ValueError):  # the sum leaves the range of a float
        return None
    return mean if math.isfinite(mean) else None


class EvaluatorRow(dict[str, JSON]):
    """One output of an evaluator, its keys also readable as attributes, as Azure AI Evaluation hands them over."""

    def __getattr__(self, name: str) -> JSON:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class EvaluatorRows(Sequence[EvaluatorRow]):
    """All outputs of one evaluator, errors left out: what `__aggregate__` is given.

    They are read from the rows as they are iterated; what is asked for by index is kept from then on.
    """

    def __init__(self, name: str, rows: Iterable[ResultRow], wanted: _Filter) -> None:
        self._prefix = f"outputs.{name}."
        self._rows = rows
        self._wanted = wanted
        self._kept: list[EvaluatorRow] | None = None

    def __iter__(self) -> Iterator[EvaluatorRow]:
        return iter(self._kept) if self._kept is not None else self._read()

    def _read(self) -> Iterator[EvaluatorRow]:
        cut = len(self._prefix)
        for row in self._rows:
            if self._wanted(row):
                output = {key[cut:]: value for key, value in row.items() if key.startswith(self._prefix)}
                if output:
                    yield EvaluatorRow(output)

    def _all(self) -> list[EvaluatorRow]:
        if self._kept is None:
            self._kept = list(self._read())
        return self._kept

    def __len__(self) -> int:
        return len(self._all())

    def __getitem__(self, index: int | slice) -> EvaluatorRow | list[EvaluatorRow]:  # type: ignore[override]
        return self._all()[index]


def _own_aggregate(evaluator: BoundEvaluator, rows: Iterable[ResultRow], wanted: _Filter, any_scored: bool) -> Metrics:
    if evaluator.aggregate is None or not any_scored:
        return {}
    try:
        found = evaluator.aggregate(EvaluatorRows(evaluator.name, rows, wanted))
        return {f"{evaluator.name}.{key}": plain(value, path=str(key)) for key, value in found.items()}
    except Exception as error:  # noqa: BLE001 - somebody's code over a finished run: its rows must not be lost for it
        return {f"{evaluator.name}.aggregate_error": f"{type(error).__name__}: {error}"}
