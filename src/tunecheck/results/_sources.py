"""Sources of result rows: a run folder, Azure AI Evaluation's file, rows in memory, rows yet to be asked."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tunecheck._disk import lines, open_regular
from tunecheck._errors import DataError, told_as
from tunecheck._json import JSON, dumps, loads
from tunecheck.pipeline._finished_rows import ResultRow, read_row

if TYPE_CHECKING:
    from tunecheck.datasets._reading import Dataset

_BLOCK = 1 << 20


class RowSource(Protocol):
    """A source of result rows; it can be read again."""

    def records(self, only: Container[int] | None = None) -> Iterator[ResultRow]:
        """Yield each row's values by column, or those of some rows by their number from 0.

        Raises:
            DataError: a row that cannot be read.
        """


@dataclass(frozen=True, slots=True)
class ResultsFile:
    """`eval_results.jsonl`: an object a line."""

    path: Path

    def records(self, only: Container[int] | None = None) -> Iterator[ResultRow]:
        """See RowSource."""
        with told_as(DataError, self.path), open_regular(self.path, buffering=_BLOCK) as file:
            for number, line in enumerate(lines(file)):
                if (only is None or number in only) and not line.isspace():
                    yield read_row(line, self.path, number)


@dataclass(frozen=True, slots=True)
class AzureFile:
    """`evaluation_results.json`: one object with `rows`; as Azure writes it, NaN stands where a value is missing."""

    path: Path

    def records(self, only: Container[int] | None = None) -> Iterator[ResultRow]:
        """See RowSource."""
        with told_as(DataError, self.path):
            content = self.path.read_bytes()
        try:
            value = loads(content)
        except ValueError as error:
            what = " ".join(str(error).split())
            raise DataError(
                f"{self.path}: not JSON ({what}): the file is half-written, or holds no results; write it again"
            ) from None
        rows = value.get("rows") if isinstance(value, dict) else None
        if not isinstance(rows, list):
            raise DataError(f'{self.path}: no results: expected an object {{"rows": […], "metrics": {{…}}}}')
        for number, row in enumerate(rows):
            if only is None or number in only:
                yield _checked(row, f"{self.path}: row {number + 1}")


@dataclass(frozen=True, slots=True)
class AskedRows:
    """The rows of a data set, as the results of a run over them will name them."""

    dataset: Dataset

    def records(self, only: Container[int] | None = None) -> Iterator[ResultRow]:
        """See RowSource."""
        for number, row in enumerate(self.dataset.rows()):
            if only is None or number in only:
                values = {f"inputs.{name}": value for name, value in row.values.items()}
                yield {"row_id": row.id, "row_fingerprint": row.fingerprint, **values}


@dataclass(frozen=True, slots=True)
class GivenRows:
    """Rows in memory: `result["rows"]` of either `evaluate`."""

    rows: Sequence[Mapping[str, object]]

    def records(self, only: Container[int] | None = None) -> Iterator[ResultRow]:
        """See RowSource."""
        for number, row in enumerate(self.rows):
            if only is not None and number not in only:
                continue
            try:
                written = loads(dumps(row))  # a float's NaN becomes null, as in a file
            except TypeError as error:
                raise DataError(f"row {number + 1}: {error}") from None
            yield _checked(written, f"row {number + 1}")


def _checked(row: JSON, where: str) -> ResultRow:
    if not isinstance(row, dict):
        raise DataError(f"{where} is not a JSON object: damaged or half-written; copy or write it again")
    return row
