"""The plan of a run, its progress, and the random order of rows for a run that may stop early."""

import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tunecheck._messages import plural
from tunecheck._targets import Row, Target
from tunecheck.pipeline._read_calls import CallsChoice, ReadCallsCount
from tunecheck.pipeline._results import RowState
from tunecheck.pipeline._scoring import BoundEvaluator
from tunecheck.pipeline._worker_queues import DEFAULT_TIMEOUT_S

_MOST_REFUSED = 5
"""Most notes on files that rows may not name."""

_MOST_LOST = 20
"""Most notes on keys that are null."""


class RandomOrder:
    """Gives a run its rows unit by unit; a unit holds rows that are not independent, such as a conversation's.

    Units come in a seeded random order, and are judged in that order whatever comes back first.

    `enough` takes each unit's finished rows, in the order of the units, and returns True if the run may stop. Rows
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
        """The indices of the rows that the target was asked."""

    def rows(self) -> Iterator[Row]:
        """Yield every row on demand."""
        for unit in self._units:
            self._begun += 1
            yield from unit

    @property
    def ahead(self) -> int:
        """The number of units that were given out and are not judged yet."""
        return self._begun - self._judged

    def settle(self, state: RowState) -> Iterator[RowState]:
        """Take a finished row; yield the rows that now count, none once the run is decided."""
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
        """The number of rows."""
        return len(self._unit_of)

    def judged(self) -> list[int]:
        """Return the indices of the rows that count, in the order of the data."""
        return sorted(row.index for unit in self._units[: self._judged] for row in unit)

    def unjudged(self) -> Iterator[Row]:
        """Yield the rows that do not count, in their order."""
        for unit in self._units[self._judged :]:
            yield from unit


@dataclass(frozen=True)
class Plan:
    """The parts and settings of a run."""

    run_id: str
    rows: Callable[[], Iterator[Row]]
    target: Target | None
    evaluators: Sequence[BoundEvaluator]
    concurrency: int
    workers: int
    """Processes for synchronous evaluators; 0: none."""
    row_kind: Callable[[Mapping[str, object], Mapping[str, object]], str | None]
    isolates_files: bool = False
    """Only evaluators that declare themselves `pure` share worker processes; each file of the workspace has its own."""
    evaluator_timeout: float = DEFAULT_TIMEOUT_S
    fail_on_evaluator_errors: bool = False
    group_column: str | None = None
    """If the target has no groups, rows with the same value in this column are answered in order."""
    row_count: int | None = None
    folder: Path | None = None
    """The run's folder; a target may keep files there."""
    calls: CallsChoice | None = None
    """Which calls count; by default those that the API returned."""
    order: RandomOrder | None = None
    """Gives the rows of a run that may stop before all of them are asked."""


@dataclass(frozen=True, slots=True)
class Remarks:
    """Counts of events that the user should know of."""

    lost: Counter[str] = field(default_factory=Counter)
    """Rows with a null key, by a text of evaluator, key and reason."""
    refused: Counter[str] = field(default_factory=Counter)
    """Rows that named a file they may not, by the refusal's text."""
    late: Counter[str] = field(default_factory=Counter)
    """Rows with a late evaluator, by its name."""

    def counts(self) -> dict[str, dict[str, int]]:
        """Return all counts, by field."""
        return {"lost": dict(self.lost), "refused": dict(self.refused), "late": dict(self.late)}

    def sentences(self, evaluator_timeout: float) -> list[str]:
        """Return the notes for the user."""
        limit = f"{evaluator_timeout:g} s (--evaluator-timeout)"
        return [
            *(f"refused on {plural(c, 'row')}: {said}" for said, c in self.refused.most_common(_MOST_REFUSED)),
            *(f"evaluator {n!r} took longer than {limit} on {plural(c, 'row')}" for n, c in self.late.items()),
            *(f"{why}: null on {plural(count, 'row')}" for why, count in self.lost.most_common(_MOST_LOST)),
        ]

    def add(self, counts: Mapping[str, Mapping[str, int]]) -> None:
        """Add the counts of another process."""
        for name, counter in (("lost", self.lost), ("refused", self.refused), ("late", self.late)):
            counter.update(counts.get(name, {}))


@dataclass(slots=True)
class Tally:
    """The progress of a run."""

    read: int = 0
    answered: int = 0
    unanswered: int = 0
    """Of these, rows on which the target failed."""
    finished: int = 0
    failed: int = 0
    reused: int = 0
    reused_verdicts: int = 0
    simulated: bool = False
    """An answer is marked as simulated."""
    masked: int = 0
    """Answers of the target with a masked secret."""
    notes: list[str] = field(default_factory=list)
    remarks: Remarks = field(default_factory=Remarks)
    read_calls: ReadCallsCount = field(default_factory=ReadCallsCount)

    def sentences(self, evaluator_timeout: float) -> list[str]:
        """Return the notes for the user on what was counted."""
        said = self.remarks.sentences(evaluator_timeout)
        if self.masked:
            said.append(
                f"{plural(self.masked, 'answer')} repeated a value from the environment, masked as ***; "
                "${env:NAME:plain} in the definition or prompt marks one that is no secret"
            )
        return said
