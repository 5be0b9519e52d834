"""A conversation's ground truth, made again with some calls left out or changed: what comes out otherwise then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tunecheck.calls._model import FunctionCall
from tunecheck.datasets._multi_turn_check import EntryCheck, PlayedCall
from tunecheck.datasets._multi_turn_replay import copied
from tunecheck.simulators._backend import Result

_MOST_CALLS = 4_000
"""Made of one conversation again: what is looked for first is found first, and time grows as the number of rows."""

Changed = Mapping[int, "FunctionCall | None"]
"""What is made in place of the calls with these numbers; None: nothing."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of all calls, None where none was made, and the state after each turn that has calls."""

    results: Sequence[Result | None]
    states: Sequence[object]

    @property
    def texts(self) -> list[str | None]:
        return [None if each is None else each.text for each in self.results]

    def is_as(self, other: Outcome, *, but_for: Changed) -> bool:
        """Whether states and results are equal, those of some calls aside."""
        pairs = enumerate(zip(self.texts, other.texts, strict=True))
        return self.states == other.states and all(one == two for at, (one, two) in pairs if at not in but_for)


class Reruns:
    """Reruns of one conversation; once calls `are_used_up`, no more are to be made."""

    def __init__(self, check: EntryCheck) -> None:
        self.played: Sequence[PlayedCall] = check.played
        self.check = check
        self._left = _MOST_CALLS
        self.whole = self.outcome({})

    @property
    def are_used_up(self) -> bool:
        return self._left < len(self.played)

    def outcome(self, changed: Changed) -> Outcome:
        self._left -= len(self.played)
        backend = self.check.replay(self.check.entry.config).backend
        results: list[Result | None] = []
        states: list[object] = []
        for at, each in enumerate(self.played):
            call = changed.get(at, each.call)
            results.append(None if call is None else backend.call(call))
            if at + 1 == len(self.played) or self.played[at + 1].turn != each.turn:
                states.append(copied(backend.states()))
        return Outcome(results, states)

    def changes_nothing(self, changed: Changed) -> bool:
        """Whether all else comes out as it does without the change."""
        return self.outcome(changed).is_as(self.whole, but_for=changed)
