"""From rows to metrics: means, pass rates, counts of every outcome, over all rows and by group.

Sums are exact (`math.fsum`), and keys and groups stand in the order of the rows, so the order in which rows finish
changes nothing. Kept in memory are eight bytes for each number.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeAlias

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, dumps, plain
from tunecheck.pipeline._results import RowsSelection, RowState, RowsView
from tunecheck.pipeline._scoring import BoundEvaluator, Output
from tunecheck.pipeline._verdicts import RESULT, WORDS, counted_metric

Metrics: TypeAlias = dict[str, JSON]

MAX_GROUPS = 1_000
"""Most values of a grouping column; one with more identifies rows rather than grouping them."""

MAX_COMBINATIONS = 20_000
"""Most combinations of the values of all grouping columns."""

_TOKENS = ("_prompt_tokens", "_completion_tokens", "_total_tokens")
_LONGEST_VALUE = 200


@dataclass(slots=True)
class _Tally:
    """What is counted for one evaluator in one group; `results` by metric what they say."""

    outputs: int = 0
    errors: int = 0
    results: dict[str, Counter[str]] = field(default_factory=dict)
    numbers: dict[str, array[float]] = field(default_factory=dict)
    shapes: dict[tuple[str, ...], int] = field(default_factory=dict)
    """Which keys outputs had, and the first row that had them."""
    without_mean: dict[tuple[str, ...], frozenset[str]] = field(default_factory=dict)

    def add(self, index: int, output: Output) -> None:
        self.outputs += 1
        shape = tuple(output)
        if index < self.shapes.setdefault(shape, index):
            self.shapes[shape] = index
        without_mean = self.without_mean.get(shape)
        if without_mean is None:
            without_mean = self.without_mean[shape] = frozenset(key for key in shape if _has_no_mean(key, output))
        for key, value in output.items():
            if isinstance(value, str):
                if value in WORDS and key.endswith(RESULT):
                    self._result(key.removesuffix(RESULT), WORDS[value])
            elif isinstance(value, (int, float)) and key not in without_mean:
                self._number(key, value)

    def _number(self, key: str, value: float) -> None:
        try:
            self.numbers[key].append(value)
        except KeyError:
            self.numbers[key] = array("d", [_as_float(value)])
        except OverflowError:
            self.numbers[key].append(_as_float(value))

    def _result(self, metric: str, word: str) -> None:
        counter = self.results.get(metric)
        if counter is None:
            counter = self.results[metric] = Counter()
        counter[word] += 1


@dataclass(slots=True)
class _Cell:
    """The rows that have the same values in all grouping columns."""

    first: int
    tallies: list[_Tally]
    count: int = 0
    rows: array[int] = field(default_factory=lambda: array("Q"))
    """Which they are; kept only where some evaluator wants to see them again."""


class Aggregator:
    """Collects outcomes row by row; `group_columns` are columns by whose values the metrics are reported, too."""

    def __init__(self, evaluators: Sequence[BoundEvaluator], group_columns: Sequence[str]) -> None:
        self._evaluators = evaluators
        self._columns = group_columns
        self._keeps_rows = any(evaluator.aggregate is not None for evaluator in evaluators)
        self._cells: dict[tuple[str | None, ...], _Cell] = {}
        self._values: list[set[str | None]] = [set() for _ in group_columns]
        self.rows = 0
        self.failed_rows = 0

    def add(self, state: RowState) -> None:
        """Count one finished row.

        Raises:
            ConfigurationError: there are too many groups.
        """
        self.rows += 1
        self.failed_rows += bool(state.errors)
        index = state.row.index
        cell = self._cell(index, tuple(_group_value(state, column) for column in self._columns))
        cell.first = min(cell.first, index)
        cell.count += 1
        if self._keeps_rows:
            cell.rows.append(index)
        for evaluator, tally in zip(self._evaluators, cell.tallies, strict=True):
            output = state.outputs.get(evaluator.name)
            if output is None:
                tally.errors += 1
            else:
                tally.add(index, output)

    def _cell(self, index: int, group: tuple[str | None, ...]) -> _Cell:
        cell = self._cells.get(group)
        if cell is None:
            self._check_groups(group)
            cell = self._cells[group] = _Cell(index, [_Tally() for _ in self._evaluators])
        return cell

    def _check_groups(self, group: tuple[str | None, ...]) -> None:
        for column, values, value in zip(self._columns, self._values, group, strict=True):
            values.add(value)
            if len(values) > MAX_GROUPS:
                raise ConfigurationError(
                    f"column {column!r} makes more than {MAX_GROUPS:,} groups: choose one with fewer values"
                )
        if len(self._cells) >= MAX_COMBINATIONS:
            raise ConfigurationError(
                f"{', '.join(self._columns)} make more than {MAX_COMBINATIONS:,} groups together: choose fewer columns"
            )

    def metrics(self, rows: RowsView) -> Metrics:
        """The metrics over all rows; `rows` are read again only for evaluators with an `__aggregate__` of their own."""
        return self._metrics(list(self._cells.values()), rows, self._counted())

    def by_group(self, rows: RowsView) -> dict[str, dict[str, Metrics]]:
        """The metrics by each grouping column's values: `{column: {value: metrics}}`; values as text."""
        counted = self._counted()
        return {column: self._by_column(position, rows, counted) for position, column in enumerate(self._columns)}

    def _by_column(self, position: int, rows: RowsView, counted: Sequence[str | None]) -> dict[str, Metrics]:
        by_value: dict[str, list[_Cell]] = {}
        for group, cell in sorted(self._cells.items(), key=lambda item: item[1].first):
            value = group[position]
            if value is not None:
                by_value.setdefault(value, []).append(cell)
        return {
            value: self._metrics(cells, rows.only(sorted(chain.from_iterable(cell.rows for cell in cells))), counted)
            | {"row_count": sum(cell.count for cell in cells)}
            for value, cells in by_value.items()
        }

    def _metrics(
        self, cells: Sequence[_Cell], rows: RowsView | RowsSelection, counted: Sequence[str | None]
    ) -> Metrics:
        metrics: Metrics = {}
        for position, evaluator in enumerate(self._evaluators):
            tallies = [cell.tallies[position] for cell in cells]
            found = _evaluator_metrics(evaluator.name, tallies, counted[position])
            metrics |= found
            if found[f"{evaluator.name}.scored_count"]:
                metrics |= _own_aggregate(evaluator, rows, _keys(tallies))
        return metrics

    def _counted(self) -> list[str | None]:
        """Each evaluator's metric whose result counts, chosen over all rows: in every group it is the same."""
        found = []
        for position, evaluator in enumerate(self._evaluators):
            tallies = [cell.tallies[position] for cell in self._cells.values()]
            known = {f"{metric}{RESULT}" for tally in tallies for metric in tally.results}
            metrics = [key.removesuffix(RESULT) for key in _keys(tallies) if key in known]
            found.append(counted_metric(metrics, evaluator.name, evaluator.primary))
        return found


def _group_value(state: RowState, column: str) -> str | None:
    """A grouping column's value as text: a text as it is, everything else as JSON."""
    value = state.kind if column == "row_kind" else state.row.values.get(column)
    if value is None or isinstance(value, str):
        return value and value[:_LONGEST_VALUE]
    try:
        return dumps(value).decode()[:_LONGEST_VALUE]
    except TypeError:
        return f"a {type(value).__name__}"


def _has_no_mean(key: str, output: Output) -> bool:
    """Thresholds, and the tokens that judging a metric took: `relevance_total_tokens` beside `relevance`."""
    if key.endswith("_threshold"):
        return True
    return key.endswith(_TOKENS) and any(key.endswith(end) and key.removesuffix(end) in output for end in _TOKENS)


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer beyond any float
        return math.inf if value > 0 else -math.inf


def _evaluator_metrics(name: str, tallies: Sequence[_Tally], counted: str | None) -> Metrics:
    metrics: Metrics = {
        f"{name}.{key}": _mean(tallies, key) for key in _keys(tallies) if any(key in tally.numbers for tally in tallies)
    }
    said: Counter[str] = Counter()
    if counted is not None:
        for tally in tallies:
            said.update(tally.results.get(counted, ()))
    if said:
        judged = said["pass"] + said["fail"]
        metrics[f"{name}.binary_aggregate"] = said["pass"] / judged if judged else None
    outputs = sum(tally.outputs for tally in tallies)
    return metrics | {
        f"{name}.scored_count": outputs - said["not_applicable"],
        f"{name}.not_applicable_count": said["not_applicable"],
        f"{name}.error_count": sum(tally.errors for tally in tallies),
    }


def _keys(tallies: Iterable[_Tally]) -> list[str]:
    """All keys of the outputs, in the order of the rows that have them."""
    shapes = sorted(((first, shape) for tally in tallies for shape, first in tally.shapes.items()))
    return list(dict.fromkeys(key for _, shape in shapes for key in shape))


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

    def __init__(self, name: str, rows: RowsView | RowsSelection, keys: Iterable[str]) -> None:
        self._columns = {f"outputs.{name}.{key}": key for key in keys}
        self._rows = rows
        self._kept: list[EvaluatorRow] | None = None

    def __iter__(self) -> Iterator[EvaluatorRow]:
        return iter(self._kept) if self._kept is not None else self._read()

    def _read(self) -> Iterator[EvaluatorRow]:
        return (EvaluatorRow(output) for output in self._rows.picked(self._columns) if output)

    def _all(self) -> list[EvaluatorRow]:
        if self._kept is None:
            self._kept = list(self._read())
        return self._kept

    def __len__(self) -> int:
        return len(self._all())

    def __getitem__(self, index: int | slice) -> EvaluatorRow | list[EvaluatorRow]:  # type: ignore[override]
        return self._all()[index]


def _own_aggregate(evaluator: BoundEvaluator, rows: RowsView | RowsSelection, keys: Iterable[str]) -> Metrics:
    if evaluator.aggregate is None:
        return {}
    try:
        found = evaluator.aggregate(EvaluatorRows(evaluator.name, rows, keys))
        return {f"{evaluator.name}.{key}": plain(value, path=str(key)) for key, value in found.items()}
    except Exception as error:  # noqa: BLE001 - somebody's code over a finished run: its rows must not be lost for it
        return {f"{evaluator.name}.aggregate_error": f"{type(error).__name__}: {error}"}
