"""Plays the calls of a ground truth and of a model, each side on its own simulators.

An `Attempt` makes the calls and returns their results, for a verdict. A `Player` also records which call changed the
states, for the causes of a failure; this takes longer. `play` makes all calls of a conversation, with a `Player` where
changes are needed.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path

import msgspec

from tunecheck._json import JSON, SCALAR_TYPES, dumps
from tunecheck.calls._model import FunctionCall, Reading
from tunecheck.datasets._judging import Judging
from tunecheck.datasets._sources import as_list
from tunecheck.episodes._dialects import registered_constants
from tunecheck.episodes._episode import Called, Episode, Said, StateSeen, changes, copy_state
from tunecheck.episodes._scenario import Scenario, configuration_of, simulators_of
from tunecheck.formats._reading import read_calls, read_python_calls
from tunecheck.simulators._backend import Backend, Backends, OperationResult, copy_json, failure

MAX_CHANGES = 1_000
"""Maximum number of differences of two states that are compared."""

_MOST_READINGS = 10_000
"""The most texts of ground-truth calls that are cached with their calls."""


class GroundTruth(msgspec.Struct, frozen=True):
    """The calls that a conversation should make, and the initial configuration of its simulators.

    `turns` holds the calls of each turn, as texts or in any format; a turn without calls requires an answer. `judging`
    are the row's settings for strict judgement.

    Example of turns: `[["cd(folder='docs')", "ls()"], []]`. The first expects two calls, the second an answer in words.
    """

    id: str
    turns: list[list[JSON]]
    simulators: list[str]
    config: Mapping[str, JSON]
    long_context: bool
    judging: Judging

    @classmethod
    def read(cls, row: Mapping[str, object]) -> GroundTruth:
        """Read the ground truth of a conversation from a row's columns.

        Raises:
            ValueError: a column has the wrong form; the text names it.
        """
        truth = as_list(row.get("ground_truth"), "ground_truth")
        turns = [as_list(turn, f"ground_truth[{number}]") for number, turn in enumerate(truth)]
        simulators, config = simulators_of(row), configuration_of(row)
        judging = Judging.read(row, len(turns))

        return cls(str(row.get("id") or ""), turns, simulators, config, row.get("long_context") is True, judging)


@dataclass(eq=False, repr=False)
class Services(Backends):
    """Starts simulators for rows, and caches their classes, their definitions and parsed calls for all rows.

    `long_context` returns the constants that extend rows with long context. By default, they are those of an installed
    benchmark, whose copy is in `data`, if not in the usual place.
    """

    _: KW_ONLY
    data: Path | None = None
    long_context: Callable[[], Mapping[str, JSON]] | None = None
    _readings: dict[str, tuple[Reading, bool]] = field(default_factory=dict, init=False)
    _definitions: dict[tuple[str, ...], str] = field(default_factory=dict, init=False)

    @cached_property
    def constants(self) -> Mapping[str, JSON]:
        """The constants that extend rows with long context: the given ones, else those of an installed benchmark.

        Raises:
            DataError: no benchmark is installed, or there is no copy of its data.
        """
        return registered_constants(self.data) if self.long_context is None else self.long_context()

    def play(self, truth: GroundTruth | Scenario) -> Backend:
        """Start new simulators in the initial state of a ground truth or a conversation; return them as a backend.

        Raises:
            PluginError: a simulator does not exist.
            DataError: the initial configuration is invalid, or constants for long context are missing.
        """
        constants = self.constants if truth.long_context else None
        return self.start(truth.simulators, truth.config, long_context=constants)

    def read(self, item: object) -> Reading:
        """Read the calls of a ground-truth item: a text such as `cd(folder='x')`, or calls in any format.

        An unreadable item gives a reading with a problem.
        """
        if not isinstance(item, str):
            return read_calls(item)

        known = self._readings.get(item)
        if known is None:
            reading = read_python_calls(item)
            values = [value for call in reading.calls for value in call.arguments.values()]
            known = (reading, any(isinstance(value, (list, dict)) for value in values))
            if len(self._readings) < _MOST_READINGS:
                self._readings[item] = known

        reading, is_nested = known
        if is_nested:  # a copy, because a simulator could keep a list or an object and change it later
            calls = tuple(FunctionCall(call.name, copy_json(call.arguments)) for call in reading.calls)
            return replace(reading, calls=calls)
        return reading

    def definitions(self, backend: Backend) -> str:
        """Return the tool definitions of a backend's simulators as JSON text, cached by the simulators' names."""
        names = tuple(backend.simulators)
        if names not in self._definitions:
            self._definitions[names] = dumps(backend.tool_definitions()).decode()
        return self._definitions[names]


class Attempt:
    """The calls of one side on its own simulators.

    Args:
        services: starts the simulators.
        truth: the ground truth, with the simulators' configuration.
        named: True if the model's calls name all arguments, as JSON calls do.
    """

    def __init__(self, services: Services, truth: GroundTruth, *, named: bool = True) -> None:
        """Start the side's simulators; `named` is True if the model's calls name all arguments.

        Raises:
            PluginError: a simulator does not exist.
            DataError: the initial configuration is invalid, or constants for long context are missing.
        """
        self.backend = services.play(truth)
        self._services = services
        self._named = named

    def make(self, call: FunctionCall) -> OperationResult:
        """Make a model's call on the simulators, and return its result.

        Return an error result if the call cannot be made. Never raise.
        """
        # "0" is the key of a positional argument, so it may only occur if the calls do not name all arguments.
        if self._named and "0" in call.arguments:
            return failure(f"{call.name} has no parameter '0'")

        # JSON cannot express such a number, so no simulator has to expect it.
        if _holds_unwritable(call.arguments):
            return failure("an argument holds NaN or an infinity, which a call cannot contain")

        return self.backend.call(call)

    def make_truth(self, items: Iterable[object]) -> list[OperationResult]:
        """Make the ground truth's calls of a turn. Never raises: an unreadable item gives an error result."""
        return [result for item in items for result in self._make(self._read(item))]

    def _read(self, item: object) -> Reading:
        """Read the calls of a ground-truth item; a benchmark's subclass may read them differently."""
        return self._services.read(item)

    def _make(self, reading: Reading) -> list[OperationResult]:
        """Make the calls of a ground-truth item on the simulators; return one error result if a call is unreadable."""
        if not reading.complete_calls:
            return [failure(f"the call cannot be read: {reading.problem or 'there is no call'}")]
        return [self._make_read(call) for call in reading.calls]

    def _make_read(self, call: FunctionCall) -> OperationResult:
        """Make a call of the ground truth; a benchmark's subclass may make it differently."""
        return self.backend.call(call)


_WRITABLE = SCALAR_TYPES - {float}
"""Types whose values JSON can always express."""


def _holds_unwritable(value: object) -> bool:
    """Return True if the value contains NaN or an infinity at any depth; JSON cannot express them."""
    # Without `leaves`, whose generators take longer: each call of a conversation comes here.
    if isinstance(value, float):
        return not math.isfinite(value)
    # A call may stand inside an argument of another call, as in `send(text=cat('a.txt'))`.
    if isinstance(value, FunctionCall):
        value = value.arguments
    if isinstance(value, dict):
        values = value.values()
        return not _WRITABLE.issuperset(map(type, values)) and any(map(_holds_unwritable, values))
    return isinstance(value, (list, tuple, set, frozenset)) and any(map(_holds_unwritable, value))


class Player:
    """Simulators that execute calls in order from the state `start`; `state` is the current state.

    Pickles of all data are compared first, because they also show changes of hidden data. The states are copied and
    compared only if the pickles differ, or if a simulator cannot be pickled.
    """

    def __init__(self, backend: Backend) -> None:
        """Keep a copy of the simulators' current state; later calls do not change the copy."""
        self.backend = backend
        self.start = self.state = copy_state(backend.states())
        self._pickled = self._pickle_data()

    def call(self, call: FunctionCall) -> Called:
        """Make a call; return its result and the differences of the simulators' states before and after it.

        At most 1,000 differences are returned.
        """
        result = self.backend.call(call)
        states = self.backend.states()  # before pickling: a simulator may store the states that it returns

        pickled_before, self._pickled = self._pickled, self._pickle_data()
        # Nothing changed, not even hidden data: the call only returned a value.
        if pickled_before is not None and pickled_before == self._pickled:
            return Called(call, result)

        before, self.state = self.state, copy_state(states)
        found = list(islice(changes(before, self.state), MAX_CHANGES))
        # Different pickles prove that the call changed data; without pickles, only the found changes do.
        return Called(call, result, found, acted=bool(found) or pickled_before is not None)

    @property
    def size(self) -> int:
        """Return the size in bytes of the simulators' data, 0 if unknown."""
        return len(self._pickled or b"")

    def _pickle_data(self) -> bytes | None:
        """Return all data of the simulators, hidden data included, as bytes; None if a simulator cannot be pickled."""
        try:
            return pickle.dumps([vars(simulator) for simulator in self.backend.simulators.values()])
        except Exception:  # noqa: BLE001 - a user's simulator may hold anything
            return None


def play(
    backend: Backend, turns: Iterable[Iterable[FunctionCall]], *, compared: Container[int] | None = None
) -> Episode:
    """Make the calls of each turn on the simulators; return the episode with their results.

    `compared` lists the turns, from 0, whose changes and states are recorded; None means all. A caller chooses turns
    because comparing the states of large simulators takes longer than a call.
    """
    episode = Episode()
    for number, calls in enumerate(turns):
        episode.add(Said())
        if compared is not None and number not in compared:
            for call in calls:
                episode.add(Called(call, backend.call(call)))
            continue

        player = Player(backend)
        for call in calls:
            episode.add(player.call(call))
        episode.add(StateSeen(player.state))

    return episode
