"""Properties of the newer dialect: how its front matter describes inputs, outputs and the parameters of tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tunecheck._describe import shown_value
from tunecheck._json import JSON
from tunecheck.prompts._front_matter import Front

_TYPES: Mapping[str, str] = MappingProxyType(
    {"float": "number", **{name: name for name in ("string", "integer", "number", "boolean", "array", "object")}}
)

_SCALARS: Mapping[type, str] = MappingProxyType({str: "string", bool: "boolean", int: "integer", float: "float"})
"""The kinds of properties by name that are given as an example."""


@dataclass(frozen=True, slots=True)
class Property:
    """One property. `required` and the texts are None where the file does not say."""

    name: str
    kind: str
    description: str | None = None
    required: bool | None = None
    nullable: bool = False
    default: JSON = None
    example: JSON = None
    values: tuple[JSON, ...] = ()
    items: Property | None = None
    properties: tuple[Property, ...] = ()
    any_of: tuple[Property, ...] = ()

    def schema(self, *, strict: bool = False, optional: bool = False) -> dict[str, JSON]:
        """Its JSON schema. In a `strict` one each property is required, and what was not so may be null."""
        schema: dict[str, JSON] = {"type": _TYPES[self.kind]} if self.kind in _TYPES else {}
        if self.description:
            schema["description"] = self.description
        if self.values:
            schema["enum"] = list(self.values)
        if self.items is not None:
            schema["items"] = self.items.schema(strict=strict)
        if self.kind == "object" and (strict or self.properties):
            schema |= object_schema(self.properties, strict=strict)
        if self.any_of:
            schema["anyOf"] = [each.schema(strict=strict) for each in self.any_of]
        return _nullable(schema) if self.nullable or optional else schema


def object_schema(properties: tuple[Property, ...], *, strict: bool) -> dict[str, JSON]:
    """The keys of a JSON schema for an object with these properties."""
    required: list[JSON] = [each.name for each in properties if strict or each.required]
    schema: dict[str, JSON] = {
        "properties": {
            each.name: each.schema(strict=strict, optional=strict and not each.required) for each in properties
        }
    }
    return schema | ({"required": required} if required else {}) | ({"additionalProperties": False} if strict else {})


def _nullable(schema: dict[str, JSON]) -> dict[str, JSON]:
    kind, branches, values = schema.get("type"), schema.get("anyOf"), schema.get("enum")
    if isinstance(kind, str):
        schema = {**schema, "type": [kind, "null"]}
    elif isinstance(branches, list):
        schema = {**schema, "anyOf": [*branches, {"type": "null"}]}
    if isinstance(values, list) and None not in values:
        schema = {**schema, "enum": [*values, None]}
    return schema


def read_properties(front: Front, *path: str | int, named: bool = True) -> tuple[Property, ...]:
    """The properties at this place, a list of them or a mapping by name."""
    given = front.value(*path)
    if given is None:
        return ()
    if isinstance(given, dict):
        return tuple(_read(front, value, name, (*path, name)) for name, value in given.items())
    if not isinstance(given, list):
        raise front.error(path, f"must be a list or a mapping, not {shown_value(given)}")
    return tuple(_read(front, value, None if named else "", (*path, index)) for index, value in enumerate(given))


def _read(front: Front, value: JSON, name: str | None, path: tuple[str | int, ...]) -> Property:
    if type(value) in _SCALARS and name:
        return Property(name, _SCALARS[type(value)], example=value)
    if not isinstance(value, dict):
        raise front.error(path, f"must be a mapping with `kind:` and more, not {shown_value(value)}")
    name = front.required_text(*path, "name") if name is None else name
    required, values = value.get("required"), value.get("enumValues")
    kind, branches = front.required_text(*path, "kind"), value.get("anyOf")
    if kind == "array" and value.get("items") is None:
        raise front.error((*path, "items"), "is missing: what does the array hold?")
    return Property(
        name,
        kind,
        description=front.text(*path, "description"),
        required=required if isinstance(required, bool) else None,
        nullable=value.get("nullable") is True,
        default=value.get("default"),
        example=value.get("example"),
        values=tuple(values) if isinstance(values, list) else (),
        items=_read(front, value["items"], "", (*path, "items")) if kind == "array" else None,
        properties=read_properties(front, *path, "properties") if kind == "object" else (),
        any_of=read_properties(front, *path, "anyOf", named=False) if kind == "union" and branches else (),
    )


def read_tools(front: Front) -> tuple[list[JSON], list[str]]:
    """The functions among `tools:`, as a request names them, and notes on the others, which are no part of one.

    A parameter that is bound to an input is not for the model to give.
    """
    given = front.value("tools")
    if given is None:
        return [], []
    if not isinstance(given, (list, dict)):
        raise front.error(("tools",), f"must be a list or a mapping, not {shown_value(given)}")
    named = [(key, None) for key in range(len(given))] if isinstance(given, list) else [(key, key) for key in given]
    functions: list[JSON] = []
    notes: list[str] = []
    for key, name in named:
        kind = front.required_text("tools", key, "kind")
        if kind == "function":
            functions.append(_function(front, name, ("tools", key)))
        else:
            notes.append(front.told(("tools", key), f"a tool of kind {kind} is not offered to the model: no function"))
    return functions, notes


def _function(front: Front, name: str | None, path: tuple[str | int, ...]) -> dict[str, JSON]:
    strict = front.value(*path, "strict") is True
    function: dict[str, JSON] = {"name": name or front.required_text(*path, "name")}
    description = front.filled_text(*path, "description")
    if description is not None:
        function["description"] = description
    bindings = front.value(*path, "bindings")
    listed = bindings if isinstance(bindings, list) else [{"name": key} for key in front.mapping(*path, "bindings")]
    names = [item.get("name") for item in listed if isinstance(item, dict)]
    parameters = tuple(each for each in read_properties(front, *path, "parameters") if each.name not in names)
    if parameters:
        function["parameters"] = {"type": "object", **object_schema(parameters, strict=strict)}
    return {"type": "function", "function": {**function, **({"strict": True} if strict else {})}}
