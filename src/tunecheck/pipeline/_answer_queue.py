"""The queue between reading and answering: the engine puts rows in, and its answering tasks take them out."""

from __future__ import annotations

import asyncio
from collections import deque

from tunecheck.pipeline._results import RowState


class AnswerQueue:
    """Hands out rows for the target; the next row of a group follows after the previous one is answered."""

    def __init__(self) -> None:
        self._ready: asyncio.Queue[RowState | None] = asyncio.Queue()
        """The rows that can be answered, and the end marker None."""
        self._behind: dict[str, deque[RowState]] = {}
        """The rows of each group that wait until the group's current row is answered."""

    def put(self, state: RowState) -> None:
        """Queue a row for the target; hold it back while an earlier row of its group is unanswered."""
        if state.group in self._behind:
            self._behind[state.group].append(state)
            return
        if state.group is not None:
            self._behind[state.group] = deque()
        self._ready.put_nowait(state)

    async def next(self) -> RowState | None:
        """Wait for the next row that can be answered and return it; return None once the queue is closed and empty.

        Each None puts the end marker back, so that every waiting task sees it.
        """
        state = await self._ready.get()
        if state is None:
            self.close()
        return state

    def next_of_group(self, state: RowState) -> RowState | None:
        """Return the group's next waiting row once this one is answered; None if no row waits for it."""
        if state.group is None:
            return None
        behind = self._behind[state.group]
        if behind:
            return behind.popleft()
        del self._behind[state.group]
        return None

    def close(self) -> None:
        """Add the end marker: no more rows will be added."""
        self._ready.put_nowait(None)

    def clear(self) -> int:
        """Remove all waiting rows and close the queue; return the number of removed rows."""
        ready = [self._ready.get_nowait() for _ in range(self._ready.qsize())]
        removed = len(ready) - ready.count(None)
        for behind in self._behind.values():
            removed += len(behind)
            behind.clear()
        self.close()
        return removed
