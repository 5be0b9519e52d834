"""Build a run's table from its result rows: ids, contents, and each evaluator's verdicts, numbers and main metric.

The keys of a row, such as a line of `eval_results.jsonl`, have these roles:

| key | example | use |
|---|---|---|
| `row_id`, `inputs.id` | `"r7"` | the row's id |
| `row_fingerprint` | `"9f2c…"` | the row's content |
| `cause` | `"throttled"` | why the row failed |
| `inputs.<column>` | `"inputs.domain": "refund"` | content, slices, groups, and clusters (`…_id`) |
| `outputs.<evaluator>.<metric>_result` | `"outputs.match.match_result": "pass"` | verdicts: `match.match_passed` |
| `outputs.<evaluator>.<metric>_reason` | `"outputs.match.match_reason": "…"` | a hash of the reason |
| `outputs.<evaluator>.<key>` | `"outputs.rouge.f1": 0.4` | numbers: `rouge.f1` |
| `error.<stage>` | `"error.match": {…}` | the row counts as an error |

**State** of a row for an evaluator; the first condition that holds decides (`EvaluatorPart.add_block`):

1. The evaluator has an error on the row: ERROR.
2. Any verdict is `fail` or `pass`: SCORED. Else, any is `not applicable`: NOT_APPLICABLE.
3. The row has a number of the evaluator: SCORED.
4. The row has no value of the evaluator: ERROR if the target has an error, else ABSENT.
5. All its values are null, in results that may be Azure's: ERROR.
6. In any other case: NOT_APPLICABLE.

**Blocks.** Rows are read 256 at a time and turned into columns. Most blocks take the fast way, `_decode`: a decoder
that knows all keys leaves the values that the table does not need as JSON text. A block with a new key or a damaged
row takes the slow way, `_to_columns`, which adds the key or raises the error.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from tunecheck import plugins
from tunecheck._files import EvaluatorEntry, MetricEntry
from tunecheck._json import JSON, check_utf8, dumps, loads, object_decoder
from tunecheck.datasets._reading import SOURCE_ID, TRIAL, fingerprint, is_trial, usable_id
from tunecheck.pipeline._finished_rows import PASS_RATE, ResultRow, counted_metric, read_row
from tunecheck.results import _table as tables

_BLOCK_ROWS = 256
"""Rows in memory that are turned into columns at once."""
_MOST_INPUTS = 1_000
"""The most columns of the data that a table names."""
_MOST_KEYS = 2_000
"""Rows with more keys are decoded without a struct."""
_MOST_SLICES, _LONGEST_SLICE = 20, 100
"""A column gives slices if it has at most this many values, and texts of at most this many characters."""
_BY_POSITION = re.compile(r"row-\d+")
"""An id that only numbers the rows, such as `row-12`."""
_LATENCY = "outputs.latency_ms"
_SOURCE_KEY, _TRIAL_KEY = f"inputs.{SOURCE_ID}", f"inputs.{TRIAL}"
"""Keys of a trial (`--repeat`): the id of the row that was repeated, and the trial's number."""
_encode_cells = msgspec.json.Encoder(enc_hook=lambda _: msgspec.Raw(b"~")).encode
"""Return cells as JSON text, such as `["a",~,3]`, with `~` for an UNSET cell, because no JSON value is written so."""
KnownContents: TypeAlias = dict[tuple[str, ...], dict[int, str]]
"""Fingerprints by column names, then by a hash of the values: `{("question", "tools"): {-81263: "9f2c…"}}`."""
_NEEDED = ("row_id", "row_fingerprint", "cause", "inputs.id", _SOURCE_KEY, _TRIAL_KEY, _LATENCY, "outputs.simulated")
"""Keys whose values every table needs."""


_MOST_COLUMNS = 300
"""The most metrics read per evaluator."""

_LEFT_OUT = ("_result", "_reason", "_status", "_properties", "_threshold", "_model", "_finish_reason")
_SAMPLES = ("_sample_input", "_sample_output", "_prompt_tokens", "_completion_tokens", "_total_tokens")
"""Endings of keys that are no metrics: remarks on a verdict, and texts and token counts of a judge's request."""

_NOT_APPLICABLE, _NO_VERDICT = 2, 3
_CODES = {"fail": 0, "pass": 1, "not_applicable": _NOT_APPLICABLE, "not applicable": _NOT_APPLICABLE}
"""The code of each verdict, in the order in which the verdicts of one row decide its state."""
_NUMBER_OF_CODE = (0.0, 1.0, math.nan, math.nan)
"""The number in a column of verdicts, by code."""
_STATE_OF_CODE = (tables.State.SCORED, tables.State.SCORED, tables.State.NOT_APPLICABLE, tables.State.SCORED)
"""The state of a row, by its lowest code. A row without a verdict counts as scored only if it has a number."""
_KINDS: Mapping[str, tables.Kind] = {"binary": "binary", "score": "score", "count": "count"}
"""The known kinds of metrics; any other word in a file counts as `score`."""

Cell: TypeAlias = "JSON | UnsetType"
Cells: TypeAlias = Sequence[Cell]
Columns: TypeAlias = Mapping[str, Cells]
"""Rows as columns. A cell is UNSET if its row lacks the column; cells that the table does not need may be JSON text.

For example, `[{"row_id": "a", "cause": null}, {"row_id": "b"}]` is `{"row_id": ["a", "b"], "cause": [None, UNSET]}`.
"""

MetricColumns: TypeAlias = dict[str, tables.MetricColumn]
"""The columns of a table's metrics, by the metric's full name."""


class TableBuilder:
    """Reads a run's rows into a table.

    `answers` are the data's columns that are not part of a row's content. `cluster` names the column that identifies
    dependent rows; if it is None, the data or plug-ins say which rows are dependent. `known_contents` keeps
    fingerprints that runs of the same data share: by the names of the columns, then by a hash of their values as JSON.
    """

    def __init__(
        self, opened: tables.OpenedRun, answers: frozenset[str], cluster: str | None, known_contents: KnownContents
    ) -> None:
        """Prepare an empty table for an opened run; `read` fills it.

        `answers` are columns that are no part of a row's content. `cluster` names the column of dependent rows, or is
        `none`; with None, the data or plug-ins decide. `known_contents` has fingerprints that several runs share.
        """
        self._opened, self._answers, self._known_contents = opened, answers, known_contents
        # The user's choice. Without it, the data may choose `none`; otherwise it stays None, and `_clusters` decides.
        self._cluster = tables.NONE if cluster is None and opened.cluster == tables.NONE else cluster
        # In Azure AI Evaluation's results, ids may repeat, and null values mean that an evaluator failed.
        self._may_be_azure = opened.info.source in ("azure", "rows")

        self._declared = opened.declared or {}
        # Longest first: `a.b` is tried before `a` for the key `a.b.score` (see `_split`).
        self._evaluator_names = sorted(self._declared, key=len, reverse=True)
        self._not_content = answers | {TRIAL, SOURCE_ID}

        # The keys of all rows so far, and the decoder for rows with these keys.
        self._keys: dict[str, None] = {}
        self._decoder_keys: tuple[Sequence[str], Collection[str]] = (), ()
        self._decoder: msgspec.json.Decoder[msgspec.Struct] | None = None

        self._parts: dict[str, EvaluatorPart] = {}
        """One part per evaluator."""

        # Columns whose labels the table needs, by row: for groups, clusters and slices.
        label_columns = [*opened.groups, *filter(None, [opened.cluster if self._cluster is None else self._cluster])]
        self._labels: dict[str, list[str | None]] = {name: [] for name in label_columns}
        self._slices: dict[str, set[str | None]] = {}
        """The different labels of columns that have only few, short values; the run was not grouped by them."""
        self._shared_labels: dict[str | None, str | None] = {}

        self._ids: list[str | None] = []
        """The id of each row, from the run or the data; None if neither has a usable one."""
        self._sources: list[str | None] = []
        """The id of the row that each row is a trial of; None if it is no trial."""
        self._contents: list[str] = []

        self._columns: dict[str, tables.MetricColumn] = {}
        self._input_names: dict[str, None] = {}
        self._rows = self._errors = self._simulated = 0
        self._latencies_ms: list[float] = []
        self._causes: dict[int, str] | None = None
        """The cause of each failed row by its number; None if no row records a cause."""
        for name in self._declared:
            self._evaluator_part(name)

    def read(self) -> tables.RunTable:
        """Read all rows of the run and return its table; call this once.

        Raises:
            DataError: a row is damaged.
        """
        for columns, count in self._blocks():
            self._add_block(columns, count)

        # Only after the last block is it known which metrics have values.
        for part in self._parts.values():
            for column in part.columns:
                self._columns[column].fill(self._rows)
            part.choose_main_metric(self._columns)

        row_ids, named = self._row_ids()
        items, first_rows = self._items(row_ids)
        # A column that no row has gives no labels. Trials of an item have the labels of the first one.
        labels: dict[str, tables.Labels] = {}
        for name, values in self._labels.items():
            if not self._keys.keys().isdisjoint(_possible_keys(name)):
                labels[name] = values if first_rows is None else [values[row] for row in first_rows]

        opened = self._opened
        return tables.RunTable(
            info=self._info(items),
            opened=opened,
            items=items,
            named=named,
            columns=self._columns,
            evaluators={**self._parts},
            column_names=[*self._input_names],
            row_ids=row_ids,
            clusters=self._clusters(items, labels),
            groups={name: labels[name] for name in opened.groups if name in labels},
            slices={name: labels[name] for name in self._slices},
            causes=self._item_causes(items.of_row),
            latencies_ms=self._latencies_ms,
            answers=self._answers,
        )

    def _info(self, items: tables.Items) -> tables.RunInfo:
        """Return the run's description with its counts of rows, errors and trials, and notes on metrics left out."""
        info = self._opened.info
        notes = [
            f"evaluator {name!r} returns more than {len(part.columns)} metrics: the rest is not read"
            for name, part in self._parts.items()
            if part.left_out
        ]

        return replace(
            info,
            rows=self._rows,
            errors=self._errors,
            simulated=info.simulated or self._simulated > 0,
            trials=1 if items.of_row is None else math.ceil(self._rows / len(items.ids)),
            notes=(*info.notes, *notes),
        )

    def _clusters(self, items: tables.Items, labels: Mapping[str, tables.Labels]) -> tables.Clusters | None:
        """Return the clusters of dependent items: by a plug-in's rule or a column; None if all are independent."""
        ids = [*items.ids]
        # The first plug-in that knows the run decides.
        for _, rule in plugins.load_all("cluster_rules") if self._cluster is None else ():
            found: tables.Clusters | None = rule(self._opened, ids)
            if found is not None:
                return found
        return None if self._cluster == tables.NONE else tables.clusters_of(self._cluster, self._opened.cluster, labels)

    def _blocks(self) -> Iterator[tuple[Columns, int]]:
        """Yield the rows in blocks: each block's columns and its number of rows."""
        source = self._opened.rows
        if isinstance(source, tables.ResultsFile):
            for first, block in source.blocks():
                columns = self._decode(block)
                if columns is None:
                    rows = [read_row(line, source.path, number) for number, line in enumerate(block, first)]
                    columns = self._to_columns(rows)
                yield columns, len(block)
        else:
            records = source.records()
            while rows := [*islice(records, _BLOCK_ROWS)]:
                yield self._to_columns(rows), len(rows)

    def _decode(self, lines: Sequence[bytes]) -> Columns | None:
        """Return these lines as columns; None if a row is damaged, or has a key that no earlier row had.

        Return None also if the rows so far have more than 2,000 keys, or keys that no decoder supports. Values that the
        table does not need stay JSON text, which is much faster.
        """
        keys, needed = [*self._keys], self._needed_keys()
        if (keys, needed) != self._decoder_keys:
            kinds = {key: Any if key in needed else msgspec.Raw for key in keys}
            self._decoder_keys = keys, needed
            is_supported = len(keys) <= _MOST_KEYS
            self._decoder = object_decoder(kinds, forbid_unknown_fields=True) if is_supported else None

        if self._decoder is None:
            return None
        decode = self._decoder.decode

        # A key that the decoder does not know raises an error, too.
        try:
            for line in lines:
                check_utf8(line)
            rows = [decode(line) for line in lines]
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            return None
        return dict(zip(keys, zip(*map(msgspec.structs.astuple, rows), strict=True), strict=True))

    def _evaluator_part(self, name: str) -> EvaluatorPart:
        """Return the part of the table for an evaluator; make an empty one for a new evaluator."""
        if name not in self._parts:
            entry = self._declared.get(name, EvaluatorEntry())
            self._parts[name] = EvaluatorPart(name, entry, nulls_are_errors=self._may_be_azure)
        return self._parts[name]

    # -- columns

    def _add_keys(self, keys: Iterable[str]) -> None:
        """Add the new keys of rows, each by its role: an input (at most 1,000), or an evaluator's output."""
        output_keys: dict[str, list[str]] = {}
        for key in keys:
            # `inputs.domain` is the input `domain`; `row_id` has no role.
            role, _, name = key.partition(".")
            # An input may be a cluster's column, a slice, or neither: answers and marks of trials are no content.
            if role == "inputs" and len(self._input_names) < _MOST_INPUTS:
                self._input_names[name] = None
                # Unless the user chose a column for clusters, any column with such a name may become it.
                may_cluster = self._cluster is None and tables.may_cluster(name)
                if name not in self._labels and (may_cluster or name not in self._not_content):
                    # Earlier rows lack the column: their labels are None.
                    self._labels[name] = [None] * self._rows
                    if not may_cluster:
                        self._slices[name] = set()
            # `outputs.latency_ms` belongs to no evaluator.
            elif role == "outputs" and (split := self._split(name)) is not None:
                evaluator, output_key = split
                output_keys.setdefault(evaluator, []).append(output_key)

        for evaluator, own_keys in output_keys.items():
            self._evaluator_part(evaluator).add_keys(own_keys, self._columns)

    def _split(self, name: str) -> tuple[str, str] | None:
        """Return the evaluator and the key in the name `<evaluator>.<key>` of an output; None without an evaluator.

        For example `("match", "match_score")` for `match.match_score`, and None for `latency_ms`. Evaluators' names may
        contain dots. If the run declares no evaluators, the first dot is the separator.
        """
        if self._opened.declared is None:
            evaluator, _, key = name.partition(".")
            return (evaluator, key) if evaluator and key else None
        declared = next((known for known in self._evaluator_names if name.startswith(f"{known}.")), None)
        return None if declared is None else (declared, name[len(declared) + 1 :])

    def _needed_keys(self) -> set[str]:
        """Return the keys of values that the table needs; the decoder may leave other values as JSON text."""
        keys = {*_NEEDED}.union(*map(_possible_keys, self._labels))
        for part in self._parts.values():
            keys.update(key for key, _ in part.numbers)
            keys.update(key for result, reason, _ in part.verdicts for key in (result, reason))
        return keys

    def _to_columns(self, rows: Sequence[ResultRow]) -> Columns:
        """Return rows as columns, one for each key so far; add keys that no earlier row had."""
        for row in rows:
            if not self._keys.keys() >= row.keys():
                new = [key for key in row if key not in self._keys]
                self._keys.update(dict.fromkeys(new))
                self._add_keys(new)
        return {key: [row.get(key, UNSET) for row in rows] for key in self._keys}

    def _add_block(self, columns: Columns, count: int) -> None:
        """Add a block of `count` rows to the table: verdicts, labels, latencies, ids, contents, causes and counts."""
        # A row counts as an error once, even if several stages or evaluators have an error on it.
        errors = [cells for key, cells in columns.items() if key.startswith("error.")]
        failed = {place for cells in errors for place, cell in enumerate(cells) if cell is not UNSET}
        for part in self._parts.values():
            states = part.add_block(columns, count, self._rows)
            if tables.State.ERROR in states:
                failed.update(place for place, state in enumerate(states) if state == tables.State.ERROR)

        for name in [*self._labels]:
            label_key = next((key for key in _possible_keys(name) if key in columns), "")
            self._add_labels(name, columns.get(label_key, [UNSET] * count))

        latencies = map(number_of, columns.get(_LATENCY, ()))
        self._latencies_ms += [latency for latency in latencies if latency == latency]  # without NaN

        self._add_identities(columns, count)
        self._rows += count
        self._errors += len(failed)

    def _add_labels(self, name: str, cells: Cells) -> None:
        """Add a block's labels of a column; drop a slice column with over 20 values, long texts, lists or objects."""
        labels = [cell if type(cell) is str else self._label(cell) for cell in cells]
        if name in self._slices:
            self._slices[name].update(labels)
            if len(self._slices[name]) > _MOST_SLICES or not all(map(_may_label_slice, cells)):
                del self._slices[name], self._labels[name]
                return
        self._labels[name] += map(self._shared_labels.setdefault, labels, labels)  # shared texts save memory

    def _label(self, value: Cell) -> str | None:
        """Return a value as a label: a text unchanged, another value as JSON; None for null and UNSET."""
        if value is None or value is UNSET:
            return None
        return value if isinstance(value, str) else dumps(value).decode("utf-8", "backslashreplace")

    # -- names

    def _add_identities(self, columns: Columns, count: int) -> None:
        """Add the ids, content fingerprints, trials and causes of a block of `count` rows."""
        absent: Cells = [UNSET] * count
        found = zip(columns.get("row_id", absent), columns.get("inputs.id", absent), strict=True)
        ids = [usable_id(data_id) if recorded is UNSET else recorded for recorded, data_id in found]
        row_ids = [row_id if isinstance(row_id, str) else None for row_id in ids]

        self._ids += row_ids
        self._contents += self._block_fingerprints(columns, count)

        # Only rows of a run with `--repeat` have both keys.
        if _SOURCE_KEY in columns and _TRIAL_KEY in columns:
            self._sources += map(self._trial_source, row_ids, columns[_SOURCE_KEY], columns[_TRIAL_KEY])
        else:
            self._sources += [None] * count

        self._simulated += sum(cell is True for cell in columns.get("outputs.simulated", ()))

        if "cause" in columns:
            self._causes = self._causes or {}
            # `_rows` is the number of rows before this block, so it is the number of the block's first row.
            numbered = enumerate(columns["cause"], self._rows)
            self._causes.update({number: cause for number, cause in numbered if isinstance(cause, str)})

    def _block_fingerprints(self, columns: Columns, count: int) -> Iterable[str]:
        """Return the content fingerprint of each row in a block of `count` rows.

        The fingerprint is the recorded one, or "" if the row has a `row_id` and no fingerprint. It is computed for rows
        without a `row_id`, and for rows with answers among their inputs, which are no content.
        """
        absent: Cells = [UNSET] * count
        is_recorded = [cell is not UNSET for cell in columns.get("row_id", absent)]
        for key in {f"inputs.{name}" for name in self._answers} & columns.keys():
            is_recorded = [keep and cell is UNSET for keep, cell in zip(is_recorded, columns[key], strict=True)]

        recorded = [cell if isinstance(cell, str) else "" for cell in columns.get("row_fingerprint", absent)]
        if all(is_recorded):
            return recorded

        computed = self._computed_fingerprints(columns, count)
        return (own if keep else new for keep, own, new in zip(is_recorded, recorded, computed, strict=True))

    def _item_causes(self, of_row: Sequence[int] | None) -> Mapping[int, frozenset[str]] | None:
        """Return the causes of each failed item, over all its trials; None if no row records a cause.

        `of_row` has the item of each row; None if every row is an item.
        """
        if self._causes is None:
            return None

        single = {cause: frozenset([cause]) for cause in {*self._causes.values()}}  # shared, which saves memory
        causes: dict[int, frozenset[str]] = {}
        for row, cause in self._causes.items():
            item = row if of_row is None else of_row[row]
            causes[item] = causes[item] | {cause} if item in causes else single[cause]

        return causes

    def _trial_source(self, row_id: str | None, source: Cell, trial: Cell) -> str | None:
        """Return the id of the row that this row is a trial of; None if it is no trial.

        `row_id` is this row's own id, if it has one. `source` is the recorded id of the other row, and `trial` the
        trial's number; UNSET if not recorded.
        """
        source_id = None if trial is UNSET else self._label(source)
        is_its_trial = source_id is not None and row_id is not None and is_trial(row_id, source_id)
        return source_id if is_its_trial else None

    def _computed_fingerprints(self, columns: Columns, count: int) -> Iterator[str]:
        """Return the fingerprint of each row's inputs, without the columns that hold answers or mark trials.

        Azure writes an object `a` and its value `a.b` as two columns; only the object counts. Equal inputs are hashed
        first and fingerprinted only once, also for several runs of the same data.
        """
        keys = {key.removeprefix("inputs."): key for key in sorted(columns) if key.startswith("inputs.")}
        has_nested = any(_is_nested(name, keys) for name in keys)

        # With nested columns, each row decides later which columns it has and which of them repeat an object.
        names = [name for name in keys if has_nested or name not in self._not_content]
        rows = [*zip(*(columns[keys[name]] for name in names), strict=True)] if names else [()] * count

        known = self._known_contents.setdefault((*names,), {})
        # The values alone, without names, are written twice as fast.
        # Two of a million contents share this 64-bit hash with a chance of one in 37 million.
        try:
            hashes = [*map(hash, map(_encode_cells, rows))]
        except (ValueError, RecursionError):  # such as an unpaired surrogate
            hashes = [hash(dumps(self._inputs_by_name(names, row))) for row in rows]

        for hashed, row in zip(hashes, rows, strict=True):
            if hashed not in known:
                content = self._inputs_by_name(names, row)
                if has_nested:
                    skipped = {name for name in content if name in self._not_content or _is_nested(name, content)}
                    content = {name: content[name] for name in content if name not in skipped}
                known[hashed] = fingerprint(cast("dict[str, JSON]", loads(dumps(content))))

        return map(known.__getitem__, hashes)

    def _inputs_by_name(self, names: Sequence[str], row: Cells) -> dict[str, Cell]:
        """Return a row's inputs by column name, without UNSET ones."""
        return {name: cell for name, cell in zip(names, row, strict=True) if cell is not UNSET}

    def _row_ids(self) -> tuple[Sequence[str], bool]:
        """Return the rows' ids, and True unless they only number the rows.

        If an id is missing, or repeated in results that may be Azure's, the ids are `row-1`, `row-2`, ….
        """
        row_ids = [row_id for row_id in self._ids if row_id is not None]
        if len(row_ids) < self._rows or (self._may_be_azure and len(set(row_ids)) < self._rows):
            return [f"row-{number}" for number in range(1, self._rows + 1)], False
        return row_ids, not all(_BY_POSITION.fullmatch(row_id) for row_id in row_ids)

    def _items(self, row_ids: Sequence[str]) -> tuple[tables.Items, Sequence[int] | None]:
        """Return the items that comparisons pair, and the index of each item's first row; None if each row is an item.

        The trials of a row form one item. For the sources `[a, a, b, b]`, the items are `a` and `b`, the first rows are
        `[0, 2]`, and the items of the rows are `[0, 0, 1, 1]`.
        """
        sources = self._sources
        if not self._rows or None in sources or len(set(sources)) == self._rows:
            return tables.Items(row_ids, self._contents), None

        first_rows: dict[str, int] = {}
        for row, source in enumerate(sources):
            first_rows.setdefault(str(source), row)
        numbers = {source: item for item, source in enumerate(first_rows)}

        of_row = array("q", (numbers[str(source)] for source in sources))
        contents = [self._contents[row] for row in first_rows.values()]
        return tables.Items([*first_rows], contents, of_row), [*first_rows.values()]


def _may_label_slice(value: Cell) -> bool:
    """Return False for a value that labels no slice: a list, an object, or a text of more than 100 characters."""
    return len(value) <= _LONGEST_SLICE if isinstance(value, str) else not isinstance(value, (list, dict))


def _possible_keys(name: str) -> tuple[str, str, str]:
    """Return the keys that a grouping column may have in a row: as an input, as it is, as an output of the target.

    For example, `row_kind` is a key itself, `domain` is the input `inputs.domain`, and `finish_reason` is an output.
    """
    return f"inputs.{name}", name, f"outputs.{name}"


def _is_nested(name: str, names: Collection[str]) -> bool:
    """Return True if a name is `a.b` and `a` is among the names."""
    return any(letter == "." and name[:place] in names for place, letter in enumerate(name))


# -- one evaluator's columns


class EvaluatorPart(tables.EvaluatorColumns):
    """One evaluator's keys in a run's rows, and the columns that they fill.

    `numbers` has pairs of a key and its column. `verdicts` has a result's key, its reason's key and the column. If
    `nulls_are_errors`, the evaluator failed on a row with nulls under all its keys.

    For example, the keys `match_result`, `match_reason` and `match_score` of an evaluator `match` give the columns
    `match.match_passed` (verdicts) and `match.match_score` (numbers). `choose_main_metric` renames the first to the
    evaluator's pass rate.
    """

    nulls_are_errors: bool = False
    keys: list[str] = msgspec.field(default_factory=list)
    numbers: list[tuple[str, tables.MetricColumn]] = msgspec.field(default_factory=list)
    verdicts: list[tuple[str, str, tables.MetricColumn]] = msgspec.field(default_factory=list)

    def add_keys(self, added: Sequence[str], metrics: MetricColumns) -> None:
        """Add new keys of the evaluator's outputs; add a column to `metrics` for each key with verdicts or numbers."""
        prefix = f"outputs.{self.name}."
        self.keys += [prefix + key for key in added]
        known = {key.removeprefix(prefix) for key in self.keys}

        for key in added:
            # `metric` is the key itself unless the key ends in `_result`.
            metric = key.removesuffix("_result") or key
            # A key that repeats another gets no column: `f1_score` repeats `f1`, and `f1_passed` repeats `f1_result`.
            if metric == key and (key.endswith((*_LEFT_OUT, *_SAMPLES)) or _repeats_another(key, known)):
                continue
            if len(self.columns) >= _MOST_COLUMNS:
                self.left_out += 1
            elif metric == key:
                # A column that the run does not describe is binary until a value other than 0 and 1 makes it a score.
                entry = self.entry.metric(key) or MetricEntry(key, "binary")
                self.numbers.append((prefix + key, self._column(key, key, entry, metrics)))
            else:
                column = self._column(f"{metric}_passed", metric, MetricEntry(metric, "binary"), metrics)
                # `passes` names the column with the verdicts: here this column itself.
                column.passes = column.name
                self.verdicts.append((prefix + key, f"{prefix}{metric}_reason", column))

    def _column(self, key: str, metric: str, entry: MetricEntry, metrics: MetricColumns) -> tables.MetricColumn:
        """Return the column of a key; add it to `metrics` if it is new.

        `metric` is the name from which the keys of its verdicts are formed, and `entry` its description.
        """
        # In the name of a metric, brackets would be read as a slice.
        name = f"{self.name}.{key.replace('[', '(').replace(']', ')')}"
        if name not in metrics:
            about = (_KINDS.get(entry.kind, "score"), entry.higher_is_better, entry.bounds)
            metrics[name] = tables.MetricColumn(name, self.name, metric, *about)
            self.columns.append(name)
        return metrics[name]

    def add_block(self, columns: Columns, count: int, start: int) -> bytearray:
        """Append the values of a block of `count` rows to the evaluator's columns; return the state of each row.

        `start` is the number of rows before the block.
        """
        absent: Cells = [UNSET] * count
        failed = [cell is not UNSET for cell in columns.get(f"error.{self.name}", absent)]
        all_worked = not any(failed)

        def cells(key: str) -> Cells:
            """Return the block's cells under a key, UNSET for rows on which the evaluator failed."""
            found = columns.get(key, absent)
            return found if all_worked else [UNSET if bad else cell for bad, cell in zip(failed, found, strict=True)]

        # Both calls also append the values to the columns.
        codes = [_append_verdicts(cells(key), cells(reason), start, column) for key, reason, column in self.verdicts]
        numbers = [_append_numbers(cells(key), start, column) for key, column in self.numbers]

        no_verdicts = [_NO_VERDICT] * count
        # The lowest of a row's codes decides its state: fail, pass, not applicable, no verdict.
        lowest = [*map(min, no_verdicts, *codes)] if codes else no_verdicts

        states = bytearray(map(_STATE_OF_CODE.__getitem__, lowest))
        if not all_worked or _NO_VERDICT in lowest:
            for place, code in enumerate(lowest):
                if failed[place]:
                    states[place] = tables.State.ERROR
                elif code == _NO_VERDICT and all(math.isnan(values[place]) for values in numbers):
                    states[place] = self._state_without_value(columns, place)

        # A new evaluator is ABSENT (0) on the rows before its first block.
        self.states.extend(bytes(start - len(self.states)) + states)
        return states

    def _state_without_value(self, columns: Columns, place: int) -> int:
        """Return the state of the row at this place in the block, which has neither a verdict nor a number."""
        own = [columns[key][place] for key in self.keys if columns[key][place] is not UNSET]

        if not own:
            target_failed = "error.target" in columns and columns["error.target"][place] is not UNSET
            return tables.State.ERROR if target_failed else tables.State.ABSENT

        all_null = all(value is None for value in own)
        return tables.State.ERROR if self.nulls_are_errors and all_null else tables.State.NOT_APPLICABLE

    def choose_main_metric(self, metrics: MetricColumns) -> None:
        """Drop the evaluator's columns without numbers from `metrics`, name its pass rate, and choose its main metric.

        The main metric is, in this order:

        1. the pass rate of its declared primary, else of the metric with its name, else of the first metric with
           results, if rows passed or failed
        2. the number that the evaluator declares as its primary
        3. the number with the evaluator's name
        4. the first column that is left; None without any
        """
        with_result = [metrics[column].metric for column in self.columns if metrics[column].has_results]
        counted = counted_metric(with_result, self.name, self.entry.primary)

        for column in list(self.columns):
            # NaN alone differs from itself.
            if all(value != value for value in metrics[column].values):
                del metrics[column]
                self.columns.remove(column)

        verdicts = [metrics[column] for column in self.columns if metrics[column].passes]
        names = [f"{self.name}.{name}" for name in (self.entry.primary, self.name)]
        main = next((name for name in names if name in metrics), next(iter(self.columns), None))

        pass_rate = next((column for column in verdicts if column.metric == counted), None)
        if pass_rate is not None:
            # The column keeps its place among the evaluator's columns under its new name.
            del metrics[pass_rate.name]
            main = f"{self.name}.{PASS_RATE}"
            self.columns[self.columns.index(pass_rate.name)] = main
            pass_rate.name = pass_rate.passes = main
            metrics[main] = pass_rate

        self.main = main
        for verdict in verdicts:
            self._link_score_to_verdict(verdict, metrics)

    def _link_score_to_verdict(self, verdict: tables.MetricColumn, metrics: MetricColumns) -> None:
        """Link a metric's score column, if any, to its column of verdicts; record whether it only repeats them.

        The score of `match_result` is `match`, else `match_score`. It repeats the verdicts if the evaluator declares it
        as pass or fail or, if the evaluator declares nothing, if all its numbers are equal to theirs.
        """
        name = f"{self.name}.{verdict.metric}"
        score = metrics.get(name) or metrics.get(f"{name}_score")
        if score is None or score is verdict:
            return

        entry = self.entry.metric(verdict.metric)
        has_same_values = score.values.tobytes() == verdict.values.tobytes()
        score.repeats = has_same_values if entry is None else entry.kind == "binary"

        score.passes, score.metric = verdict.name, verdict.metric


def _append_verdicts(results: Cells, reasons: Cells, start: int, column: tables.MetricColumn) -> Sequence[int]:
    """Append verdicts as 1, 0 or NaN to a column; return for each row a code: 0 fail, 1 pass, 2 not applicable, 3 none.

    Append the hash of a failed row's reason, else 0. `start` is the number of rows before the block.
    """
    try:
        codes = [_CODES.get(cell, _NO_VERDICT) for cell in results]  # type: ignore[arg-type]
    except TypeError:  # a value is a list or an object, which cannot be hashed
        codes = [_CODES.get(str(cell), _NO_VERDICT) for cell in results]  # texts stay as they are

    column.has_results = column.has_results or any(code != _NO_VERDICT for code in codes)
    # The column may be new in this block: earlier rows get NaN.
    column.fill(start)
    column.values.extend(map(_NUMBER_OF_CODE.__getitem__, codes))
    # Code 0 is a failed row; other rows have no reason.
    column.reasons.extend([0 if code else _reason_hash(reason) for code, reason in zip(codes, reasons, strict=True)])

    return codes


def _append_numbers(cells: Cells, start: int, column: tables.MetricColumn) -> Sequence[float]:
    """Append each cell's number to a column, NaN for a cell without one; return the numbers.

    A binary column becomes a score at the first number other than 0 and 1. `start` is the number of rows before the
    block.
    """
    values = [cell if type(cell) is float else number_of(cell) for cell in cells]

    column.fill(start)
    column.values.extend(values)
    if column.kind == "binary" and not all(value in (0.0, 1.0) or value != value for value in values):
        column.kind = "score"

    return values


def number_of(value: Cell) -> float:
    """Return a number, true or false as a float; NaN for any other value, or a number too large for a float."""
    try:
        return float(value) if isinstance(value, (int, float)) else math.nan
    except OverflowError:
        return math.nan


def _reason_hash(reason: Cell) -> int:
    """Return a hash by which reasons are compared; never 0, the hash of a row that did not fail."""
    return hash(reason if isinstance(reason, str) else dumps(None if reason is UNSET else reason)) or 1


def _repeats_another(key: str, known: set[str]) -> bool:
    """Return True if a key repeats a known one: `m_score` repeats `m`, and `m_passed` repeats `m_result`."""
    if key.endswith("_score"):
        return key.removesuffix("_score") in known
    return key.endswith("_passed") and f"{key.removesuffix('_passed')}_result" in known
