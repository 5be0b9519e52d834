"""Choose the calls of conversations: walk through the graph and execute each chosen call.

A walk is one random conversation; if it is valid, it becomes a task. An edge of the graph is a result, or a part of the
state, that feeds a parameter.

**A call** (`_add_call`) is kept if it succeeds, has not been made before, and does something new: a function that
writes must change the state, one that reads must give a new answer. It must not overwrite all changes of an earlier
call of the turn. Otherwise it is undone, and other arguments or functions are tried. Functions come in this order:
those that can use the last result, then the least used.

**An argument** (`_argument`) comes from the first source that is drawn:

1. an earlier result, by an edge of the graph, in 60% of the cases; the user must be able to describe its place
2. the state, by an edge, in 60% of the other cases; only values of the initial state or of an earlier turn's results,
   because the user says them
3. a value that the user gives (`free_values`)

**A turn** has one to three calls. In a fifth of the later turns, a recovery is tried: a call that fails until another
one is made, and both are the expected calls.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from random import Random

import msgspec

from tunecheck import ConfigurationError
from tunecheck.episodes import Called
from tunecheck.plugins import JSON, one_of
from tunecheck_authoring._author.files import Argument, AuthoredTask, GraphFile, PlannedCall, Weakness
from tunecheck_authoring._author.graph import available, call_succeeded
from tunecheck_authoring._author.world import Atom, Function, Held, World, fits, free_values, places_in

_CALLS_IN_A_TURN = (1, 1, 1, 1, 2, 2, 3)
_CALLS_OF_A_QUESTION = (0, 1, 1, 1, 1, 2, 2, 3)
"""Numbers of calls; each entry is equally likely to be drawn."""
_CANDIDATES = 10
"""The most functions that are tried for a call."""
_DRAWS = 4
"""The arguments that are tried for each function."""
_WALKS = 1_000
"""The most walks for one task."""
# Probabilities: a conversation with two services; a later turn that recovers from an error; an argument from an earlier
# result, or else from the state; an optional argument.
_TWO_SERVICES = 0.4
_RECOVERS = 0.2
_FROM_A_RESULT = 0.6
_FROM_THE_STATE = 0.6
_OPTIONAL = 0.25
_MOST_OF_ONE = 2
"""The most calls of one function in a task."""


class Coverage(msgspec.Struct):
    """Counts of used functions, edges and error replies, and of tasks that were rejected because of a function."""

    functions: Counter[str] = msgspec.field(default_factory=Counter)
    refused: Counter[str] = msgspec.field(default_factory=Counter)
    edges: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    errors: Counter[str] = msgspec.field(default_factory=Counter)

    def add(self, task: AuthoredTask) -> None:
        """Count what a task covers: functions, error replies, and edges (values that feed a parameter)."""
        for call in task.calls:
            self.functions[call.function] += 1
            for name, argument in call.arguments.items():
                if argument.edge is not None:
                    self.edges[argument.edge, f"{call.function}.{name}"] += 1
                for place, edge in argument.inner.items():
                    self.edges[edge, f"{call.function}.{place}"] += 1
        self.errors.update(task.recoveries.values())


def check_tasks(tasks: Sequence[AuthoredTask], world: World) -> None:
    """Check that edited tasks name existing simulators and functions.

    Raises:
        ConfigurationError: A name is unknown; the text says which.
    """
    for task in tasks:
        for name in task.simulators:
            one_of(name, [*world.classes], f"tasks.jsonl: {task.id}: simulator")
        for call in task.calls:
            one_of(call.function, [*world.functions], f"tasks.jsonl: {task.id}: function")


def sample_tasks(
    world: World,
    graph: GraphFile,
    count: int,
    turns: tuple[int, int],
    seed: int,
    weakness: Callable[[AuthoredTask], Weakness | None],
) -> Iterator[AuthoredTask]:
    """Yield `count` different tasks for which `weakness` returns None. The tasks have no words yet.

    Rarely used functions tend to be chosen first. `turns` are the least and most turns of a task; (1, 1) makes
    questions.

    Raises:
        ConfigurationError: No function of the world can be used, or there are fewer tasks.
    """
    usable = {name for name, each in graph.functions.items() if each.problem is None and name in world.functions}
    if not usable:
        raise ConfigurationError("each function has a `problem` in graph.yaml or is `left_out`; correct world.yaml")

    coverage, known, reasons = Coverage(), set[str](), Counter[str]()
    for number in range(1, count + 1):
        for attempt in range(_WALKS):
            walk = _Walk(world, graph, usable, coverage, Random(f"{seed} {number} {attempt}"))
            task = walk.task(f"{number:0{len(str(count))}}", turns)
            # Questions must differ in their calls, conversations in their calls or their initial state.
            key = "" if task is None else str([task.configuration if turns != (1, 1) else None, task.turns])
            if task is None or key in known:
                continue

            rejection = weakness(task)
            if rejection is None:
                known.add(key)
                coverage.add(task)
                yield task
                break

            reasons[rejection.reason] += 1
            if rejection.function is not None:
                coverage.refused[rejection.function] += 1
        else:
            # The most frequent reason, if any task was rejected
            rejections = "".join(f" ({most:,} were rejected: {reason})" for reason, most in reasons.most_common(1))
            made = f"only {number - 1:,} of {count:,} tasks could be made{rejections}"
            raise ConfigurationError(f"{made}; lower --tasks, or add values and configurations to world.yaml")


class _Walk:
    """One random conversation."""

    def __init__(self, world: World, graph: GraphFile, usable: set[str], coverage: Coverage, random: Random) -> None:
        """Draw the services and the initial state of a conversation, and start a session with its simulators.

        `usable` are the functions that may be called, and `coverage` counts what earlier tasks used.
        """
        self._world, self._graph, self._coverage, self._random = world, graph, coverage, random
        self._services = self._draw_services(usable)
        self._usable = sorted(name for name in usable if world.functions[name].simulator in self._services)

        self._sources: dict[str, set[str]] = defaultdict(set)
        for edge in graph.edges:
            self._sources[edge.target].add(edge.source)

        self._configuration = world.configuration(self._services, random)
        self._session = world.session(self._services, self._configuration)
        self._known_from_the_start = {atom.value for atom in available(self._session)}

        # The turn of each call, and its number in the turn
        self._call_places: list[tuple[int, int]] = []
        self._turns: list[list[PlannedCall]] = []
        self._recoveries: dict[str, str] = {}

    def _draw_services(self, usable: set[str]) -> list[str]:
        """Return one or two services, drawn by their rarely used functions, in the order of the world."""
        count = 2 if self._random.random() < _TWO_SERVICES else 1
        # Two draws may give the same service.
        names = [self._rarest(sorted(usable), 1)[0] for _ in range(count)]
        return sorted({self._world.functions[name].simulator for name in names}, key=[*self._world.classes].index)

    def _rarest(self, names: Sequence[str], most: int) -> list[str]:
        """Return at most `most` of the function names in random order; rarely used ones tend to come first."""
        used, refused = self._coverage.functions, self._coverage.refused
        # A function that was used three times comes after an unused one in four of five cases.
        return sorted(names, key=lambda name: (used[name] + refused[name] + 1) * self._random.expovariate(1))[:most]

    def task(self, task_id: str, turns: tuple[int, int]) -> AuthoredTask | None:
        """Return the task of this walk, or None if it failed.

        A conversation fails if a turn found no call that works. A question fails if it has fewer calls than drawn, or a
        call does not succeed alone. `turns` are the least and most turns; (1, 1) makes a question.
        """
        is_complete = self._walk_question() if turns == (1, 1) else self._walk_turns(self._random.randint(*turns))
        if not is_complete:
            return None
        return AuthoredTask(
            id=task_id,
            simulators=self._services,
            configuration=self._configuration,
            turns=self._turns,
            recoveries=self._recoveries,
        )

    def _walk_turns(self, count: int) -> bool:
        """Add this number of turns with calls; return False if a turn found no call that works."""
        for number in range(count):
            self._turns.append([])
            is_recovery = number > 0 and self._random.random() < _RECOVERS and self._add_recovery(number)
            if not is_recovery:
                for _ in range(self._random.choice(_CALLS_IN_A_TURN)):
                    self._add_call(number, self._candidates())
            if not self._turns[-1]:
                return False
        return True

    def _walk_question(self) -> bool:
        """Add one turn with calls that each succeed alone, or no calls.

        Return False if there are fewer calls than drawn, or if a call does not succeed alone.
        """
        # The calls of a question are made at once, so none can use the result of another.
        self._sources.clear()

        self._turns.append([])
        call_count = self._random.choice(_CALLS_OF_A_QUESTION)
        for _ in range(call_count):
            self._add_call(0, self._candidates())

        # Each call must also succeed alone, from the initial state.
        for call in self._turns[0]:
            self._session.take_back(0)
            if not call_succeeded(self._session.call(call.call)):
                return False
        return len(self._turns[0]) == call_count

    def _candidates(self) -> list[str]:
        """Return up to ten functions to try next: functions that can use the last result, then the others.

        Rarely used functions tend to be chosen. Functions that the walk called twice are left out.
        """
        counts = Counter(call.name for call in self._session.calls)
        callable_again = [name for name in self._usable if counts[name] < _MOST_OF_ONE]

        rarest = self._rarest(callable_again, _CANDIDATES)
        last = self._session.calls[-1].name if self._session.calls else None
        fed_by_last = [name for name in rarest if last is not None and self._is_fed(name, last)]
        return [*fed_by_last, *(name for name in rarest if name not in fed_by_last)]

    def _is_fed(self, name: str, producer: str) -> bool:
        """Return True if a result of the function `producer` can be an argument of the function `name`."""
        parameters = self._world.functions[name].parameters
        sources = (source for each in parameters for source in self._sources[f"{name}.{each}"])
        return any(source.partition(".")[0] == producer for source in sources)

    def _add_call(self, turn: int, candidates: Sequence[str]) -> bool:
        """Add one call that succeeds and does something new to the turn; return False if no candidate allows this."""
        for name in candidates:
            for _ in range(_DRAWS):
                planned = self._plan_call(self._world.functions[name])
                if planned.call not in self._session.calls and self._try_call(turn, planned):
                    return True
        return False

    def _try_call(self, turn: int, planned: PlannedCall) -> bool:
        """Execute a planned call and add it to the turn.

        If the call has no new effect or overwrites an earlier call of the turn, undo it and return False.
        """
        call_count = len(self._session.calls)
        texts = {step.result.text for step in self._session.steps}

        step = self._session.call(planned.call)
        if not self._has_new_effect(step, texts) or self._overwrites(step, turn):
            self._session.take_back(call_count)
            return False

        self._call_places.append((turn, len(self._turns[turn])))
        self._turns[turn].append(planned)
        return True

    def _has_new_effect(self, step: Called, texts: set[str]) -> bool:
        """Return True if a call succeeded and did something new.

        A function that writes must change the state; another one must return a text that is not in `texts`.
        """
        if not call_succeeded(step):
            return False
        return bool(step.changes) if self._graph.functions[step.call.name].writes else step.result.text not in texts

    def _overwrites(self, step: Called, turn: int) -> bool:
        """Return True if the last call overwrites all changes of an earlier call of the turn."""
        paths = {change.path for change in step.changes}
        in_turn = len(self._turns[turn])

        # The turn's earlier calls are the last steps before the call itself.
        earlier = self._session.steps[-1 - in_turn : -1]
        return any(each.changes and all(_is_within(change.path, paths) for change in each.changes) for each in earlier)

    def _add_recovery(self, turn: int) -> bool:
        """Add two calls to the turn: the second one fails without the first.

        The error reply to the second call, made too early, is noted. A turn with only the first call is valid, too, and
        has no noted reply. Return False if the turn stays empty.
        """
        pairs = [pair for pair in self._graph.enables if {*pair} <= {*self._usable}]
        self._random.shuffle(pairs)
        for first, second in pairs:
            call_count = len(self._session.calls)
            # The error reply to a first attempt is noted, and the attempt undone: the expected calls succeed.
            early_reply = self._session.call(self._plan_call(self._world.functions[second]).call).result
            self._session.take_back(call_count)

            if early_reply.error and self._add_call(turn, [first]) and self._add_call(turn, [second]):
                self._recoveries[str(turn)] = early_reply.text
                return True
            if self._turns[turn]:
                return True  # the first call alone is a valid turn
        return False

    def _plan_call(self, function: Function) -> PlannedCall:
        """Draw the arguments of a call: all required parameters and some optional ones that have an effect."""
        found = [*available(self._session)]
        graph = self._graph.functions[function.name]
        arguments: dict[str, Argument] = {}

        optional = [name for name in function.parameters if name not in (*function.required, *graph.ignored)]
        chosen = {name for name in optional if self._random.random() < _OPTIONAL}
        if graph.writes and optional and not chosen and not function.required:
            chosen.add(self._random.choice(optional))  # a request for a change says what to change

        for name in function.parameters:
            if name in function.required or name in chosen:
                used_texts = [each.value for each in arguments.values() if isinstance(each.value, str)]
                arguments[name] = self._argument(function, name, found, used_texts)
        return PlannedCall(function=function.name, arguments=arguments)

    def _argument(self, function: Function, name: str, found: Sequence[Atom], used_texts: Sequence[str]) -> Argument:
        """Draw a value and its origin: an earlier result, the state, or a value that the user gives.

        `found` are the values in the session's results and state. A value that the user gives avoids, if possible, the
        texts that the call uses already (`used_texts`): two cities should differ.
        """
        schema = function.parameters[name]
        fitting = self._fitting(found, f"{function.name}.{name}", schema)

        results = [(atom, atom.call) for atom in fitting if atom.call is not None and _can_be_said(atom)]
        last_turn = len(self._turns) - 1
        # A user knows the initial values and the results of earlier turns, but not the results of the same turn.
        shown = {each.value for each in found if each.call is not None and self._call_places[each.call][0] < last_turn}
        known = shown | self._known_from_the_start
        in_state = [atom for atom in fitting if atom.call is None and atom.value in known]

        if results and self._random.random() < _FROM_A_RESULT:
            atom, call = self._random.choice(results)
            return Argument(value=atom.value, source=self._call_places[call], path=[*atom.path], edge=atom.pattern)
        if in_state and self._random.random() < _FROM_THE_STATE:
            atom = self._random.choice(in_state)
            return Argument(value=atom.value, edge=atom.pattern)

        nameable = [atom for atom in found if atom.value in known]
        # The known values that fit each place inside a list or object, such as `relations.*.from`.
        inner = {
            place: self._fitting(nameable, f"{function.name}.{place}", inner_schema)
            for place, inner_schema in places_in(name, schema)
        }
        values_held: Held = {place: [*dict.fromkeys(atom.value for atom in each)] for place, each in inner.items()}
        values = free_values(self._world, function, name, self._random, values_held)
        value = self._random.choice([each for each in values if each not in used_texts] or values)
        return Argument(value=value, inner=_edges_in(value, name, inner))

    def _fitting(self, found: Sequence[Atom], target: str, schema: Mapping[str, JSON]) -> list[Atom]:
        """Return the values among `found` that fit the schema and that an edge of the graph carries to the target.

        The target is a parameter or a place in it, such as `cancel_order.order_id`.
        """
        sources = self._sources[target]
        return [atom for atom in found if atom.pattern in sources and fits(schema, atom.value)]


def _edges_in(value: JSON, place: str, inner: Mapping[str, Sequence[Atom]]) -> dict[str, str]:
    """Return the edges that supplied values inside a list or object, by the values' places.

    For example `{"items.*.id": "create_item.id"}` for the value `[{"id": 7}]` of `items`. `inner` has the values that
    may fill each place; each value knows its edge.
    """
    if isinstance(value, dict):
        below = [(f"{place}.{key}", each) for key, each in value.items()]
    elif isinstance(value, list):
        below = [(f"{place}.*", each) for each in value]
    else:
        edge = next((atom.pattern for atom in inner.get(place, ()) if atom.value == value), None)
        return {} if edge is None else {place: edge}
    return {at: edge for name, each in below for at, edge in _edges_in(each, name, inner).items()}


def _can_be_said(atom: Atom) -> bool:
    """Return True if a user can describe the value's place: a field, or a field of the first item in a list.

    The paths `("order", "id")` and `("items", 0, "id")` can be said, but not `("items", 3, "id")`. A key of a table,
    and a value below such a key, cannot be said either.
    """
    fields = [step for step in atom.pattern.split(".")[1:] if step != "*"]
    is_first_item = all(step == 0 for step in atom.path if isinstance(step, int))
    return is_first_item and fields == [step for step in atom.path if isinstance(step, str)]


def _is_within(path: tuple[object, ...], places: Collection[tuple[object, ...]]) -> bool:
    """Return True if a path is one of the places or below one: a deletion also removes changes below it."""
    return any(path[:length] in places for length in range(1, len(path) + 1))
