"""Reads a journal: the finished work of a run, and results of an earlier run that can be reused.

Each line of a journal is a record, described in `_files.py`. Its key `k` is the kind. These lines leave out the number
and checksum at the end of each record:

    {"k":"answer","i":0,"id":"row-1","h":"5f0c…","out":{"response":"Hello","tool_calls":null},"same":"text"}
    {"k":"verdicts","rows":[[0,{"f1":["9ab1…",{"f1":0.5}]}]]}
    {"k":"call","e":"relevance","h":"77e2…","cost":0.002,"cur":"USD","out":{"text":"5"},"i":0}
    {"k":"error","i":1,"id":"row-2","stage":"target","type":"TimedOutError","message":"took longer than 60 s"}

`JournalReader` reads the file once and keeps the offsets of the records. A result is reused under these rules:

1.  Its record is the last one for the row's index, or one with equal inputs, depending on `by_row`.
2.  The hash `h` of its inputs is the same as now.
3.  The record is not damaged. Otherwise the work is done again.

Errors are never reused: a resumed run tries the work again, except after a failure of the same session.
"""

import contextlib
import re
import sys
from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple, cast

import msgspec

from tunecheck._disk import open_regular
from tunecheck._errors import ConfigurationError, raise_as
from tunecheck._files import FIRST_COLUMNS, Count, Failure, ModelCall, RowVerdicts, check_first_record
from tunecheck._json import JSON, convert_value, dumps, loads
from tunecheck._messages import plural
from tunecheck._records import Damage, WholeRecords
from tunecheck.pipeline._scoring import Output

_RECORDS_CACHED = 64
"""Records with verdicts that are kept decoded, because one record has the verdicts of several rows."""

_MOST_NAMES = 5
"""Maximum number of rows that a message about lost calls names."""

_ROW_IN_DAMAGE = re.compile(rb'"i":(?P<index>\d{1,15}),"id":"(?P<id>(?:[^"\\]|\\.)*)"')
"""Matches the index and id of a row in what remains of a damaged record: `"i":7,"id":"row-8"`."""

_VERDICTS = b'{"k":"verdicts"'
"""The beginning of a record with verdicts."""

_KINDS_WITHOUT_CALLS = tuple(b'{"k":"%b"' % kind for kind in (b"journal", b"verdicts", b"error", b"accepted"))
"""The beginnings of damaged records that show that no call was lost."""

_ROWS_OF_PAGE = 64
"""Number of rows whose offsets are kept together; the record of a row far from all others takes about 0.7 KB."""


# -- offsets of records by row, or by the hash of inputs


class _Place(NamedTuple):
    """The offset of a record in the journal, and the index of the row in it."""

    offset: int
    row: int


class _ByRow:
    """Offsets of records by row index: about 11 bytes a row."""

    def __init__(self) -> None:
        # A damaged file may name any index, so the offsets are in pages of neighbouring rows, not in one array.
        self._pages: dict[int, array[int]] = {}
        """Offsets plus 1 by the number of the page; 0 means that there is no record."""

    def add(self, _: str | None, place: _Place) -> None:
        """Add the place of a row's record, which replaces that of an earlier record; the hash is ignored."""
        page, row = divmod(place.row, _ROWS_OF_PAGE)
        if page not in self._pages:
            self._pages[page] = array("Q", bytes(8 * _ROWS_OF_PAGE))
        self._pages[page][row] = place.offset + 1

    def rows(self) -> Iterator[int]:
        """Yield the indices of the rows with a record, in their order."""
        for number, page in sorted(self._pages.items()):
            yield from (number * _ROWS_OF_PAGE + row for row, offset in enumerate(page) if offset)

    def find(self, _: str | None, index: int) -> _Place | None:
        """Return the place of the record of the row with this index, or None; the hash is ignored."""
        page = self._pages.get(index // _ROWS_OF_PAGE)
        offset = 0 if page is None else page[index % _ROWS_OF_PAGE]
        return _Place(offset - 1, index) if offset else None


class _ByContent:
    """Offsets of records by the hash of their inputs.

    If several records have equal inputs, a row gets the record of its own index if there is one. Otherwise the n-th
    row gets the n-th record, and later rows the last one. Every request for a row gives the same record.

    For example, the parent run has the answers a and b to two rows with equal inputs. In a new run with three such
    rows, the first one gets a, the second and third one b.
    """

    def __init__(self) -> None:
        self._places: dict[int, _Place | dict[int, _Place]] = {}
        """By hash: the place of the only record, or the places of several records by row index."""
        self._assigned: dict[tuple[int, int], _Place] = {}
        """The record that each row got, by hash and row index."""

    def add(self, input_hash: str | None, place: _Place) -> None:
        """Add the place of a record with these inputs; ignore a record without a hash, which cannot be found."""
        if input_hash is None:
            return

        key = hash(input_hash)
        known = self._places.get(key)
        if isinstance(known, dict):
            known[place.row] = place
        else:  # only equal inputs need a dict, which is much larger than a place
            self._places[key] = place if known is None else {known.row: known, place.row: place}

    def find(self, input_hash: str | None, index: int) -> _Place | None:
        """Return the place of a record with these inputs for the row with this index, or None.

        Assign the record to the row, so that other rows get other records while there are any.
        """
        if input_hash is None:
            return None

        key = hash(input_hash)
        known = self._places.get(key)
        if not isinstance(known, dict):  # the only record with these inputs, or None
            return known

        if (key, index) not in self._assigned:
            row = index if index in known else next(iter(known))
            # The last record stays, for all further rows with these inputs.
            self._assigned[key, index] = known.pop(row) if len(known) > 1 else known[row]
        return self._assigned[key, index]


# -- reading records


class _Record(msgspec.Struct):
    """The keys of a record that the index needs: `k` kind, `i` row index, `h` input hash, and others by name."""

    k: str
    i: Count | None = None
    h: str | None = None
    stage: str | None = None
    lost: int = 0
    settled: list[int] = []
    rows: list[tuple[Count, dict[str, tuple[str | None, msgspec.Raw]]]] = []


class _SlowRecord(_Record):
    """The same record, decoded from plain data, if the fast decoder cannot read it."""

    rows: list[tuple[Count, dict[str, tuple[str | None, object]]]] = []  # type: ignore[assignment]


class JournalReader:
    """Finds the recorded work of a row in a journal.

    Only offsets are kept in memory. With `by_row`, records are found by the row's index: a run is resumed in its own
    folder. Otherwise they are found by the hash of the inputs: a new run reuses unchanged results. In both cases the
    hash must be equal. Failed work is not reused.
    """

    def __init__(
        self,
        path: Path,
        *,
        by_row: bool,
        evaluators: frozenset[str],
        answers: bool,
        at_least: int = 0,
        since: int = sys.maxsize,
    ) -> None:
        """Index the journal: the answers if `answers` is true, and the verdicts of `evaluators`.

        With `by_row`, results are found by the index of their row, else by the hash of their inputs. `at_least` is the
        number of records that the journal is known to have had. Records from the offset `since` on are from this
        session: they do not count as reused, and their failures are not retried.

        Raises:
            ConfigurationError: there is no journal, or a later version of Tunecheck wrote it.
        """
        check_first_record(path)

        make = _ByRow if by_row else _ByContent
        self._answers: _ByRow | _ByContent = make()
        self._verdicts: dict[str, _ByRow | _ByContent] = {name: make() for name in evaluators}
        self._cached_verdicts = lru_cache(_RECORDS_CACHED)(self._read_verdicts)

        self._steps: dict[int, list[int]] = {}
        """Offsets of the parts of incomplete answers, by row index."""
        self._calls: dict[str, int] = {}
        """Offset of the last record of each model call, by key."""
        self._calls_by_row: dict[int, list[int]] = {}
        """Offsets of the model calls that were made for a row, by row index."""
        self._call_offsets = array("Q")
        """Offsets of all records of model calls, also of equal calls."""
        self._since = since
        self._failures: dict[str, _ByRow] = {}
        """This session's failures by stage."""
        self._target_failed: set[int] = set()
        self._result_rows: Sequence[int] = ()
        """The indices of the result rows of a run that stopped early."""
        self._reads_answers = answers

        with raise_as(ConfigurationError, path, "the run's records cannot be read"):
            self._file = open_regular(path)
            self._damage = self._read_all(WholeRecords(path, self._file, at_least))

    def _read_all(self, records: WholeRecords) -> Damage:
        """Read the whole journal once, keep the offsets of its records, and return the damage.

        A record has the keys `k` (kind), `h` (hash of the inputs) and `i` (row index).
        """
        decode = msgspec.json.Decoder(_Record).decode
        for offset, line in records:
            try:
                record = decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                record = _read_leniently(line)

            if record.k == "call" and record.h is not None:
                self._calls[record.h] = offset
                self._call_offsets.append(offset)
                if record.i is not None:
                    self._calls_by_row.setdefault(record.i, []).append(offset)
            elif record.i is not None:
                self._add_record(record, record.i, offset)
            elif record.k == "accepted":
                records.accept(record.lost)

            # Only the record of an early end has `settled`, and only records of verdicts have `rows`.
            self._result_rows = record.settled or self._result_rows
            for index, verdicts in record.rows:
                for name, (input_hash, _) in verdicts.items():
                    if name in self._verdicts and input_hash is not None:
                        self._verdicts[name].add(input_hash, _Place(offset, index))
        return records.damage

    def _add_record(self, record: _Record, index: int, offset: int) -> None:
        """Add the offset of a row's answer, part of an answer, or error; ignore answers if they are not reused.

        `record.k` is the record's kind, `record.h` the hash of its inputs, `index` the row's index. With `by_row`,
        answers are found by row, else by this hash. The places of failures are kept only for this session, whose
        records begin at the offset `_since`.
        """
        if record.k == "answer" and self._reads_answers:
            self._answers.add(record.h, _Place(offset, index))
            self._steps.pop(index, None)  # the answer includes all its parts
        elif record.k == "step" and self._reads_answers:
            self._steps.setdefault(index, []).append(offset)
        elif record.k == "error" and record.stage is not None:
            if record.stage == "target":
                self._target_failed.add(index)
            if offset >= self._since:
                self._failures.setdefault(record.stage, _ByRow()).add(None, _Place(offset, index))

    def answer(self, index: int, input_hash: str | None) -> dict[str, JSON] | None:
        """Return the recorded answer to a row with these inputs, as columns, or None."""
        place = self._answers.find(input_hash, index)
        if place is None:
            return None

        record = self._read(place.offset)
        columns = record.get("out")
        if record.get("h") != input_hash or not isinstance(columns, dict):
            return None

        # `same` names a column that is not recorded, because it equals `response`. The first columns keep their order.
        if (same := record.get("same")) in FIRST_COLUMNS:
            first = {name: columns.get(name) for name in FIRST_COLUMNS}
            columns = {**first, str(same): columns.get("response"), **columns}
        return columns

    def failure(self, index: int, stage: str) -> Failure | None:
        """Return this session's failure of a stage (`target`, or an evaluator's name) on a row, or None."""
        place = self._failures[stage].find(None, index) if stage in self._failures else None
        if place is None:
            return None
        record = self._read(place.offset)
        return msgspec.convert({key: record.get(key) for key in Failure.__struct_fields__}, Failure)

    def calls_of(self, index: int) -> Iterator[bytes]:
        """Yield the journal records of the model calls that evaluators made for a row, as JSON."""
        yield from (dumps(self._read(offset)) for offset in self._calls_by_row.get(index, ()))

    def is_new(self, index: int, evaluator: str | None = None) -> bool:
        """Return True if this session recorded the row's answer, or with `evaluator` that evaluator's verdict on it.

        Always False in a journal that is searched by content.
        """
        places = self._answers if evaluator is None else self._verdicts.get(evaluator)
        place = places.find(None, index) if isinstance(places, _ByRow) else None
        return place is not None and place.offset >= self._since

    def indices(self, rows: int) -> Sequence[int]:
        """Return the index in the data set of each of the `rows` result rows of a finished run.

        A run that stopped early lists its rows in the journal; any other run has all rows.
        """
        # A run that ended early may be resumed to its end: the journal keeps the list, but all rows have results.
        return self._result_rows if len(self._result_rows) == rows else range(rows)

    def answered(self) -> Iterator[int]:
        """Yield the indices of the rows that have an answer; nothing in a journal that is searched by content."""
        return self._answers.rows() if isinstance(self._answers, _ByRow) else iter(())

    def answer_hash(self, index: int) -> str | None:
        """Return the hash of the inputs that a row's answer was recorded with; None without an answer or hash."""
        place = self._answers.find(None, index)
        return cast("str | None", self._read(place.offset).get("h")) if place is not None else None

    def steps(self, index: int, input_hash: str | None) -> dict[str, JSON]:
        """Return the recorded parts of a row's incomplete answer by name, such as a conversation's turns."""
        records = [self._read(offset) for offset in self._steps.get(index, ())]
        return {str(record.get("p")): record.get("out") for record in records if record.get("h") == input_hash}

    def call(self, key: str) -> dict[str, JSON] | None:
        """Return the recorded answer to a model call with this `call_key`, as columns, or None."""
        offset = self._calls.get(key)
        columns = self._read(offset).get("out") if offset is not None else None
        return columns if isinstance(columns, dict) else None

    def recorded_calls(self) -> Iterator[ModelCall]:
        """Yield the records of the model calls, also of those that another run paid for.

        Equal calls by several workers are yielded separately.
        """
        for offset in self._call_offsets:
            with contextlib.suppress(msgspec.ValidationError):  # a damaged record is not counted
                yield convert_value(self._read(offset), ModelCall)

    def verdict(self, name: str, index: int, input_hash: str | None) -> Output | None:
        """Return the output of an evaluator that the journal records for these inputs, or None."""
        places = self._verdicts.get(name)
        place = places.find(input_hash, index) if places and input_hash is not None else None
        if place is None:
            return None

        recorded_hash, output = self._cached_verdicts(place.offset).get(place.row, {}).get(name, (None, {}))
        return output if recorded_hash == input_hash else None

    def _read_verdicts(self, offset: int) -> dict[int, RowVerdicts]:
        """Return the verdicts of the rows in the record at this offset."""
        return dict(cast("list[tuple[int, RowVerdicts]]", self._read(offset).get("rows", [])))

    @property
    def lost(self) -> int:
        """The number of damaged or missing records; 0 if the user has accepted their loss."""
        return self._damage.lost

    def describe_loss(self, rows: int = 0) -> str | None:
        """Return a sentence on damaged or missing records, the lost calls and their rows; None if nothing is lost.

        `rows` is the number of rows that the run had when it finished, 0 if it did not finish.
        """
        damage = self._damage
        if not damage.lost:
            return None

        # One row more than is listed shows that there are others.
        names = {row: f"number {row + 1}" for row in islice(self._rows_without_answer(rows), _MOST_NAMES + 1)}
        for piece in damage.pieces:
            row = _ROW_IN_DAMAGE.search(piece)
            if row is not None:
                names[int(row["index"])] = row["id"].decode("utf-8", "replace")

        # A run of recorded answers without model calls, such as those of judges, has no calls to lose.
        if not self._reads_answers and not self._calls:
            return f"{damage}, but no call is lost"

        # A lost record counts as a call unless what remains of it shows another kind.
        calls = damage.lost - sum(any(kind in piece for kind in _KINDS_WITHOUT_CALLS) for piece in damage.pieces)
        more = " and others" if len(names) > _MOST_NAMES else ""
        of_rows = f", of rows {', '.join([*names.values()][:_MOST_NAMES])}{more}" if names else ""
        return f"{damage}, so up to {plural(calls, 'call')} may be lost{of_rows}"

    def _rows_without_answer(self, rows: int) -> Iterator[int]:
        """Yield the indices of rows that are in the finished run or were judged, but have no recorded answer.

        `rows` is the number of rows of the finished run. Rows on which the target failed need no answer. Yield nothing
        if answers are not read, or if records are found by content.
        """
        if not self._reads_answers or not isinstance(self._answers, _ByRow):
            return

        not_lost, result_rows = {*self.answered()} | self._target_failed, self.indices(rows)
        judged = {row for places in self._verdicts.values() if isinstance(places, _ByRow) for row in places.rows()}

        yield from (row for row in result_rows if row not in not_lost)
        yield from sorted(judged - not_lost - {*result_rows})

    def _read(self, offset: int) -> dict[str, JSON]:
        """Return the record at this offset; an empty one if it is damaged, so that its work is repeated."""
        self._file.seek(offset)
        try:
            return cast("dict[str, JSON]", loads(self._file.readline()))
        except ValueError:  # damage inside a value is found only now; the work is repeated
            return {}

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def recorded_verdicts(path: Path, evaluator: str) -> dict[int, tuple[str, Output]]:
    """Return one evaluator's recorded verdicts by row index: the hash of their inputs, and the output.

    A verdict without a hash is left out. If a row has several verdicts, the last one counts.

    Raises:
        ConfigurationError: the journal does not exist or cannot be read.
    """
    found: dict[int, tuple[str, Output]] = {}
    with raise_as(ConfigurationError, path, "the run's records cannot be read"), open_regular(path) as file:
        for _, line in WholeRecords(path, file):
            # Records of other kinds have no verdicts.
            for index, verdicts in _read_leniently(line).rows if line.startswith(_VERDICTS) else ():
                inputs, output = verdicts.get(evaluator, (None, None))
                if inputs is not None and isinstance(output, dict):
                    found[index] = inputs, output
    return found


def _read_leniently(line: bytes) -> _Record:
    """Return a record that the fast decoder rejects (a lone surrogate, say); a damaged one has the kind "damaged"."""
    try:
        return msgspec.convert(loads(line), _SlowRecord)
    except (ValueError, msgspec.ValidationError):
        return _Record("damaged")
