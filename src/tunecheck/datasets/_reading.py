"""Open any kind of data as a Dataset: a stream of rows with stable ids, validated once before use.

data = open_dataset("val.jsonl")       # a path, "loader:argument", dicts, a DataFrame, an iterable of dicts
data.scan()                            # one validating pass: row count, sha256, columns, whether rows have ids
for row in data.rows(): ...            # streaming; memory stays flat

Data becomes rows by these rules, the first that fits:

1. a `Dataset`: itself
2. a text `name:argument`, if no such file exists: the data that the loader of this name returns
3. any other text or path: a file, read by its suffix, with the defaults in the YAML file next to it. If these have no
   column mapping and the first record is one of a training file, each turn of the assistant becomes a row.
4. a DataFrame, a list or another iterable of dicts: rows in memory; an iterable is read at once, up to the limit

Each row has an id:

1. If every row has a usable `id` (or a value in the column that the defaults name), it is the row's id.
2. If any row has none, all ids are `row-<number>`. If the defaults name the column, this is an error.
3. A repeated id is an error. With `number_ids`, later rows become `<id>@<number>`.
"""

from __future__ import annotations

import copy
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import IOBase
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from msgspec import Struct
from msgspec.structs import asdict, replace

from tunecheck._errors import ConfigurationError, DataError, PluginError, RunError, TunecheckError
from tunecheck._json import content_hash
from tunecheck._messages import clean, did_you_mean
from tunecheck._targets import Row
from tunecheck.datasets._sources import (
    DatasetDefaults,
    Digest,
    FileSource,
    JsonLinesSource,
    ListSource,
    Record,
    Source,
    json_source,
    listed_rows,
    read_sidecar,
    sidecar_path,
)
from tunecheck.plugins import find

if TYPE_CHECKING:
    import pandas

    from tunecheck.datasets._training import Form


Data: TypeAlias = "str | PathLike[str] | Iterable[Mapping[str, object]] | pandas.DataFrame | Dataset"
"""Data to evaluate: a path or `loader:argument`, rows, a DataFrame, or an open Dataset."""

MAX_COLUMNS = 100_000
"""Maximum number of column names in one data set; more are content, not names, and would fill the memory."""

MAX_ID_LENGTH = 1_000
"""Maximum length of a text that is used as an id; longer texts are content."""

_TRAINING = frozenset(("messages", "preferred_output", "completion", "chosen", "conversations", "answers", "chat"))
"""Columns of training files; each form has one of them."""

_LOADER = re.compile(r"(?P<name>[a-z][a-z0-9_-]+):(?P<argument>.*)", re.DOTALL)
"""Matches `name:argument`; a Windows drive has only one letter and does not match."""


class Scan(Struct, frozen=True):
    """The result of one pass over a data set.

    `rows` is the number of rows after `limit`. `sha256` is the hash of the file's bytes, or of the rows as canonical
    JSON; None if a row has no JSON form. `columns` holds all top-level names. `has_ids`: every row has a usable
    `id`, which becomes the row's id.
    """

    rows: int
    sha256: str | None
    columns: frozenset[str]
    has_ids: bool


class Dataset:
    """Rows from one source, and the defaults that the source declares.

    `name` is short, for a run's name: a file's stem, a loader's reference, or "rows". `path` is the source's file, if
    any. With `number_ids`, a row with a repeated id becomes `<id>@<its number>` instead of an error.
    """

    def __init__(self, source: Source, *, defaults: DatasetDefaults | None = None, number_ids: bool = False) -> None:
        """Take a source without reading it; the class describes the arguments."""
        self.name: str = source.name
        self.path: Path | None = source.path
        self.defaults = defaults or DatasetDefaults()
        self._source = source
        self._limit: int | None = None
        self._number_ids = number_ids
        self._last_scan: Scan | None = None
        self._state: object = None

    def __repr__(self) -> str:
        return f"<Dataset {self.name!r}: {self._source.label}>"

    @property
    def note(self) -> str | None:
        """Return a note for users on how the data is interpreted, or None."""
        return self._source.note

    @property
    def files(self) -> tuple[Path, ...]:
        """Return the data file and its sidecar, which may not exist; empty for data that is in no file."""
        return () if self.path is None else (self.path, sidecar_path(self.path))

    def with_defaults(self, defaults: DatasetDefaults, *, name: str | None = None) -> Dataset:
        """Return the same rows with other defaults and optionally another name, for loaders in code."""
        other = copy.copy(self)
        other.defaults, other.name = defaults, name or self.name
        return other

    def limited(self, limit: int | None, *, number_ids: bool = False) -> Dataset:
        """Return a data set with only the first `limit` rows, and with repeated ids numbered if `number_ids` is true.

        None and False change nothing.
        """
        # There is nothing to change.
        if limit is None and (self._number_ids or not number_ids):
            return self

        # A limit on a limited data set cannot give more rows than it has.
        limits = [rows for rows in (self._limit, limit) if rows is not None]
        other = copy.copy(self)
        other._limit, other._number_ids = min(limits, default=None), number_ids or self._number_ids
        other._last_scan = other._state = None  # the copy must be scanned again
        return other

    def scan(self) -> Scan:
        """Read and validate all rows once; later calls return the stored result.

        Ids are checked over the whole source, so that a row has the same id with and without a limit.

        Raises:
            DataError: the data cannot be read or has no rows; the text names file and line.
        """
        if self._last_scan is None:
            self._state = self._source.state()
            self._last_scan = self._scan()
        return replace(self._last_scan, columns=self._last_scan.columns | self.defaults.columns.keys())

    def rows(self) -> Iterator[Row]:
        """Return an iterator over the rows in order.

        Raises:
            DataError: the data cannot be read, or has changed since the scan.
            RunError: raised by the iterator if the file changes while its rows are read.
        """
        scan = self.scan()
        self._check_unchanged()

        records = islice(self._source.records(), self._limit)
        return self._yield_watched(self._identify(records, by_id=scan.has_ids))

    def places(self) -> Iterator[str]:
        """Yield the place of each row for messages, such as `val.jsonl:7`; in files without lines, `name, row 7`."""
        start = f"{self.path}:" if self._source.unit == "line" else f"{self._source.label}, row "
        return (f"{start}{number}" for number, _ in self._source.records())

    def _yield_watched(self, rows: Iterator[Row]) -> Iterator[Row]:
        """Yield the rows. Raise RunError if the source has changed since the scan, checked when reading ends or fails.

        Raises:
            DataError: reading fails, and the source is unchanged.
        """
        try:
            yield from rows
        except DataError:
            self._check_unchanged(RunError)
            raise
        self._check_unchanged(RunError)

    def _identify(self, records: Iterator[tuple[int, Record]], *, by_id: bool) -> Iterator[Row]:
        """Yield the records as rows with ids: their own ids if `by_id` is set, else `row-<number>`.

        A data set that numbers ids makes a repeated id `<id>@<number>`; in any other, the scan found that ids differ.

        Raises:
            DataError: another row has the numbered id, too.
        """
        seen: set[int] = set()
        for index, (number, values) in enumerate(records):
            own_id = usable_id(values.get(self._id_column)) if by_id else None
            row_id = own_id or f"row-{number}"
            if by_id and self._number_ids and not _is_new(seen, row_id):
                row_id = f"{row_id}@{number}"
                if not _is_new(seen, row_id):
                    self._refuse_id(row_id, number)

            # Default values of columns come first, so that a row's own values replace them.
            row_values = {**self.defaults.columns, **values}
            yield Row(index, row_id, row_values, fingerprint(row_values))

    def _check_unchanged(self, error: type[TunecheckError] = DataError) -> None:
        """Raise an error of this class if the source's content has changed since the scan.

        A new modification date alone is no change. It is noted, so that the content is not read again.
        """
        state = self._source.state()
        if state == self._state:
            return

        # Only the modification date may differ, so the content is compared by its hash.
        try:
            same = self._last_scan is not None and self._scan().sha256 == self._last_scan.sha256
        except DataError:
            same = False

        if not same:
            advice = "undo the change, or start a new run with --reuse RUN, which sends only new rows to the endpoint"
            raise error(f"{self._source.label} has changed since it was first read: {advice}")

        self._state = state

    def _refuse_id(self, name: str, number: int) -> NoReturn:
        """Raise DataError for an id that record `number` repeats; the text names the first record with it, if known."""
        # The scan keeps hashes of ids, so the first record with this id is looked for only now.
        ids = ((index, usable_id(values.get(self._id_column))) for index, values in self._source.records())
        first = next((index for index, own_id in ids if own_id == name), number)
        place = f" (first in {'line' if self.path else 'row'} {first:,})" if first != number else ""
        remedy = "make the ids unique, or number repeated ids with --number-ids (in Python number_ids=True)"
        self._source.refuse(f"the id {name[:100]!r} occurs twice{place}: {remedy}", number)

    @property
    def _id_column(self) -> str:
        """The name of the column with the rows' ids."""
        return self.defaults.id or "id"

    def _require_declared_id(self, values: Record, number: int) -> None:
        """Raise DataError for this row, which has no id, if the defaults name the column of ids; else do nothing."""
        column = self.defaults.id
        if column is not None:
            hint = did_you_mean(column, values) if column not in values else ""
            file = sidecar_path(self.path).name if self.path else "the data set"
            remedy = f"write a text or a whole number there{hint}"
            self._source.refuse(f"the row has no id in {column!r}, which {file} declares as ids: {remedy}", number)

    def _scan(self) -> Scan:
        """Read the whole source: count rows, collect column names, check ids and hash the content.

        Raises:
            DataError: there are no rows, too many column names, a row without the declared id, or an id twice although
                repeated ids are not numbered.
        """
        digest = Digest()
        columns: set[str] = set()
        ids: set[int] | None = set()
        twice: tuple[str, int] | None = None
        total = 0

        for number, values in self._source.heads(digest, id_column=self._id_column):
            total += 1
            columns.update(values)
            if len(columns) > MAX_COLUMNS:
                self._source.refuse(f"there are over {MAX_COLUMNS:,} columns: move varying keys to one column", number)

            # Ids are no longer collected after the first row without one.
            name = usable_id(values.get(self._id_column)) if ids is not None else None
            if name is None:
                self._require_declared_id(values, number)
                ids = None
            elif ids is not None and not _is_new(ids, name):
                twice = twice or (name, number)

        if not total:
            self._source.refuse("there are no rows: give data with at least one row")
        if ids is not None and twice is not None and not self._number_ids:
            self._refuse_id(*twice)

        rows = total if self._limit is None else min(total, self._limit)
        return Scan(rows, digest.result(), frozenset(columns), ids is not None)


def open_dataset(data: Data, *, limit: int | None = None, number_ids: bool = False) -> Dataset:
    """Open data of any kind. An iterable is read into a list; other data is read only by `scan()` or `rows()`.

    `limit` keeps only the first rows. With `number_ids`, a row with a repeated id becomes `<id>@<its number>` instead
    of an error. A path is searched for as given, then in `datasets/`. A loader `name:argument` is a plug-in of the
    group `tunecheck.datasets`: a callable that takes the argument and returns a Dataset, an iterable of dicts, or a
    path.

    Raises:
        ConfigurationError: the limit is below 1, or a sidecar file is invalid.
        DataError: the file does not exist, the loader or the iterable failed, or this kind of data cannot be read.
        PluginError: the loader does not exist or is not callable.
    """
    if limit is not None and not 1 <= limit <= sys.maxsize:
        raise ConfigurationError(f"the limit (--limit) must be from 1 to {sys.maxsize:,} rows, not {limit}")
    return _any_dataset(data, limit).limited(limit, number_ids=number_ids)


def described_dataset(columns: Iterable[str], defaults: DatasetDefaults, name: str, path: Path | None) -> Dataset:
    """Return a stand-in for a data set in another process: its name, columns and defaults, with one row of nulls."""
    # A row of nulls has no id, so no column of ids is declared.
    dataset = Dataset(_in_memory([dict.fromkeys(columns)]), defaults=replace(defaults, id=None))
    dataset.name, dataset.path = name, path
    return dataset


def _any_dataset(data: object, limit: int | None, name: str | None = None) -> Dataset:
    """Return data of any kind as a data set; a text is a loader's `name:argument` if no such file exists, else a path.

    `limit` is the number of rows that are read from an iterable, None for all. `name` replaces the name of rows in
    memory.

    Raises:
        DataError: the text is a web address, or the data cannot be read.
    """
    if isinstance(data, Dataset):
        return data
    if not isinstance(data, (str, PathLike)):
        return Dataset(_in_memory(data, limit, name))

    given = os.fspath(data)
    reference = _LOADER.fullmatch(given)
    if reference is None or name or os.path.exists(given):  # noqa: PTH110 - Path.exists refuses invalid names
        return _open_file(given)
    if reference["argument"].startswith("//"):
        raise DataError(f"{given[:200]} is a URL: download the file and pass its path")
    return _any_dataset(_call_loader(reference["name"], reference["argument"]), limit, name=given)


def _open_file(given: str) -> Dataset:
    """Open a data file with the defaults in its YAML file.

    If these have no column mapping and the file is a training file, its conversations become rows. The YAML file
    overrides the defaults of the training file's form.
    """
    path = locate(given, [Path("datasets")])
    source, declared = file_source(path), read_sidecar(path)
    form = None if declared.column_mapping else training_form(source)
    if form is None:
        return Dataset(source, defaults=declared)

    from tunecheck.datasets._training import TrainingSource

    declared_fields = {key: value for key, value in asdict(declared).items() if value}
    return Dataset(TrainingSource(source, form), defaults=replace(form.defaults, **declared_fields))


def training_form(source: Source) -> Form | None:
    """Return the form of a training file, recognised by its first record; None for other or unreadable files."""
    try:
        first = [record for _, record in islice(source.records(), 1)]
    except TunecheckError:  # reading the rows raises this error again
        return None

    # The converters are imported only if a column of a training file is there.
    if not first or _TRAINING.isdisjoint(first[0]):
        return None
    from tunecheck.datasets._training import forms

    return next((form for form in forms().values() if form.fits(first[0])), None)


def _call_loader(name: str, argument: str) -> object:
    """Return what a plug-in's loader returns for this argument: a path, a data set, or rows in memory.

    Raises:
        PluginError: there is no such loader, or it is not callable.
        DataError: the loader failed.
    """
    loader = find("datasets", name)
    if not callable(loader):
        raise PluginError(f"the data set plug-in {name!r} is not callable: make it a function with one parameter")

    try:
        return loader(argument)
    except TunecheckError:
        raise  # its text is already made for the user
    except Exception as error:  # noqa: BLE001 - a plugin's own code may raise anything
        problem = f"the loader {name!r} failed on the argument {argument!r} ({type(error).__name__}: {clean(error)})"
        raise DataError(f"{problem}: correct the argument or the loader") from error


def _in_memory(data: object, limit: int | None = None, name: str | None = None) -> Source:
    """Return a DataFrame, a list or another iterable of dicts as a source; `name` replaces the source's own name.

    At most `limit` rows of an iterable are read.

    Raises:
        DataError: the data is of another type, and the message says what to give instead; or the iterable fails.
    """
    pandas = sys.modules.get("pandas")  # if pandas was never imported, the data is not a DataFrame
    source: Source
    if pandas is not None and isinstance(data, pandas.DataFrame):
        from tunecheck.datasets._tables import FrameSource  # most data is JSON Lines

        source = FrameSource(data)
    elif isinstance(data, (list, tuple)):
        source = ListSource(data)
    # Mappings and open files are iterable, but not over rows.
    elif isinstance(data, Iterable) and not isinstance(data, (Mapping, bytes, bytearray, IOBase)):
        source = listed_rows(data, limit)
    else:
        raise DataError(f"data is of type {type(data).__name__}: pass a path, a DataFrame, or any iterable of dicts")

    if name is not None:
        source.name = source.label = name
    return source


SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".parquet")

_MOST_NEIGHBOURS = 1_000  # files of a folder that are looked at to suggest one


def file_source(path: Path) -> FileSource:
    """Return the reader of a data file, chosen by its suffix.

    Raises:
        DataError: no reader is known for the suffix.
    """
    match path.suffix.lower():
        case ".jsonl" | ".ndjson":
            return JsonLinesSource(path)
        case ".json":
            return json_source(path)
        case ".csv" | ".parquet":
            from tunecheck.datasets._tables import CsvSource, ParquetSource  # most data is JSON Lines

            return CsvSource(path) if path.suffix.lower() == ".csv" else ParquetSource(path)

    hint = did_you_mean(path.suffix.lower(), SUFFIXES) if path.suffix else f"; known: {', '.join(SUFFIXES)}"
    raise DataError(f"{path}: {path.suffix!r} is not the suffix of a data file{hint}")


def locate(given: str, search: Sequence[Path]) -> Path:
    """Return the path of a file: as given, else in the first folder of `search` that contains it.

    Raises:
        DataError: the file does not exist or is not a regular file.
    """
    paths = [Path(given), *(folder / given for folder in search)]  # all are the same path if it is absolute
    found = next((path for path in paths if os.path.exists(path)), None)  # noqa: PTH110 - Path.exists refuses long names
    if found is not None and found.is_file():
        return found
    if found is not None:
        hint = "".join(f", such as {str(found / name)!r}" for name in sorted(_data_files(found))[:1])
        raise DataError(f"{found} is {'a folder' if found.is_dir() else 'not a regular file'}: give a data file{hint}")

    folders = list(dict.fromkeys(path.parent for path in paths))
    looked = " and ".join(f"{str(folder)[:200]!r}" for folder in folders)
    name = Path(given).name
    # A file with a similar name and the same suffix, in any of the folders.
    hint = did_you_mean(name, chain.from_iterable(map(_data_files, folders)), Path(given).suffix)
    raise DataError(f"there is no data file {given[:200]!r} (looked in {looked}){hint}")


def _data_files(folder: Path) -> list[str]:
    """Return the names of data files in a folder, to suggest one; empty if the folder cannot be read."""
    try:
        names = [path.name for path in islice(folder.iterdir(), _MOST_NEIGHBOURS)]
    except (OSError, ValueError):
        return []
    return [name for name in names if Path(name).suffix.lower() in SUFFIXES]


def usable_id(value: object) -> str | None:
    """Return a row's `id` as text; None if it is blank, very long, or neither a text nor an integer."""
    if isinstance(value, str):
        return None if not value or value.isspace() or len(value) > MAX_ID_LENGTH else value
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < MAX_ID_LENGTH:
        return str(value)
    return None


def fingerprint(values: Mapping[str, object]) -> str:
    """Return a hash (16 hex digits) of the content; empty if the content has no JSON form."""
    try:
        return content_hash(values)
    except TypeError:
        return ""


def _is_new(seen: set[int], text: str) -> bool:
    """Add a text to those that were seen, and return True if it was not among them.

    Only hashes are kept, so that a million ids take 66 MB. Among a million texts, the chance that two different texts
    share a hash is 1 in 40 million.
    """
    count_before = len(seen)
    seen.add(hash(text))
    return len(seen) > count_before


TRIAL, SOURCE_ID = "trial", "source_id"
"""The additional columns of trials: the trial's number from 1, and the original row's id."""


def is_trial(row_id: str, source_id: str) -> bool:
    """Return True if a row with this id is a trial of the row `source_id`."""
    return row_id == source_id or row_id.startswith(f"{source_id}#")


_TRIAL_ID = re.compile(r".*#\d+", re.DOTALL)


class RepeatedDataset(Dataset):
    """`times` trials of each row, one after another.

    The first trial keeps the row's id, the others get `<id>#2`, `<id>#3` and so on.
    """

    def __init__(self, inner: Dataset, times: int) -> None:
        """Repeat each row of the data set `inner`: with 3 `times`, each row becomes three trials."""
        super().__init__(inner._source, defaults=inner.defaults)
        self.name = inner.name
        self.times = times
        self._inner = inner

    def scan(self) -> Scan:
        """Return the data set's scan with the trials' row count and columns.

        Raises:
            ConfigurationError: the data has a column that trials add.
        """
        scan = self._inner.scan()
        if taken := sorted(scan.columns & {TRIAL, SOURCE_ID}):
            raise ConfigurationError(f"the data has the column {taken[0]!r}, which --repeat adds: rename the column")
        rows = None if scan.rows is None else scan.rows * self.times
        return replace(scan, rows=rows, columns=scan.columns | {TRIAL, SOURCE_ID})

    def rows(self) -> Iterator[Row]:
        """Yield the trials of each row in order.

        Raises:
            ConfigurationError: a row's id looks like that of a trial.
        """
        for row in self._inner.rows():
            if _TRIAL_ID.fullmatch(row.id):
                raise ConfigurationError(f"the row id {row.id!r} looks like an id that --repeat adds: change the id")

            for trial in range(1, self.times + 1):
                trial_id = row.id if trial == 1 else f"{row.id}#{trial}"
                values = {**row.values, TRIAL: trial, SOURCE_ID: row.id}
                yield Row(row.index * self.times + trial - 1, trial_id, values, row.fingerprint)
