"""Where result rows come from: run folders, Azure AI Evaluation's one file, rows in memory."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tunecheck._errors import DataError
from tunecheck._json import dumps, loads
from tunecheck.comparison._values import RawRow, decode_row

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class LinesFile:
    """`eval_results.jsonl`: an object a line."""

    path: Path

    def records(self, only: Container[int] | None = None) -> Iterator[RawRow]:
        """See RowSource."""
        try:
            with self.path.open("rb", buffering=_BLOCK) as file:
                for number, line in enumerate(file):
                    if (only is None or number in only) and not line.isspace():
                        yield _decoded(line, self.path, number)
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read: {error.strerror or error}") from None


class _Results(msgspec.Struct):
    rows: list[msgspec.Raw]


@dataclass(frozen=True, slots=True)
class AzureFile:
    """`evaluation_results.json`: one object with `rows`; as Azure writes it, NaN stands where a value is missing."""

    path: Path

    def records(self, only: Container[int] | None = None) -> Iterator[RawRow]:
        """See RowSource."""
        try:
            content = self.path.read_bytes()
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read: {error.strerror or error}") from None
        for number, row in enumerate(self._rows(content)):
            if only is None or number in only:
                yield _decoded(row, self.path, number, "row")

    def _rows(self, content: bytes) -> Iterator[bytes]:
        try:
            rows = msgspec.json.decode(content, type=_Results).rows
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            yield from self._rows_slowly(content)
        else:
            yield from map(bytes, rows)

    def _rows_slowly(self, content: bytes) -> Iterator[bytes]:
        """Of a file with NaN in it, which is no JSON."""
        try:
            value = loads(content)
        except ValueError as error:
            what = " ".join(str(error).split())
            raise DataError(f"{self.path}: no JSON ({what}): half-written, or no results; write it again") from None
        rows = value.get("rows") if isinstance(value, dict) else None
        if not isinstance(rows, list):
            raise DataError(f'{self.path}: no results: expected an object {{"rows": […], "metrics": {{…}}}}')
        yield from map(dumps, rows)


@dataclass(frozen=True, slots=True)
class GivenRows:
    """Rows in memory: `result["rows"]` of either `evaluate`."""

    rows: Sequence[Mapping[str, object]]

    def records(self, only: Container[int] | None = None) -> Iterator[RawRow]:
        """See RowSource."""
        for number, row in enumerate(self.rows):
            if only is not None and number not in only:
                continue
            try:
                line = dumps(row)
            except TypeError as error:
                raise DataError(f"row {number + 1}: {error}") from None
            yield _decoded(line, None, number, "row")


def _decoded(line: bytes, path: Path | None, number: int, unit: str = "line") -> RawRow:
    try:
        return decode_row(line)
    except ValueError as error:
        what = " ".join(str(error).split())
        where = f"{unit} {number + 1}" if path is None else f"{path}: {unit} {number + 1}"
        raise DataError(
            f"{where} is no JSON object ({what}): damaged or half-written; copy or write it again"
        ) from None
