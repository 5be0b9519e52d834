"""Execute tasks, and put them into words: each request says every value, or where the value comes from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import msgspec

from tunecheck.calls import FunctionCall, write_calls
from tunecheck.plugins import JSON
from tunecheck.simulators import shown
from tunecheck_authoring._author.files import AuthoredTask, PlannedCall
from tunecheck_authoring._author.values import free_values
from tunecheck_authoring._author.wording import VOICES, Ask, details_of, place_text
from tunecheck_authoring._author.world import World, functions_of

_ALIKE = 0.3


def call_text(call: FunctionCall) -> str:
    """Return a call as ground truths write it."""
    return str(write_calls([call], "bfcl_text"))[1:-1]


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """A task's calls as texts, their results, and the state after each turn."""

    calls: list[list[str]]
    results: list[list[str]]
    states: list[dict[str, dict[str, JSON]]]


def execute(world: World, task: AuthoredTask) -> TaskOutcome:
    """Make the calls of a task."""
    session = world.session(task.simulators, task.configuration)
    outcome = TaskOutcome([], [], [])
    for turn in task.turns:
        outcome.calls.append([call_text(planned.call) for planned in turn])
        outcome.results.append([session.call(planned.call).result.text for planned in turn])
        state = session.state()
        outcome.states.append({name: {key: shown(each) for key, each in held.items()} for name, held in state.items()})
    return outcome


def render_task(world: World, task: AuthoredTask, seed: int) -> AuthoredTask:
    """Return the task with the user's words of each turn, in one voice."""
    random = Random(f"{seed} voice {task.id}")
    voice = random.choice([*VOICES])
    if task.turns == [[]]:
        words = [unanswerable_request(world, task.simulators, voice, random)]
    else:
        words = [*map(RequestWriter(world, task, voice).turn, range(len(task.turns)))]
    return msgspec.structs.replace(task, voice=voice, words=words)


def other_service(world: World, simulators: Sequence[str], random: Random) -> str | None:
    """Draw another simulator that shares no function name with these, or None."""
    taken = {name for each in simulators for name in world.known(each).operations()}
    candidates = [name for name in (*world.classes, *world.spare) if name not in simulators]
    others = [name for name in candidates if taken.isdisjoint(world.known(name).operations())]
    return random.choice(others) if others else None


def unanswerable_request(world: World, simulators: Sequence[str], voice: str, random: Random) -> str:
    """Return a request that none of these simulators can carry out."""
    name = other_service(world, simulators, random)
    offered = {} if name is None else functions_of({name: world.known(name)}, {})
    known = [each.request for own in simulators for each in functions_of({own: world.known(own)}, {}).values()]
    functions = [each for each in offered.values() if each.required and not _resembles(each.request, known)]
    if not functions:
        return "Please water the plants on the balcony."
    function = random.choice(functions)
    given = [each for each in function.parameters if each in function.required]
    values = {each: random.choice(free_values(world, function, each, random)) for each in given}
    return VOICES.get(voice, VOICES["plain"])([Ask(function.request, details_of(values))], True)


def _resembles(request: str, others: Sequence[str]) -> bool:
    """True if a request shares many words with one of the others and may be taken for it."""
    own = {*request.lower().split()}
    return any(len(own & words) > _ALIKE * len(own | words) for words in ({*each.lower().split()} for each in others))


class RequestWriter:
    """Writes the requests for a task's calls in one voice."""

    def __init__(self, world: World, task: AuthoredTask, voice: str) -> None:
        self._world, self._task, self._voice = world, task, VOICES.get(voice, VOICES["plain"])
        self._in_order = len(task.turns) > 1

    def turn(self, number: int, *, without: Collection[str] = (), instead: Mapping[str, JSON] | None = None) -> str:
        """Return the request of a turn, `without` some parameters, or with other values `instead`."""
        instead, asks = instead or {}, []
        for at, planned in enumerate(self._task.turns[number]):
            said = {name: each for name, each in planned.arguments.items() if name not in without}
            values = {name: instead.get(name, each.value) for name, each in said.items()}
            texts = {
                name: self._reference(each.source, each.path, (number, at))
                for name, each in said.items()
                if each.source is not None and name not in instead
            }
            asks.append(Ask(self._request(planned), details_of(values, texts)))
        return self._voice(asks, self._in_order)

    def _request(self, planned: PlannedCall) -> str:
        return self._world.functions[planned.function].request

    def _reference(self, source: tuple[int, int], path: Sequence[str | int], place: tuple[int, int]) -> str:
        """Return a description of an earlier result's value, as people refer to it."""
        turn, at = source
        producer = self._task.turns[turn][at]
        field = place_text(path)
        request = self._request(producer).partition(",")[0]
        if turn == place[0]:
            return f"the {field} that you get when you {request}"
        return f"the {field} that you got {self._which(producer, source)} I asked you to {request}"

    def _which(self, producer: PlannedCall, source: tuple[int, int]) -> str:
        """Return the words that tell several calls of one function apart."""
        places = [
            (turn, at)
            for turn, calls in enumerate(self._task.turns)
            for at, each in enumerate(calls)
            if each.function == producer.function
        ]
        if len(places) == 1:
            return "when"
        return "the first time" if source == places[0] else "the last time"
