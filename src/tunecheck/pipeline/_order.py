"""Rows in a seeded random order, judged in that order whatever comes back first, until there are enough of them."""

import random
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from tunecheck._targets import Row
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
