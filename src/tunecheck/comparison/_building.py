"""From result rows to a table of numbers: what each row is called, and what became of it."""

import re
from array import array
from collections.abc import Mapping, Sequence
from hashlib import blake2b

import msgspec

from tunecheck._files import EvaluatorEntry
from tunecheck.comparison._columns import LATENCY, Shape, Shapes, number_of, settle
from tunecheck.comparison._rows import RawRow, as_text, text_of, value_of
from tunecheck.comparison._run_table import Items, State
from tunecheck.datasets._reading import fingerprint, usable_id
from tunecheck.datasets._repeated import SOURCE_ID

_BATCH_ROWS, _BATCH_BYTES = 512, 1 << 22
_EVIDENCE = "cause_evidence"
_BY_POSITION = re.compile(r"row-\d+")


class _Texts(dict[bytes, str | None]):
    """Values as labels; few are more than one row's."""

    def __missing__(self, value: bytes) -> str | None:
        found = self[value] = as_text(msgspec.Raw(value))
        return found


class Contents:
    """What rows ask, as fingerprints; runs of the same rows ask the same, and each is worked out once."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, ...], bytes], str] = {}

    def of(self, row: RawRow, columns: tuple[str, ...]) -> str:
        """The fingerprint of these columns of a row."""
        asked = blake2b(b"\0".join([bytes(row[key]) for key in columns]), digest_size=16).digest()
        known = self._known.get((columns, asked))
        if known is None:
            content = {key.removeprefix("inputs."): value_of(row[key]) for key in columns}
            known = self._known[columns, asked] = fingerprint(content)
        return known


class TableBuilder:
    """Takes a run's rows one by one.

    `labels` are columns whose values are kept, and `finds_clusters` keeps those, too, by which rows may be clustered.
    `answers` are the data's columns that are not part of a row's content. Rows that are `is_foreign` may have an id
    twice, and a null is Azure AI Evaluation's way to say that an evaluator failed.
    """

    def __init__(
        self,
        declared: Mapping[str, EvaluatorEntry] | None,
        *,
        labels: Sequence[str] = (),
        finds_clusters: bool = False,
        answers: frozenset[str] = frozenset(),
        contents: Contents,
        is_foreign: bool = False,
    ) -> None:
        self._is_foreign = is_foreign
        self.shapes = Shapes(declared, labels, answers, finds_clusters=finds_clusters, nulls_are_errors=is_foreign)
        self._known: dict[tuple[str, ...], Shape] = {}
        self._shape: Shape | None = None
        self._batch: list[list[bytes]] = []
        self._bytes = 0
        self._sources: list[str | None] = []
        self._given: list[str | None] = []
        self._known_contents = contents
        self._contents: list[str] = []
        self._labels: dict[str, list[str | None]] = {}
        self._texts = _Texts()
        self.row_ids: Sequence[str] = ()
        self.rows = self.errors = self.simulated = 0
        self.latencies_ms: list[float] = []
        self.causes: dict[int, str] | None = None
        """Why rows failed, by their number; None where no row says whether it has a cause."""

    def add(self, row: RawRow) -> None:
        """Take the next row."""
        if _EVIDENCE in row:  # else rows that fail would be of another shape than those beside them
            row = {key: value for key, value in row.items() if key != _EVIDENCE}
        key = tuple(row)
        shape = self._known.get(key)
        if shape is None:
            shape = self._known[key] = self.shapes.of(key)
        if shape is not self._shape or len(self._batch) >= _BATCH_ROWS or self._bytes > _BATCH_BYTES:
            self._take_batch()
            self._shape = shape
        values = list(map(bytes, map(row.__getitem__, shape.needed)))
        self._batch.append(values)
        self._bytes += sum(map(len, values))
        self._name(row, shape)
        if "cause" in row:
            self.causes = {} if self.causes is None else self.causes
            if (cause := text_of(row["cause"])) is not None:
                self.causes[len(self._given) - 1] = cause

    def _take_batch(self) -> None:
        """Put away what waits: rows of one shape."""
        shape, count = self._shape, len(self._batch)
        if shape is None or not count:
            return
        batch = dict(zip(shape.needed, zip(*self._batch, strict=True), strict=True))
        failed = bytearray([shape.has_error]) * count
        without = State.ERROR if shape.target_failed else State.ABSENT
        for part in shape.parts:
            taken = part.take(batch, self.rows, count, without=without)
            states = part.evaluator.states
            states.extend(bytes(self.rows - len(states)))
            states.extend(taken)
            if State.ERROR in taken:
                failed = bytearray(had or state == State.ERROR for had, state in zip(failed, taken, strict=True))
        for name, key in shape.labels:
            labels = self._labels.setdefault(name, [])
            labels.extend([None] * (self.rows - len(labels)))
            labels.extend(map(self._texts.__getitem__, batch[key]))
        if LATENCY in batch:
            self.latencies_ms += [taken for taken in map(number_of, batch[LATENCY]) if taken == taken]
        self.rows += count
        self.errors += sum(failed)
        self._batch.clear()
        self._bytes = 0

    def _name(self, row: RawRow, shape: Shape) -> None:
        given = text_of(row["row_id"]) if "row_id" in row else usable_id(value_of(row.get("inputs.id")))
        self._given.append(given)
        if "row_id" in row and not shape.answers:
            self._contents.append(text_of(row.get("row_fingerprint")) or "")
        else:
            self._contents.append(self._known_contents.of(row, shape.content))
        source = as_text(row[f"inputs.{SOURCE_ID}"]) if shape.trials else None
        if source is not None and given != source and not (given or "").startswith(f"{source}#"):
            source = None
        self._sources.append(source)
        self.simulated += "outputs.simulated" in row and bytes(row["outputs.simulated"]) == b"true"

    def finish(self) -> tuple[Items, bool, Mapping[str, Sequence[str | None]]]:
        """The items, whether ids come from the data, and the items' labels by column; columns are settled."""
        self._take_batch()
        columns = self.shapes.columns
        for column in columns.values():
            column.fill(self.rows)
        for evaluator in self.shapes.evaluators.values():
            evaluator.states.extend(bytes(self.rows - len(evaluator.states)))
            settle(evaluator, columns, self.shapes.declared(evaluator.name))
        named = self._settle_ids()
        items, first = self._items()
        labels = {name: [*each, *[None] * (self.rows - len(each))] for name, each in self._labels.items()}
        if first is not None:
            labels = {name: [each[row] for row in first] for name, each in labels.items()}
        return items, named, labels

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
