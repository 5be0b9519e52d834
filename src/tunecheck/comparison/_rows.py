"""Result rows as the comparison reads them: where they come from, and single values, raw JSON until they are needed."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tunecheck import _json
from tunecheck._disk import lines, open_regular
from tunecheck._errors import DataError, told_as
from tunecheck._json import JSON, dumps, loads
from tunecheck.datasets._reading import Dataset

RawRow = Mapping[str, msgspec.Raw]
"""A row by column, its values not decoded."""

_decode_row = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def decode_row(line: bytes) -> RawRow:
    """One row's columns.

    Raises:
        ValueError: the text is not a JSON object.
    """
    try:
        return _decode_row(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        value = loads(line)
        if not isinstance(value, dict):
            raise ValueError("not a JSON object") from None
        return {key: msgspec.Raw(dumps(item)) for key, item in value.items()}


def value_of(raw: msgspec.Raw | bytes | None) -> JSON:
    """A value as plain JSON; None where there is none, or it cannot be read."""
    return None if raw is None else _json.value_of(bytes(raw))


def text_of(raw: msgspec.Raw | None) -> str | None:
    """A value that is text, or None."""
    text = b"" if raw is None else bytes(raw)
    value = _json.value_of(text) if text[:1] == b'"' else None
    return value if isinstance(value, str) else None


def as_text(raw: msgspec.Raw) -> str | None:
    """A value as a label: a text as it is, everything else as JSON; None for null."""
    value = value_of(raw)
    if value is None or isinstance(value, str):
        return value
    return bytes(raw).decode("utf-8", "backslashreplace")


_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class LinesFile:
    """`eval_results.jsonl`: an object a line."""

    path: Path

    def records(self, only: Container[int] | None = None) -> Iterator[RawRow]:
        """See RowSource."""
        with told_as(DataError, self.path), open_regular(self.path, buffering=_BLOCK) as file:
            for number, line in enumerate(lines(file)):
                if (only is None or number in only) and not line.isspace():
                    yield _decoded(line, self.path, number)


class _Results(msgspec.Struct):
    rows: list[msgspec.Raw]


@dataclass(frozen=True, slots=True)
class AzureFile:
    """`evaluation_results.json`: one object with `rows`; as Azure writes it, NaN stands where a value is missing."""

    path: Path

    def records(self, only: Container[int] | None = None) -> Iterator[RawRow]:
        """See RowSource."""
        with told_as(DataError, self.path):
            content = self.path.read_bytes()
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
        """Of a file with NaN in it, which is not JSON."""
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
        yield from map(dumps, rows)


@dataclass(frozen=True, slots=True)
class AskedRows:
    """The rows of a data set, as the results of a run over them will name them."""

    dataset: Dataset

    def records(self, only: Container[int] | None = None) -> Iterator[RawRow]:
        """See RowSource."""
        for number, row in enumerate(self.dataset.rows()):
            if only is None or number in only:
                values = {f"inputs.{name}": value for name, value in row.values.items()}
                named = {"row_id": row.id, "row_fingerprint": row.fingerprint, **values}
                yield {name: msgspec.Raw(dumps(value)) for name, value in named.items()}


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
            f"{where} is not a JSON object ({what}): damaged or half-written; copy or write it again"
        ) from None
