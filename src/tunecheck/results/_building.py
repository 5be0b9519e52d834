"""Build a table of numbers from result rows: their ids, their contents and their metrics."""

from __future__ import annotations

import hashlib
import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, cast

import msgspec

from tunecheck._files import EvaluatorEntry
from tunecheck._json import JSON, dumps, loads
from tunecheck.datasets._reading import SOURCE_ID, TRIAL, fingerprint, usable_id
from tunecheck.pipeline._finished_rows import ResultRow, read_row
from tunecheck.results._columns import EvaluatorPart, choose_main_metric, evaluator_names, number_of
from tunecheck.results._table import (
    EvaluatorColumns,
    Items,
    Labels,
    MetricColumn,
    ResultsFile,
    RowSource,
    State,
    may_cluster,
)

_BLOCK_ROWS = 256
_MOST_NAMES = 1_000
_MOST_SHAPES, _MOST_KEYS = 100, 2_000
_MOST_SLICES, _LONGEST_SLICE = 20, 100
_BY_POSITION = re.compile(r"row-\d+")
_LATENCY = "outputs.latency_ms"
_SOURCE, _TRIAL = f"inputs.{SOURCE_ID}", f"inputs.{TRIAL}"
_ALWAYS_READ = ("row_id", "row_fingerprint", "cause", "inputs.id", _SOURCE, _TRIAL, _LATENCY, "outputs.simulated")


class TableBuilder:
    """Reads a run's rows.

    `labels` are the columns with values to keep. `finds_clusters` also keeps columns that may identify clusters.
    `answers` are the data's columns that are not part of a row's content. Rows that are `is_foreign` may have an id
    twice, and a null is Azure AI Evaluation's way to say that an evaluator failed. `known_contents` has the fingerprint
    of each content by a digest of its JSON text; runs of the same data share it.
    """

    def __init__(
        self,
        declared: Mapping[str, EvaluatorEntry] | None,
        *,
        labels: Sequence[str],
        finds_clusters: bool,
        answers: frozenset[str],
        is_foreign: bool,
        known_contents: dict[bytes, str],
    ) -> None:
        self._known_contents = known_contents
        self._row_parser = _RowParser()
        self._declared = declared or {}
        self._split = evaluator_names(declared)
        self._finds_clusters, self._answers, self._is_foreign = finds_clusters, answers, is_foreign
        self._answer_keys = [f"inputs.{name}" for name in answers]
        self._keys: set[str] = set()
        self._inputs: dict[tuple[str, ...], dict[str, str]] = {}
        self._parts: dict[str, EvaluatorPart] = {}
        self._error_keys: list[str] = []
        self._labels: dict[str, list[str | None]] = {name: [] for name in labels}
        self._slices: dict[str, list[str | None]] = {}
        """The values of columns with few short ones; the rows are not grouped by them."""
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
        """Why rows failed, by their number; None where no row says whether it has a cause."""
        for name in self._declared:
            self._part(name)

    def read(self, source: RowSource) -> tuple[Items, bool, Mapping[str, Labels], Mapping[str, Labels]]:
        """Read all rows; give the items, whether ids come from the data, the items' labels by column, and slices."""
        if isinstance(source, ResultsFile):
            records = source.records(parse=self._row_parser.parse)
        else:
            records = source.records()
        while rows := list(islice(records, _BLOCK_ROWS)):
            self._take(rows)
            self._row_parser.expect(self._keys, self._keys & self._read_keys())
        for name, part in self._parts.items():
            for each in part.evaluator.columns:
                self.columns[each].fill(self.rows)
            choose_main_metric(part.evaluator, self.columns, self._entry(name))
        named = self._settle_ids()
        items, first = self._items()
        labels = {name: each for name, each in self._labels.items() if not self._keys.isdisjoint(_places(name))}
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
        """Say of each new column what it is."""
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

    def _take(self, rows: list[ResultRow]) -> None:
        for row in rows:
            if not self._keys.issuperset(row):
                new = [key for key in row if key not in self._keys]
                self._keys.update(new)
                self._learn(new)
        failed = [False] * len(rows)
        for key in self._error_keys:
            failed = [had or key in row for had, row in zip(failed, rows, strict=True)]
        for part in self._parts.values():
            states = part.take(rows, self.rows)
            if State.ERROR in states:
                failed = [had or state == State.ERROR for had, state in zip(failed, states, strict=True)]
        for name, labels in self._labels.items():
            places = [key for key in _places(name) if key in self._keys]
            values = ([row.get(key) for row in rows] for key in places[:1])
            labels.extend(map(self._text, next(values, [None] * len(rows))))
        self._take_slices(rows)
        if _LATENCY in self._keys:
            taken = (number_of(row.get(_LATENCY)) for row in rows)
            self.latencies_ms += [each for each in taken if each == each]
        for number, row in enumerate(rows, self.rows):
            self._name(number, row)
        self.rows += len(rows)
        self.errors += sum(failed)

    def _take_slices(self, rows: Sequence[ResultRow]) -> None:
        """Keep the values of columns with few short ones, and forget those of others."""
        for name, labels in [*self._slices.items()]:
            key, texts = f"inputs.{name}", self._slice_texts[name]
            values = [row.get(key) for row in rows]
            try:
                new = set(values) - texts.keys()
            except TypeError:  # a list or an object
                del self._slices[name]
                continue
            if len(texts) + len(new) > _MOST_SLICES or not all(map(_is_short, new)):
                del self._slices[name]
                continue
            texts.update({value: self._text(value) for value in new})
            labels.extend([texts[value] for value in values])

    def _text(self, value: JSON) -> str | None:
        """Return a value as a label: a text unchanged, everything else as JSON."""
        if value is None:
            return None
        text = value if isinstance(value, str) else dumps(value).decode("utf-8", "backslashreplace")
        return self._texts.setdefault(text, text)  # few labels are more than one row's

    # -- names

    def _name(self, number: int, row: ResultRow) -> None:
        given = row.get("row_id") if "row_id" in row else usable_id(row.get("inputs.id"))
        given = given if isinstance(given, str) else None
        self._given.append(given)
        if "row_id" in row and not any(key in row for key in self._answer_keys):
            content = row.get("row_fingerprint")
            self._contents.append(content if isinstance(content, str) else "")
        else:
            self._contents.append(self._fingerprint(row))
        source = self._text(row[_SOURCE]) if _SOURCE in row and _TRIAL in row else None
        if source is not None and given != source and not (given or "").startswith(f"{source}#"):
            source = None
        self._sources.append(source)
        self.simulated += row.get("outputs.simulated") is True
        if "cause" in row:
            self.causes = {} if self.causes is None else self.causes
            if isinstance(cause := row["cause"], str):
                self.causes[number] = cause

    def _fingerprint(self, row: ResultRow) -> str:
        """Return the fingerprint of a row's inputs, without the columns `a.b` in which Azure repeats a part of `a`."""
        shape = tuple(row)
        if shape not in self._inputs:
            if len(self._inputs) >= _MOST_SHAPES:
                self._inputs.clear()
            names = {key.removeprefix("inputs."): key for key in shape if key.startswith("inputs.")}
            skipped = self._answers | {TRIAL, SOURCE_ID}
            own = {name: key for name, key in names.items() if name not in skipped and not _is_part(name, names)}
            self._inputs[shape] = own
        text = dumps({name: row[key] for name, key in self._inputs[shape].items()})
        digest = hashlib.blake2b(text, digest_size=16).digest()
        if digest not in self._known_contents:
            self._known_contents[digest] = fingerprint(cast("dict[str, JSON]", loads(text)))
        return self._known_contents[digest]

    def _settle_ids(self) -> bool:
        """The rows' ids: as given, unless one is missing or twice among ids that are not a run's own."""
        given = [each for each in self._given if each is not None]
        if len(given) < self.rows or (self._is_foreign and len(set(given)) < self.rows):
            self.row_ids = [f"row-{number}" for number in range(1, self.rows + 1)]
            return False
        self.row_ids = given
        return not all(_BY_POSITION.fullmatch(each) for each in given)

    def _items(self) -> tuple[Items, Sequence[int] | None]:
        """The items, and of each the first row; None where each row is one."""
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


class _RowParser:
    """Parses lines of a results file. Values that the table does not need stay JSON text, which saves most time."""

    def __init__(self) -> None:
        self._keys: list[str] = []
        self._read: set[str] = set()
        self._decoder: msgspec.json.Decoder[msgspec.Struct] | None = None

    def expect(self, keys: set[str], read: set[str]) -> None:
        """Set the keys that rows have; only values of the keys in `read` are decoded.

        A row with any other key is decoded as a whole.
        """
        if (len(keys) == len(self._keys) and read == self._read) or len(keys) > _MOST_KEYS:
            return
        self._keys, self._read = [*keys], read
        fields = [(f"k{at}", Any if key in read else msgspec.Raw, msgspec.UNSET) for at, key in enumerate(self._keys)]
        names = {f"k{at}": key for at, key in enumerate(self._keys)}
        try:
            row = msgspec.defstruct("Row", fields, rename=names, forbid_unknown_fields=True, gc=False)
        except ValueError:  # msgspec takes no key with a character that JSON must escape
            self._decoder = None
        else:
            self._decoder = msgspec.json.Decoder(row)

    def parse(self, line: bytes, path: Path, number: int) -> ResultRow:
        """Parse a line as `read_row` does, with its errors."""
        if self._decoder is None:
            return read_row(line, path, number)
        try:
            row = self._decoder.decode(line.decode())  # a str: bytes that are not UTF-8 may stand in undecoded values
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            return read_row(line, path, number)
        values = msgspec.structs.astuple(row)
        return {key: value for key, value in zip(self._keys, values, strict=True) if value is not msgspec.UNSET}


def _is_short(value: JSON) -> bool:
    return len(value) <= _LONGEST_SLICE if isinstance(value, str) else value is None or isinstance(value, (int, float))


def _places(name: str) -> tuple[str, str, str]:
    """Return the keys of a grouping column: in the data, in the row itself, in the target's output."""
    return f"inputs.{name}", name, f"outputs.{name}"


def _is_part(name: str, names: Mapping[str, object]) -> bool:
    return any(letter == "." and name[:at] in names for at, letter in enumerate(name))
