"""Build a run's table from its result rows: ids, contents and metrics."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from tunecheck import plugins
from tunecheck._files import EvaluatorEntry
from tunecheck._json import JSON, check_utf8, dumps, loads
from tunecheck.datasets._reading import SOURCE_ID, TRIAL, fingerprint, usable_id
from tunecheck.pipeline._finished_rows import ResultRow, read_row
from tunecheck.results._columns import Cell, Cells, Columns, EvaluatorPart, choose_main_metric, key_splitter, number_of
from tunecheck.results._table import (
    NONE,
    Clusters,
    Items,
    Labels,
    MetricColumn,
    OpenedRun,
    ResultsFile,
    RunInfo,
    RunTable,
    State,
    clusters_of,
    may_cluster,
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
    """Reads a run's rows into a table.

    `answers` are the data's columns that are not part of a row's content. `cluster` names the column that identifies
    dependent rows; if it is None, the data or plug-ins say which rows are dependent. `known_contents` maps, for the
    same columns, a hash of their values' JSON text to the fingerprint; runs of the same data share it.
    """

    def __init__(
        self, opened: OpenedRun, answers: frozenset[str], cluster: str | None, known_contents: KnownContents
    ) -> None:
        """Prepare an empty table for an opened run; `read` fills it."""
        self._opened, self._answers, self._known_contents = opened, answers, known_contents
        self._cluster = NONE if cluster is None and opened.cluster == NONE else cluster
        # In results of Azure AI Evaluation ids may be repeated, and null values mean that an evaluator failed.
        self._is_foreign = opened.info.source in ("azure", "rows")
        self._declared = opened.declared or {}
        self._split = key_splitter(opened.declared)
        self._answer_keys = [f"inputs.{name}" for name in answers]
        self._not_content = answers | {TRIAL, SOURCE_ID}
        self._keys: dict[str, None] = {}
        self._expected: tuple[Sequence[str], Collection[str]] = (), ()
        self._decoder: msgspec.json.Decoder[msgspec.Struct] | None = None
        self._parts: dict[str, EvaluatorPart] = {}
        self._error_keys: list[str] = []
        named = [*opened.groups, *filter(None, [opened.cluster if self._cluster is None else self._cluster])]
        self._labels: dict[str, list[str | None]] = {name: [] for name in named}
        self._slices: dict[str, list[str | None]] = {}
        """The values of columns that have only few, short values; the run was not grouped by them."""
        self._slice_texts: defaultdict[str, dict[JSON, str | None]] = defaultdict(dict)
        self._texts: dict[str | None, str | None] = {}
        self._given_ids: list[str | None] = []
        self._sources: list[str | None] = []
        self._contents: list[str] = []
        self._columns: dict[str, MetricColumn] = {}
        self._input_names: dict[str, None] = {}
        self._rows = self._errors = self._simulated = 0
        self._latencies_ms: list[float] = []
        self._causes: dict[int, str] | None = None
        """The cause of each failed row by its number; None if no row records a cause."""
        for name in self._declared:
            self._part(name)

    def read(self) -> RunTable:
        """Read all rows of the run and return its table; call this once."""
        for columns, count in self._blocks():
            self._take(columns, count)
        for part in self._parts.values():
            for each in part.evaluator.columns:
                self._columns[each].fill(self._rows)
            choose_main_metric(part.evaluator, self._columns, part.declared)
        row_ids, named = self._row_ids()
        items, first_rows = self._items(row_ids)
        # A column that no row has gives no labels. An item has the labels of its first trial.
        labels: Mapping[str, Labels] = {
            name: each for name, each in self._labels.items() if not self._keys.keys().isdisjoint(_places(name))
        }
        slices: Mapping[str, Labels] = self._slices
        if first_rows is not None:
            labels = {name: [values[row] for row in first_rows] for name, values in labels.items()}
            slices = {name: [values[row] for row in first_rows] for name, values in slices.items()}
        opened = self._opened
        return RunTable(
            info=self._info(items),
            opened=opened,
            items=items,
            named=named,
            columns=self._columns,
            evaluators={name: part.evaluator for name, part in self._parts.items()},
            column_names=[*self._input_names],
            row_ids=row_ids,
            clusters=self._clusters(items, labels),
            groups={name: labels[name] for name in opened.groups if name in labels},
            slices=slices,
            causes=self._item_causes(items.of_row),
            latencies_ms=self._latencies_ms,
            answers=self._answers,
        )

    def _info(self, items: Items) -> RunInfo:
        """Return the run's description, completed with what the rows showed: counts, trials, simulated answers."""
        info = self._opened.info
        left_out = [
            f"evaluator {name!r} returns more than {len(part.evaluator.columns)} metrics: the others are not read"
            for name, part in self._parts.items()
            if part.evaluator.left_out
        ]
        return replace(
            info,
            rows=self._rows,
            errors=self._errors,
            simulated=info.simulated or self._simulated > 0,
            trials=1 if items.of_row is None else -(-self._rows // len(items.ids)),
            notes=(*info.notes, *left_out),
        )

    def _clusters(self, items: Items, labels: Mapping[str, Labels]) -> Clusters | None:
        """Return the clusters of dependent items: by a plug-in's rule or a column; None if all are independent."""
        ids = [*items.ids]
        for rule in plugins.cluster_rules() if self._cluster is None else ():
            if (found := rule(self._opened, ids)) is not None:
                return found
        return None if self._cluster == NONE else clusters_of(self._cluster, self._opened.cluster, labels)

    def _blocks(self) -> Iterator[tuple[Columns, int]]:
        """Yield blocks of rows as columns, each with its number of rows."""
        source = self._opened.rows
        if isinstance(source, ResultsFile):
            for first, block in source.blocks():
                columns = self._decoded(block)
                if columns is None:
                    rows = [read_row(line, source.path, at) for at, line in enumerate(block, first)]
                    columns = self._columns_of(rows)
                yield columns, len(block)
        else:
            records = source.records()
            while rows := [*islice(records, _BLOCK_ROWS)]:
                yield self._columns_of(rows), len(rows)

    def _decoded(self, lines: Sequence[bytes]) -> Columns | None:
        """Return these lines as columns, decoded fast; None if a row is damaged or has a new key.

        Values that the table does not need stay JSON text, which is much faster.
        """
        keys, read = expected = [*self._keys], self._read_keys()
        if expected != self._expected:
            kinds = {key: Any if key in read else msgspec.Raw for key in keys}
            self._expected = expected
            self._decoder = _row_decoder(kinds) if len(keys) <= _MOST_KEYS else None
        if self._decoder is None:
            return None
        decode = self._decoder.decode
        try:
            for line in lines:
                check_utf8(line)
            rows = [decode(line) for line in lines]
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            return None
        return dict(zip(keys, zip(*map(msgspec.structs.astuple, rows), strict=True), strict=True))

    def _part(self, name: str) -> EvaluatorPart:
        """Return the part of the table for an evaluator; make it if it is new."""
        if name not in self._parts:
            declared = self._declared.get(name, EvaluatorEntry())
            self._parts[name] = EvaluatorPart.of(name, declared, nulls_are_errors=self._is_foreign)
        return self._parts[name]

    # -- columns

    def _learn(self, keys: Iterable[str]) -> None:
        """Determine the role of each new column: an error, an input, or an evaluator's output."""
        added: dict[str, list[str]] = {}
        for key in keys:
            kind, _, name = key.partition(".")
            if kind == "error":
                self._error_keys.append(key)
            elif kind == "inputs" and len(self._input_names) < _MOST_NAMES:
                self._input_names[name] = None
                if self._cluster is None and may_cluster(name):
                    self._labels.setdefault(name, [None] * self._rows)
                elif name not in self._labels and name not in (*self._answers, TRIAL, SOURCE_ID):
                    self._slices[name] = [None] * self._rows
            elif kind == "outputs" and (split := self._split(name)) is not None:
                added.setdefault(split[0], []).append(split[1])
        for name, own in added.items():
            self._part(name).learn(own, self._columns)

    def _read_keys(self) -> set[str]:
        """Return the keys with values that this table needs. Other values may stay JSON text."""
        keys = {*_ALWAYS_READ, *(f"inputs.{name}" for name in self._slices)}
        keys.update(*map(_places, self._labels))
        for part in self._parts.values():
            keys.update(key for key, _ in part.numbers)
            keys.update(key for result, reason, _ in part.verdicts for key in (result, reason))
        return keys

    def _columns_of(self, rows: Sequence[ResultRow]) -> Columns:
        """Return rows as columns; a key that no earlier row had becomes a new column first."""
        for row in rows:
            if not self._keys.keys() >= row.keys():
                new = [key for key in row if key not in self._keys]
                self._keys.update(dict.fromkeys(new))
                self._learn(new)
        return {key: [row.get(key, UNSET) for row in rows] for key in self._keys}

    def _take(self, columns: Columns, count: int) -> None:
        """Add a block of `count` rows to the table: states, labels, latencies, ids, and counts."""
        failed = {at for key in self._error_keys for at, cell in enumerate(columns[key]) if cell is not UNSET}
        for part in self._parts.values():
            states = part.take(columns, count, self._rows)
            if State.ERROR in states:
                failed.update(at for at, state in enumerate(states) if state == State.ERROR)
        for name, labels in self._labels.items():
            place = next((key for key in _places(name) if key in columns), None)
            labels.extend([None] * count if place is None else self._label_cells(columns[place]))
        self._take_slices(columns)
        if _LATENCY in columns:
            taken = map(number_of, columns[_LATENCY])
            self._latencies_ms += [each for each in taken if each == each]
        self._take_identities(columns, count)
        self._rows += count
        self._errors += len(failed)

    def _take_slices(self, columns: Columns) -> None:
        """Keep the block's values of columns with at most 20 short values; drop columns with other values."""
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

    def _label_cells(self, cells: Cells) -> Iterator[str | None]:
        """Return the cells as labels (None where there is no value)."""
        labels = [cell if type(cell) is str else self._text(cell) for cell in cells]
        return map(self._texts.setdefault, labels, labels)  # equal labels share one text, which saves memory

    def _text(self, value: Cell) -> str | None:
        """Return a value as a label: a text unchanged, null or nothing as None, everything else as JSON."""
        if value is None or value is UNSET:
            return None
        return value if isinstance(value, str) else dumps(value).decode("utf-8", "backslashreplace")

    # -- names

    def _take_identities(self, columns: Columns, count: int) -> None:
        """Record the ids, content fingerprints, trials and causes of a block of `count` rows."""
        absent: Cells = [UNSET] * count
        row_ids: list[str | None] = []
        for recorded, own in zip(columns.get("row_id", absent), columns.get("inputs.id", absent), strict=True):
            row_id = usable_id(own) if recorded is UNSET else recorded
            row_ids.append(row_id if isinstance(row_id, str) else None)
        self._given_ids += row_ids
        self._contents += self._block_contents(columns, count)
        if _SOURCE in columns and _TRIAL in columns:
            self._sources += map(self._source, row_ids, columns[_SOURCE], columns[_TRIAL])
        else:
            self._sources += [None] * count
        self._simulated += sum(cell is True for cell in columns.get("outputs.simulated", ()))
        causes = columns.get("cause", absent)
        if self._causes is None and any(cell is not UNSET for cell in causes):
            self._causes = {}
        if self._causes is not None:
            numbered = enumerate(causes, self._rows)
            self._causes.update({number: cause for number, cause in numbered if isinstance(cause, str)})

    def _block_contents(self, columns: Columns, count: int) -> Iterable[str]:
        """Return the content fingerprint of each row in a block of `count` rows.

        A recorded fingerprint counts unless the row holds answers in columns of the data; then it is computed again.
        """
        absent: Cells = [UNSET] * count
        is_recorded = [cell is not UNSET for cell in columns.get("row_id", absent)]
        for key in self._answer_keys:
            if key in columns:
                is_recorded = [was and cell is UNSET for was, cell in zip(is_recorded, columns[key], strict=True)]
        recorded = [cell if isinstance(cell, str) else "" for cell in columns.get("row_fingerprint", absent)]
        if all(is_recorded):
            return recorded
        computed = self._fingerprints(columns, count)
        return (old if keep else new for keep, old, new in zip(is_recorded, recorded, computed, strict=True))

    def _item_causes(self, of_row: Sequence[int] | None) -> Mapping[int, frozenset[str]] | None:
        """Return each failed item's causes over all its trials; None if no row records a cause."""
        if self._causes is None:
            return None
        alone = {cause: frozenset([cause]) for cause in {*self._causes.values()}}
        if of_row is None:
            return {row: alone[cause] for row, cause in self._causes.items()}
        found: dict[int, frozenset[str]] = {}
        for row, cause in self._causes.items():
            found[of_row[row]] = found.get(of_row[row], frozenset()) | alone[cause]
        return found

    def _source(self, row_id: str | None, source: Cell, trial: Cell) -> str | None:
        """Return the id of the row that a trial repeats; None if the row is no trial."""
        source_id = None if trial is UNSET else self._text(source)
        if source_id is None or row_id is None:
            return None
        return source_id if row_id == source_id or row_id.startswith(f"{source_id}#") else None

    def _fingerprints(self, columns: Columns, count: int) -> Iterator[str]:
        """Return the fingerprint of each row's inputs, without the columns that hold answers or mark trials.

        If a name repeats a part of another (Azure writes `a` and `a.b`), only the whole counts.
        """
        names = {key.removeprefix("inputs."): key for key in sorted(columns) if key.startswith("inputs.")}
        parted = any(_is_part(name, names) for name in names)
        own = [name for name in names if parted or name not in self._not_content]
        rows = [*zip(*(columns[names[name]] for name in own), strict=True)] if own else [()] * count
        known = self._known_contents.setdefault((*own,), {})
        # The values alone, without names, are written twice as fast.
        # Two of a million contents share this 64-bit hash with a chance of one in 37 million.
        try:
            hashes = [*map(hash, map(_encode_cells, rows))]
        except (ValueError, RecursionError):  # such as an unpaired surrogate
            hashes = [hash(dumps(self._content(own, row))) for row in rows]
        for hashed, row in zip(hashes, rows, strict=True):
            if hashed not in known:
                content = self._content(own, row)
                if parted:
                    skipped = {name for name in content if name in self._not_content or _is_part(name, content)}
                    content = {name: content[name] for name in content if name not in skipped}
                known[hashed] = fingerprint(cast("dict[str, JSON]", loads(dumps(content))))
        return map(known.__getitem__, hashes)

    def _content(self, names: Sequence[str], row: Cells) -> dict[str, Cell]:
        """Return a row's inputs by column name, without missing ones."""
        return {name: cell for name, cell in zip(names, row, strict=True) if cell is not UNSET}

    def _row_ids(self) -> tuple[Sequence[str], bool]:
        """Return the rows' ids, and True if they come from the data instead of being row numbers.

        If an id is missing, or repeated in another program's results, rows are numbered.
        """
        row_ids = [row_id for row_id in self._given_ids if row_id is not None]
        if len(row_ids) < self._rows or (self._is_foreign and len(set(row_ids)) < self._rows):
            return [f"row-{number}" for number in range(1, self._rows + 1)], False
        return row_ids, not all(_BY_POSITION.fullmatch(row_id) for row_id in row_ids)

    def _items(self, row_ids: Sequence[str]) -> tuple[Items, Sequence[int] | None]:
        """Return the items that comparisons pair, and the first row of each; None as rows if each row is an item.

        The trials of a row form one item.
        """
        sources = self._sources
        if not self._rows or None in sources or len(set(sources)) == self._rows:
            return Items(row_ids, self._contents), None
        numbers: dict[str, int] = {}
        first: list[int] = []
        of_row = array("q")
        for row, source in enumerate(sources):
            item = numbers.setdefault(str(source), len(numbers))
            if item == len(first):
                first.append(row)
            of_row.append(item)
        return Items(list(numbers), [self._contents[row] for row in first], of_row), first


def _row_decoder(keys: Mapping[str, object]) -> msgspec.json.Decoder[msgspec.Struct] | None:
    """Return a decoder for rows without other keys than these, each with its type; None if msgspec refuses a key."""
    fields = [(f"k{at}", kind, UNSET) for at, kind in enumerate(keys.values())]
    names = {f"k{at}": key for at, key in enumerate(keys)}
    try:
        row = msgspec.defstruct("Row", fields, rename=names, forbid_unknown_fields=True, gc=False)
    except ValueError:  # msgspec does not support keys with characters that JSON must escape
        return None
    return msgspec.json.Decoder(row)


def _is_short(value: JSON) -> bool:
    """Return True for a value that may label a slice: null, a number, or a text of at most 100 characters."""
    return len(value) <= _LONGEST_SLICE if isinstance(value, str) else value is None or isinstance(value, (int, float))


def _places(name: str) -> tuple[str, str, str]:
    """Return the possible keys of a grouping column: in the data, in the row itself, in the target's output."""
    return f"inputs.{name}", name, f"outputs.{name}"


def _is_part(name: str, names: Collection[str]) -> bool:
    """Return whether a name is `a.b` and `a` is among the names."""
    return any(letter == "." and name[:at] in names for at, letter in enumerate(name))
