"""Data as Azure AI Evaluation reads it: every row has every column, and leaves of objects can be used by name."""

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
"""If the data has one of these columns, leaves of objects get no columns."""


@dataclass(frozen=True, slots=True)
class Needed(Reference):
    """A reference to a value that each row must have, even for a parameter with a default."""

    def resolve(self, data: Mapping[str, object], target: Mapping[str, object]) -> object | Missing:
        """Return the value that this reference names, from the row's data or the target's answer.

        Raises:
            ColumnMissingError: the row has no such value.
        """
        value = Reference.resolve(self, data, target)
        if value is MISSING:
            raise ColumnMissingError(f"{self.text} is not in this row")
        return value

    def value_in(self, data: Mapping[str, object], target: Mapping[str, object]) -> object:
        """Return the value, or None if it is missing. For readers to whom it is optional, such as the row's kind."""
        value = Reference.resolve(self, data, target)
        return None if value is MISSING else value


@dataclass(frozen=True, slots=True)
class Leaf(Reference):
    """A reference to a leaf of an object by the leaf's name. A column of the target with this name takes precedence."""

    def resolve(self, data: Mapping[str, object], target: Mapping[str, object]) -> object | Missing:
        """Return the target's column with the leaf's name, or else the leaf in the row's object.

        None if the row lacks both.
        """
        name = leaf_name(str(self.steps[-1]))
        value = target[name] if name in target else Reference.resolve(self, data, target)
        return None if value is MISSING else value


class AzureRows(Dataset):
    """The rows of a file: CSV if the name ends in `.csv`, else JSON Lines. Row ids may repeat.

    A missing value, or an empty value in CSV, is NaN. If `numbered`, the column `line_number` contains the row number.
    """

    def __init__(self, path: Path, *, numbered: bool) -> None:
        """Open the file as CSV or JSON Lines. Rows without an id are named by their number."""
        self._is_csv = path.suffix.lower() == ".csv"
        super().__init__(CsvSource(path) if self._is_csv else JsonLinesSource(path))
        self._number_ids = True
        self._numbered = numbered
        self.gaps: dict[int, list[str]] = {}
        """The columns that are NaN, by row number. A row's entry exists once the row was read."""

    def rows(self) -> Iterator[Row]:
        """Yield the rows, each with every column of the data. The columns that are NaN are noted in `gaps`."""
        columns = sorted(self.scan().columns)
        for row in super().rows():
            gaps = [name for name in columns if name not in row.values or (self._is_csv and row.values[name] == "")]
            if gaps:
                self.gaps[row.index] = gaps
            number: dict[str, JSON] = {"line_number": row.index} if self._numbered else {}
            yield replace(row, values={**row.values, **dict.fromkeys(gaps, math.nan), **number})

    def has(self, wanted: Reference) -> bool:
        """Return whether any row has the value to which a mapping refers."""
        if len(wanted.steps) == 1:
            return wanted.steps[0] in self.scan().columns
        return any(Reference.resolve(wanted, row.values, {}) is not MISSING for row in super().rows())

    def leaf_mapping(self) -> dict[str, Leaf]:
        """Return a reference for each leaf's name. If several leaves have the same name, the first is used.

        A column with a dot in its name counts as a leaf, too.
        """
        mapping: dict[str, Leaf] = {}
        for path in self._leaf_paths():
            name = leaf_name(path[-1])
            if name not in mapping:
                mapping[name] = Leaf("data", path, f"${{data.{'.'.join(path)}}}")
        return mapping

    def _leaf_paths(self) -> Iterator[tuple[str, ...]]:
        """Yield the paths of columns with a dot in their names, and of leaves of objects if these become columns."""
        columns = self.scan().columns
        yield from ((column,) for column in columns if "." in column and not column.startswith("__outputs."))
        if takes_apart(columns):
            for row in super().rows():
                yield from (path for path, _ in leaves(row.values))


def leaves(values: Mapping[str, JSON], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], JSON]]:
    """Yield each leaf of the objects among these values, with its path."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from leaves(value, (*above, name))
        elif above:
            yield (*above, name), value


def leaf_name(column: str) -> str:
    """Return the part of a column's name after the last dot."""
    return column.rpartition(".")[2]


def takes_apart(columns: Iterable[str]) -> bool:
    """Return whether leaves of objects become columns of the results."""
    return _CONVERSATIONS.isdisjoint(columns)
