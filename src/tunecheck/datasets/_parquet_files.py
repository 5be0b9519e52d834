"""Rows from Parquet, a batch at a time; what JSON has no form for becomes text, or is refused by column."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

from tunecheck._errors import MissingExtraError
from tunecheck._json import JSON
from tunecheck.datasets._cells import to_json
from tunecheck.datasets._sources import Digest, FileSource, Record

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

BATCH_ROWS = 1_000


class ParquetSource(FileSource):
    """A Parquet file: timestamps become ISO 8601 text, decimals text; binary columns are refused."""

    def records(self, digest: Digest | None = None) -> Iterator[tuple[int, Record]]:
        """See Source.

        Raises:
            MissingExtraError: pyarrow is not installed.
        """
        try:
            import pyarrow
            import pyarrow.parquet as parquet
        except ImportError:
            raise MissingExtraError("reading .parquet files", "parquet") from None
        if digest is not None:
            deque(self.raw_chunks(digest), maxlen=0)
        number = 0
        try:
            with parquet.ParquetFile(self.path) as file:
                self._check(file.schema_arrow)
                for batch in file.iter_batches(batch_size=BATCH_ROWS):
                    for record in self._rows(batch):
                        number += 1
                        yield number, record
        except (pyarrow.ArrowException, OSError) as error:
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            self.refuse(f"is not a Parquet file that can be read: {first}", number + 1 if number else None)
        except (ValueError, OverflowError) as error:
            self.refuse(f"holds a value that cannot be read: {error}", number + 1)

    def _check(self, schema: pyarrow.Schema) -> None:
        twice = [name for name, count in Counter(schema.names).items() if count > 1]
        if twice:
            self.refuse(f"has the column {twice[0]!r} more than once; rename one")
        for field in schema:
            if _holds_bytes(field.type):
                self._bytes(field.name)

    def _rows(self, batch: pyarrow.RecordBatch) -> Iterator[Record]:
        names = batch.schema.names
        columns = [_values(batch.column(at)) for at in range(len(names))]
        for values in zip(*columns, strict=True):
            yield dict(zip(names, values, strict=True))

    def _bytes(self, column: str) -> NoReturn:
        self.refuse(f"the column {column!r} holds bytes, which have no place in JSON; leave it out or store it as text")


def _values(column: pyarrow.Array) -> list[JSON]:
    import pyarrow.types as types

    values: list[JSON] = column.to_pylist()
    kind = column.type
    if types.is_string(kind) or types.is_large_string(kind) or types.is_integer(kind) or types.is_boolean(kind):
        return values
    return [to_json(value) for value in values]  # type: ignore[misc]


def _holds_bytes(kind: pyarrow.DataType) -> bool:
    import pyarrow.types as types

    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return True
    if types.is_dictionary(kind):
        return _holds_bytes(kind.value_type)
    return any(_holds_bytes(kind.field(at).type) for at in range(kind.num_fields))
