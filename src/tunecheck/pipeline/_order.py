"""Which row's turn it is.

Rows of a group are answered one after another. Where few may be enough, rows come in a seeded random order, and are
judged in that order whatever comes back first.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from tunecheck._targets import Row, Target
from tunecheck.pipeline._results import RowState


class RandomOrder:
    """Gives a run its rows unit by unit; a unit are rows that are not independent, such as a conversation's.

    `enough` is told of each unit's finished rows, in the order of the units, and says whether the run may stop. Rows
    that finish before their turn wait for it, so the same rows count however fast each answer is. Units that `tells`
    does not hold for come last.
    """

    def __init__(
        self,
        rows: Iterable[Row],
        label: Callable[[Row], Hashable],
        seed: int,
        enough: Callable[[Sequence[RowState]], bool],
        tells: Callable[[Sequence[Row]], bool],
    ) -> None:
        units: dict[Hashable, list[Row]] = {}
        for row in rows:
            units.setdefault(label(row), []).append(row)
        self._units = [*units.values()]
        random.Random(seed).shuffle(self._units)
        self._units.sort(key=tells, reverse=True)
        self._unit_of = {row.index: at for at, unit in enumerate(self._units) for row in unit}
        self._enough = enough
        self._held: dict[int, list[RowState]] = {}
        self._begun = self._judged = 0
        self.decided = False
        self.asked: set[int] = set()
        """The indices of the rows that were asked."""

    def rows(self) -> Iterator[Row]:
        """Every row, as they are needed."""
        for unit in self._units:
            self._begun += 1
            yield from unit

    @property
    def ahead(self) -> int:
        """How many units were given and are not judged yet."""
        return self._begun - self._judged

    def settle(self, state: RowState) -> Iterator[RowState]:
        """Take a finished row; gives the rows whose turn has come, none once it is decided."""
        self._held.setdefault(self._unit_of[state.row.index], []).append(state)
        while not self.decided and len(self._held.get(self._judged, ())) == len(self._units[self._judged]):
            unit = sorted(self._held.pop(self._judged), key=lambda each: each.row.index)
            yield from unit
            self._judged += 1
            self.decided = self._enough(unit)
            if self._judged == len(self._units):
                return

    @property
    def total(self) -> int:
        """How many rows there are."""
        return len(self._unit_of)

    def judged(self) -> list[int]:
        """The indices of the rows that count, in the order of the data."""
        return sorted(row.index for unit in self._units[: self._judged] for row in unit)

    def unjudged(self) -> Iterator[Row]:
        """The rows that do not count, in their order."""
        for unit in self._units[self._judged :]:
            yield from unit


def group_of(row: Row, target: Target | None, column: str | None) -> str | None:
    """What a row has in common with those that are answered one after another with it."""
    group = None if target is None else target.group_key(row)
    if group is not None or target is None or column is None:
        return group
    value = row.values.get(column)
    return None if value is None else str(value)


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
