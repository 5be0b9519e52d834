"""The journal: an append-only file of all finished work of a run.

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
    """The journal of a running run, open for appending. Only one process can hold it."""

    def __init__(self, path: Path, *, at_least: int = 0) -> None:
        """Open or create the journal, cut off a torn last line, and lock it.

        `at_least` is the number of records that the journal is known to have had.

        Raises:
            ConfigurationError: a later version of Tunecheck wrote the journal.
            RunError: another process holds the journal, or it cannot be written.
        """
        self.path = path
        self._records = RecordFile(path, f"the run {path.parent.name}", header=Header(), at_least=at_least)

    def sync(self) -> int:
        """Sync all records to the disk; return their number."""
        return self._records.sync()

    def take(self, record: bytes) -> None:
        """Append a record that another process has journaled, as JSON."""
        self._records.append_encoded(record)

    def accept(self, lost: int) -> None:
        """Record that the user continues the run although this many records are damaged or missing."""
        self._append(Accepted(lost))

    def answer(self, index: int, row_id: str, input_hash: str | None, columns: Mapping[str, JSON]) -> None:
        """Record a target's answer to a row."""
        self._append(Answer(index, row_id, input_hash, dict(columns)), index)

    def step(self, index: int, row_id: str, input_hash: str | None, part: str, value: JSON) -> None:
        """Record a finished part of the answer to a row."""
        self._append(Step(index, row_id, input_hash, part, value), index)

    def verdicts(self, rows: Sequence[tuple[int, RowVerdicts]]) -> None:
        """Record the verdicts on several rows; rows without verdicts are skipped."""
        rows = [row for row in rows if row[1]]
        try:
            if rows:
                self._append(Verdicts(rows), *(index for index, _ in rows))
        except RunError:  # the records may be too long together
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
        """Record a model's answer to an evaluator's call; return the record's offset.

        `evaluator` is None if another run has paid for the answer. `index` is the row's index.
        """
        rows = () if index is None else (index,)
        return self._append(ModelCall(evaluator, key, cost, currency, dict(columns), index), *rows)

    def error(self, index: int, row_id: str, stage: str, failure: Failure) -> None:
        """Record a failure."""
        fields = (failure.type, failure.message, failure.request_id, failure.cause)
        self._append(Error(index, row_id, stage, *fields), index)

    def stopped(self, settled: Sequence[int], not_asked: Sequence[str]) -> None:
        """Record which rows count in a run that finished before all rows were asked."""
        self._append(Stopped(list(settled), list(not_asked)))

    def close(self) -> None:
        """Sync and release the journal."""
        self._records.close()

    def _append(self, record: object, *rows: int) -> int:
        """Append a record about the rows with these indices; return its offset."""
        return self._records.append(record)


class JournaledParts:
    """The parts of one row's answer.

    `before` holds the parts that the run recorded before it was interrupted.
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
            RunError: the journal cannot be written; the run stops.
            TypeError: the value has no JSON form.
        """
        self._journal.step(self._row.index, self._row.id, self._input_hash, part, value)
