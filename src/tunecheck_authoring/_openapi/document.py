"""Read an OpenAPI file and its schemas as plain JSON Schemas, with references resolved and alternatives joined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tunecheck import ConfigurationError
from tunecheck.plugins import JSON, loads, parse_yaml, read_regular, told_as

Node: TypeAlias = Mapping[str, JSON]
Schema: TypeAlias = dict[str, JSON]

_MAX_BYTES = 64 << 20
_MOST_YAML_BYTES = 16 << 20
_MOST_YAML_NODES = 1_000_000
_MOST_REFERENCES = 40
"""The most references in a chain."""

_MOST_PARTS = 1_000
"""The most parts of one schema; further parts are left open."""

_DEEPEST = 6
_LONGEST_TEXT = 1_000
_NUMBERS = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
_TYPES = ("string", "integer", "number", "boolean", "array", "object")


class ApiDocument:
    """An OpenAPI file, read as data.

    Raises:
        ConfigurationError: The file cannot be read, or is no OpenAPI file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with told_as(ConfigurationError, path):
            raw = read_regular(path, _MAX_BYTES)
        content = _parse(raw, path)
        if not isinstance(content, dict) or not isinstance(content.get("paths"), dict):
            raise ConfigurationError(f"{path}: not an OpenAPI file: it has no paths")
        version = str(content.get("openapi") or content.get("swagger") or "")
        if not version.startswith(("2.", "3.0", "3.1", "3.2")):
            raise ConfigurationError(f"{path}: its version {version!r} is not known; 2.0, 3.0 and 3.1 are")
        self.root: Node = content
        self.is_swagger = version.startswith("2.")

    def at(self, value: JSON | Node) -> Node:
        """Return an object with references resolved, or an empty object."""
        return self.named(value)[1]

    def named(self, value: JSON | Node) -> tuple[str, Node]:
        """Return the name of the referenced object ("" without a reference), and the object.

        Raises:
            ConfigurationError: A reference leaves the file, or leads nowhere.
        """
        name = ""
        for _ in range(_MOST_REFERENCES):
            if not isinstance(value, Mapping):
                return "", {}
            reference = value.get("$ref")
            if not isinstance(reference, str):
                return name, value
            name, value = reference.rpartition("/")[2], self._target(reference)
        return "", {}

    def _target(self, reference: str) -> JSON:
        if not reference.startswith("#"):
            raise ConfigurationError(
                f"{self.path}: the reference {reference[:80]!r} leaves the file, and is not followed; bundle it first"
            )
        value: JSON = dict(self.root)
        for step in reference.removeprefix("#").split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~").replace("%7B", "{").replace("%7D", "}")
            if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
                value = value[int(key)]
            elif isinstance(value, dict) and key in value:
                value = value[key]
            else:
                raise ConfigurationError(f"{self.path}: the reference {reference[:80]!r} leads nowhere")
        return value

    def schema(self, value: JSON | Node) -> Schema:
        """Return a plain JSON Schema: without references and null types, and open where it is too deep."""
        return _SchemaWriter(self).schema(value, ())


def _parse(raw: bytes, path: Path) -> JSON:
    if raw.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{":
        try:
            return loads(raw.removeprefix(b"\xef\xbb\xbf"))
        except ValueError as error:
            if path.suffix.lower() == ".json":
                raise ConfigurationError(f"{path}: not JSON: {error}") from None
    return parse_yaml(raw, str(path), most_bytes=_MOST_YAML_BYTES, most_nodes=_MOST_YAML_NODES)


@dataclass
class _SchemaWriter:
    """Writes one schema without references."""

    document: ApiDocument
    parts: int = 0

    def schema(self, value: JSON | Node, above: tuple[str, ...], depth: int = 0) -> Schema:
        name, node = self.document.named(value)
        self.parts += 1
        if depth > _DEEPEST or self.parts > _MOST_PARTS or (name and name in above):
            return _open(node)
        above = (*above, name) if name else above
        node = self._join_schemas(node, above, depth)
        options = [each for key in ("oneOf", "anyOf") for each in _as_list(node.get(key))]
        if options:
            return {**self._alternatives(options, above, depth), **_description(node)}
        return self._simple(node, above, depth)

    def _join_schemas(self, node: Node, above: tuple[str, ...], depth: int) -> Node:
        """Join the parts of `allOf` and the schema's other keys."""
        joined: dict[str, JSON] = {}
        for each in _as_list(node.get("allOf")):
            part = self.document.named(each)[1]
            self.parts += 1
            if depth < _DEEPEST and self.parts < _MOST_PARTS:
                _join(joined, self._join_schemas(part, above, depth + 1))
        _join(joined, {key: value for key, value in node.items() if key != "allOf"})
        return joined

    def _alternatives(self, options: Sequence[JSON], above: tuple[str, ...], depth: int) -> Schema:
        """Join alternative objects to one with the fields of all; other alternatives become `anyOf`."""
        plain = [self.schema(each, above, depth + 1) for each in options]
        plain = [each for each in plain if each.get("type") != "null"]
        if plain and all(each.get("type") == "object" for each in plain):
            joined: Schema = {}
            for each in plain:
                _join(joined, {key: value for key, value in each.items() if key != "required"})
            needed = [set(map(str, _as_list(each.get("required")))) for each in plain]
            joined["required"] = [*sorted(set.intersection(*needed))]
            return joined
        return plain[0] if len(plain) == 1 else {"anyOf": [*plain]} if plain else {}

    def _simple(self, node: Node, above: tuple[str, ...], depth: int) -> Schema:
        schema: Schema = {**_open(node), **_description(node)}
        schema |= {key: node[key] for key in _NUMBERS if isinstance(node.get(key), (int, float))}
        schema |= {key: node[key] for key in ("format", "pattern") if isinstance(node.get(key), str)}
        if isinstance(node.get("default"), (str, int, float)):
            schema["default"] = node["default"]
        choices = _as_list(node.get("enum")) or ([node["const"]] if "const" in node else [])
        choices = [each for each in choices if each is not None and not isinstance(each, (dict, list))]
        if choices:
            schema["enum"] = choices
        if schema.get("type") == "array":
            schema["items"] = self.schema(node.get("items"), above, depth + 1)
        if isinstance(node.get("properties"), dict) and schema.get("type", "object") == "object":
            schema |= {"type": "object", **self._properties(node, above, depth)}
        return schema

    def _properties(self, node: Node, above: tuple[str, ...], depth: int) -> Schema:
        properties: dict[str, JSON] = {}
        for name, each in self.document.at(node.get("properties") or {}).items():
            if self.parts > _MOST_PARTS:
                break
            schema = self.schema(each, above, depth + 1)
            if self.document.at(each).get("readOnly") is True:
                schema["readOnly"] = True
            properties[name] = schema
        required: list[JSON] = [
            each for each in _as_list(node.get("required")) if isinstance(each, str) and each in properties
        ]
        return {"properties": properties, "required": required}


def _open(node: Node) -> Schema:
    """Return the type alone."""
    kinds = node.get("type")
    named = [each for each in (kinds if isinstance(kinds, list) else [kinds]) if each in _TYPES]
    return {"type": named[0]} if len(named) == 1 else {}


def _description(node: Node) -> Schema:
    said: Schema = {}
    text = node.get("description") or node.get("title")
    if isinstance(text, str) and text.strip():
        said["description"] = one_line(text)
    examples = [each for each in (node.get("example"), *_values(node.get("examples"))) if _is_plain(each)]
    if examples:
        said["examples"] = examples[:5]
    return said


def one_line(text: str) -> str:
    """Return a text of the file as one line of limited length."""
    line = " ".join(text[: 4 * _LONGEST_TEXT].split())
    return line if len(line) <= _LONGEST_TEXT else f"{line[:_LONGEST_TEXT]}…"


def _is_plain(value: JSON) -> bool:
    return isinstance(value, (bool, int, float)) or (isinstance(value, str) and 0 < len(value) <= 200)


def _values(value: JSON) -> Iterator[JSON]:
    """Yield examples from a list, or from objects by name that may wrap the value."""
    for each in value.values() if isinstance(value, dict) else _as_list(value):
        yield each.get("value") if isinstance(each, dict) else each


def _as_list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


def _join(into: dict[str, JSON], other: Node) -> None:
    """Merge `other` into a schema: fields and required names add up, other keys are replaced."""
    for key, value in other.items():
        before = into.get(key)
        if isinstance(before, dict) and isinstance(value, dict) and key == "properties":
            into[key] = {**before, **value}
        elif isinstance(before, list) and isinstance(value, list) and key == "required":
            into[key] = [*before, *(each for each in value if each not in before)]
        else:
            into[key] = value
