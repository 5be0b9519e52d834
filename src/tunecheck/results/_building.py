"""Build a run's table from its result rows: ids, contents and metrics."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice, repeat
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import UNSET

from tunecheck._files import EvaluatorEntry
from tunecheck._json import JSON, dumps, loads
from tunecheck.datasets._reading import SOURCE_ID, TRIAL, fingerprint, usable_id
from tunecheck.pipeline._finished_rows import ResultRow, read_row
from tunecheck.results._columns import (
    Cell,
    Cells,
    Columns,
    EvaluatorPart,
    choose_main_metric,
    evaluator_names,
    number_of,
)
from tunecheck.results._table import (
    EvaluatorColumns,
    Items,
    Labels,
    MetricColumn,
    ResultsFile,
    RowSource,
    State,
    may_cluster,
    row_decoder,
)

_BLOCK_ROWS = 256
_MOST_NAMES = 1_000
_MOST_KEYS = 2_000
_MOST_SLICES, _LONGEST_SLICE = 20, 100
_BY_POSITION = re.compile(r"row-\d+")
_LATENCY = "outputs.latency_ms"
_SOURCE, _TRIAL = f"inputs.{SOURCE_ID}", f"inputs.{TRIAL}"
_encode_cells = msgspec.json.Encoder(enc_hook=lambda _: msgspec.Raw(b"~")).encode
"""Write cells as JSON, an unset one as `~`, which is no JSON value."""
KnownContents: TypeAlias = dict[tuple[str, ...], dict[int, str]]
_ALWAYS_READ = ("row_id", "row_fingerprint", "cause", "inputs.id", _SOURCE, _TRIAL, _LATENCY, "outputs.simulated")


class TableBuilder:
    """Reads a run's rows into columns.

    `labels` are columns that group rows; their values are kept. With `finds_clusters`, columns that may identify
    clusters are kept, too. `answers` are the data's columns that are not part of a row's content. If `is_foreign`, ids
    may be repeated, and null values mean that an evaluator failed, as in Azure AI Evaluation. `known_contents` maps,
    for the same columns, a hash of their values' JSON text to the fingerprint; runs of the same data share it.
    """

    def __init__(
        self,
        declared: Mapping[str, EvaluatorEntry] | None,
        *,
        labels: Sequence[str],
        finds_clusters: bool,
        answers: frozenset[str],
        is_foreign: bool,
        known_contents: KnownContents,
    ) -> None:
        self._known_contents = known_contents
        self._block_parser = _BlockParser()
        self._declared = declared or {}
        self._split = evaluator_names(declared)
        self._finds_clusters, self._answers, self._is_foreign = finds_clusters, answers, is_foreign
        self._answer_keys = [f"inputs.{name}" for name in answers]
        self._not_content = answers | {TRIAL, SOURCE_ID}
        self._keys: dict[str, None] = {}
        self._parts: dict[str, EvaluatorPart] = {}
        self._error_keys: list[str] = []
        self._labels: dict[str, list[str | None]] = {name: [] for name in labels}
        self._slices: dict[str, list[str | None]] = {}
        """The values of columns that have only few, short values; the run was not grouped by them."""
        self._slice_texts: defaultdict[str, dict[JSON, str | None]] = defaultdict(dict)
        self._texts: dict[str, str] = {}
        self._given: list[str | None] = []
        self._sources: list[str | None] = []
        self._contents: list[str] = []
        self.columns: dict[str, MetricColumn] = {}
        self.evaluators: dict[str, EvaluatorColumns] = {}
        self.input_names: dict[str, None] = {}
        self.row_ids: Sequence[str] = ()
        self.rows = self.errors = self.simulated = 0
        self.latencies_ms: list[float] = []
        self.causes: dict[int, str] | None = None
        """The cause of each failed row by its number; None if no row records a cause."""
        for name in self._declared:
            self._part(name)

    def read(self, source: RowSource) -> tuple[Items, bool, Mapping[str, Labels], Mapping[str, Labels]]:
        """Read all rows; return the items, True if ids come from the data, and labels and slices by column."""
        if isinstance(source, ResultsFile):
            lines = source.lines()
            while block := list(islice(lines, _BLOCK_ROWS)):
                columns = self._block_parser.parse([line for _, line in block])
                if columns is None:
                    columns = self._columns_of([read_row(line, source.path, number) for number, line in block])
                self._take(columns, len(block))
                self._block_parser.expect(self._keys, self._keys.keys() & self._read_keys())
        else:
            records = source.records()
            while rows := list(islice(records, _BLOCK_ROWS)):
                self._take(self._columns_of(rows), len(rows))
        for name, part in self._parts.items():
            for each in part.evaluator.columns:
                self.columns[each].fill(self.rows)
            choose_main_metric(part.evaluator, self.columns, self._entry(name))
        named = self._settle_ids()
        items, first = self._items()
        labels = {name: each for name, each in self._labels.items() if not self._keys.keys().isdisjoint(_places(name))}
        slices: Mapping[str, Labels] = self._slices
        if first is not None:
            labels, slices = (
                {name: [each[row] for row in first] for name, each in of.items()} for of in (labels, slices)
            )
        return items, named, labels, slices

    def _entry(self, name: str) -> EvaluatorEntry:
        return self._declared.get(name, EvaluatorEntry())

    def _part(self, name: str) -> EvaluatorPart:
        if name not in self._parts:
            part = EvaluatorPart.of(name, self._entry(name), nulls_are_errors=self._is_foreign)
            self._parts[name], self.evaluators[name] = part, part.evaluator
        return self._parts[name]

    # -- columns

    def _learn(self, keys: Iterable[str]) -> None:
        """Determine the role of each new column: an error, an input, or an evaluator's output."""
        added: dict[str, list[str]] = {}
        for key in keys:
            kind, _, name = key.partition(".")
            if kind == "error":
                self._error_keys.append(key)
            elif kind == "inputs" and len(self.input_names) < _MOST_NAMES:
                self.input_names[name] = None
                if self._finds_clusters and may_cluster(name):
                    self._labels.setdefault(name, [None] * self.rows)
                elif name not in self._labels and name not in (*self._answers, TRIAL, SOURCE_ID):
                    self._slices[name] = [None] * self.rows
            elif kind == "outputs" and (split := self._split(name)) is not None:
                added.setdefault(split[0], []).append(split[1])
        for name, own in added.items():
            self._part(name).learn(own, self.columns)

    def _read_keys(self) -> set[str]:
        """Return the keys whose values this table needs. Other values may stay JSON text."""
        keys = {*_ALWAYS_READ, *(f"inputs.{name}" for name in self._slices)}
        keys.update(*map(_places, self._labels))
        for part in self._parts.values():
            keys.update(key for key, _ in part.numbers)
            keys.update(key for result, reason, _ in part.verdicts for key in (result, reason))
        return keys

    def _columns_of(self, rows: Sequence[ResultRow]) -> Columns:
        for row in rows:
            if not self._keys.keys() >= row.keys():
                new = [key for key in row if key not in self._keys]
                self._keys.update(dict.fromkeys(new))
                self._learn(new)
        return {key: [row.get(key, UNSET) for row in rows] for key in self._keys}

    def _take(self, columns: Columns, count: int) -> None:
        """Add a block of `count` rows to the table."""
        failed = [False] * count
        for key in self._error_keys:
            failed = [had or cell is not UNSET for had, cell in zip(failed, columns[key], strict=True)]
        for part in self._parts.values():
            states = part.take(columns, count, self.rows)
            if State.ERROR in states:
                failed = [had or state == State.ERROR for had, state in zip(failed, states, strict=True)]
        for name, labels in self._labels.items():
            place = next((key for key in _places(name) if key in columns), None)
            labels.extend([None] * count if place is None else map(self._text, columns[place]))
        self._take_slices(columns)
        if _LATENCY in columns:
            taken = map(number_of, columns[_LATENCY])
            self.latencies_ms += [each for each in taken if each == each]
        self._name(columns, count)
        self.rows += count
        self.errors += sum(failed)

    def _take_slices(self, columns: Columns) -> None:
        """Keep the values of columns with few, short values, and drop other columns."""
        for name, labels in [*self._slices.items()]:
            texts = self._slice_texts[name]
            values = [None if cell is UNSET else cell for cell in columns[f"inputs.{name}"]]
            try:
                new = set(values) - texts.keys()
            except TypeError:  # a value is a list or an object, which cannot be hashed
                del self._slices[name]
                continue
            if len(texts) + len(new) > _MOST_SLICES or not all(map(_is_short, new)):
                del self._slices[name]
                continue
            texts.update({value: self._text(value) for value in new})
            labels.extend(map(texts.__getitem__, values))

    def _text(self, value: Cell) -> str | None:
        """Return a value as a label: a text unchanged, everything else as JSON."""
        if value is None or value is UNSET:
            return None
        text = value if isinstance(value, str) else dumps(value).decode("utf-8", "backslashreplace")
        return self._texts.setdefault(text, text)  # equal labels share one text, which saves memory

    # -- names

    def _name(self, columns: Columns, count: int) -> None:
        """Record the ids, contents, trials and causes of a block of rows."""
        absent: Cells = [UNSET] * count
        row_ids, own_ids, prints = (columns.get(key, absent) for key in ("row_id", "inputs.id", "row_fingerprint"))
        named = (usable_id(own) if cell is UNSET else cell for cell, own in zip(row_ids, own_ids, strict=True))
        given = [each if isinstance(each, str) else None for each in named]
        self._given += given
        known = [cell is not UNSET for cell in row_ids]
        for key in self._answer_keys:
            if key in columns:
                known = [had and cell is UNSET for had, cell in zip(known, columns[key], strict=True)]
        contents = (each if isinstance(each, str) else "" for each in prints)
        if not all(known):
            own = zip(known, contents, self._fingerprints(columns, count), strict=True)
            contents = (content if is_known else found for is_known, content, found in own)
        self._contents += contents
        self._sources += (
            [None] * count
            if _SOURCE not in columns or _TRIAL not in columns
            else map(self._source, given, columns[_SOURCE], columns[_TRIAL])
        )
        self.simulated += sum(cell is True for cell in columns.get("outputs.simulated", ()))
        causes = columns.get("cause", absent)
        if self.causes is None and any(cell is not UNSET for cell in causes):
            self.causes = {}
        if self.causes is not None:
            numbered = enumerate(causes, self.rows)
            self.causes.update({number: cause for number, cause in numbered if isinstance(cause, str)})

    def item_causes(self, of_row: Sequence[int] | None) -> Mapping[int, frozenset[str]] | None:
        """Return each failed item's causes over all its trials; None if no row records a cause."""
        if self.causes is None:
            return None
        alone = {cause: frozenset([cause]) for cause in {*self.causes.values()}}
        if of_row is None:
            return {row: alone[cause] for row, cause in self.causes.items()}
        found: dict[int, frozenset[str]] = {}
        for row, cause in self.causes.items():
            found[of_row[row]] = found.get(of_row[row], frozenset()) | alone[cause]
        return found

    def _source(self, given: str | None, source: Cell, trial: Cell) -> str | None:
        """Return the id of the row that a trial repeats; None if the row is no trial."""
        text = None if trial is UNSET else self._text(source)
        return text if text is not None and (given == text or (given or "").startswith(f"{text}#")) else None

    def _fingerprints(self, columns: Columns, count: int) -> Iterator[str]:
        """Yield the fingerprint of each row's inputs, without columns `a.b` in which Azure repeats a part of `a`."""
        names = {key.removeprefix("inputs."): key for key in sorted(columns) if key.startswith("inputs.")}
        parted = any(_is_part(name, names) for name in names)
        own = [name for name in names if parted or name not in self._not_content]
        cells = zip(*(columns[names[name]] for name in own), strict=True) if own else repeat((), count)
        known = self._known_contents.setdefault((*own,), {})
        for row in cells:
            # The values alone, without names, are written twice as fast.
            # Two of a million contents share this 64-bit hash with a chance of one in 37 million.
            try:
                hashed = hash(_encode_cells(row))
            except (ValueError, RecursionError):  # such as an unpaired surrogate
                hashed = hash(dumps(self._content(own, row)))
            if hashed not in known:
                content = self._content(own, row)
                if parted:
                    skipped = {name for name in content if name in self._not_content or _is_part(name, content)}
                    content = {name: content[name] for name in content if name not in skipped}
                known[hashed] = fingerprint(cast("dict[str, JSON]", loads(dumps(content))))
            yield known[hashed]

    def _content(self, names: Sequence[str], row: Cells) -> dict[str, Cell]:
        return {name: cell for name, cell in zip(names, row, strict=True) if cell is not UNSET}

    def _settle_ids(self) -> bool:
        """Set the rows' ids; return True if they come from the data.

        If an id is missing, or repeated in another program's results, rows are numbered.
        """
        given = [each for each in self._given if each is not None]
        if len(given) < self.rows or (self._is_foreign and len(set(given)) < self.rows):
            self.row_ids = [f"row-{number}" for number in range(1, self.rows + 1)]
            return False
        self.row_ids = given
        return not all(_BY_POSITION.fullmatch(each) for each in given)

    def _items(self) -> tuple[Items, Sequence[int] | None]:
        """Return the items and the first row of each item, None if each row is an item."""
        sources = self._sources
        if not self.rows or None in sources or len(set(sources)) == self.rows:
            return Items(self.row_ids, self._contents), None
        numbers: dict[str, int] = {}
        first: list[int] = []
        of_row = array("q")
        for row, source in enumerate(sources):
            item = numbers.setdefault(str(source), len(numbers))
            if item == len(first):
                first.append(row)
            of_row.append(item)
        return Items(list(numbers), [self._contents[row] for row in first], of_row), first


class _BlockParser:
    """Parses lines of a results file. Values that the table does not need stay JSON text, which is much faster."""

    def __init__(self) -> None:
        self._keys: list[str] = []
        self._read: set[str] = set()
        self._decoder: msgspec.json.Decoder[msgspec.Struct] | None = None

    def expect(self, keys: Collection[str], read: set[str]) -> None:
        """Set the keys that rows have; only values of the keys in `read` are decoded."""
        if len(keys) == len(self._keys) and read == self._read:
            return
        self._keys, self._read, self._decoder = [*keys], read, None
        if len(keys) > _MOST_KEYS:
            return
        self._decoder = row_decoder({key: Any if key in read else msgspec.Raw for key in keys}, only_these=True)

    def parse(self, lines: Sequence[bytes]) -> Columns | None:
        """Return the columns of these rows; None if a row is damaged or has an unexpected key."""
        if self._decoder is None:
            return None
        decode = self._decoder.decode
        try:
            # msgspec does not check undecoded bytes for valid UTF-8, so a line that is not ASCII is decoded first.
            rows = [decode(line if line.isascii() else line.decode()) for line in lines]
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            return None
        return dict(zip(self._keys, zip(*map(msgspec.structs.astuple, rows), strict=True), strict=True))


def _is_short(value: JSON) -> bool:
    return len(value) <= _LONGEST_SLICE if isinstance(value, str) else value is None or isinstance(value, (int, float))


def _places(name: str) -> tuple[str, str, str]:
    """Return the possible keys of a grouping column: in the data, in the row itself, in the target's output."""
    return f"inputs.{name}", name, f"outputs.{name}"


def _is_part(name: str, names: Collection[str]) -> bool:
    """Return whether a name is `a.b` and `a` is among the names."""
    return any(letter == "." and name[:at] in names for at, letter in enumerate(name))
