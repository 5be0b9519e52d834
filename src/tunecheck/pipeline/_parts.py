"""The finished parts of an answer that takes several calls: journaled one by one, recalled when the run goes on."""

from __future__ import annotations

from collections.abc import Mapping

from tunecheck._json import JSON
from tunecheck._targets import Row
from tunecheck.pipeline._journal import Journal


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
        """What was recorded for this part, None where nothing was."""
        return self._before.get(part)

    def record(self, part: str, value: JSON) -> None:
        """Write a part to the journal.

        Raises:
            RunError: it cannot be written; the run stops.
            TypeError: it has no JSON form.
        """
        self._journal.step(self._row.index, self._row.id, self._input_hash, part, value)
