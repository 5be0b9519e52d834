"""Operations of a simulator: their signatures, how a call's arguments are bound to them, and their tool definitions."""

from __future__ import annotations

import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tunecheck._errors import PluginError
from tunecheck._json import JSON
from tunecheck._messages import did_you_mean
from tunecheck.calls._bounds import quoted

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
_LONGEST_GUESS = 100  # names longer than this are not compared with the known ones


class ArgumentError(Exception):
    """Arguments that an operation does not have, or lacks; its text names them."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: its name, the method, its parameters in order, and which of them must be given.

    `positional` counts the parameters that may be given by position.
    """

    name: str
    method: Callable[..., object]
    parameters: tuple[str, ...]
    required: tuple[str, ...]
    positional: int

    def bind(self, positional: Sequence[JSON], named: Mapping[str, JSON]) -> dict[str, JSON]:
        """All arguments by parameter name.

        Raises:
            ArgumentError: too many, an unknown one, one given twice, or a required one missing.
        """
        bound = dict(zip(self.parameters[: self.positional], positional, strict=False))
        for name, value in named.items():
            if name in bound:
                raise ArgumentError(f"{self.name}: the argument {quoted(name)} is given twice")
            if name not in self.parameters:
                hint = did_you_mean(name, self.parameters) if len(name) <= _LONGEST_GUESS else ""
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
    """The operations of a simulator's class by name.

    Raises:
        PluginError: an operation whose parameters cannot be named one by one (`*args`, `**kwargs`).
    """
    found: dict[str, Operation] = {}
    for owner in simulator.__mro__:
        for name, method in vars(owner).items():
            if getattr(method, TOOL_MARK, False) and name not in found and getattr(simulator, name) is method:
                found[name] = _operation(name, method)
    return types.MappingProxyType(found)


def _operation(name: str, method: Callable[..., object]) -> Operation:
    parameters = list(inspect.signature(method).parameters.values())[1:]  # without self
    by_position = [each for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    by_name = [each for each in parameters if each.kind is each.KEYWORD_ONLY]
    if len(by_position) + len(by_name) < len(parameters):
        raise PluginError(f"the tool {method.__qualname__} has *args, **kwargs or '/'; name its parameters one by one")
    required = tuple(each.name for each in parameters if each.default is each.empty)
    names = tuple(each.name for each in (*by_position, *by_name))
    return Operation(name, method, names, required, len(by_position))


def tool_definition(operation: Operation) -> dict[str, JSON]:
    """The OpenAI tool of an operation, from its signature and docstring.

    Raises:
        PluginError: an annotation that names a type which is not there.
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
    """The JSON Schema of a parameter's type; what has none (`object`) may be anything: `{}`."""
    if isinstance(hint, typing.TypeAliasType if hasattr(typing, "TypeAliasType") else ()):
        return type_schema(hint.__value__)
    if hint in _SCALARS:
        return {"type": _SCALARS[hint]}
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return {**type_schema(type(inner[0])), "enum": list(inner)}
    if origin in (typing.Union, types.UnionType):
        return _union_schema([each for each in inner if each is not type(None)])
    if typing.is_typeddict(hint):
        return _typed_dict_schema(typing.cast("type", hint))
    schema: dict[str, JSON] = {"type": _SCALARS[origin]} if origin in _SCALARS else {}
    if schema.get("type") == "array" and inner:
        schema["items"] = type_schema(inner[0])
    if schema.get("type") == "object" and len(inner) == 2 and type_schema(inner[1]):
        schema["additionalProperties"] = type_schema(inner[1])
    return schema


def _union_schema(choices: list[object]) -> dict[str, JSON]:
    if len(choices) == 1:
        return type_schema(choices[0])
    return {"anyOf": [type_schema(each) for each in choices]}


def _typed_dict_schema(hint: type) -> dict[str, JSON]:
    properties: dict[str, JSON] = {name: type_schema(each) for name, each in typing.get_type_hints(hint).items()}
    required: list[JSON] = [name for name in properties if name in hint.__required_keys__]  # type: ignore[attr-defined]
    return {"type": "object", "properties": properties, "required": required}


def _docstring(text: str) -> tuple[str, dict[str, str]]:
    """The first paragraph on one line, and the text of each parameter below `Args:`."""
    description = " ".join(text.partition("\n\n")[0].split())
    arguments: dict[str, str] = {}
    _, _, section = text.partition("\nArgs:\n")
    current = ""
    for line in section.splitlines():
        if not line.startswith(" "):
            break
        found = _ARGUMENT.fullmatch(line.strip())
        if found and len(line) - len(line.lstrip()) <= 4:
            current, arguments[found[1]] = found[1], found[2]
        elif current:
            arguments[current] = f"{arguments[current]} {line.strip()}".strip()
    return description, arguments
