"""Sources of rows: the common base class, lists, JSON Lines and JSON arrays; defaults in a data file's YAML file.

Records are numbered in order, and errors name the place: `val.jsonl, line 2, column 7: the line is not JSON: …`.

A file is read in layers: `raw_chunks` (bytes, hashed), `chunks` (UTF-8 only, without a byte order mark), `lines`, and
`records` (objects). A `.json` file that begins with an object is read as JSON Lines.
"""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypeAlias

import msgspec
from msgspec.structs import asdict, replace

from tunecheck._describe import Written, read_as
from tunecheck._errors import ConfigurationError, DataError, raise_as
from tunecheck._json import JSON, canonical, loads, loads_part
from tunecheck._messages import clean

Record = dict[str, JSON]

CHUNK = 1 << 18
"""Number of bytes per read."""

MAX_ROW_BYTES = 64 << 20
"""Size limit of a row in a text file; anything longer is not a row, and would be read into memory."""

MAX_ERROR = 1_000
"""Maximum length of an error in characters."""


class Digest:
    """The SHA-256 of a source, updated while the source is read."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._stable = True

    def update(self, part: bytes) -> None:
        """Add the next bytes of a file."""
        self._hash.update(part)

    def add(self, record: Record) -> None:
        """Add a record that is in no file. If the record has no JSON form, `result` returns None."""
        try:
            self._hash.update(canonical(record) + b"\n")
        except TypeError:
            self._stable = False

    def result(self) -> str | None:
        """Return the hash as hex digits; None if a part has no stable bytes."""
        return self._hash.hexdigest() if self._stable else None


class Source(ABC):
    """A source of rows.

    `name` is short, for a run's name; `label` names the source in errors; `unit` is the unit of record numbers ("line"
    or "row"); `note` is a note for users. `records` is called several times.
    """

    name: str
    label: str
    unit: str = "row"
    path: Path | None = None
    note: str | None = None

    @abstractmethod
    def records(self, digest: Digest | None = None) -> Iterator[tuple[int, Record]]:
        """Yield every record in order with its number, counted from 1 in `unit`s.

        Raises:
            DataError: something cannot be read; the text says what, where, and what to do.
        """

    def heads(self, digest: Digest | None = None, *, id_column: str = "id") -> Iterator[tuple[int, Record]]:
        """Yield the records like `records`; values of columns other than `id_column` may be left unparsed."""
        return self.records(digest)

    def refuse(self, problem: str, number: int | None = None, column: int | None = None) -> NoReturn:
        """Raise a DataError that names this source, the record `number`, and the character `column` (from 1) in it."""
        place = self.label if number is None else f"{self.label}, {self.unit} {number}"
        if column is not None:
            place += f", column {column}"
        raise DataError(f"{place}: {clean(problem, MAX_ERROR)}")

    def refuse_repeated_columns(self, names: Iterable[str], number: int | None = None) -> None:
        """Raise DataError if a name occurs more than once; `number` is the record with the names."""
        for name, count in Counter(names).items():
            if count > 1:
                self.refuse(f"{count} columns have the name {name!r}: rename all but one of them", number)

    def state(self) -> object:
        """Return a value that changes with the source; None if this kind of source has none. The source is not read."""
        return None


# -- rows in memory


class ListSource(Source):
    """A list of dicts. Values are not converted, even if they have no JSON form."""

    name = "rows"
    label = "the list of rows"

    def __init__(self, rows: Sequence[Mapping[str, object]]) -> None:
        self._rows = rows

    def records(self, digest: Digest | None = None) -> Iterator[tuple[int, Record]]:
        """Yield a copy of each dict with its number from 1; add its content to the digest."""
        for number, row in enumerate(self._rows, 1):
            record = copy_row(self, row, number)
            if digest is not None:
                digest.add(record)
            yield number, record


def listed_rows(rows: Iterable[object], limit: int | None) -> ListSource:
    """Return the first `limit` rows of an iterable as a list (None: all rows); the iterable is read at once.

    Raises:
        DataError: the iterable raises an exception, or a row is not a dict with texts as keys.
    """
    listed: list[Record] = []
    source = ListSource(listed)
    source.label = "the iterable of rows"
    try:
        for row in islice(rows, limit):
            listed.append(copy_row(source, row, len(listed) + 1))  # the iterable may yield the same dict again
    except DataError:
        raise
    except Exception as error:  # noqa: BLE001 - a user's generator may raise anything
        source.refuse(f"the iterable raised {type(error).__name__}: {error}", len(listed) + 1)
    return source


def copy_row(source: Source, row: object, number: int) -> Record:
    """Return a copy of a user's row; `number` is the row's number in errors.

    Raises:
        DataError: the row is not a dict, or a column's name is not text.
    """
    if not isinstance(row, Mapping):
        source.refuse(f"the row is of type {type(row).__name__}: pass each row as a dict of columns", number)

    # A copy, so that the user's dict stays as it is.
    record: Record = dict(row)
    for key in record:
        if not isinstance(key, str):
            source.refuse(f"the column name {key!r} is not text: use texts as the keys of rows", number)
    return record


# -- files


class FileSource(Source):
    """A file on disk, read in chunks."""

    def __init__(self, path: Path) -> None:
        """Take a file without opening it."""
        self.path: Path = path
        self.absolute_path = path.absolute()  # the current folder may change while rows are read
        self.name = path.stem
        self.label = str(path)

    def state(self) -> object:
        """Return the file's size and modification time, to notice changes; None if there is no such file."""
        try:
            status = self.absolute_path.stat()
        except OSError:
            return None
        return status.st_size, status.st_mtime_ns

    def decode_line(self, line: bytes, number: int) -> str:
        """Return a line as text; raise DataError with its number if it is not UTF-8 or has NUL bytes."""
        if 0 in line:  # a search for b"\0" takes longer
            self.refuse("the line holds NUL bytes: the file is damaged, or UTF-16 or UTF-32; save it as UTF-8", number)
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError as error:
            self.refuse(f"the line is not UTF-8 at byte {error.start + 1}: save the file as UTF-8", number)

    def raw_chunks(self, digest: Digest | None = None) -> Iterator[bytes]:
        """Yield all bytes of the file in pieces and add them to the digest; raise DataError if reading fails."""
        with raise_as(DataError, self.label), self.absolute_path.open("rb", buffering=0) as file:
            while chunk := file.read(CHUNK):
                if digest is not None:
                    digest.update(chunk)
                yield chunk

    def chunks(self, digest: Digest | None = None) -> Iterator[bytes]:
        """Yield the bytes of a UTF-8 file in pieces, without its byte order mark. The digest includes the mark."""
        raw = self.raw_chunks(digest)
        yield next(raw, b"").removeprefix(b"\xef\xbb\xbf")
        yield from raw

    def lines(self, digest: Digest | None = None) -> Iterator[bytes]:
        """Yield the lines without their line feeds; skip an empty last line.

        Raises:
            DataError: a line is too long for a row.
        """
        unfinished: list[bytes] = []  # the pieces of the line that the next chunk continues
        size, number = 0, 1  # the size and the number of this line

        for chunk in self.chunks(digest):
            first, *others = chunk.split(b"\n")
            unfinished.append(first)
            size += len(first)
            # The size is checked at each chunk, before an endless line fills the memory.
            if size > MAX_ROW_BYTES:
                self.refuse(f"the line is longer than {MAX_ROW_BYTES >> 20} MiB: write one row on each line", number)
            if others:
                # The first piece ends the unfinished line, and the last one begins the next.
                yield b"".join(unfinished)
                yield from others[:-1]
                number += len(others)
                unfinished, size = [others[-1]], len(others[-1])

        if size:
            yield b"".join(unfinished)


# -- JSON

_BLANK = b" \t\r\n"  # JSON's white space


def json_source(path: Path) -> FileSource:
    """Return the reader of a `.json` file: of JSON Lines if the file begins with an object, else of one array."""
    array = JsonArraySource(path)
    # the first bytes that are no white space
    beginning = next((text for chunk in array.chunks() if (text := chunk.lstrip(_BLANK))), b"")
    return JsonLinesSource(path) if beginning.startswith(b"{") else array


_ARRAY_HINT = ", or give a file with one array of rows the suffix .json"


class JsonLinesSource(FileSource):
    """One object per line; blank lines are skipped but counted."""

    unit = "line"

    def records(self, digest: Digest | None = None) -> Iterator[tuple[int, Record]]:
        return self._parse_lines(loads, digest)

    def heads(self, digest: Digest | None = None, *, id_column: str = "id") -> Iterator[tuple[int, Record]]:
        """Yield the records like `records`, but parse only the ids of lines of 2,048 bytes or more.

        With 1,600 tools in each row, this saves 4% of a run's CPU time.
        """
        return self._parse_lines(lambda line: loads_part(line, (id_column,)), digest)

    def _parse_lines(self, parse: Callable[[bytes], JSON], digest: Digest | None) -> Iterator[tuple[int, Record]]:
        """Yield the object on each line with the line's number from 1; skip blank lines.

        Raises:
            DataError: a line is not one object.
        """
        for number, line in enumerate(self.lines(digest), 1):
            try:
                value = parse(line)
            except ValueError as error:
                if not line.strip(_BLANK):  # checked only after the parser fails, because blank lines are rare
                    continue
                self._refuse_line(line, number, error)
            if not isinstance(value, dict):
                hint = _ARRAY_HINT if isinstance(value, list) else ""
                self.refuse(f"the line is {kind(value)}: write one object {{…}} on each line{hint}", number)
            yield number, value

    def _refuse_line(self, line: bytes, number: int, error: ValueError) -> NoReturn:
        """Raise DataError for a line that is not JSON."""
        self.decode_line(line, number)  # raises another error for a line that is not UTF-8
        hint = _ARRAY_HINT if line.strip().startswith(b"[") else ""
        problem = f"the line {_problem_of_json(error)}; write one object on each line{hint}"
        self.refuse(problem, number, error.pos + 1 if isinstance(error, json.JSONDecodeError) else None)


class JsonArraySource(FileSource):
    """One array of objects, read as a whole; large data should be JSON Lines."""

    unit = "row"

    def records(self, digest: Digest | None = None) -> Iterator[tuple[int, Record]]:
        """Yield each object of the array with its number from 1; raise DataError for an item of another type."""
        for number, value in enumerate(self.items(digest), 1):
            if not isinstance(value, dict):
                self.refuse(f"the row is {kind(value)}: write every item of the array as an object {{…}}", number)
            yield number, value

    def items(self, digest: Digest | None = None) -> list[JSON]:
        """Return the array's items of any type; a blank file has none. Raise DataError if the file is not an array."""
        text = b"".join(self.chunks(digest))
        try:
            value = loads(text) if text.strip(_BLANK) else []
        except ValueError as error:
            place = f", line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
            raise DataError(f"{self.label}{place}: the file {clean(_problem_of_json(error), MAX_ERROR)}") from None

        if not isinstance(value, list):
            self.refuse(f"the file holds {kind(value)}: write one array of objects [{{…}}, …]")
        return value


def _problem_of_json(error: ValueError) -> str:
    """Return the problem of a text as a clause without subject, with the text around the place of a syntax error."""
    if isinstance(error, json.JSONDecodeError):
        return f"is not JSON: {error.msg}: {error.doc[max(0, error.pos - 20) : error.pos + 20]!a}"
    # The limit is that of Python's int().
    too_long = "digits" in str(error)
    return f"cannot be read: {'a whole number has more than 4,300 digits; write it as text' if too_long else error}"


# -- values of a row's columns with the type that the reader needs; other types raise an error of one line

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
"""The allowed roles of a message."""

_KINDS = {dict: "an object", list: "an array", str: "a text", bool: "a boolean", type(None): "null"}


class UnusableRowError(ValueError):
    """A row, or an entry of a data file, has the wrong form; the text says what is wrong."""


def kind(value: object) -> str:
    """Return the kind of a value in JSON's terms."""
    return _KINDS.get(type(value), "a number" if isinstance(value, (int, float)) else f"a {type(value).__name__}")


def as_list(value: object, name: str) -> list[JSON]:
    """Return the value if it is a list, else raise UnusableRowError; `name` is the value's name in the error."""
    return value if isinstance(value, list) else refuse(f"{name} must be a list, not {_kind_or_missing(value)}")


def as_object(value: object, name: str) -> dict[str, JSON]:
    """Return the value if it is a dict, else raise UnusableRowError; `name` is the value's name in the error."""
    return value if isinstance(value, dict) else refuse(f"{name} must be an object, not {_kind_or_missing(value)}")


def as_text(value: object, name: str) -> str:
    """Return the value if it is a text, else raise UnusableRowError; `name` is the value's name in the error."""
    return value if isinstance(value, str) else refuse(f"{name} must be text, not {_kind_or_missing(value)}")


def refuse(problem: str) -> NoReturn:
    """Raise UnusableRowError with this text."""
    raise UnusableRowError(problem)


def _kind_or_missing(value: object) -> str:
    """Return the kind of a value in JSON's terms; "null or missing" for None."""
    return "null or missing" if value is None else kind(value)


# -- defaults that a data set declares in a YAML file: column mapping, evaluators, target, group key and more


Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]


class Sidecar(Written, frozen=True):
    """The YAML file with a data file's defaults; missing and null keys declare nothing."""

    column_mapping: dict[str, str] = msgspec.field(default_factory=dict)
    evaluators: list[Name] = msgspec.field(default_factory=list)
    target: Name | None = None
    group_key: Name | None = None
    cluster: Name | None = None
    primary: Name | None = None
    columns: dict[str, Any] = msgspec.field(default_factory=dict)
    id: Name | None = None
    mode: Literal["tools", "text"] | None = None
    step_limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    include_input_log: bool | None = None
    format: Name | None = None
    description: Name | None = None


_TARGET = "target."
"""The beginning of the keys of a column mapping that name an endpoint's columns."""


class DatasetDefaults(Sidecar, frozen=True):
    """Defaults that a data set declares; options of the command or call override them.

    `column_mapping` binds evaluators' parameters to `${data.…}` and `${target.…}`; its keys `target.messages`,
    `target.tools` and `target.parameters` are an endpoint's. `places` has the file and line of each of its keys.
    `id` names the column with the rows' ids (by default `id`). `evaluators` are plug-in names.
    `target` is an endpoint's name or file. Rows with equal values in the column `group_key` are answered in order.
    `cluster` names the column of dependent rows (by default the group key), `primary` the metric that decides.
    `columns` holds default values of columns for all rows. `description` is for readers of the file. The other fields
    are parameters of the conversation target.
    """

    places: Mapping[str, str] = msgspec.field(default_factory=dict)

    @property
    def conversation(self) -> dict[str, JSON]:
        """The declared parameters of the conversation target."""
        parameters = {name: getattr(self, name) for name in ("mode", "step_limit", "include_input_log", "format")}
        return {name: value for name, value in parameters.items() if value is not None}

    @property
    def target_mapping(self) -> dict[str, str]:
        """The columns for an endpoint's messages, tools and parameters, by these names; unmapped ones are missing."""
        entries = self.column_mapping.items()
        return {key.removeprefix(_TARGET): column for key, column in entries if key.startswith(_TARGET)}

    @property
    def target_places(self) -> dict[str, str]:
        """The places of the entries in `target_mapping` for errors, by the same names."""
        return {name: self.place_of(_TARGET + name) for name in self.target_mapping}

    @property
    def evaluator_mapping(self) -> dict[str, str]:
        """The mapping of evaluators' parameters."""
        return {key: column for key, column in self.column_mapping.items() if not key.startswith(_TARGET)}

    def place_of(self, key: str) -> str:
        """Return the place of a key of `column_mapping` for errors, such as `val.yaml, line 4`."""
        return self.places.get(key, "the data set's column_mapping")


def sidecar_path(data: Path) -> Path:
    """Return the path of a data file's defaults, such as `val.yaml` for `val.jsonl`."""
    return data.with_suffix(".yaml")


def read_sidecar(data: Path) -> DatasetDefaults:
    """Return the defaults in a data file's YAML file, or empty defaults if there is no such file.

    Raises:
        ConfigurationError: the file is invalid; the text names the file, the line and the key.
    """
    path = sidecar_path(data)
    # A broken link exists, too, and is refused below.
    if not os.path.lexists(path):
        return DatasetDefaults()

    if not path.is_file():
        raise ConfigurationError(f"{path} is not a regular file, so it cannot hold the data set's defaults: rename it")

    from tunecheck._yaml import read_yaml  # loads PyYAML, which a run without such a file does not need

    document = read_yaml(path)
    if document.value is None:
        return DatasetDefaults()

    value = document.value
    if isinstance(value, dict):  # null declares nothing, but is reported for an unknown key
        value = {key: item for key, item in value.items() if item is not None or key not in Sidecar.__struct_fields__}

    sidecar = read_as(value, Sidecar, document.where)
    places = {key: document.where("column_mapping", key) for key in sidecar.column_mapping}
    return DatasetDefaults(**asdict(sidecar), places=places)


def sidecar_text(defaults: DatasetDefaults, *, description: str = "") -> str:
    """Return defaults as the text of a data file's YAML file, without empty entries and `places`."""
    import yaml

    entries = {"description": description, **asdict(replace(defaults, places={}, description=description))}
    declared = {key: value for key, value in entries.items() if value}
    return yaml.safe_dump(declared, sort_keys=False, allow_unicode=True, width=120)
