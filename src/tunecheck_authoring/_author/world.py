"""The services of conversations: functions, initial states, sessions of calls, and plausible values of parameters.

**A value for a parameter** (`free_values`). The first source with a value that fits the schema wins:

1. the world file's `values` for `function.parameter`, then for the parameter; without them, the shipped ones
2. values that the services hold for a place inside a list or object, in 70% of the cases
3. the schema's `enum`
4. the schema's `example`, then its `examples`
5. shipped values for the schema's `format`, such as `date`
6. examples in the description: `"Buy" or 'Sell'`, `as 2024-09-30`
7. shipped values for a word of the parameter's name, after a word of the function's or alone: `directory path` and
   `path` for `path` of `list_directory`
8. values of the schema's type, within its limits

**Random parts of a configuration** (`draw_value`):

| in the file | drawn |
|---|---|
| `{"$one_of": ["open", "closed"]}` | one of the values |
| `{"$some": [1, 2, 3, 4]}`, or an object | at least half of the items, in their order |
| `{"$between": [1, 6]}` | an integer from 1 to 6 |
| `{"$between": [0.5, 2]}` | a number with two decimals |
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import islice
from random import Random
from types import MappingProxyType
from typing import Any, cast

import msgspec

from tunecheck import ConfigurationError, PluginError
from tunecheck.calls import FunctionCall
from tunecheck.episodes import Called, Player
from tunecheck.plugins import JSON, canonical, convert_value, fingerprint, one_of, parse_yaml, real_number
from tunecheck.simulators import Backend, Backends, Simulator
from tunecheck_authoring._author.files import WorldFile
from tunecheck_authoring._author.wording import request_of, singular, words_of

Schema = Mapping[str, JSON]
Classes = Mapping[str, type[Simulator]]
"""Simulators by name."""


class Shipped(msgspec.Struct, frozen=True):
    """The content of `shipped.yaml`.

    `configurations` are initial states by simulator, `values` are users' values for their parameters. `by_word` and
    `by_format` hold values by a word in the parameter's name, and by the schema's format. `notes` are the parts of the
    lines that fill a long context; `personas` describe users.
    """

    configurations: dict[str, dict[str, Any]]
    values: dict[str, list[Any]]
    by_word: dict[str, list[Any]]
    by_format: dict[str, list[Any]]
    notes: dict[str, list[str]]
    personas: dict[str, str]


@functools.cache
def load_shipped() -> Shipped:
    """Return the content of `shipped.yaml`, which is read only once."""
    text = files("tunecheck_authoring._author").joinpath("shipped.yaml").read_bytes()
    return convert_value(parse_yaml(text, "shipped.yaml"), Shipped)


def request_values(classes: Collection[str]) -> Mapping[str, list[JSON]]:
    """Return users' values for the built-in simulators' parameters; an empty mapping if none of them is used."""
    return load_shipped().values if load_shipped().configurations.keys() & {*classes} else {}


class Function(msgspec.Struct, frozen=True):
    """An operation of a simulator according to its tool definition."""

    name: str
    simulator: str
    request: str
    parameters: Mapping[str, Schema]
    required: frozenset[str]


class TrialSession(Player):
    """Calls on new simulators; `steps` holds the outcome of each call."""

    def __init__(self, world: World, simulators: Sequence[str], configuration: Mapping[str, JSON]) -> None:
        """Start these simulators in the initial state of a drawn configuration."""
        self._begin = functools.partial(world.backend, simulators, configuration)
        self.steps: list[Called] = []
        super().__init__(self._begin())

    @property
    def calls(self) -> list[FunctionCall]:
        return [step.call for step in self.steps]

    def call(self, call: FunctionCall) -> Called:
        """Make a call; its result may be an error."""
        self.steps.append(super().call(call))
        return self.steps[-1]

    def take_back(self, count: int) -> None:
        """Undo all but the first `count` calls.

        These are replayed on new simulators, because a saved state may lack some of their effects.
        """
        calls, self.steps = self.calls[:count], []
        super().__init__(self._begin())
        for call in calls:
            self.call(call)


class World(msgspec.Struct, frozen=True):
    """Simulators by name, with their world file.

    `spare` holds other simulators, for distractors and for requests that no simulator of the world can carry out.
    """

    classes: Classes
    file: WorldFile
    functions: Mapping[str, Function] = msgspec.field(default_factory=dict)
    spare: Classes = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, classes: Classes, file: WorldFile, built_in: Classes | None = None) -> World:
        """Return the world of an edited file, without the functions that it leaves out.

        `built_in` are simulators that may supply distractors.

        Raises:
            ConfigurationError: The file names an unknown simulator or function.
        """
        functions = functions_of(classes, file.requests)
        for name in (*file.requests, *file.left_out):
            one_of(name, [*functions], "world.yaml: function")
        for name in file.configurations:
            one_of(name, [*classes], "world.yaml: simulator")
        included = {name: function for name, function in functions.items() if name not in file.left_out}
        spare = {name: each for name, each in (built_in or {}).items() if name not in classes}
        return cls(classes, file, included, spare)

    def class_of(self, name: str) -> type[Simulator]:
        """Return the class of one of the world's simulators, or of a spare simulator."""
        return self.classes[name] if name in self.classes else self.spare[name]

    def values(self, name: str) -> Sequence[JSON]:
        """Return users' values for `function.parameter` or a parameter: those of the file, else shipped ones, else ().

        Shipped values serve the spare simulators, so they count only if one of these is built in.
        """
        return self.file.values.get(name) or request_values(self.spare).get(name) or ()

    def backend(self, simulators: Sequence[str], configuration: Mapping[str, JSON]) -> Backend:
        """Return new simulators, loaded from their parts of a configuration.

        Raises:
            ConfigurationError: A simulator cannot start from its part.
        """
        try:
            return Backends({name: self.class_of(name) for name in simulators}).start(simulators, configuration)
        except Exception as error:  # noqa: BLE001 - a user's simulator may raise anything
            reason = error if isinstance(error, ConfigurationError) else f"{type(error).__name__}: {error}"
            problem = f"world.yaml: the simulators {' and '.join(simulators)} cannot start from `configurations`"
            raise ConfigurationError(f"{problem} ({reason}); correct or add their entries") from None

    def session(self, simulators: Sequence[str], configuration: Mapping[str, JSON]) -> TrialSession:
        return TrialSession(self, simulators, configuration)

    def configuration(self, simulators: Sequence[str], random: Random) -> dict[str, JSON]:
        """Draw initial states for these simulators: from the world file, else the shipped ones, else empty."""
        known = {**load_shipped().configurations, **self.file.configurations}
        return {name: draw_value(known.get(name, {}), random) for name in simulators}


def fingerprints(classes: Classes) -> JSON:
    """Return the fingerprint of each simulator; None for one that has none."""
    return {name: fingerprint(simulator) for name, simulator in classes.items()}


def find_world(names: Sequence[str], backends: Backends) -> dict[str, type[Simulator]]:
    """Return the simulators with these names, which plug-ins or the workspace register.

    Raises:
        PluginError: A simulator is missing, or two offer an operation of the same name.
    """
    classes = {name: backends.find(name) for name in dict.fromkeys(names)}

    owners: dict[str, str] = {}
    for name, simulator in classes.items():
        for operation in simulator.operations():
            owner = owners.setdefault(operation, name)
            if owner != name:
                both = f"simulators {owner} and {name} both have a function {operation!r}"
                raise PluginError(f"{both}; leave one of the simulators out")
    return classes


def describe_world(classes: Classes) -> WorldFile:
    """Return a first world file for simulators.

    It has initial states, users' values, and a request for each function.
    """
    functions = functions_of(classes, {})

    # Values are by `function.parameter` or by the parameter alone.
    known = {*functions, *(name for each in functions.values() for name in each.parameters)}
    return WorldFile(
        simulators=[*classes],
        configurations={name: _configuration(name, simulator) for name, simulator in classes.items()},
        values={name: each for name, each in request_values(classes).items() if name.partition(".")[0] in known},
        requests={name: function.request for name, function in functions.items()},
    )


def functions_of(classes: Classes, requests: Mapping[str, str]) -> dict[str, Function]:
    """Return the functions of simulators by name. `requests` replaces the request made from a description.

    A request is the function in a user's words, such as "cancel an order".
    """
    functions: dict[str, Function] = {}
    for owner, simulator in classes.items():
        for definition in simulator.tool_definitions():
            document = cast("Mapping[str, JSON]", definition["function"])
            name, schema = str(document["name"]), cast("Mapping[str, JSON]", document["parameters"])

            description = str(document.get("description") or "")
            parameters = cast("Mapping[str, Schema]", schema.get("properties") or {})
            # If a parameter decides between actions, the request keeps all of them.
            chooses = any(each.get("type") == "boolean" or "enum" in each for each in parameters.values())
            request = requests.get(name) or request_of(name, description, chooses=chooses)

            required = frozenset(cast("list[str]", schema.get("required") or []))
            functions[name] = Function(name, owner, request, parameters, required)
    return functions


def draw_value(value: JSON, random: Random) -> JSON:
    """Return a configuration's value with its random parts drawn.

    `$one_of` gives one of the values, `$some` at least half of the entries in their order, and `$between` a number from
    the first limit to the second one.
    """
    if isinstance(value, list):
        return [draw_value(each, random) for each in value]
    if not isinstance(value, dict):
        return value

    match value:
        case {"$one_of": [*choices]} if choices:
            return draw_value(random.choice(choices), random)
        case {"$some": [*items]} if items:
            chosen = sorted(random.sample(range(len(items)), random.randint((len(items) + 1) // 2, len(items))))
            return [draw_value(items[at], random) for at in chosen]
        case {"$some": dict() as entries} if entries:
            names = random.sample([*entries], random.randint((len(entries) + 1) // 2, len(entries)))
            return {name: draw_value(each, random) for name, each in entries.items() if name in names}
        case {"$between": [int() as low, int() as high]}:
            return random.randint(low, high)
        case {"$between": [int() | float() as low, int() | float() as high]}:
            return round(random.uniform(low, high), 2)
    return {name: draw_value(each, random) for name, each in value.items()}


def _configuration(name: str, simulator: type[Simulator]) -> dict[str, JSON]:
    """Return an initial configuration: the simulator's own sample, a shipped one, or the state of a new instance.

    The state is used only if a simulator loaded from it has the same state; otherwise the configuration is empty.
    """
    # A sample of the simulator's own class comes first, because it fits the service.
    sample = simulator.sample() or load_shipped().configurations.get(name)
    if sample:
        return dict(sample)

    try:
        fresh, reloaded = simulator(), simulator()
        fresh.load({})
        state = fresh.state_text()
        reloaded.load(state)
        return state if canonical(reloaded.state_text()) == canonical(state) else {}
    except Exception:  # noqa: BLE001 - a user's simulator may refuse the configuration with any exception
        return {}


# -- values

Place = tuple["str | int", ...]
"""The keys and positions that lead to a value, such as `("orders", 7, "id")`."""

Values = Sequence[JSON]
Held = Mapping[str, Values]
"""Values that services hold, by the places in lists and objects that they fit."""
_NONE_HELD: Held = MappingProxyType({})

# The examples in a description: `"Buy" or 'Sell'`, `as 2024-09-30`.
_QUOTED = re.compile(r'"([^"]{1,40})"|(?<!\w)\'([^\'\s]{1,40})\'(?!\w)')
_AS = re.compile(r"\bas ([A-Z0-9][\w:/.+-]{2,25})")
_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
_MOST_PLACES = 2_000
"""The most values of one result or state."""
_SHARE_OF_HELD_VALUES = 0.7
"""How often a value that the services hold is used, so that calls often concern existing records."""
_PLAIN: dict[str, list[JSON]] = {
    "string": ["north wing", "second shelf", "blue folder"],
    "integer": [2, 3, 7, 12],
    "number": [2, 4.5, 12, 30],
    "boolean": [True, False],
}


class Atom(msgspec.Struct, frozen=True):
    """A value without parts: `path` is its place, `pattern` the place of all values of its kind.

    `call` is the number of the call that returned it; None for a value of the state.

    In a pattern, `*` means each item and `@` the keys. The state `{"pets": {"7": {"name": "Rex"}, "8": {"name":
    "Ada"}}}` has the patterns `.pets.@` (values 7 and 8) and `.pets.*.name` (Rex and Ada).
    """

    pattern: str
    path: Place
    value: str | int | float
    call: int | None = None


def atoms(value: object) -> list[Atom]:
    """Return the values in a result or a state that may be arguments, at most `_MOST_PLACES`.

    Empty texts, booleans and null are left out.
    """
    return [*islice(_atoms(value, "", ()), _MOST_PLACES)]


def _atoms(value: object, pattern: str, path: Place) -> Iterator[Atom]:
    """Yield the single values inside a value, with their patterns and paths. The keys of tables are values, too.

    A pattern is the place of all values of one kind: `*` means any item and `@` any key of a table.
    """
    if isinstance(value, Mapping):
        is_table = _is_table(value)
        for key, item in value.items():
            name = key if isinstance(key, (str, int)) else str(key)
            if is_table and name != "":
                yield Atom(f"{pattern}.@", (*path, name), name)
            yield from _atoms(item, _below(pattern, "*" if is_table else str(name)), (*path, name))
    elif isinstance(value, (list, tuple)):
        for at, item in enumerate(value):
            yield from _atoms(item, _below(pattern, "*"), (*path, at))
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool) and value != "":
        yield Atom(pattern, path, value)


def _below(pattern: str, step: str) -> str:
    """Return the pattern of a child. Items inside items (folders in folders) have the pattern of the outer ones."""
    return pattern if step == "*" and pattern.endswith(".*") else f"{pattern}.{step}"


def _is_table(value: Mapping[object, object]) -> bool:
    """True if the keys name items, such as ids, not fields: several items are all objects, or a key is no field's name.

    Keys that are no fields' names: `7`, `Rome`, `north wing`, `a.txt`.
    """
    if len(value) > 1 and all(isinstance(item, Mapping) for item in value.values()):
        return True
    return any(not isinstance(key, str) or re.match(r"[^a-zA-Z_]|[A-Z][a-z]*$|.*[. ]", key) for key in value)


def fits(schema: Schema, value: JSON) -> bool:
    """True if a value is in the schema's enum or, without an enum, has its type. An unknown type fits any value."""
    kind = schema.get("type")

    if "enum" in schema:
        return value in cast("list[JSON]", schema["enum"])
    if not isinstance(kind, str) or kind not in _KINDS:
        return True

    # True is an instance of int, but does not fit a number.
    return isinstance(value, _KINDS[kind]) and (isinstance(value, bool) == (kind == "boolean"))


def places_in(name: str, schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield the places of single values inside a list or object, such as `relations.*.from`, with their schemas."""
    inner: dict[str, Schema] = {}
    if schema.get("type") == "array":
        inner = {f"{name}.*": {"description": schema.get("description"), **cast("Schema", schema.get("items") or {})}}
    elif schema.get("type") == "object":
        properties = cast("Mapping[str, Schema]", schema.get("properties") or {})
        inner = {f"{name}.{key}": each for key, each in properties.items()}

    for place, each in inner.items():
        yield from places_in(place, each) if each.get("type") in ("array", "object") else [(place, each)]


def free_values(world: World, function: Function, parameter: str, random: Random, held: Held = _NONE_HELD) -> Values:
    """Return values that a user may give for a parameter: those of the world file, else plausible ones.

    `held` are values that the services hold, by the places inside the parameter that they fit.
    """
    schema = function.parameters[parameter]
    for name in (f"{function.name}.{parameter}", parameter):
        known = [value for value in world.values(name) if fits(schema, value)]
        if known:
            return known

    return plain_values(parameter, schema, random, function.name, held)


def plain_values(place: str, schema: Schema, random: Random, function: str = "", held: Held = _NONE_HELD) -> Values:
    """Return plausible values for a place, such as `relations.*.from`, according to its last name and its schema.

    `function` is the name of the function, which may decide between values. `held` has values of the services by place;
    those for this place are often returned instead.
    """
    if held.get(place) and random.random() < _SHARE_OF_HELD_VALUES:
        return held[place]

    # The last name counts: `from` in `relations.*.from`, and its singular in `names.*`.
    *_, last = (part for part in place.split(".") if part != "*")
    name = singular(last) if place.endswith(".*") else last

    description = str(schema.get("description") or "") if schema.get("type") == "string" else ""
    described: list[JSON] = [double or single for double, single in _QUOTED.findall(description)]
    described = described or [*_AS.findall(description)]
    by_format = load_shipped().by_format.get(str(schema.get("format")), [])

    # The first source with a fitting value wins; the most specific sources come first.
    stated = [as_list(schema.get("enum")), [schema.get("example")], as_list(schema.get("examples"))]
    known: list[Sequence[JSON]] = [*stated, by_format, described]
    # `directory path` comes before `path` for the parameter `path` of `list_directory`.
    subjects = [f"{singular(each)} " for each in words_of(function)]
    words = [each for word in words_of(name) for each in (word, singular(word))]
    known += (load_shipped().by_word.get(about + word, []) for about in (*subjects, "") for word in words)

    for values in known:
        fitting = [value for value in values if value is not None and fits(schema, value)]
        if fitting:
            return fitting
    return _values_by_type(place, schema, random, function, held)


def as_list(value: JSON) -> list[JSON]:
    """Return the value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def _values_by_type(place: str, schema: Schema, random: Random, function: str, held: Held) -> Sequence[JSON]:
    """Return values of the schema's type. Numbers respect its limits; lists and objects get plausible parts.

    A list has up to two items. An object has its required fields, or else its first two. Without a maximum, a number is
    at most 50 above the minimum. Without a minimum, it begins at 0, or 50 below a negative maximum. `held` has values
    of the services by place.
    """
    kind = schema.get("type")
    if kind == "array":
        items = cast("Schema", schema.get("items") or {})
        choices = plain_values(f"{place}.*", items, random, function, held)
        return [random.sample([*choices], min(2, len(choices))) for _ in range(3)]

    if kind == "object":
        properties = cast("Mapping[str, Schema]", schema.get("properties") or {})
        required = {str(each) for each in as_list(schema.get("required"))}
        chosen = [key for key in properties if key in required] or [*properties][:2]

        example: dict[str, JSON] = {}
        for key in chosen:
            values = plain_values(f"{place}.{key}", properties[key], random, function, held)
            fresh = [each for each in values if each not in example.values()]
            # If every value is used already, leave out `held`, which would offer the same values again.
            example[key] = random.choice(fresh or plain_values(key, properties[key], random, function))
        return [example]

    if kind in ("integer", "number") and ("minimum" in schema or "maximum" in schema):
        lower, upper = real_number(schema.get("minimum")), real_number(schema.get("maximum"))
        if lower is None:
            lower = 0 if upper is None or upper >= 0 else upper - 50
        if upper is None:
            upper = lower + 50

        low, high = math.ceil(lower), math.floor(upper)
        if kind == "number" and low > high:  # no whole number lies between the limits
            return [random.uniform(lower, upper) for _ in range(3)]
        return [random.randint(low, max(low, high)) for _ in range(3)]

    return _PLAIN.get(str(kind), _PLAIN["string"])


def wrong_values(value: JSON, schema: Schema) -> list[JSON]:
    """Return wrong values for an argument that are close to the right one and have its type.

    They test whether a row notices a mistake: 8 for 7, `Rome 2` for `Rome`, `["a", "b 2"]` for `["a", "b"]`.
    Lists and objects with several entries also lose one. Null, and an empty list or object, give no wrong value.
    """
    if isinstance(schema.get("enum"), list):
        # Callers take the first values: another listed value, then a text that is not listed.
        allowed = [each for each in as_list(schema["enum"]) if each != value][:3]
        return [*allowed[:1], *([f"{value} 2"] if isinstance(value, str) else []), *allowed[1:]]

    if isinstance(value, bool):
        return [not value]
    if isinstance(value, (int, float)):
        return [value + 1]
    if isinstance(value, str):
        return [f"{value} 2"]

    if isinstance(value, list):
        last = [[*value[:-1], other] for other in (wrong_values(value[-1], {}) if value else [])]
        return [*([value[:-1]] if len(value) > 1 else []), *last]
    if isinstance(value, dict):
        changed = [{**value, key: other} for key, each in value.items() for other in wrong_values(each, {})]
        return [*changed, *({name: value[name] for name in value if name != key} for key in value if len(value) > 1)]
    return []
