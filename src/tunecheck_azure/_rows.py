"""A script's data as Azure AI Evaluation has it: every row has every column; leaves of objects go by their names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tunecheck import Row
from tunecheck.datasets import CsvSource, Dataset, JsonLinesSource
from tunecheck.pipeline import ColumnMissingError, Reference
from tunecheck.plugins import JSON, MISSING, Missing

_CONVERSATIONS = frozenset({"conversation", "messages"})
"""Objects in data with one of these columns are not taken apart."""


@dataclass(frozen=True, slots=True)
class Needed(Reference):
    """A reference that a row must have, even for a parameter with a default."""

    def resolve(self, data: Mapping[str, object], target: Mapping[str, object]) -> object | Missing:
        """The value.

        Raises:
            ColumnMissingError: there is none.
        """
        value = Reference.resolve(self, data, target)
        if value is MISSING:
            raise ColumnMissingError(f"{self.text} is not in this row")
        return value

    def value_in(self, data: Mapping[str, object], target: Mapping[str, object]) -> object:
        """The value for readers that need none, such as the row's kind: None if it is missing."""
        value = Reference.resolve(self, data, target)
        return None if value is MISSING else value


@dataclass(frozen=True, slots=True)
class Leaf(Reference):
    """A leaf of an object, by its own name: the target's column of that name goes before it."""

    def resolve(self, data: Mapping[str, object], target: Mapping[str, object]) -> object | Missing:
        """The value; None if the row's object lacks it."""
        name = leaf_name(str(self.steps[-1]))
        value = target[name] if name in target else Reference.resolve(self, data, target)
        return None if value is MISSING else value


class AzureRows(Dataset):
    """The rows of a file: CSV by its name, JSON Lines whatever else it is called; ids may repeat.

    Values that a row lacks, or that are empty in CSV, are NaN. With a target, rows have their number in the column
    `line_number`.
    """

    def __init__(self, path: Path, *, numbered: bool) -> None:
        self._is_csv = path.suffix.lower() == ".csv"
        super().__init__(CsvSource(path) if self._is_csv else JsonLinesSource(path))
        self._number_ids = True
        self._numbered = numbered
        self.gaps: dict[int, list[str]] = {}
        """By a row's place, its columns that are NaN; known when it was read."""

    def rows(self) -> Iterator[Row]:
        """The rows, with these columns."""
        columns = sorted(self.scan().columns)
        for row in super().rows():
            gaps = [name for name in columns if name not in row.values or (self._is_csv and row.values[name] == "")]
            if gaps:
                self.gaps[row.index] = gaps
            number: dict[str, JSON] = {"line_number": row.index} if self._numbered else {}
            yield replace(row, values={**row.values, **dict.fromkeys(gaps, math.nan), **number})

    def has(self, wanted: Reference) -> bool:
        """Whether any row has the column that a mapping names."""
        if len(wanted.steps) == 1:
            return wanted.steps[0] in self.scan().columns
        return any(Reference.resolve(wanted, row.values, {}) is not MISSING for row in super().rows())

    def leaf_mapping(self) -> dict[str, Leaf]:
        """Each leaf by its own name, a column with a dot in its name among them; of equal names the first's counts."""
        mapping: dict[str, Leaf] = {}
        for path in self._leaf_paths():
            name = leaf_name(path[-1])
            if name not in mapping:
                mapping[name] = Leaf("data", path, f"${{data.{'.'.join(path)}}}")
        return mapping

    def _leaf_paths(self) -> Iterator[tuple[str, ...]]:
        columns = self.scan().columns
        yield from ((column,) for column in columns if "." in column and not column.startswith("__outputs."))
        if takes_apart(columns):
            for row in super().rows():
                yield from (path for path, _ in leaves(row.values))


def leaves(values: Mapping[str, JSON], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], JSON]]:
    """The leaves of the objects among these values, each with its path."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from leaves(value, (*above, name))
        elif above:
            yield (*above, name), value


def leaf_name(column: str) -> str:
    """The name of a column's leaf: the part after the last dot."""
    return column.rpartition(".")[2]


def takes_apart(columns: Iterable[str]) -> bool:
    """Whether leaves of objects are columns of the results."""
    return _CONVERSATIONS.isdisjoint(columns)
