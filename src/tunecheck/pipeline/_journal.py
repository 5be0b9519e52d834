"""The journal: an append-only file of everything a run has finished.

What its records hold is said in `tunecheck._files.journal`, how they are kept in `tunecheck._records`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import UNSET

from tunecheck._files.journal import Answer, Error, Header, ModelCall, RowVerdicts, Step, Verdicts
from tunecheck._json import JSON
from tunecheck._records import RecordFile
from tunecheck.pipeline._scoring import Failure


class Journal:
    """The journal of a running run, open for appending. One process at a time holds it."""

    def __init__(self, path: Path) -> None:
        """Open or create the journal, cut off a torn last line, and lock it.

        Raises:
            ConfigurationError: a later version of Tunecheck wrote it.
            RunError: another process holds it, or it cannot be written.
        """
        self.path = path
        self._records = RecordFile(path, f"the run {path.parent.name}", header=Header())

    def answer(self, index: int, row_id: str, input_hash: str | None, columns: Mapping[str, JSON]) -> None:
        """Record a target's answer to a row."""
        self._records.append(Answer(index, row_id, input_hash, dict(columns)))

    def step(self, index: int, row_id: str, input_hash: str | None, part: str, value: JSON) -> None:
        """Record a finished part of the answer to a row."""
        self._records.append(Step(index, row_id, input_hash, part, value))

    def verdicts(self, rows: Sequence[tuple[int, RowVerdicts]]) -> None:
        """Record the verdicts on a chunk of rows; rows without any are left out."""
        rows = [row for row in rows if row[1]]
        if rows:
            self._records.append(Verdicts(rows))

    def call(
        self, evaluator: str | None, key: str, cost: float | None, currency: str | None, columns: Mapping[str, JSON]
    ) -> int:
        """Record a model's answer to an evaluator's call; where the record begins.

        `evaluator` is None where the answer is reused from another run, which paid for it.
        """
        return self._records.append(ModelCall(evaluator, key, cost, currency, dict(columns)))

    def error(self, index: int, row_id: str, stage: str, failure: Failure) -> None:
        """Note a failure."""
        request_id = failure.request_id or UNSET
        self._records.append(Error(index, row_id, stage, failure.type, failure.message, request_id))

    def close(self) -> None:
        """Sync and release the journal."""
        self._records.close()
