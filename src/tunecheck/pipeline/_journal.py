"""The journal: an append-only file of everything that a run has finished.

`tunecheck._files` describes its records, `tunecheck._records` writes and reads them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tunecheck._errors import RunError
from tunecheck._files import Accepted, Answer, Error, Failure, Header, ModelCall, RowVerdicts, Step, Stopped, Verdicts
from tunecheck._json import JSON
from tunecheck._records import RecordFile
from tunecheck._targets import Row


class Journal:
    """The journal of a running run, open for appending. One process at a time holds it."""

    def __init__(self, path: Path, *, at_least: int = 0) -> None:
        """Open or create the journal, cut off a torn last line, and lock it.

        `at_least` is how many records it is known to have had.

        Raises:
            ConfigurationError: a later version of Tunecheck wrote it.
            RunError: another process holds it, or it cannot be written.
        """
        self.path = path
        self._records = RecordFile(path, f"the run {path.parent.name}", header=Header(), at_least=at_least)

    def sync(self) -> int:
        """Sync all records so far to the disk; return their number."""
        return self._records.sync()

    def take(self, record: bytes) -> None:
        """Record what was journaled elsewhere: a record as JSON."""
        self._records.append_encoded(record)

    def accept(self, lost: int) -> None:
        """Record that the run goes on although this many records are damaged or missing."""
        self._append(Accepted(lost))

    def answer(self, index: int, row_id: str, input_hash: str | None, columns: Mapping[str, JSON]) -> None:
        """Record a target's answer to a row."""
        self._append(Answer(index, row_id, input_hash, dict(columns)), index)

    def step(self, index: int, row_id: str, input_hash: str | None, part: str, value: JSON) -> None:
        """Record a finished part of the answer to a row."""
        self._append(Step(index, row_id, input_hash, part, value), index)

    def verdicts(self, rows: Sequence[tuple[int, RowVerdicts]]) -> None:
        """Record the verdicts on a chunk of rows; rows without any are left out."""
        rows = [row for row in rows if row[1]]
        try:
            if rows:
                self._append(Verdicts(rows), *(index for index, _ in rows))
        except RunError:  # together they may be too long
            if len(rows) == 1:
                raise
            half = len(rows) // 2
            self.verdicts(rows[:half])
            self.verdicts(rows[half:])

    def call(
        self,
        evaluator: str | None,
        key: str,
        cost: float | None,
        currency: str | None,
        columns: Mapping[str, JSON],
        index: int | None = None,
    ) -> int:
        """Record a model's answer to an evaluator's call; return where the record begins.

        `evaluator` is None if the answer is reused from another run, which paid for it. `index` is the row's.
        """
        rows = () if index is None else (index,)
        return self._append(ModelCall(evaluator, key, cost, currency, dict(columns), index), *rows)

    def error(self, index: int, row_id: str, stage: str, failure: Failure) -> None:
        """Record a failure."""
        fields = (failure.type, failure.message, failure.request_id, failure.cause)
        self._append(Error(index, row_id, stage, *fields), index)

    def stopped(self, settled: Sequence[int], not_asked: Sequence[str]) -> None:
        """Record which rows a run has that is finished before all of them were asked."""
        self._append(Stopped(list(settled), list(not_asked)))

    def close(self) -> None:
        """Sync and release the journal."""
        self._records.close()

    def _append(self, record: object, *rows: int) -> int:
        """Write a record about the rows of these indices; return where it begins."""
        return self._records.append(record)


class JournaledParts:
    """The parts of one row's answer.

    `before` holds those that the run recorded before it was cut off.
    """

    def __init__(self, journal: Journal, row: Row, input_hash: str | None, before: Mapping[str, JSON]) -> None:
        self._journal = journal
        self._row = row
        self._input_hash = input_hash
        self._before = before

    def recall(self, part: str) -> JSON:
        """Return the value recorded for this part, or None."""
        return self._before.get(part)

    def record(self, part: str, value: JSON) -> None:
        """Write a part to the journal.

        Raises:
            RunError: it cannot be written; the run stops.
            TypeError: it has no JSON form.
        """
        self._journal.step(self._row.index, self._row.id, self._input_hash, part, value)
