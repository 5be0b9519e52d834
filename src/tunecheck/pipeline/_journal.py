"""The journal: an append-only file of everything a run has finished.

One JSON object a line. The first, `{"format_version": 1, "k": "journal"}`, says the version of them all.
`{"k": "answer", …}` is a target's answer to one row, `{"k": "step", …}` a finished part of an answer that takes several
calls, `{"k": "call", …}` a model's answer to an evaluator, `{"k": "verdicts", …}` holds the verdicts of some evaluators
on a chunk of rows, `{"k": "error", …}` notes a failure for people: failures are tried again, never replayed. How
records are kept is said in `tunecheck._records`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from tunecheck._json import JSON
from tunecheck._records import RecordFile
from tunecheck.pipeline._scoring import Output

RowVerdicts: TypeAlias = dict[str, tuple[str | None, Output]]
"""The verdicts of one row in a chunk: by evaluator, the hash of its inputs and its output."""


class Journal:
    """The journal of a running run, open for appending. One process at a time holds it."""

    def __init__(self, path: Path) -> None:
        """Open or create the journal, cut off a torn last line, and lock it.

        Raises:
            ConfigurationError: a later version of Tunecheck wrote it.
            RunError: another process holds it, or it cannot be written.
        """
        self.path = path
        self._records = RecordFile(path, f"the run {path.parent.name}", header="journal")

    def answer(self, index: int, row_id: str, input_hash: str | None, columns: Mapping[str, JSON]) -> None:
        """Record a target's answer to a row."""
        self._records.append({"k": "answer", "i": index, "id": row_id, "h": input_hash, "out": columns})

    def step(self, index: int, row_id: str, input_hash: str | None, part: str, value: JSON) -> None:
        """Record a finished part of the answer to a row."""
        self._records.append({"k": "step", "i": index, "id": row_id, "h": input_hash, "p": part, "out": value})

    def verdicts(self, rows: Sequence[tuple[int, RowVerdicts]]) -> None:
        """Record the verdicts on a chunk of rows; rows without any are left out."""
        rows = [row for row in rows if row[1]]
        if rows:
            self._records.append({"k": "verdicts", "rows": rows})

    def call(
        self, evaluator: str | None, key: str, cost: float | None, currency: str | None, columns: Mapping[str, JSON]
    ) -> int:
        """Record a model's answer to an evaluator's call; where the record begins.

        `evaluator` is None where the answer is taken over from another run, which paid for it.
        """
        return self._records.append(
            {"k": "call", "e": evaluator, "h": key, "cost": cost, "cur": currency, "out": columns}
        )

    def error(self, index: int, row_id: str, stage: str, error: Mapping[str, JSON]) -> None:
        """Note a failure."""
        self._records.append({"k": "error", "i": index, "id": row_id, "stage": stage, **error})

    def close(self) -> None:
        """Sync and release the journal."""
        self._records.close()
