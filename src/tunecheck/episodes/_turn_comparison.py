"""The turn of a conversation that failed, with what the model's calls and the ground truth's did in it."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from tunecheck._json import JSON, dumps
from tunecheck.calls._model import FunctionCall
from tunecheck.calls._python_text import bind_positional
from tunecheck.episodes._nested import NestedCall, make_call
from tunecheck.episodes._playing import Attempt, GroundTruth, Services
from tunecheck.episodes._states import leaves
from tunecheck.simulators._backend import Backend, Result
from tunecheck.simulators._base import ArgumentError

_ASKS = re.compile(r"(^|_)(get|find|list|show|view|check|search|look|display|read|fetch|query)(_|$)", re.IGNORECASE)
_COMMA = re.compile(r"(?<=\d),(?=\d{3})")

_MOST_BYTES = 50_000_000
"""Most bytes of states and texts that are gone through for one conversation: some tenths of a second."""


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A call that was made.

    `changed`: it changed the state that is compared. `acted`: it changed anything, what simulators keep to themselves
    included. A call of the model was `refused` if its arguments were in order, and `told` counts the texts before it
    (`TurnComparison.known`). A call of the ground truth `looked` if it did nothing but find something out.
    """

    call: FunctionCall
    result: Result
    changed: bool
    acted: bool
    refused: bool = False
    looked: bool = False
    told: int = 0


class _Watched:
    """A backend, with all that its simulators hold after the last call, and of it the `state` that is compared."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.state = self.kept = b""
        self.look()

    def look(self) -> tuple[bool, bool]:
        """Whether the state, and whether anything, is another than when it was looked at last."""
        states = self.backend.states()  # first: a simulator may keep what it works out for that
        kept = pickle.dumps([vars(simulator) for simulator in self.backend.simulators.values()])
        if kept == self.kept:
            return False, False
        state = pickle.dumps(states)
        changed = state != self.state
        self.state, self.kept = state, kept
        return changed, True


class TurnComparison:
    """The calls `made` in a turn by the model, and those `wanted` by the ground truth, each on simulators of its own.

    Args:
        truth: The row's ground truth.
        said: the messages of the user by turn.
        turns: the model's calls by turn, up to the one that failed, the last.
        services: Starts the simulators.
        lacks_results: whether the turn failed for want of a result, rather than by its state.

    Raises:
        ValueError: states or results are too large to go through.
    """

    def __init__(
        self,
        truth: GroundTruth,
        said: object,
        turns: Sequence[Sequence[NestedCall]],
        services: Services,
        *,
        lacks_results: bool,
    ) -> None:
        self._left = _MOST_BYTES
        self.turn = len(turns)
        self.lacks_results = lacks_results
        self._asked, self._turns, self._services = truth, turns, services
        right = Attempt(services, truth)
        for items in truth.turns[: self.turn - 1]:
            for item in items:
                right.make_truth(item)
        watched = _Watched(right.backend)
        calls = [call for item in truth.turns[self.turn - 1] for call in services.read(item).calls]
        self.wanted = [self._wanted(watched, NestedCall(call.name, call.arguments)) for call in calls]
        self._right = right.backend
        self._said = said
        self.early: list[tuple[int, MadeCall]] = []
        """Calls that changed the state in turns that ask for none, with the turns' numbers from 1."""
        self.results: set[str] = set()
        answered = Attempt(services, truth).backend
        for number, nested in enumerate(turns[:-1], 1):
            self.results |= {result.text for result in self._earlier(answered, number, nested)}
        self._told = [*self.results]
        watched = _Watched(answered)
        self.made = [self._made(watched, call) for call in turns[-1]]

    def _wanted(self, watched: _Watched, nested: NestedCall) -> MadeCall:
        result, changed, acted = self._make(watched, nested)
        call, _ = _bound(watched.backend, nested)
        looked = not (acted or result.error) and _found_out(call, result, watched.backend)
        return MadeCall(call, result, changed, acted, looked=looked)

    def _earlier(self, backend: Backend, number: int, calls: Sequence[NestedCall]) -> list[Result]:
        """Make the calls of an earlier turn; what they change counts only where none is asked for."""
        if self._asked.turns[number - 1]:
            return [make_call(backend, call) for call in calls]
        watched = _Watched(backend)
        made = [MadeCall(_bound(backend, call)[0], *self._make(watched, call)) for call in calls]
        self.early += [(number, one) for one in made if one.changed]
        return [one.result for one in made]

    def _made(self, watched: _Watched, nested: NestedCall) -> MadeCall:
        told = len(self._told)
        result, changed, acted = self._make(watched, nested)
        call, fits = _bound(watched.backend, nested)
        self._told.append(result.text)
        self.results.add(result.text)
        return MadeCall(call, result, changed, acted, refused=fits and result.error, told=told)

    def _make(self, watched: _Watched, nested: NestedCall) -> tuple[Result, bool, bool]:
        self._spend(2 * (len(watched.kept) + len(watched.state)))
        result = make_call(watched.backend, nested)
        return result, *watched.look()

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise ValueError("the conversation's states and results are too large to go through")

    def known(self, made: MadeCall) -> str:
        """All that had been said and found before a call of the model, to look in.

        Raises:
            ValueError: with all that was asked for before, that is too much to go through.
        """
        text = self._given + _searchable(self._told[: made.told])
        self._spend(len(text))
        return text

    @cached_property
    def _given(self) -> str:
        """What stood there before any call was made: what the user said, and what the functions say of themselves."""
        said = dumps(cast("JSON", self._said)).decode() if self._said else ""
        return _searchable([said, self._services.definitions(self._right), ""])

    @cached_property
    def found(self) -> str:
        """What the ground truth finds out in the turn, to look in."""
        return _searchable([wanted.result.text for wanted in self.wanted])

    @property
    def names(self) -> frozenset[str]:
        """The names of all operations."""
        each = self._right.simulators.values()
        return frozenset(name for simulator in each for name in simulator.operations())

    def called(self, name: str) -> list[MadeCall]:
        """The model's calls of a function."""
        return [made for made in self.made if made.call.name == name]

    def did(self, wanted: MadeCall) -> bool:
        """Whether the model had what a call of the ground truth gives."""
        return any(
            made.result.text == wanted.result.text and not made.result.error for made in self.called(wanted.call.name)
        )

    @cached_property
    def undone(self) -> list[MadeCall]:
        """The ground truth's calls that the model did not do."""
        return [wanted for wanted in self.wanted if not wanted.result.error and not self.did(wanted)]

    def differs_without(self, name: str) -> bool:
        """Whether the states would differ, too, had the model not called a function in this turn."""
        answered = Attempt(self._services, self._asked)
        calls = [call for turn in self._turns[:-1] for call in turn]
        calls += [call for call in self._turns[-1] if call.name != name]
        for call in calls:
            answered.make(call)
        return answered.backend.states() != self._right.states()


def _bound(backend: Backend, nested: NestedCall) -> tuple[FunctionCall, bool]:
    """A call with its arguments by name, and whether they are in order for the operation that it asks for."""
    call = _plain(nested)
    operations = [each.operations().get(call.name) for each in backend.simulators.values()]
    operation = next(filter(None, operations), None)
    if operation is None:
        return call, False
    call = bind_positional(call, operation.parameters)
    try:
        operation.bind((), call.arguments)
    except ArgumentError:
        return call, False
    return call, True


def _plain(call: NestedCall) -> FunctionCall:
    """The call, with calls in its arguments as their texts."""
    arguments = {
        name: value.text() if isinstance(value, NestedCall) else value for name, value in call.arguments.items()
    }
    return FunctionCall(call.name, cast("dict[str, JSON]", arguments))


def _found_out(call: FunctionCall, result: Result, backend: Backend) -> bool:
    """Whether a call is named as a question, or answers with what stands in the state: no conversion, no login."""
    if _ASKS.search(call.name):
        return True
    held = {leaf for leaf in leaves(backend.states()) if _tells(leaf)}
    return any(leaf in held for leaf in leaves(result.value) if _tells(leaf))


def _tells(leaf: object) -> bool:
    return isinstance(leaf, (str, int, float)) and not isinstance(leaf, bool) and leaf not in ("", 0, 1)


def _searchable(texts: Iterable[str]) -> str:
    """Texts in which values are looked for: in small letters, numbers without commas."""
    return _COMMA.sub("", "\n".join(texts).casefold())
