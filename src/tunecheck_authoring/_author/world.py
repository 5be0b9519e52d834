"""The services of conversations: their functions, initial states, and sessions of calls."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from random import Random
from typing import Any, cast

import msgspec

from tunecheck import ConfigurationError, PluginError
from tunecheck.calls import FunctionCall
from tunecheck.episodes import Called, Player
from tunecheck.plugins import JSON, canonical, convert_value, did_you_mean, fingerprint, parse_yaml
from tunecheck.simulators import Backend, Backends, Simulator, log_value
from tunecheck_authoring._author.files import WorldFile
from tunecheck_authoring._author.wording import request_of

Schema = Mapping[str, JSON]


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


@dataclass(frozen=True, slots=True)
class Function:
    """An operation of a simulator according to its tool definition."""

    name: str
    simulator: str
    request: str
    parameters: Mapping[str, Schema]
    required: frozenset[str]


class TrialSession(Player):
    """Calls on new simulators; `steps` holds the outcome of each call."""

    def __init__(self, world: World, simulators: Sequence[str], configuration: Mapping[str, JSON]) -> None:
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


@dataclass(frozen=True)
class World:
    """Simulators by name, with their world file.

    `spare` holds other simulators, for distractors and for requests that no simulator of the world can carry out.
    """

    classes: Mapping[str, type[Simulator]]
    file: WorldFile
    functions: Mapping[str, Function] = field(default_factory=dict)
    spare: Mapping[str, type[Simulator]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        classes: Mapping[str, type[Simulator]],
        file: WorldFile,
        built_in: Mapping[str, type[Simulator]] | None = None,
    ) -> World:
        """Return the world of an edited file, without the functions that it leaves out.

        `built_in` are simulators that may supply distractors, if they share no function name with the world.

        Raises:
            ConfigurationError: The file names an unknown simulator or function.
        """
        functions = functions_of(classes, file.requests)
        for name in (*file.requests, *file.left_out):
            require_known("world.yaml", "function", name, functions)
        for name in file.configurations:
            require_known("world.yaml", "simulator", name, classes)
        included = {name: function for name, function in functions.items() if name not in file.left_out}
        used_names = {name for simulator in classes.values() for name in simulator.operations()}
        others = {name: each for name, each in (built_in or {}).items() if name not in classes}
        spare = {name: each for name, each in others.items() if used_names.isdisjoint(each.operations())}
        return cls(classes, file, included, spare)

    def known(self, name: str) -> type[Simulator]:
        """Return the class of one of the world's simulators, or of a spare simulator."""
        return self.classes[name] if name in self.classes else self.spare[name]

    def values(self, name: str) -> Sequence[JSON]:
        """Return users' values for `function.parameter` or a parameter: the file's, else the shipped ones, else ()."""
        return self.file.values.get(name) or request_values(self.spare).get(name) or ()

    def backend(self, simulators: Sequence[str], configuration: Mapping[str, JSON]) -> Backend:
        """Return new simulators, loaded from their parts of a configuration.

        Raises:
            ConfigurationError: A simulator cannot start from its part.
        """
        try:
            return Backend.of({name: self.known(name) for name in simulators}, configuration)
        except ConfigurationError:
            raise
        except Exception as error:  # noqa: BLE001 - a user's simulator may raise anything
            raise ConfigurationError(
                f"world.yaml: {' and '.join(simulators)} cannot start from the entries in `configurations` "
                f"({type(error).__name__}: {error}); complete these entries"
            ) from None

    def session(self, simulators: Sequence[str], configuration: Mapping[str, JSON]) -> TrialSession:
        return TrialSession(self, simulators, configuration)

    def configuration(self, simulators: Sequence[str], random: Random) -> dict[str, JSON]:
        """Draw a configuration for these simulators from the file's."""
        known = {**load_shipped().configurations, **self.file.configurations}
        return {name: draw_value(known.get(name, {}), random) for name in simulators}

    def fingerprint(self) -> JSON:
        """Return the fingerprints of the simulators."""
        return {name: fingerprint(simulator) for name, simulator in self.classes.items()}


def require_known(where: str, kind: str, name: str, known: Collection[str]) -> None:
    """Raise ConfigurationError with a suggestion if a name of an edited file is not in `known`."""
    if name not in known:
        raise ConfigurationError(f"{where}: there is no {kind} {name!r}{did_you_mean(name, known)}")


def find_world(names: Sequence[str], backends: Backends) -> dict[str, type[Simulator]]:
    """Return the simulators with these plugin names.

    Raises:
        PluginError: A simulator is missing, or two offer an operation of the same name.
    """
    classes = {name: backends.find(name) for name in dict.fromkeys(names)}
    owners: dict[str, str] = {}
    for name, simulator in classes.items():
        for operation in simulator.operations():
            if operation in owners:
                raise PluginError(f"{owners[operation]} and {name} both have operation {operation!r}; use only one")
            owners[operation] = name
    return classes


def describe_world(classes: Mapping[str, type[Simulator]]) -> WorldFile:
    """Return a first world file for simulators.

    It has initial states, users' values, and a request for each function.
    """
    functions = functions_of(classes, {})
    parameters = {name for each in functions.values() for name in each.parameters}
    return WorldFile(
        simulators=[*classes],
        configurations={name: _configuration(name, simulator) for name, simulator in classes.items()},
        values={
            name: values
            for name, values in request_values(classes).items()
            if (name.partition(".")[0] in functions if "." in name else name in parameters)
        },
        requests={name: function.request for name, function in functions.items()},
    )


def functions_of(classes: Mapping[str, type[Simulator]], requests: Mapping[str, str]) -> dict[str, Function]:
    """Return the functions of simulators by name. `requests` replaces the request made from a description."""
    functions: dict[str, Function] = {}
    for owner, simulator in classes.items():
        for definition in simulator.tool_definitions():
            document = cast("Mapping[str, JSON]", definition["function"])
            name, schema = str(document["name"]), cast("Mapping[str, JSON]", document["parameters"])
            description = str(document.get("description") or "")
            parameters = cast("Mapping[str, Schema]", schema.get("properties") or {})
            chooses = any(each.get("type") == "boolean" or "enum" in each for each in parameters.values())
            request = requests.get(name) or request_of(name, description, chooses=chooses)
            required = frozenset(cast("list[str]", schema.get("required") or []))
            functions[name] = Function(name, owner, request, parameters, required)
    return functions


def draw_value(value: JSON, random: Random) -> JSON:
    """Draw the random parts of a configuration's value: `$one_of`, `$some`, `$between`."""
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
    sample = simulator.sample() or load_shipped().configurations.get(name)
    if sample:
        return dict(sample)
    try:
        state = {key: log_value(value) for key, value in _load(simulator, {}).state().items()}
        reloaded = {key: log_value(value) for key, value in _load(simulator, state).state().items()}
    except Exception:  # noqa: BLE001 - a user's simulator may refuse the configuration with any exception
        return {}
    return state if canonical(reloaded) == canonical(state) else {}


def _load(simulator: type[Simulator], configuration: Mapping[str, JSON]) -> Simulator:
    fresh = simulator()
    fresh.load(configuration)
    return fresh
