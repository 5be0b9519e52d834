"""What a run's rows came to, beside the rows: counted by one engine, or added up from those of many chunks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from tunecheck._json import JSON
from tunecheck.pipeline._aggregate import Aggregator, Counts
from tunecheck.pipeline._costs import Spending, SpendingCounts
from tunecheck.pipeline._model_calls import RunCalls
from tunecheck.pipeline._plan import Tally
from tunecheck.pipeline._results import columns_of


class OutcomeCounts(msgspec.Struct, frozen=True):
    """An `Outcome` as it is stored."""

    counts: Counts
    spending: dict[str, SpendingCounts]
    shapes: list[tuple[int, list[str]]]
    unanswered: int
    reused: int
    reused_verdicts: int
    simulated: bool
    masked: int
    notes: list[str]
    remarks: dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Metrics, costs, columns of the results, and what a person should know."""

    aggregator: Aggregator
    spending: dict[str, Spending]
    shapes: dict[tuple[str, ...], int]
    tally: Tally

    @property
    def columns(self) -> list[str]:
        """Those of the results, in the order of the rows that have them."""
        return columns_of(self.shapes)

    def usage(self) -> dict[str, JSON]:
        """What was spent, by evaluator, the target's answers under `target`."""
        return {name: self.spending[name].summary() for name in sorted(self.spending)}

    def count_calls(self, calls: RunCalls) -> None:
        """Count what an engine's calls say of themselves."""
        self.tally.simulated |= calls.simulated
        self.tally.masked += calls.masked

    def stored(self) -> bytes:
        """All of it, to be added up elsewhere."""
        tally = self.tally
        return msgspec.msgpack.encode(
            OutcomeCounts(
                counts=self.aggregator.counts(),
                spending={name: spending.counts() for name, spending in self.spending.items()},
                shapes=_listed(self.shapes),
                unanswered=tally.unanswered,
                reused=tally.reused,
                reused_verdicts=tally.reused_verdicts,
                simulated=tally.simulated,
                masked=tally.masked,
                notes=tally.notes,
                remarks=tally.remarks.counts(),
            )
        )

    def add(self, stored: bytes) -> list[str]:
        """Add what `stored` gave for other rows; the columns that those have.

        Raises:
            ValueError, MsgspecError: it is something else.
        """
        more = msgspec.msgpack.decode(stored, type=OutcomeCounts)
        shapes = {tuple(shape): first for first, shape in more.shapes}
        self.aggregator.add_counts(more.counts)
        for name, spending in more.spending.items():
            self.spending.setdefault(name, Spending()).add_counts(spending)
        for shape, first in shapes.items():
            self.shapes[shape] = min(first, self.shapes.get(shape, first))
        self.tally.unanswered += more.unanswered
        self.tally.reused += more.reused
        self.tally.reused_verdicts += more.reused_verdicts
        self.tally.simulated |= more.simulated
        self.tally.masked += more.masked
        self.tally.notes += [note for note in more.notes if note not in self.tally.notes]
        self.tally.remarks.add(more.remarks)
        return columns_of(shapes)


def _listed(shapes: Mapping[tuple[str, ...], int]) -> list[tuple[int, list[str]]]:
    return [(first, list(shape)) for shape, first in shapes.items()]
