"""Find by trial which values feed which parameters, and which functions make others possible.

A value of a result or a state is an atom. Its pattern is the place of all values of its kind, such as
`list_orders.orders.*.id`: the function or simulator, and the path with `*` for each item and `@` for the keys.

1. **Search** (`_Search`). Each function is called in up to 420 attempts, with drawn arguments, in drawn initial states,
   and often after other calls that succeeded. A successful call with the calls that it needs is a witness; three are
   enough. In three rounds, functions that need results of others get their turn
2. **Functions** (`_function`). Each witness is repeated with changed arguments. A parameter is *keyed* if it refuses a
   value that no service holds, and *ignored* if no value changes the result or the state. A function with an ignored
   required parameter is not used, because a wrong value would go unnoticed
3. **Edges**: a value that feeds a parameter, such as `create_order.id` and `cancel_order.order_id`

   | parameter | edge from |
   |---|---|
   | keyed | results and state of the same service, if the parameter accepts one of their values (found: tried) |
   | neither keyed nor ignored | results of any service with the parameter's name and type (found: name) |
   | a place in a list or object | results and state of the same service with a fitting name (found: name) |

4. **Enabling pairs** (`_enabling`): in some initial state, the second function succeeds only after the first
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import cast

import msgspec
from msgspec.structs import replace

from tunecheck.calls import FunctionCall
from tunecheck.episodes import Called, leaves
from tunecheck.plugins import JSON, one_of
from tunecheck_authoring._audit.checks import reports_failure
from tunecheck_authoring._author.files import Edge, GraphFile, GraphFunction
from tunecheck_authoring._author.wording import singular, words_of
from tunecheck_authoring._author.world import (
    Atom,
    Function,
    Schema,
    TrialSession,
    World,
    atoms,
    fits,
    free_values,
    places_in,
    wrong_values,
)

_CONFIGURATIONS = 16
"""Initial states that are drawn to see whether a call works or changes something in another state."""
_ATTEMPTS = (60, 120, 240)
"""Attempts per function in each round. A function may work only after another one was called."""

_WITNESSES = 3
"""Successful calls of a function after which it is not tried any more."""
_MOST_PARAMETERS = 100
"""Functions with more are not tried: each parameter is tried with all others, and such requests are unrealistic."""

_TRIED_VALUES = 3
"""The most values of one pattern that are tried for a parameter."""
# Values that no service holds: a parameter that refuses them accepts only some values.
_JUNK: dict[str, JSON] = {"string": "zq-84-none", "integer": 987_654_321, "number": 987_654_321.5}
_KEYS = frozenset(("id", "name", "number"))
"""Last words of names that identify an object only together with the object's name."""
# Last words of parameters that many functions use with different meanings.
_SAYS_LITTLE = frozenset("message status name type result value data description content text title success".split())


def call_succeeded(step: Called) -> bool:
    """True if a call had no error, reported no failure, and changed the state or returned a value."""
    if step.result.error or reports_failure(step):
        return False
    return bool(step.changes) or any(leaf not in (None, "") for leaf in leaves(step.result.value))


class Witness(msgspec.Struct, frozen=True):
    """A successful call, the calls before it, and the initial configuration."""

    configuration: Mapping[str, JSON]
    before: tuple[FunctionCall, ...]
    call: FunctionCall
    step: Called


class _Search(msgspec.Struct):
    """The results of the trial calls so far.

    `found` has the witnesses of each function, `results` the values in the result of its first success. `seen` has one
    example of each pattern of values in results and states.
    """

    world: World
    random: Random
    found: dict[str, list[Witness]] = msgspec.field(default_factory=dict)
    results: dict[str, list[Atom]] = msgspec.field(default_factory=dict)
    seen: dict[str, Atom] = msgspec.field(default_factory=dict)

    def run(self) -> None:
        """Try the functions in several rounds, until each has enough successful calls or its attempts are used up.

        Functions with too many parameters are left out. At the end, functions with list or object parameters are tried
        again if no success changed the state.
        """
        for attempts in _ATTEMPTS:
            for function in self.world.functions.values():
                for _ in range(attempts if len(function.parameters) <= _MOST_PARAMETERS else 0):
                    if len(self.found.get(function.name, ())) >= _WITNESSES:
                        break
                    self._attempt(function)

        for function in self.world.functions.values():
            self._retry_until_change(function)

    def _retry_until_change(self, function: Function) -> None:
        """Try a function with list or object parameters up to 60 more times, until a successful call changes the state.

        A function without a successful call is not tried. Services also report success if there was nothing to delete.
        """
        has_places = any([*places_in(name, schema)] for name, schema in function.parameters.items())
        for _ in range(_ATTEMPTS[0] if has_places else 0):
            found = self.found.get(function.name, [])
            if not found or any(witness.step.changes for witness in found):
                return
            self.found[function.name] = found[:_WITNESSES]  # without the last attempt's call, which changed nothing
            self._attempt(function)

    @property
    def witnesses(self) -> dict[str, Witness]:
        """The successful call of each function that needs the fewest calls before it."""
        return {name: min(each, key=lambda witness: len(witness.before)) for name, each in self.found.items()}

    def _attempt(self, function: Function) -> None:
        """Try a function once, perhaps after calls that succeeded earlier.

        A success is added to `found`; the values of a function's first success are kept in `results`.
        """
        configuration = self.world.configuration([function.simulator], self.random)
        session = self.world.session([function.simulator], configuration)

        # Half of the attempts start in a fresh state, the others after up to two calls that succeeded before.
        known = [each[0] for name, each in self.found.items() if self.owner(name) == function.simulator]
        for witness in self.random.sample(known, min(len(known), self.random.choice((0, 0, 1, 2)))):
            for call in (*witness.before, witness.call):
                session.call(call)

        # An optional parameter is given in three of ten attempts.
        names = [each for each in function.parameters if each in function.required or self.random.random() < 0.3]
        if not names and function.parameters and self.random.random() < 0.5:
            names = [self.random.choice([*function.parameters])]  # an update without a new value has no effect

        known_atoms = [*available(session)]
        self.seen.update((atom.pattern, atom) for atom in known_atoms)

        arguments = {name: self._value(function, name, known_atoms) for name in names}
        before = tuple(session.calls)
        call = FunctionCall(function.name, arguments)
        step = session.call(call)

        if call_succeeded(step):
            witness = self._without_needless(Witness(configuration, before, call, step))
            self.found.setdefault(function.name, []).append(witness)
            self.results.setdefault(function.name, atoms(step.result.value))

    def _without_needless(self, witness: Witness) -> Witness:
        """Return a successful call (witness) without the earlier calls that its success does not need.

        Each earlier call is left out on trial, on new simulators.
        """
        # The last call is tried first, so that earlier calls that only served it can go, too.
        for at in reversed(range(len(witness.before))):
            fewer = replace(witness, before=(*witness.before[:at], *witness.before[at + 1 :]))
            step = self.repeat(fewer)
            # A call that no longer changes the state is not the same success.
            if call_succeeded(step) and bool(step.changes) == bool(witness.step.changes):
                witness = replace(fewer, step=step)
        return witness

    def _value(self, function: Function, parameter: str, held: Sequence[Atom]) -> JSON:
        """Draw an argument from results, the state or users' values; values with a fitting name are preferred.

        `held` are the values in the session's results and state.
        """
        schema = function.parameters[parameter]
        found = [atom for atom in held if fits(schema, atom.value)]
        named = [atom for atom in found if names_agree(atom.pattern, function.name, parameter)]

        # A value with a fitting name in half of the attempts, any fitting value up to 70%, else a user's value.
        choice = self.random.random()
        if named and choice < 0.5:
            return self.random.choice(named).value
        if found and choice < 0.7:
            return self.random.choice(found).value

        inner = {
            place: [*dict.fromkeys(atom.value for atom in held if fits_place(atom, function.name, place, each))]
            for place, each in places_in(parameter, schema)
        }
        return self.random.choice(free_values(self.world, function, parameter, self.random, inner))

    def repeat(self, witness: Witness, /, **arguments: JSON) -> Called:
        """Repeat a successful call (witness) after the calls that it needs, with some `arguments` changed."""
        return self.prepare(witness).call(_change_call(witness.call, arguments))

    def prepare(self, witness: Witness, *first: FunctionCall) -> TrialSession:
        """Return a session on new simulators after some calls.

        These are the calls `first` and then those that a successful call (witness) needs.
        """
        session = self.world.session([self.owner(witness.call.name)], witness.configuration)
        for call in (*first, *witness.before):
            session.call(call)
        return session

    def works(self, witness: Witness) -> bool:
        """True if a successful call (witness) succeeds again in its configuration, after its earlier calls."""
        return call_succeeded(self.repeat(witness))

    def owner(self, name: str) -> str:
        return self.world.functions[name].simulator


def available(session: TrialSession) -> Iterator[Atom]:
    """Yield the values in the session's results and state; patterns begin with the function's or simulator's name."""
    results = [(step.call.name, step.result.value, at) for at, step in enumerate(session.steps)]
    states = [(name, state, None) for name, state in cast("Mapping[str, object]", session.state).items()]
    for name, value, at in (*results, *states):
        for atom in atoms(value):
            yield Atom(name + atom.pattern, atom.path, atom.value, at)


def names_agree(source: str, function: str, parameter: str) -> bool:
    """Return True if a value's name fits a parameter: `create_ticket.id` and `ticket_id`, `accounts.@` and `account`.

    `source` is the value's pattern; `@` in it means the keys of a table. An `id` must belong to the function's object:
    `cancel_order` takes the id of an order, not of a pet. In the order of the tests:

    1. Keys of a table fit a parameter that has a word of the table's name, other than id, name and number
    2. The last words must be equal, and the value's names must contain all words of the parameter
    3. For id, name and number: the object of the value and that of the parameter or function must share a word
    """
    *outer, last = [part for part in source.split(".") if part not in ("@", "*")]
    parameter_words = _words_of(parameter)
    value_words = _words_of(last)
    outer_words = [word for part in outer for word in _words_of(part)]

    if source.endswith(".@"):
        return not {*value_words}.isdisjoint({*parameter_words} - _KEYS)

    is_named_so = parameter_words and parameter_words[-1:] == value_words[-1:]
    if not is_named_so or not {*parameter_words} <= {*value_words, *outer_words}:
        return False

    # The first word of a function's name is its verb. Without an object on one side, the last words decide.
    owner, target = value_words[:-1] or outer_words, parameter_words[:-1] or _words_of(function)[1:]
    objects_agree = not owner or not target or not {*owner}.isdisjoint(target)
    return objects_agree or value_words[-1] not in _KEYS


def fits_place(atom: Atom, function: str, place: str, schema: Schema) -> bool:
    """True if a value fits a place in a list or object by its name or description (`the name of the entity`).

    By the description, a table's key fits if the description has the last word of the table's name. Another value fits
    if the description has the last word of its name (id, name or number) and the last word of its owner's name.
    """
    if not fits(schema, atom.value):
        return False

    name = place.removesuffix(".*").rpartition(".")[2]
    if names_agree(atom.pattern, function, name):
        return True
    *outer, last = (_words_of(part) for part in atom.pattern.split(".") if part not in ("@", "*"))

    described = {*_words_of(str(schema.get("description") or ""))}
    if atom.pattern.endswith(".@"):
        return bool(last) and last[-1] in described
    owner = last[:-1] or [word for words in outer for word in words]
    return bool(last and owner) and last[-1] in _KEYS & described and owner[-1] in described


def _words_of(name: str) -> list[str]:
    """Return the words in a name in the singular."""
    return [singular(word) for word in words_of(name)]


def find_graph(world: World, seed: int) -> GraphFile:
    """Return the graph of a world's functions, found by trial calls. The seed determines the calls."""
    search = _Search(world, Random(f"graph {seed}"))
    search.run()

    functions = {name: _function(search, each) for name, each in world.functions.items()}
    edges = [*_tried_edges(search, functions), *_name_edges(search, functions), *_inner_edges(search)]
    return GraphFile(functions=functions, edges=edges, enables=[*_enabling(search, functions)])


def keep_own(old: GraphFile, new: GraphFile) -> GraphFile:
    """Return the new graph with the edges that a person added to the old graph."""
    own_edges = [edge for edge in old.edges if edge.found == "own"]
    return GraphFile(functions=new.functions, edges=[*own_edges, *new.edges], enables=new.enables)


def check_graph(graph: GraphFile, world: World) -> None:
    """Check that the edges of an edited graph name existing simulators, functions and parameters.

    Raises:
        ConfigurationError: A name is unknown; the text says which.
    """
    sources = [*world.functions, *world.classes]
    # An edge may lead to a parameter, or to a place inside a list or object.
    targets = [
        f"{name}.{place}"
        for name, function in world.functions.items()
        for each, schema in function.parameters.items()
        for place in (each, *(inner for inner, _ in places_in(each, schema)))
    ]
    for edge in graph.edges:
        one_of(edge.source.partition(".")[0], sources, f"graph.yaml: source of the edge from {edge.source}")
        one_of(edge.target, targets, "graph.yaml: target of an edge")


def _function(search: _Search, function: Function) -> GraphFunction:
    """Return what the trial calls of a function showed: whether it changes the state, and what its parameters accept.

    `problem` is set if conversations cannot use the function.
    """
    witnesses = search.found.get(function.name, [])
    if len(function.parameters) > _MOST_PARAMETERS:
        many = f"the function has {len(function.parameters):,} parameters; a request states at most {_MOST_PARAMETERS}"
        return GraphFunction(simulator=function.simulator, problem=many)
    if not witnesses:
        return GraphFunction(simulator=function.simulator, problem="none of the function's trial calls succeeded")

    # A parameter is keyed if a made-up value makes any successful call (witness) fail. It is ignored only if no witness
    # depends on it.
    keyed = [name for name in function.parameters if any(_is_keyed(search, each, name) for each in witnesses)]
    ignored = [name for name in function.parameters if all(_is_ignored(search, each, name) for each in witnesses)]
    in_vain = sorted(function.required.intersection(ignored))

    return GraphFunction(
        simulator=function.simulator,
        writes=any(witness.step.changes for witness in witnesses) or _writes_elsewhere(search, witnesses[0]),
        keyed=keyed,
        ignored=ignored,
        problem=f"no result depends on {', '.join(in_vain)}, so a wrong value would go unnoticed" if in_vain else None,
    )


def _writes_elsewhere(search: _Search, witness: Witness) -> bool:
    """True if a successful call (witness) changes the state, without an error, in another drawn configuration.

    The call is made alone there, without the calls before it.
    """
    simulator = search.owner(witness.call.name)

    drawn = (search.world.configuration([simulator], search.random) for _ in range(_CONFIGURATIONS))
    steps = (search.repeat(replace(witness, configuration=each, before=())) for each in drawn)
    return any(step.changes and not step.result.error for step in steps)


def _is_keyed(search: _Search, witness: Witness, parameter: str) -> bool:
    """True if a parameter accepts only some values.

    A successful call (witness) then fails with a value that no service holds.
    """
    schema = search.world.functions[witness.call.name].parameters[parameter]
    # Booleans, lists and objects have no value of this kind, so they are never keyed.
    junk = _JUNK.get(str(schema.get("type")))
    return junk is not None and not call_succeeded(search.repeat(witness, **{parameter: junk}))


def _change_call(call: FunctionCall, arguments: Mapping[str, JSON]) -> FunctionCall:
    """Return the call with these arguments added or replaced."""
    return FunctionCall(call.name, {**call.arguments, **arguments})


def _is_ignored(search: _Search, witness: Witness, parameter: str) -> bool:
    """True if none of a few other values of a parameter changes the result or the state of a successful call (witness).

    A mistake in such an argument could not be detected. False if there is no other value to try.
    """
    function = search.world.functions[witness.call.name]
    schema = function.parameters[parameter]

    others = [*free_values(search.world, function, parameter, search.random)]
    if parameter in witness.call.arguments:
        value, base = witness.call.arguments[parameter], witness.step
    else:
        # The call gets the first value, and its outcome is compared with that of the others.
        value = others.pop(0)
        base = search.repeat(witness, **{parameter: value})
    values = [*wrong_values(value, schema), *others]

    # Wrong values come first: one or two, or more for a list or an object.
    steps = (search.repeat(witness, **{parameter: other}) for other in values[: _TRIED_VALUES + 2])
    return bool(values) and all(step.result.text == base.result.text and step.changes == base.changes for step in steps)


def _tried_edges(search: _Search, functions: Mapping[str, GraphFunction]) -> Iterator[Edge]:
    """Yield an edge (a value that feeds a parameter) for each pattern with a value that a parameter accepted on trial.

    The values are results and parts of the state. Only parameters that accept just some values are tried. `functions`
    has what the trial calls of each function showed.
    """
    witnesses = search.witnesses
    for name, graph in functions.items():
        for parameter in graph.keyed:
            found = search.found[name]
            # A witness with the parameter comes first: its own value surely works.
            witness = next((each for each in found if parameter in each.call.arguments), found[0])
            for source in sorted(_sources(search, witnesses, witness, parameter)):
                yield Edge(source=source, target=f"{name}.{parameter}", found="tried")


def _sources(search: _Search, witnesses: Mapping[str, Witness], witness: Witness, parameter: str) -> set[str]:
    """Return the patterns of results and parts of the state with values that a parameter accepts in trial calls.

    The values that each other function of the service returned, and those of the state, replace the argument of a
    successful call (`witness`). `witnesses` has a successful call of each function.
    """
    function = search.world.functions[witness.call.name]
    schema = function.parameters[parameter]
    found: set[str] = set()

    # The state needs no call. A function may have the name of its service.
    calls_before: list[tuple[str, Sequence[FunctionCall]]] = [(function.simulator, ())]
    for name, other in witnesses.items():
        is_of_service = search.owner(name) == function.simulator  # results of other services become edges by name
        if is_of_service and name != function.name and any(fits(schema, atom.value) for atom in search.results[name]):
            calls_before.append((name, (*other.before, other.call)))

    for source, calls in calls_before:
        session = search.prepare(witness, *calls)

        by_pattern: dict[str, list[str | int | float]] = defaultdict(list)
        for atom in available(session):
            is_from_source = atom.pattern.partition(".")[0] == source
            if is_from_source and fits(schema, atom.value) and _is_likely(atom, function.name, parameter):
                by_pattern[atom.pattern].append(atom.value)

        call_count = len(session.calls)
        for pattern, values in by_pattern.items():
            # The value of the successful call comes first, because it surely works if it is among them.
            right_value = witness.call.arguments.get(parameter)
            for value in dict.fromkeys([*(each for each in values if each == right_value), *values[:_TRIED_VALUES]]):
                works = call_succeeded(session.call(_change_call(witness.call, {parameter: value})))
                # The next value is tried in the same state.
                session.take_back(call_count)
                if works:
                    found.add(pattern)
                    break
    return found


def _is_likely(atom: Atom, function: str, parameter: str) -> bool:
    """True unless the value fits only by chance: a parameter may accept any number, also one with another meaning.

    A text is always likely. A number needs a fitting name, or must be an item or a key of a list or table that shares a
    word with the parameter.
    """
    if isinstance(atom.value, str) or names_agree(atom.pattern, function, parameter):
        return True

    is_item_or_key = atom.pattern.endswith((".*", ".@"))
    return is_item_or_key and not {*words_of(atom.pattern)}.isdisjoint({*words_of(parameter)} - _KEYS)


def _name_edges(search: _Search, functions: Mapping[str, GraphFunction]) -> Iterator[Edge]:
    """Yield an edge (a value that feeds a parameter) for each value of a result that has a parameter's name and type.

    The result is that of another function. Left out are keyed and ignored parameters, and names such as `status`, which
    say too little.
    """
    for name, graph in functions.items():
        function = search.world.functions[name]
        for parameter, schema in function.parameters.items():
            words = _words_of(parameter)
            if parameter in graph.keyed or parameter in graph.ignored or _SAYS_LITTLE.intersection(words[-1:]):
                continue

            patterns = dict.fromkeys(
                producer + atom.pattern
                for producer, results in search.results.items()
                for atom in results
                if producer != name
                and fits(schema, atom.value)
                and names_agree(producer + atom.pattern, name, parameter)
            )

            for pattern in patterns:
                yield Edge(source=pattern, target=f"{name}.{parameter}", found="name")


def _inner_edges(search: _Search) -> Iterator[Edge]:
    """Yield an edge (a value that feeds a parameter) to each place inside a list or object parameter.

    The values are fitting results and parts of the state of the same service.
    """
    for function in search.world.functions.values():
        sources = {function.simulator, *(name for name in search.results if search.owner(name) == function.simulator)}
        own_atoms = [each for pattern, each in sorted(search.seen.items()) if pattern.partition(".")[0] in sources]
        for parameter, schema in function.parameters.items():
            for place, each in places_in(parameter, schema):
                for atom in own_atoms:
                    if fits_place(atom, function.name, place, each):
                        yield Edge(source=atom.pattern, target=f"{function.name}.{place}", found="name")


def _enabling(search: _Search, functions: Mapping[str, GraphFunction]) -> Iterator[list[str]]:
    """Yield pairs of functions [first, second]: in some initial state, the second succeeds only after the first.

    A witness is a successful call of a function, with the calls that it needs before it.
    """
    witnesses = search.witnesses
    for simulator in search.world.classes:
        names = [name for name, each in functions.items() if each.simulator == simulator and name in witnesses]
        writers = [name for name in names if functions[name].writes]

        configurations = [search.world.configuration([simulator], search.random) for _ in range(_CONFIGURATIONS)]

        for name in names:
            # The calls that the witness needed are enabling without a further trial.
            enabling = {call.name for call in witnesses[name].before}
            for configuration in configurations:
                alone = replace(witnesses[name], configuration=configuration, before=())
                if not search.works(alone):
                    untried = (writer for writer in writers if writer not in (name, *enabling))
                    enabling |= {
                        each for each in untried if search.works(replace(alone, before=(witnesses[each].call,)))
                    }

            yield from ([writer, name] for writer in sorted(enabling))


def drawing(graph: GraphFile) -> str:
    """Return the graph as a Mermaid diagram; arrows between functions are labelled with results.

    For example `f0 -- "id" --> f1`. Functions are numbered, and labelled with their names. Edges from a simulator's
    state, and pairs of functions that enable each other, are not drawn.
    """
    ids = {name: f"f{number}" for number, name in enumerate(graph.functions)}
    lines = ["flowchart LR"]
    for simulator in dict.fromkeys(function.simulator for function in graph.functions.values()):
        names = [name for name, function in graph.functions.items() if function.simulator == simulator]
        lines += [f'  subgraph "{simulator}"', *(f'    {ids[name]}["{name}"]' for name in names), "  end"]

    carried: dict[tuple[str, str], list[str]] = {}
    for edge in graph.edges:
        (source, _, result), target = edge.source.partition("."), edge.target.partition(".")[0]
        if source in ids and target in ids:
            carried.setdefault((source, target), []).append(result)

    lines += [
        f'  {ids[source]} -- "{", ".join(dict.fromkeys(results))}" --> {ids[target]}'
        for (source, target), results in carried.items()
    ]
    return "\n".join([*lines, ""])
