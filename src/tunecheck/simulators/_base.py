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
locks and may keep all data in plain attributes.
"""

from __future__ import annotations

import copy
import functools
import inspect
import json
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from tunecheck._errors import PluginError
from tunecheck._json import JSON
from tunecheck._messages import did_you_mean
from tunecheck.calls._model import quoted

TOOL_MARK = "__tunecheck_tool__"

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
    """True if every operation ends soon for all arguments; its calls then need no thread."""

    def load(self, config: Mapping[str, JSON], *, long_context: Mapping[str, JSON] | None = None) -> None:
        """Start from this configuration; copy the parts that are kept.

        `config` is empty if the data has none for this simulator. `long_context` holds constants that extend states and
        answers of rows with long context, else None. Many simulators share the constants, so do not change them.

        Raises:
            DataError: the configuration is invalid; the text says where and why.
        """

    def state(self) -> dict[str, object]:
        """Return the state to compare after each turn: plain data by name, sets allowed.

        The result may refer to the live state, because callers do not change it.
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


def copy_json(value: _Value) -> _Value:
    """Return a copy of JSON data that shares no list or object with the original."""
    if isinstance(value, list):
        return [  # type: ignore[return-value]
            copy_json(each) if isinstance(each, (list, dict)) else each for each in value
        ]
    if isinstance(value, dict):
        return {  # type: ignore[return-value]
            key: copy_json(each) if isinstance(each, (list, dict)) else each for key, each in value.items()
        }
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


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: its name, its method, its parameters in order, and the required ones.

    `positional` is the number of parameters that may be given by position. `waits`: the method is an `async def`.
    """

    name: str
    method: Callable[..., object]
    parameters: tuple[str, ...]
    required: tuple[str, ...]
    positional: int
    waits: bool = False

    def bind(self, positional: Sequence[JSON], named: Mapping[str, JSON]) -> dict[str, JSON]:
        """Return a call's arguments by parameter name, without defaults.

        Raises:
            ArgumentError: too many arguments, an unknown or repeated one, or a missing required one.
        """
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
    """Return the methods of a class that are marked as tools, as operations by name; overridden ones once."""
    operations: dict[str, Operation] = {}
    for owner in simulator.__mro__:
        for name, method in vars(owner).items():
            if getattr(method, TOOL_MARK, False) and name not in operations and getattr(simulator, name) is method:
                operations[name] = _operation(name, method)
    return types.MappingProxyType(operations)


def _operation(name: str, method: Callable[..., object]) -> Operation:
    """Return a marked method as an operation.

    Raises:
        PluginError: it has *args, **kwargs or positional-only parameters.
    """
    parameters = list(inspect.signature(method).parameters.values())[1:]  # without self
    by_position = [each for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    by_name = [each for each in parameters if each.kind is each.KEYWORD_ONLY]
    if len(by_position) + len(by_name) < len(parameters):
        raise PluginError(f"the tool {method.__qualname__} has *args, **kwargs or '/'; name its parameters one by one")
    required = tuple(each.name for each in parameters if each.default is each.empty)
    names = tuple(each.name for each in (*by_position, *by_name))
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

    Raises:
        PluginError: a type annotation cannot be resolved.
    """
    try:
        hints = typing.get_type_hints(operation.method)
    except (NameError, TypeError, AttributeError) as error:
        raise PluginError(f"the types of the tool {operation.method.__qualname__} cannot be read: {error}") from None
    description, arguments = _docstring(inspect.getdoc(operation.method) or "")
    defaults = inspect.signature(operation.method).parameters
    properties: dict[str, JSON] = {}
    for name in operation.parameters:
        schema = type_schema(hints.get(name, object))
        if arguments.get(name):
            schema["description"] = arguments[name]
        default = defaults[name].default
        if isinstance(default, (str, int, float, bool)):
            schema["default"] = default
        properties[name] = schema
    parameters: dict[str, JSON] = {"type": "object", "properties": properties, "required": list(operation.required)}
    function: dict[str, JSON] = {"name": operation.name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def type_schema(hint: object) -> dict[str, JSON]:
    """Return the JSON Schema of a type annotation; `{}` (any value) for `object` and unknown types."""
    if isinstance(hint, typing.TypeAliasType if hasattr(typing, "TypeAliasType") else ()):
        return type_schema(hint.__value__)
    if hint in _SCALARS:
        return {"type": _SCALARS[hint]}
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return {**type_schema(type(inner[0])), "enum": list(inner)}
    if origin in (typing.Union, types.UnionType):
        choices = [type_schema(each) for each in inner if each is not type(None)]
        return choices[0] if len(choices) == 1 else {"anyOf": [*choices]}
    if typing.is_typeddict(hint):
        return _typed_dict_schema(typing.cast("type", hint))
    schema: dict[str, JSON] = {"type": _SCALARS[origin]} if origin in _SCALARS else {}
    if schema.get("type") == "array" and inner:
        schema["items"] = type_schema(inner[0])
    if schema.get("type") == "object" and len(inner) == 2 and type_schema(inner[1]):
        schema["additionalProperties"] = type_schema(inner[1])
    return schema


def _typed_dict_schema(hint: type) -> dict[str, JSON]:
    """Return the JSON Schema of a TypedDict."""
    properties: dict[str, JSON] = {name: type_schema(each) for name, each in typing.get_type_hints(hint).items()}
    required: list[JSON] = [name for name in properties if name in hint.__required_keys__]  # type: ignore[attr-defined]
    return {"type": "object", "properties": properties, "required": required}


def _docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return the first paragraph on one line, and each parameter's text below `Args:`."""
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
            current, arguments[argument[1]] = argument[1], argument[2]
        elif current:
            arguments[current] = f"{arguments[current]} {line.strip()}".strip()
    return description, arguments
