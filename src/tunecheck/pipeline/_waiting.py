"""Rows that wait for their answer: many at once, those of one group one after another, in order."""

from __future__ import annotations

import asyncio
from collections import deque

from tunecheck.pipeline._results import RowState


class AnswerQueue:
    """Hands out rows to be answered; of each group the next one only when the one before has its answer."""

    def __init__(self) -> None:
        self._ready: deque[RowState] = deque()
        self._behind: dict[str, deque[RowState]] = {}
        self._waiting_behind = 0
        self._permits = asyncio.Semaphore(0)
        """One for each row that is ready, and one that says the end, which is passed on and on."""
        self._closed = False
        self._ended = False

    def put(self, state: RowState) -> None:
        """Add a row."""
        behind = None if state.group is None else self._behind.get(state.group)
        if behind is not None:
            behind.append(state)
            self._waiting_behind += 1
            return
        if state.group is not None:
            self._behind[state.group] = deque()
        self._ready.append(state)
        self._permits.release()

    async def next(self) -> RowState | None:
        """The next row to be answered, when there is one; None when no more will come."""
        await self._permits.acquire()
        if self._ready:
            return self._ready.popleft()
        self._permits.release()
        return None

    def done(self, state: RowState) -> None:
        """A row has its answer (or will get none): the next one of its group may follow."""
        behind = None if state.group is None else self._behind.get(state.group)
        if behind:
            self._waiting_behind -= 1
            self._ready.appendleft(behind.popleft())
            self._permits.release()
            self._end_if_all_out()
        elif behind is not None and state.group is not None:
            del self._behind[state.group]

    def close(self) -> None:
        """No more rows will be added."""
        self._closed = True
        self._end_if_all_out()

    def clear(self) -> int:
        """Forget the rows that were not handed out, and close; how many they were."""
        waiting = len(self._ready) + self._waiting_behind
        self._ready.clear()
        self._behind.clear()
        self._waiting_behind = 0
        self.close()
        return waiting

    def _end_if_all_out(self) -> None:
        if self._closed and not self._waiting_behind and not self._ended:
            self._ended = True
            self._permits.release()
