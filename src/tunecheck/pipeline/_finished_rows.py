"""The rows of a finished run: read from the file, with verdicts and reasons of failures, and written as a table.

An evaluator may return several metrics with a `<metric>_result`. For a whole run one of them counts: the declared
primary metric, else the metric named like the evaluator, else the first in the order of the rows. Pass rates, tables,
charts, comparisons, calibration and pass^k all use that metric.

`VerdictReader` reads a row's verdict. The first rule that applies decides its outcome:

1.  `error`: the row has an error of the evaluator.
2.  `pass`, `fail` or `not_applicable`: the counted metric's `<metric>_result`.
3.  The outcome that the caller gives for rows without a result.
4.  `scored`: the row has other keys of the evaluator.
5.  `error`: it has none.

`Failures` groups failed rows and errors by their titles. `write_table` writes a spreadsheet that runs no formulas.
"""

from __future__ import annotations

import os
import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias, overload

import msgspec

from tunecheck._disk import lines, open_regular, replacing
from tunecheck._errors import ConfigurationError, DataError
from tunecheck._faults import Fault, as_faults, cause_named, read_faults, sentence, title
from tunecheck._files import EvaluatorEntry
from tunecheck._json import JSON, dumps, dumps_line, loads, real_number, values_reader
from tunecheck._messages import clean

ResultRow = dict[str, JSON]
"""A row of `eval_results.jsonl` with all its columns; `ResultLine` in `_files.py` describes the fixed ones."""

ROWS_IN_MEMORY = 100_000
"""A finished run with up to this many rows is kept in memory, for the table and for `result["rows"]`."""

BYTES_IN_MEMORY, LONG_ROW = 64 << 20, 4_096
"""If rows are longer than `LONG_ROW` bytes on average, only this many bytes are kept in memory."""

_COPY_BLOCK = 1 << 20
"""Bytes that are read at once if all rows are read."""

_PICKED_BLOCK = 1 << 16
"""Bytes that are read at once if some rows are read; they are mostly picked in order."""


@dataclass(eq=False, repr=False)
class RowsView(Sequence[ResultRow]):
    """The rows of a finished run, read from its file on access; a damaged row raises DataError.

    `positions` are the lines (from 0) of the results file at `path` with these rows, by default all. `starts` are the
    offsets of the file's lines, if known. `indices` are the rows' indices in the data set if the run has only some.

    For example, `view[3]` reads the fourth row, and `view.only([3, 7])` is a view of two rows. If the run stopped
    early, a row's place in the view is not its index in the data.
    """

    path: Path
    starts: array[int] | None = None
    indices: Sequence[int] | None = None
    positions: Sequence[int] | None = None

    @property
    def _starts(self) -> array[int]:
        """The offset of each line of the file, found by reading the file if it is not known."""
        if self.starts is None:
            with open_regular(self.path, buffering=_COPY_BLOCK) as file:
                self.starts = array("Q", accumulate(map(len, lines(file)), initial=0))[:-1]
        return self.starts

    def __len__(self) -> int:
        return len(self._starts if self.positions is None else self.positions)

    def __iter__(self) -> Iterator[ResultRow]:
        return self.read()

    def read(self, columns: Collection[str] | None = None) -> Iterator[ResultRow]:
        """Yield the view's rows in order; with `columns`, other columns may be left out."""
        read = loads if columns is None else values_reader(columns)
        if self.positions is not None:
            yield from self._pick(self.positions, read)
            return
        with open_regular(self.path, buffering=_COPY_BLOCK) as file:
            for number, line in enumerate(lines(file)):
                yield read_row(line, self.path, number, read)

    def _pick(self, positions: Iterable[int], read: Callable[[bytes], JSON] = loads) -> Iterator[ResultRow]:
        """Yield the rows in these lines of the file; `read` reads a line."""
        with open_regular(self.path, buffering=_PICKED_BLOCK) as file:
            for position in positions:
                file.seek(self._starts[position])
                yield read_row(file.readline(), self.path, position, read)

    @overload
    def __getitem__(self, index: int) -> ResultRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[ResultRow]: ...
    def __getitem__(self, index: int | slice) -> ResultRow | list[ResultRow]:
        """Read one row, or a list of rows for a slice, from the file."""
        positions = range(len(self)) if self.positions is None else self.positions
        if isinstance(index, slice):
            return [*self._pick(positions[index])]
        (row,) = self._pick([positions[index]])
        return row

    def loaded(self) -> Sequence[ResultRow]:
        """Return the rows as a list if they fit in memory; else return this view.

        Up to 100,000 rows fit, if their file has at most 64 MiB, or at most 4 KiB for each row.
        """
        fits = len(self) <= ROWS_IN_MEMORY and self.path.stat().st_size <= max(BYTES_IN_MEMORY, LONG_ROW * len(self))
        return list(self) if fits else self

    def only(self, indices: Sequence[int]) -> RowsView:
        """Return a view of the rows with these indices in the data set, which must be sorted and in the run."""
        run_indices = self.indices
        positions = indices if run_indices is None else [bisect_left(run_indices, index) for index in indices]
        return RowsView(self.path, self._starts, run_indices, positions)

    def __repr__(self) -> str:
        return f"RowsView({str(self.path)!r}, {len(self)} rows)"


def read_row(line: bytes, path: Path, number: int, read: Callable[[bytes], JSON] = loads) -> ResultRow:
    """Return the row in one line of a run's results file; `number` is the line's number from 0, `read` reads its JSON.

    Raises:
        DataError: the line is damaged; the text names file and line.
    """
    try:
        row = read(line)
        if isinstance(row, dict):
            return row
        problem = "not a JSON object"
    except ValueError as error:
        problem = " ".join(str(error).split())

    raise DataError(f"{path}: line {number + 1} is damaged ({problem}): restore the file from a backup")


# -- verdicts

Word: TypeAlias = Literal["pass", "fail", "not_applicable", "scored", "error"]
"""The outcome of a row: `scored` has a score but no result, `error` has neither."""

WORDS: Mapping[str, Word] = MappingProxyType(
    {"pass": "pass", "fail": "fail", "not_applicable": "not_applicable", "not applicable": "not_applicable"}
)
"""The values of a `<metric>_result`; Azure AI Evaluation writes `not applicable`."""

RESULT = "_result"
"""Ending of the keys with a metric's result: `match_result`."""

PASS_RATE = "binary_aggregate"  # noqa: S105 - no password
"""The name of an evaluator's pass rate among its metrics."""

REPEATED = ("_score", "_passed")
"""Suffixes of keys that repeat a metric's value."""

_MOST_FAULTS = 1_000
"""Maximum number of faults that are read from a row. Shipped evaluators write at most 40, users' may write more."""

_BELOW_THRESHOLD, _OWN = (Fault(code="below_threshold"),), (Fault(code="own"),)
"""The fault of a failed row without a fault of its own; `_faults` chooses between them."""


class RecordedVerdict(msgspec.Struct, frozen=True):
    """An evaluator's verdict on one row, as read from the row; `score` is the metric's value, unchanged."""

    word: Word
    score: JSON = None
    threshold: float | None = None
    reason: str = ""
    faults: tuple[Fault, ...] = ()
    """The faults of a failed row: at least one."""


def order_evaluators(names: Collection[str], declared: str | None, kinds: Container[str | None] | None) -> list[str]:
    """Return the evaluators, the primary one first: that of the declared metric, else `match`, else the first.

    `declared` is the primary metric that the data set or the run names, such as `match` or `match.score`. `match` is
    the default only if the `kinds` of the run's rows include `call`, or are unknown (None). The other evaluators keep
    their order.
    """
    evaluator = (declared or "").partition(".")[0]
    default = "match" if kinds is None or "call" in kinds else ""
    primary = next((name for name in (evaluator, default) if name in names), None)
    return sorted(names, key=lambda name: name != primary)  # False sorts before True


def counted_metric(with_result: Iterable[str], name: str, primary: str | None) -> str | None:
    """Return the metric that decides an evaluator's pass or fail; None if it has no metric with a result.

    `with_result` lists its metrics with a result, in the order of the rows; `name` is the evaluator's, `primary` its
    declared metric. For example, an evaluator `f1` with the metrics `precision` and `f1` is decided by `f1`.
    """
    metrics = list(with_result)
    return next((metric for metric in (primary, name) if metric in metrics), metrics[0] if metrics else None)


def counted_metrics(rows: Iterable[Mapping[str, JSON]], primaries: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return for each evaluator the metric that decides pass or fail; None if it has no metric with a result.

    `primaries` maps each evaluator to its declared primary metric. Only as many rows are read as needed.
    """
    with_result: dict[str, dict[str, None]] = {name: {} for name in primaries}  # in the order of the rows
    undecided = dict(primaries)

    for row in rows:
        for name, primary in list(undecided.items()):
            with_result[name] |= dict.fromkeys(_metrics_with_result(row, f"outputs.{name}."))
            if (primary or name) in with_result[name]:
                del undecided[name]

        # An evaluator without its first choice needs all rows, because a later row may have that metric.
        if not undecided:
            break

    return {name: counted_metric(with_result[name], name, primary) for name, primary in primaries.items()}


def _metrics_with_result(row: Mapping[str, JSON], prefix: str) -> Iterator[str]:
    """Yield the metrics of an evaluator that have a result in this row; the evaluator's keys begin with `prefix`."""
    for key, value in row.items():
        if key.startswith(prefix) and key.endswith(RESULT) and isinstance(value, str) and value in WORDS:
            yield key[len(prefix) : -len(RESULT)]


def primaries_with_pass_rate(
    evaluators: Mapping[str, EvaluatorEntry], metrics: Mapping[str, JSON]
) -> dict[str, str | None]:
    """Return the declared primary metric of each evaluator that has a pass rate among the run's metrics."""
    return {name: entry.primary for name, entry in evaluators.items() if f"{name}.{PASS_RATE}" in metrics}


class VerdictReader:
    """Reads one evaluator's verdicts from result rows; `metric` is the metric that counts, or None.

    `keys` are the columns that tell why a row failed. For the evaluator `judge` with the metric `relevance`, the score
    is in `outputs.judge.relevance`, else in `outputs.judge.relevance_score`, and the result in
    `outputs.judge.relevance_result`.
    """

    def __init__(self, name: str, metric: str | None) -> None:
        """Prepare to read the verdicts of evaluator `name` on the metric that counts (None: it has no results)."""
        self.name = name
        self.metric = metric

        self._own, self._error = f"outputs.{name}.", f"error.{name}"
        key = f"{self._own}{metric}"
        self._score, self._other_score, self._result = key, f"{key}_score", f"{key}{RESULT}"
        self._reason, self._threshold = f"{key}_reason", f"{key}_threshold"
        self.properties, self.differences = f"{key}_properties", f"{key}_differences"

        self.keys = (self._result, self._reason, self._threshold, self.properties, self.differences)

    def read(self, row: Mapping[str, JSON], otherwise: Word | None = None) -> RecordedVerdict:
        """Return the verdict on this row; `otherwise` is the outcome of a row without a result, if known.

        Without a metric that counts, or after an error, the verdict has only an outcome.
        """
        word = self.word(row, otherwise)
        if self.metric is None or word == "error":
            return RecordedVerdict(word)

        score = row[self._score] if self._score in row else row.get(self._other_score)
        number, raw_reason = real_number(row.get(self._threshold)), row.get(self._reason)
        threshold = number if number == number else None  # NaN differs from itself
        reason = raw_reason if isinstance(raw_reason, str) else ""

        faults = self._faults(row, threshold, reason) if word == "fail" else ()
        return RecordedVerdict(word, score, threshold, reason, faults)

    def word(self, row: Mapping[str, JSON], otherwise: Word | None = None) -> Word:
        """Return only the outcome of the row; `otherwise` is the outcome of a row without a result, if known."""
        if self._error in row:  # a failed evaluator may still have returned some keys
            return "error"

        result = row.get(self._result)
        if self.metric is not None and isinstance(result, str) and result in WORDS:
            return WORDS[result]

        return otherwise or ("scored" if any(key.startswith(self._own) for key in row) else "error")

    def _faults(self, row: Mapping[str, JSON], threshold: float | None, reason: str) -> tuple[Fault, ...]:
        """Return the faults of a failed row: those that the evaluator or judge listed, else a single general one.

        The general one is `below_threshold` if there is a threshold but no reason, else `own`.
        """
        faults = read_faults(row.get(self.properties))
        if not faults and isinstance(differences := row.get(self.differences), list):
            faults = _judge_faults(differences)
        return faults[:_MOST_FAULTS] or (_BELOW_THRESHOLD if threshold is not None and not reason else _OWN)


def _judge_faults(differences: list[JSON]) -> tuple[Fault, ...]:
    """Return a judge's listed differences as faults with the judge's own codes."""
    listed = [item for item in differences if isinstance(item, dict)]
    kinds = [item.get("kind") for item in listed[:_MOST_FAULTS]]
    return tuple(Fault(code=clean(kind, 100)) for kind in kinds if isinstance(kind, str))


# -- why rows failed

MAX_FAILURE_GROUPS = 2_000
"""Maximum number of groups for one evaluator; further failures count together."""

_OWN_PREFIX = "own: "
"""Beginning of the key of a group by an evaluator's own reason, such as `own: the name is wrong`."""

_MOST_READ = 4_000
"""Maximum number of characters of an error's message, before its place."""

_LONGEST_TITLE = 100
"""Maximum number of characters of a reason's first line, which is a group's title."""

# Errors of one kind often differ only in quotations and numbers: `key "city" is missing in line 12`.
_QUOTED = re.compile(r'"[^"]*"|\'[^\']*\'')
# Matches `12`, `3.5`, `1,024` and `10:30:00`.
_NUMBER = re.compile(r"\d[\d.,:]*")


class FailureGroup(msgspec.Struct):
    """Failures of one kind: title, number of rows, id of an example row, and its explanation.

    `error_type` is the class of an error, such as `ColumnMissingError`; "" if the failure is no error.
    """

    title: str
    rows: int
    example: str
    words: str
    error_type: str = ""


Groups: TypeAlias = dict[str, FailureGroup]
"""Groups of failures by a key: a cause, a fault's code, or the pattern of an error."""


class Failures(msgspec.Struct):
    """The failures and errors of a run.

    `causes` counts rows by cause, with the evidence in words; `reasons` counts failed rows without a cause, by the
    reason of their first failing evaluator. `errors` holds the errors by stage (`target`, or an evaluator's name).
    `faults` counts the faults of each evaluator by code; an evaluator's own reasons count by their text.
    `simulated_answers` counts the rows with a simulated answer. `below_threshold` counts, by evaluator, the failed rows
    with neither a cause nor a reason.
    """

    causes: Groups = msgspec.field(default_factory=dict)
    reasons: Groups = msgspec.field(default_factory=dict)
    errors: dict[str, Groups] = msgspec.field(default_factory=dict)
    faults: dict[str, Groups] = msgspec.field(default_factory=dict)
    simulated_answers: int = 0
    below_threshold: Groups = msgspec.field(default_factory=dict)

    def add(self, row: Mapping[str, JSON], readers: Iterable[VerdictReader]) -> None:
        """Count one more row in all groups that it belongs to; `readers` read the verdicts of the run's evaluators.

        A failed row counts once for each code of its faults, and an error once for its stage and pattern. Besides, the
        row counts once for its cause. Without a cause, it counts for its first reason other than `below_threshold`. If
        it has neither, it counts for each evaluator whose score is below its threshold.
        """
        row_id, first_reason = str(row.get("row_id")), ""
        below_threshold: list[str] = []

        self.simulated_answers += row.get("outputs.simulated") is True
        for reader in readers:
            if reader.word(row) == "fail":
                verdict = reader.read(row)
                groups = self.faults.setdefault(reader.name, {})
                for key, heading in fault_groups(verdict.faults, verdict.reason).items():
                    _add_to_group(groups, key, heading, row_id, verdict.reason)
                    if key == "below_threshold":
                        below_threshold.append(reader.name)
                    else:
                        first_reason = first_reason or f"{reader.name}: {heading}"

        for stage, error_type, pattern, words in errors_of(row):
            _add_to_group(self.errors.setdefault(stage, {}), pattern, pattern, row_id, words, error_type)

        if isinstance(cause := row.get("cause"), str):
            _add_to_group(self.causes, cause, cause_named(cause).title, row_id, evidence_of(row))
        elif first_reason:
            _add_to_group(self.reasons, first_reason, first_reason, row_id, "")
        else:
            for name in below_threshold:
                _add_to_group(self.below_threshold, name, f"{name}: {title('below_threshold')}", row_id, "")

    def by_code(self, name: str) -> Counter[str]:
        """Return the number of failed rows by fault code; the evaluator's own reasons all count as `own`."""
        codes: Counter[str] = Counter()
        for key, group in self.faults.get(name, {}).items():
            codes["own" if key.startswith(_OWN_PREFIX) else key] += group.rows
        return codes

    @property
    def target_errors(self) -> dict[str, str]:
        """The target's error messages by the id of their example row."""
        return {group.example: group.words for group in self.errors.get("target", {}).values()}

    @property
    def error_groups(self) -> list[FailureGroup]:
        """The error groups of all stages, the most common first."""
        groups = [group for of_stage in self.errors.values() for group in of_stage.values()]
        return sorted(groups, key=lambda group: -group.rows)


def read_failures(rows: Iterable[Mapping[str, JSON]], primaries: Mapping[str, str | None]) -> Failures:
    """Count a run's failures and errors by cause, reason, evaluator and stage, each with an example row.

    `rows` is iterated up to twice, so it must not be an iterator. `primaries` maps each evaluator to its declared
    primary metric.
    """
    readers = [VerdictReader(name, metric) for name, metric in counted_metrics(rows, primaries).items()]
    failures = Failures()
    for row in rows:
        failures.add(row, readers)
    return failures


def evidence_of(row: Mapping[str, JSON]) -> str:
    """Return a sentence on the evidence for the cause of a row's failure; empty without evidence."""
    evidence = row.get("cause_evidence")
    listed = [{**evidence, "code": row.get("cause")}] if isinstance(evidence, dict) else []
    return sentence(as_faults(listed)) or ""


def fault_groups(faults: Iterable[Fault], reason: str) -> dict[str, str]:
    """Return titles of the groups to which a failed row belongs, by key: one group for each fault code.

    An evaluator's own reason is grouped by its first line.
    """
    groups: dict[str, str] = {}
    for fault in faults:
        first_line = _first_line(reason) if fault.code == "own" else ""
        key = f"{_OWN_PREFIX}{first_line}" if first_line else fault.code
        groups[key] = first_line or title(fault.code)
    return groups


@lru_cache(maxsize=4_096)  # many rows and several evaluators have the same reason
def _first_line(reason: str) -> str:
    """Return a reason's first line, without control characters and at most 100 characters long."""
    return clean(reason.strip().partition("\n")[0], _LONGEST_TITLE)


def errors_of(row: Mapping[str, JSON]) -> Iterator[tuple[str, str, str, str]]:
    """Yield for each error of a row: its stage (`target`, or an evaluator's name), type, pattern and whole message.

    The pattern groups errors of one kind: the message without numbers, quotations and the row's id. For example,
    `KeyError: 'city' in row-12` has the pattern `KeyError: … in …`.
    """
    for key, error in row.items():
        if key.startswith("error.") and isinstance(error, dict):
            place = f" at {error['place']}" if error.get("place") else ""
            words = f"{error.get('type')}: {error.get('message')}"[:_MOST_READ] + place

            row_id = str(row.get("row_id"))
            pattern = words.replace(row_id, "…") if len(row_id) > 2 else words  # short ids occur in other words
            pattern = clean(_NUMBER.sub("…", _QUOTED.sub("…", pattern)), 200)
            yield key.removeprefix("error."), str(error.get("type")), pattern, words


def _add_to_group(groups: Groups, key: str, heading: str, row_id: str, words: str, error_type: str = "") -> None:
    """Count a row in its group; a new group gets the heading, and this row and its words as the example.

    If there are 2,000 groups, further failures count together as "other reasons".
    """
    if key not in groups and len(groups) >= MAX_FAILURE_GROUPS:
        key, heading, error_type = _OWN_PREFIX, "other reasons", ""

    group = groups.get(key)
    if group is None:
        group = groups[key] = FailureGroup(heading, 0, row_id, words[:_MOST_READ], error_type)
    group.rows += 1


# -- the same rows as a table, and in Azure AI Evaluation's file

# Quotes, white space and zero-width characters may precede the sign, because spreadsheets and importers drop them. They
# include the apostrophe: a text that already has one before a formula gets a second one, so text_of_cell can always
# remove the added one. For example, `=1+1` becomes `'=1+1`, and `'=1+1` becomes `''=1+1`. The last part of the pattern
# has the signs that begin a formula, also in their full-width and small forms.
_FORMULA = re.compile(
    r"[\s\x00-\x1f'\"`´‘’‚“”„«»\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]*"
    r"[=+\-@\t\r\n＝＋－＠−﹢﹣﹦﹫]"
)

# Programs that also split at semicolons or tabs begin a cell inside a text: Excel in many countries, LibreOffice. For
# example, `a;=1+1` becomes `a;'=1+1`. The first pattern matches the place for the apostrophe, the second one the added
# apostrophe.
_CELL_INSIDE, _GUARD_INSIDE = (
    re.compile(rf"(?<=[;\t]){guard}(?='*[^\S\t\r\n]{{0,8}}[=+\-@＝＋－＠−﹢﹣﹦﹫])") for guard in ("", "'")
)

# All controls except tab and line ends, because a terminal that shows the file may interpret them: `\x1b[31m`.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")

MAX_COLUMNS = 16_384
"""Maximum number of columns of the table, a spreadsheet's limit; eval_results.jsonl has all columns."""


LONGEST_CELL = 32_767
"""Maximum number of characters of a cell, a spreadsheet's limit; eval_results.jsonl has all characters."""

LONGEST_INPUT = 1_000
"""Maximum number of characters of a data cell: tool definitions and conversations would fill the table."""


def write_table(path: Path, columns: Sequence[str], rows: Iterable[ResultRow]) -> None:
    """Write the rows as CSV in UTF-8 with a byte order mark, which spreadsheets need.

    Lists and objects are written as JSON, numbers as numbers. A text that a spreadsheet would run as a formula gets a
    leading apostrophe, because it may be model output; `text_of_cell` removes it. A cell is cut at `LONGEST_CELL`
    characters, a data cell at `LONGEST_INPUT`, with a note. Columns after the first 16,384 are left out.
    """
    columns = columns[:MAX_COLUMNS]
    longest = [LONGEST_INPUT if column.startswith("inputs.") else LONGEST_CELL for column in columns]

    with replacing(path) as draft, draft.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        file.write("\ufeff")  # the codec utf-8-sig would write it, too, but encodes in Python: ten times as slow
        file.write(f"{','.join(map(_cell, columns))}\r\n")
        for row in rows:
            cells = ",".join(map(_cell, map(row.get, columns), longest))
            file.write((cells or '""') + "\r\n")  # a reader would skip an empty line


def _cell(value: JSON, longest: int = LONGEST_CELL) -> str:
    """Return a value as a CSV cell (RFC 4180): safe from formulas and controls, cut at `longest` characters.

    Python's csv module would take 6% more instructions for a row with three call evaluators.
    """
    kind = type(value)
    if kind is float or kind is int:  # the common case first
        return repr(value)

    if value is None:
        return ""
    if isinstance(value, str) and value.isalnum() and len(value) <= longest:  # no quotes, controls or formula
        return value
    if kind is bool:
        return "true" if value else "false"

    # Lists and objects are written as JSON. A text is escaped only if it may be a formula or has controls.
    if not isinstance(value, str):
        encoded = dumps(value)
        text = encoded.decode("utf-8")
        if not encoded.isascii() or 0x7F in encoded:  # JSON escapes other controls; `b"\x7f" in` takes longer
            text = _without_controls(text)
        if ";" in text and _CELL_INSIDE.search(text):  # JSON has no tabs, and most has no semicolon
            text = text.replace(";", "\\u003b")
    elif value[:1].isalnum() and value.isprintable() and ";" not in value:  # the common case: no formula, no controls
        text = value
    else:
        escaped = _CELL_INSIDE.sub("'", _without_controls(value))
        text = f"'{escaped}" if _FORMULA.match(escaped) else escaped

    if len(text) > longest:
        note = f" … [{len(text):,} characters in all: see eval_results.jsonl]"
        text = text[: longest - len(note)] + note
    if '"' in text:
        return '"' + text.replace('"', '""') + '"'
    return f'"{text}"' if "," in text or "\n" in text or "\r" in text else text


def _without_controls(text: str) -> str:
    """Return the text with controls escaped, as `\\u001b`; keep tabs and the line ends `\\n` and `\\r\\n`."""
    if text.isprintable():  # ten times as fast as the substitution, and true of most texts
        return text
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def text_of_cell(cell: str) -> str:
    """Return the text that `write_table` wrote as a cell, without the apostrophes that guard against formulas.

    Control characters stay escaped, and halves of surrogate pairs are not restored.
    """
    return _GUARD_INSIDE.sub("", cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell)


def check_output_path(output_path: str | os.PathLike[str]) -> Path:
    """Return the path of Azure's JSON file; if `output_path` is a folder, `evaluation_results.json` in it.

    Raises:
        ConfigurationError: the parent folder does not exist.
    """
    path = Path(output_path)

    if path.is_dir():
        return path / "evaluation_results.json"

    if not path.parent.is_dir():
        raise ConfigurationError(f"the folder {path.parent} of output_path does not exist: make it first")
    return path


def write_azure_results(
    path: Path, rows: Iterable[ResultRow], metrics: Mapping[str, JSON], studio_url: str | None
) -> None:
    """Write Azure AI Evaluation's JSON file row by row to a temporary file, and rename it at the end.

    Its keys are `rows`, `metrics` and `studio_url`, which is null without an upload.
    """
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(b'{"rows": [')
        for number, row in enumerate(rows):
            file.write((b",\n" if number else b"\n") + dumps_line(row).rstrip())

        # The other keys continue the object that has begun, so they are written without their own brace.
        rest = dumps_line({"metrics": dict(metrics), "studio_url": studio_url})
        file.write(b"\n], " + rest.removeprefix(b"{"))
