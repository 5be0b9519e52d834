"""Simulators: small stateful services with operations that a model calls as tools.

    class Counter(Simulator):
        def load(self, config, *, long_context=None):
            self.value = int(config.get("value", 0))

        def state(self):
            return {"value": self.value}

        @tool
        def add(self, amount: int = 1) -> dict[str, int]:
            '''Add to the counter.

            Args:
                amount: How much to add.
            '''
            self.value += amount
            return {"value": self.value}

Every attempt at a conversation makes, loads and discards its own instance. Instances are never shared, so they need no
locks and may keep all data in plain attributes. The `Backend` of an attempt has its instances and executes the calls:

1. A call of an unknown operation fails, also each call of a simulator with a call that exceeded its time limit.
2. Calls among the arguments are made first. If one fails, the outer call fails with the same text.
3. The arguments are bound to the operation's parameters, positional ones first.
4. The operation runs: at once if the simulator is `bounded` and the method is not async, else in a thread.
5. The result is an error if the operation raises, exceeds the time limit, or returns a dict with an `error`.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import json
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import ClassVar, TypeVar, cast

import msgspec

from tunecheck._errors import DataError, PluginError
from tunecheck._json import JSON, SCALAR_TYPES
from tunecheck._loops import LateError, Threads
from tunecheck._messages import did_you_mean
from tunecheck._trust import Trust
from tunecheck.calls._model import FunctionCall, kind_of, positional_count, quoted
from tunecheck.plugins import Candidate, discover, find

TOOL_MARK = "__tunecheck_tool__"
"""Attribute of methods that are marked with `tool`."""

# The JSON type of each Python type; a set is written as an array.
_SCALARS: dict[object, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    tuple: "array",
    set: "array",
    dict: "object",
    type(None): "null",
}
# A parameter's line below `Args:`: "amount: How much to add." or "amount (int, optional): How much to add."
_ARGUMENT = re.compile(r"(\w+)\s*(?:\([^)]*\))?:\s*(.*)")

_Method = TypeVar("_Method", bound=Callable[..., object])
_Value = TypeVar("_Value")


class SimulatorError(Exception):
    """An operation cannot be done; the model gets the text as `{"error": text}`."""


def tool(method: _Method) -> _Method:
    """Mark a method as an operation that a model may call by the method's name.

    The tool definition is made from the typed parameters and the docstring: the first paragraph describes the
    operation, and each line `name: text` below `Args:` describes a parameter. Parameters without a default are
    required.
    """
    setattr(method, TOOL_MARK, True)
    return method


class Simulator:
    """Base of all simulators. Subclasses define `load`, `state` and methods marked with `tool`.

    An operation gets its arguments as plain JSON values, bound to its parameters by name or position. Their types are
    not checked, because a model may pass anything. The model sees the return value: text unchanged, a dict as JSON,
    other values as Python's str. An operation refuses with `SimulatorError`; any other exception is an error result,
    too. Callers may keep or pass on arguments and return values, so copy what must not change.
    """

    bounded: ClassVar[bool] = False
    """True if every operation ends soon for all arguments. Calls then need no thread, except those of async methods."""

    def load(self, config: Mapping[str, JSON], *, long_context: Mapping[str, JSON] | None = None) -> None:
        """Start from this configuration; copy the parts that are kept. Simulators with data override this method.

        `config` is empty if the data has none for this simulator. `long_context` holds constants that extend states and
        answers of rows with long context, else None. Many simulators share the constants, so do not change them.

        Raises:
            DataError: the configuration is invalid; the text says where and why.
        """

    def state(self) -> dict[str, object]:
        """Return the state to compare after each turn: plain data by name, sets allowed.

        Simulators with data override this method. The result may refer to the live state: callers do not change it.
        """
        return {}

    def state_text(self) -> dict[str, JSON]:
        """Return a copy of the state for the inference log: JSON values, or text for values without a JSON form."""
        return {name: log_value(value) for name, value in self.state().items()}

    @classmethod
    def sample(cls) -> Mapping[str, JSON]:
        """Return a configuration for conversations of `datasets author`; it may be random."""
        return {}

    @classmethod
    def operations(cls) -> Mapping[str, Operation]:
        """Return the operations by name: the class's own in source order, then inherited ones."""
        return operations_of(cls)  # type: ignore[arg-type]  # classes are hashable, whatever mypy says

    @classmethod
    def tool_definitions(cls) -> list[dict[str, JSON]]:
        """Return an OpenAI tool (`{"type": "function", "function": {"name", …}}`) for each operation."""
        return [tool_definition(operation) for operation in cls.operations().values()]


_NESTED = (list, dict)


def copy_json(value: _Value) -> _Value:
    """Return a copy of JSON data that shares no list or object with the original."""
    # A call for each text and number would take most of the time.
    if isinstance(value, list):
        if SCALAR_TYPES.issuperset(map(type, value)):  # faster for long lists, such as BFCL's
            return value.copy()  # type: ignore[return-value]
        return [copy_json(item) if isinstance(item, _NESTED) else item for item in value]  # type: ignore[return-value]
    if isinstance(value, dict):
        if SCALAR_TYPES.issuperset(map(type, value.values())):
            return dict(value)  # type: ignore[return-value]
        copied = {key: copy_json(item) if isinstance(item, _NESTED) else item for key, item in value.items()}
        return copied  # type: ignore[return-value]
    return value


def log_value(value: object) -> JSON:
    """Return a copy of a state's value as JSON, or its text if it has no JSON form."""
    try:
        copy: JSON = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return str(value)
    return copy


class ArgumentError(Exception):
    """Unknown or missing arguments of an operation; the text names them."""


class Operation(msgspec.Struct, frozen=True):
    """One operation: its name, its method, its parameters in order, and the required ones.

    `positional` is the number of parameters that may be given by position. `is_async`: the method is an `async def`.
    """

    name: str
    method: Callable[..., object]
    parameters: tuple[str, ...]
    required: tuple[str, ...]
    positional: int
    is_async: bool = False

    def bind(self, positional: Sequence[JSON], named: Mapping[str, JSON]) -> dict[str, JSON]:
        """Return a call's arguments by parameter name, without defaults.

        Raises:
            ArgumentError: too many arguments, an unknown or repeated one, or a missing required one.
        """
        # Most calls: all arguments have names, and fit.
        if (
            not positional
            and all(map(self.parameters.__contains__, named))
            and all(map(named.__contains__, self.required))
        ):
            return dict(named)

        # Too many positional arguments are cut off here, and refused below.
        bound = dict(zip(self.parameters[: self.positional], positional, strict=False))

        for name, value in named.items():
            if name in bound:
                raise ArgumentError(f"{self.name}: the argument {quoted(name)} is given twice")
            if name not in self.parameters:
                hint = did_you_mean(name[:100], self.parameters)
                raise ArgumentError(f"{self.name} has no parameter {quoted(name)}{hint}")
            bound[name] = value

        if len(positional) > self.positional:
            raise ArgumentError(f"{self.name} takes {self.positional} positional arguments, {len(positional)} given")

        missing = [name for name in self.required if name not in bound]
        if missing:
            raise ArgumentError(f"{self.name} needs {', '.join(map(repr, missing))}")
        return bound


@functools.cache
def operations_of(simulator: type) -> Mapping[str, Operation]:
    """Return the operations of a class by name: its methods that are marked as tools, with those of its bases.

    A method that a subclass overrides is an operation only if the overriding method is marked.
    """
    operations: dict[str, Operation] = {}

    # The first class that defines a name decides: a subclass, or the base nearest to it.
    for owner in simulator.__mro__:
        for name, method in vars(owner).items():
            if getattr(method, TOOL_MARK, False) and name not in operations and getattr(simulator, name) is method:
                operations[name] = _operation(name, method)
    return types.MappingProxyType(operations)


def _operation(name: str, method: Callable[..., object]) -> Operation:
    """Return the operation of a method that is marked as a tool.

    Raises:
        PluginError: the method has *args, **kwargs or positional-only parameters.
    """
    parameters = list(inspect.signature(method).parameters.values())[1:]  # without self
    by_position = [parameter for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    by_name = [parameter for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    if len(by_position) + len(by_name) < len(parameters):
        raise PluginError(f"the tool {method.__qualname__} has *args, **kwargs or '/': name its parameters one by one")

    required = tuple(parameter.name for parameter in parameters if parameter.default is parameter.empty)
    names = tuple(parameter.name for parameter in (*by_position, *by_name))
    return Operation(name, method, names, required, len(by_position), inspect.iscoroutinefunction(method))


def tool_definition(operation: Operation) -> dict[str, JSON]:
    """Return a new OpenAI tool made from an operation's signature and docstring.

    Raises:
        PluginError: an annotation names a type that does not exist.
    """
    return copy.deepcopy(_definition(operation))


@functools.cache
def _definition(operation: Operation) -> dict[str, JSON]:
    """Return the OpenAI tool of an operation; cached, so callers must not change it.

    For `def add(self, amount: int = 1)`, `properties` is {"amount": {"type": "integer", "default": 1}}; descriptions of
    the function and of its parameters come from the docstring. A parameter without a type accepts any value.

    Raises:
        PluginError: a type annotation cannot be resolved.
    """
    try:
        hints = typing.get_type_hints(operation.method)
    except (NameError, TypeError, AttributeError) as error:
        raise PluginError(f"the type hints of the tool {operation.method.__qualname__} are wrong: {error}") from None

    description, arguments = _docstring(inspect.getdoc(operation.method) or "")
    defaults = inspect.signature(operation.method).parameters

    properties: dict[str, JSON] = {}
    for name in operation.parameters:
        schema = type_schema(hints.get(name, object))

        if arguments.get(name):
            schema["description"] = arguments[name]

        # Other defaults, such as None and objects, are not shown to the model.
        default = defaults[name].default
        if isinstance(default, (str, int, float, bool)):
            schema["default"] = default
        properties[name] = schema

    parameters: dict[str, JSON] = {"type": "object", "properties": properties, "required": list(operation.required)}
    function: dict[str, JSON] = {"name": operation.name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def type_schema(hint: object) -> dict[str, JSON]:
    """Return the JSON Schema of a type annotation; `{}` (any value) for `object` and unknown types.

    All items of a tuple, and all values of a Literal, are taken to have the type of the first one.

    Examples:
        list[int]            {"type": "array", "items": {"type": "integer"}}
        dict[str, float]     {"type": "object", "additionalProperties": {"type": "number"}}
        Literal["a", "b"]    {"type": "string", "enum": ["a", "b"]}
        int | None           {"type": "integer"}
        int | str            {"anyOf": [{"type": "integer"}, {"type": "string"}]}
        a TypedDict          an object with its keys as properties
    """
    # `type Name = …`. Python before 3.12 has no such aliases, and an empty tuple matches nothing.
    if isinstance(hint, typing.TypeAliasType if hasattr(typing, "TypeAliasType") else ()):
        return type_schema(hint.__value__)

    if hint in _SCALARS:
        return {"type": _SCALARS[hint]}

    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return {**type_schema(type(inner[0])), "enum": list(inner)}
    if origin in (typing.Union, types.UnionType):
        choices = [type_schema(choice) for choice in inner if choice is not type(None)]
        return choices[0] if len(choices) == 1 else {"anyOf": [*choices]}

    if typing.is_typeddict(hint):
        return _typed_dict_schema(cast("type", hint))

    schema: dict[str, JSON] = {"type": _SCALARS[origin]} if origin in _SCALARS else {}
    if schema.get("type") == "array" and inner:
        schema["items"] = type_schema(inner[0])
    if schema.get("type") == "object" and len(inner) == 2 and type_schema(inner[1]):
        schema["additionalProperties"] = type_schema(inner[1])
    return schema


def _typed_dict_schema(hint: type) -> dict[str, JSON]:
    """Return the JSON Schema of a TypedDict."""
    properties: dict[str, JSON] = {name: type_schema(part) for name, part in typing.get_type_hints(hint).items()}
    required: list[JSON] = [name for name in properties if name in hint.__required_keys__]  # type: ignore[attr-defined]
    return {"type": "object", "properties": properties, "required": required}


def _docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return the first paragraph on one line, and each parameter's text below `Args:`.

    A docstring with the first line `Add to the counter.` and, below `Args:`, the line `amount: How much to add.` gives
    ("Add to the counter.", {"amount": "How much to add."}).
    """
    description = " ".join(text.partition("\n\n")[0].split())
    arguments: dict[str, str] = {}
    _, _, section = text.partition("\nArgs:\n")

    current = ""
    for line in section.splitlines():
        if not line.startswith(" "):
            break
        argument = _ARGUMENT.fullmatch(line.strip())

        # Deeper lines continue the parameter above, even if they look like `name: text`.
        if argument and len(line) - len(line.lstrip()) <= 4:
            current = argument[1]
            arguments[current] = argument[2]
        elif current:
            arguments[current] = f"{arguments[current]} {line.strip()}".strip()

    return description, arguments


# -- the simulators of one attempt


class OperationResult(msgspec.Struct, frozen=True):
    """The result of one call.

    `text` is shown to the model. `error` is True if the call failed, also if it returned a dict with an `error`.
    `value` is the operation's return value (`{"error": …}` if it failed), for calls that are arguments of other calls.
    """

    text: str
    error: bool = False
    value: object = None


def failure(message: str) -> OperationResult:
    """Return the result of a failed call; the model sees the message as `{"error": message}`."""
    value = {"error": message}
    return OperationResult(result_text(value), True, value)


def result_text(value: object) -> str:
    """Return text unchanged, a dict as JSON (ASCII, key order kept, NaN allowed), other values as Python's str.

    BFCL shows results to models, and compares them, in these forms. A dict that JSON cannot hold becomes Python text.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        try:
            return json.dumps(value)
        except (TypeError, ValueError, RecursionError):
            return str(value)
    return str(value)


class Backend:
    """The loaded simulators of one attempt, by class name.

    Args:
        simulators: instances that only this attempt uses.
        time_limit_s: time limit of a call of an async method, or of a simulator that is not `bounded`.

    Raises:
        PluginError: two simulators have an operation of the same name.
    """

    def __init__(self, simulators: Mapping[str, Simulator], *, time_limit_s: float = 10) -> None:
        """List the operations of all simulators by name.

        Raises:
            PluginError: two simulators have an operation of the same name.
        """
        self.simulators = dict(simulators)
        self.time_limit_s = time_limit_s
        self._stuck: dict[str, str] = {}
        """The operation that exceeded its time limit, by the simulator's name: its thread may still run."""
        self._table: dict[str, tuple[str, Operation]] = {}

        for owner, simulator in self.simulators.items():
            for name, operation in simulator.operations().items():
                if name in self._table:
                    both = f"{self._table[name][0]} and {owner}"
                    raise PluginError(f"the simulators {both} both have a tool {name!r}: leave one simulator out")
                self._table[name] = (owner, operation)

    def call(self, call: FunctionCall) -> OperationResult:
        """Make a call, after the calls in its arguments. Never raises: every error becomes an error result.

        If a call in an argument fails, the outer call fails with the same text. Positional arguments have the keys "0",
        "1", … . A dict that an operation returns with an `error` is an error result, too.
        """
        owner, operation = self._table.get(call.name, ("", None))
        if operation is None:
            return failure(f"there is no operation {quoted(call.name)}{did_you_mean(call.name[:100], self._table)}")
        if owner in self._stuck:
            return failure(f"{owner} is out of order since {self._stuck[owner]} did not return")

        try:
            arguments: Mapping[str, JSON] = call.arguments
            # The common case first: texts and numbers hold no calls.
            are_scalars = SCALAR_TYPES.issuperset(map(type, arguments.values()))
            if not are_scalars and any(map(holds_calls, arguments.values())):
                arguments = {name: self._make_argument(value) for name, value in arguments.items()}

            # "0", "1", … are positional arguments, unless a parameter has this name.
            if "0" not in arguments or "0" in operation.parameters:
                bound = operation.bind((), arguments)
            else:
                keys = [str(position) for position in range(positional_count(call.arguments))]
                named = {name: value for name, value in arguments.items() if name not in keys}
                bound = operation.bind([arguments[key] for key in keys], named)

            value = self._perform(owner, operation, bound)
            failed = isinstance(value, dict) and value.get("error") not in (None, False)
            return OperationResult(result_text(value), failed, value)
        except _ArgumentFailedError as error:
            return error.result
        except LateError:
            self._stuck[owner] = operation.name
            return failure(f"{operation.name} did not return within {self.time_limit_s:g} seconds")
        except (SimulatorError, ArgumentError) as error:
            return failure(str(error))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's simulator with a model's arguments
            text = " ".join(str(error).split())[:1000]
            return failure(f"{operation.name} failed: {type(error).__name__}{': ' if text else ''}{text}")

    def _perform(self, owner: str, operation: Operation, arguments: Mapping[str, JSON]) -> object:
        """Run an operation and return its result: at once if it is bounded and sync, else in a thread.

        Raises:
            LateError: the thread did not end within the time limit.
        """
        simulator = self.simulators[owner]
        if simulator.bounded and not operation.is_async:
            return operation.method(simulator, **arguments)

        work = functools.partial(operation.method, simulator, **arguments)
        if operation.is_async:
            # asyncio.run needs a thread without an event loop. An async method returns a coroutine.
            return _run_with_time_limit(lambda: asyncio.run(work()), self.time_limit_s)  # type: ignore[arg-type]
        return _run_with_time_limit(work, self.time_limit_s)

    def _make_argument(self, value: JSON) -> JSON:
        """Return an argument with the calls in it replaced by their results.

        Raises:
            _ArgumentFailedError: one of the calls failed.
        """
        if isinstance(value, FunctionCall):
            result = self.call(value)
            if result.error:
                raise _ArgumentFailedError(result)
            return cast("JSON", result.value)
        if isinstance(value, dict):
            return {key: self._make_argument(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self._make_argument(item) for item in value)
        return value

    def states(self) -> dict[str, dict[str, object]]:
        """Return each simulator's live state by class name; callers must not change it.

        For a simulator with a call that exceeded its time limit, the value only names the operation.
        """
        # The call may still be changing its simulator's state.
        return {
            name: {"out_of_order_since": self._stuck[name]} if name in self._stuck else simulator.state()
            for name, simulator in self.simulators.items()
        }

    def state_texts(self) -> dict[str, dict[str, JSON]]:
        """Return each simulator's state for the inference log, by class name; empty states are left out."""
        texts = {name: simulator.state_text() for name, simulator in self.simulators.items() if name not in self._stuck}
        return {name: text for name, text in texts.items() if text}

    def tool_definitions(self) -> list[dict[str, JSON]]:
        """Return the OpenAI tools of all operations."""
        return [tool for simulator in self.simulators.values() for tool in simulator.tool_definitions()]


@dataclass(eq=False, repr=False)
class Backends:
    """Starts the backends of many attempts; looks each simulator's class up only once, because that is slow.

    `classes` are simulators by name that are not plug-ins; they override plug-ins of the same name. The `simulators/`
    folder of `workspace` is also searched. A call of a simulator is abandoned after `time_limit_s` seconds. `trust` is
    the trust in the rows that name simulators; by default every file may be loaded.
    """

    classes: Mapping[str, type[Simulator]] = field(default_factory=dict)
    _: KW_ONLY
    workspace: Path = field(default_factory=Path.cwd)
    time_limit_s: float = 10
    trust: Trust | None = None

    def start(
        self, names: Sequence[str], config: Mapping[str, JSON], *, long_context: Mapping[str, JSON] | None = None
    ) -> Backend:
        """Start a backend for one attempt, with each simulator loaded from its part of the configuration.

        `long_context` are the constants for a row with long context, else None.

        Raises:
            PluginError: a simulator does not exist, or two have the same operation.
            DataError: a configuration is invalid.
        """
        backend = Backend({name: self.find(name)() for name in names}, time_limit_s=self.time_limit_s)
        for name, simulator in backend.simulators.items():
            part = config.get(name)
            if part is not None and not isinstance(part, dict):
                raise DataError(f"the row's initial_config.{name} must be an object, not {kind_of(part)}")
            simulator.load(part or {}, long_context=long_context)
        return backend

    def find(self, name: str) -> type[Simulator]:
        """Return the class of a simulator by its name: a given class, else that of a plug-in or of a workspace file.

        Raises:
            PluginError: nothing has this name, or it is not a simulator.
            ConfigurationError: the row is not trusted to load the workspace file.
        """
        if name not in self.classes:
            plugin = find("simulators", name, among=self._plugins, trust=self.trust)
            if not (isinstance(plugin, type) and issubclass(plugin, Simulator)):
                raise PluginError(f"the simulator {name!r} must be a subclass of tunecheck.simulators.Simulator")
            self.classes = {**self.classes, name: plugin}
        return self.classes[name]

    def with_class(self, name: str, simulator: type[Simulator]) -> Backends:
        """Return a copy that uses this class for the name."""
        return replace(self, classes={**self.classes, name: simulator})

    @functools.cached_property
    def _plugins(self) -> Sequence[Candidate]:
        return discover("simulators", workspace=self.workspace.absolute())


class _ArgumentFailedError(Exception):
    def __init__(self, result: OperationResult) -> None:
        super().__init__(result.text)
        self.result = result


def holds_calls(value: object) -> bool:
    """Return True if the value contains a call at any depth."""
    if isinstance(value, dict):
        return any(map(holds_calls, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(holds_calls, value))
    return isinstance(value, FunctionCall)


def _run_with_time_limit(work: Callable[[], object], time_limit_s: float) -> object:
    """Return what `work` returns, or raise what it raises; raise LateError after the time limit.

    After the limit, the thread is abandoned. Code that holds the interpreter's lock (`10**10**9`) cannot be abandoned,
    so a simulator must limit such arguments itself.
    """
    threads = Threads(1, "tunecheck-simulator")
    call = threads.submit(work)
    threads.shutdown()
    try:
        return call.result(time_limit_s)
    except TimeoutError:
        # The work itself may have raised a TimeoutError, as its own result.
        if call.done():
            raise
        raise LateError from None
