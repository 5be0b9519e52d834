"""Read the operations of an OpenAPI file as functions with one schema of arguments."""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias, cast

from tunecheck import ConfigurationError
from tunecheck.plugins import JSON
from tunecheck_authoring._openapi.document import ApiDocument, Node, Schema, one_line

Place: TypeAlias = Literal["path", "query", "header", "body"]

_METHODS = ("get", "put", "post", "delete", "patch")
_LONGEST_NAME = 60
_MOST_OPERATIONS = 2_000
_CLIENTS_OWN = frozenset("accept content-type authorization user-agent accept-language idempotency-key".split())
"""Headers that the client program sends, not the model."""

_LISTS = ("data", "items", "results", "value", "values", "entries", "records", "content", "list")
"""Fields that hold lists of items."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function: its place and name in the API (the function's name for it may differ)."""

    schema: Schema
    place: Place
    original: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """An operation's answer: its schema, and the schema's name in the file (for a list, that of an item).

    `field` is the field of the answer that holds the list, if the list does not stand alone.
    """

    schema: Schema
    name: str
    field: str | None = None

    @property
    def is_list(self) -> bool:
        return self.schema.get("type") == "array"

    @property
    def fields(self) -> Mapping[str, Schema]:
        """Return the fields of the answered object, or of each item of a list."""
        schema = cast("Schema", self.schema.get("items")) if self.is_list else self.schema
        return cast("Mapping[str, Schema]", schema.get("properties") or {})


@dataclass(frozen=True, slots=True)
class ApiOperation:
    """An operation. `parts` are the parts of the path, with parameters as `{name}`; `in_path` are the function's names
    of these parameters. `body_name` is the name of the body's schema in the file.
    """

    name: str
    method: str
    parts: tuple[str, ...]
    description: str
    parameters: Mapping[str, Parameter]
    in_path: tuple[str, ...]
    body_name: str
    answer: ApiAnswer


def read_operations(document: ApiDocument, only: Collection[str] = ()) -> list[ApiOperation]:
    """Return all operations, or `only` those with a path, tag or name that matches a pattern (`/pets*`).

    Raises:
        ConfigurationError: There is no such operation, or a reference leaves the file.
    """
    taken: set[str] = set()
    entries = [each for each in _entries(document) if _is_wanted(each, only)]
    if len(entries) > _MOST_OPERATIONS:
        raise ConfigurationError(f"{document.path}: {len(entries):,} operations; choose some by their path with --only")
    found = [_operation(document, each, taken) for each in entries]
    if not found:
        which = f" that fits {' or '.join(only)}" if only else ""
        raise ConfigurationError(f"{document.path}: there is no operation{which}")
    return found


@dataclass(frozen=True, slots=True)
class _ApiEntry:
    method: str
    path: str
    node: Node
    around: Node


def _entries(document: ApiDocument) -> Iterator[_ApiEntry]:
    for path, each in cast("Node", document.root["paths"]).items():
        around = document.at(each)
        for method in _METHODS:
            if isinstance(around.get(method), dict):
                yield _ApiEntry(method, path, document.at(around[method]), around)


def _is_wanted(entry: _ApiEntry, only: Collection[str]) -> bool:
    tags = entry.node.get("tags")
    names = [entry.path, str(entry.node.get("operationId", "")), *(tags if isinstance(tags, list) else ())]
    return not only or any(fnmatchcase(str(name), pattern) for name in names for pattern in only)


def _operation(document: ApiDocument, entry: _ApiEntry, taken: set[str]) -> ApiOperation:
    node = entry.node
    parts = _parts(entry.path)
    own = node.get("operationId")
    wanted = own if isinstance(own, str) and own.strip() else f"{entry.method} {entry.path}"
    name = unused(identifier(wanted), taken)
    taken.add(name)
    parameters, body_name = _parameters(document, entry)
    text = next((each for each in map(node.get, ("summary", "description")) if isinstance(each, str) and each), "")
    more = node.get("description")
    if isinstance(more, str) and more.strip() and more.strip() != text.strip():
        text = f"{text.strip().rstrip('.')}. {more}"
    by_original = {each.original: at for at, each in parameters.items() if each.place == "path"}
    in_path = tuple(by_original[part[1:-1]] for part in parts if is_parameter(part) and part[1:-1] in by_original)
    answer = _answer(document, node, parts[-1] if parts else "")
    return ApiOperation(name, entry.method, parts, one_line(text), parameters, in_path, body_name, answer)


def is_parameter(part: str) -> bool:
    """True if a part of a path is a parameter."""
    return part.startswith("{") and part.endswith("}")


def _parts(path: str) -> tuple[str, ...]:
    """Return the parts of a path: pets, {id}, feed for `/pets/{id}:feed`."""
    return tuple(part for part in re.sub(r"\}[:.]", "}/", path.partition("?")[0]).split("/") if part)


def identifier(text: str) -> str:
    """Return a valid Python name for any text."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[:_LONGEST_NAME].strip("_") or "unnamed"
    name = f"n{name}" if name[0].isdigit() else name
    return f"{name}_" if keyword.iskeyword(name) or keyword.issoftkeyword(name) else name


def unused(name: str, taken: Container[str]) -> str:
    """Return the name, with a number if it is taken."""
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def _parameters(document: ApiDocument, entry: _ApiEntry) -> tuple[dict[str, Parameter], str]:
    """Return the parameters by the function's names, and the name of the body's schema in the file."""
    given: dict[tuple[str, str], Node] = {}
    for node in (entry.around, entry.node):  # an operation's own parameters replace those of the path
        listed = node.get("parameters")
        for each in listed if isinstance(listed, list) else ():
            parameter = document.at(each)
            given[str(parameter.get("in")), str(parameter.get("name"))] = parameter
    for part in filter(is_parameter, _parts(entry.path)):
        given.setdefault(("path", part[1:-1]), {"type": "string"})
    parameters: dict[str, Parameter] = {}
    body_name = ""
    for (place, name), parameter in given.items():
        if place in ("path", "query") or (place == "header" and name.lower() not in _CLIENTS_OWN | _keys(document)):
            schema = _describe(document.schema(parameter.get("schema") or parameter), parameter)
            required = place == "path" or parameter.get("required") is True
            _add(parameters, Parameter(schema, cast("Place", place), name, required))
        elif place == "formData":
            required = parameter.get("required") is True
            _add(parameters, Parameter(document.schema(parameter), "body", name, required))
    for media, required in _bodies(document, entry.node, given.values()):
        body_name, body = document.named(media)
        if body.get("type") == "array":
            body_name, _ = document.named(body.get("items"))
        is_whole = entry.method in ("put", "patch") and "{" not in entry.path
        _add_body(parameters, document.schema(media), required=required, with_key=is_whole)
    return parameters, body_name


def _keys(document: ApiDocument) -> set[str]:
    """Return the names of headers for API keys."""
    components = document.at(document.root.get("components"))
    schemes = document.root.get("securityDefinitions") or components.get("securitySchemes")
    return {str(document.at(each).get("name")).lower() for each in document.at(schemes).values()}


def _describe(schema: Schema, parameter: Node) -> Schema:
    text, example = parameter.get("description"), parameter.get("example")
    if isinstance(text, str) and text.strip():
        schema["description"] = one_line(text)
    if isinstance(example, (str, int, float)) and example != "" and "examples" not in schema:
        schema["examples"] = [example]
    return schema


def _bodies(document: ApiDocument, node: Node, given: Collection[Node]) -> Iterator[tuple[JSON, bool]]:
    """Yield the schema of the request's body, and whether the body is required."""
    body = document.at(node.get("requestBody"))
    if body:
        yield _media(document, body), body.get("required") is True
    for parameter in given:
        if parameter.get("in") == "body":
            yield parameter.get("schema"), parameter.get("required") is True


def _media(document: ApiDocument, holder: Node) -> JSON:
    """Return the schema of a body or an answer; JSON is preferred if there are several."""
    content = document.at(holder.get("content"))
    kinds = sorted(content, key=lambda kind: ("json" not in kind, "form" not in kind))
    return document.at(content[kinds[0]]).get("schema") if kinds else holder.get("schema")


def _add_body(parameters: dict[str, Parameter], schema: Schema, *, required: bool, with_key: bool) -> None:
    """Add the fields of an object body as parameters; another body becomes one parameter `body`.

    Read-only fields are left out, except an `id` that alone identifies the record.
    """
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        if schema:
            _add(parameters, Parameter(schema, "body", "body", required))
        return
    needed = cast("Sequence[JSON]", schema.get("required") or ())
    for name, each in properties.items():
        own = cast("Schema", each)
        if not own.pop("readOnly", False) or (with_key and name == "id"):
            _add(parameters, Parameter(own, "body", name, required=required and name in needed))


def _add(parameters: dict[str, Parameter], parameter: Parameter) -> None:
    """Add a parameter under a free name; a body field that is also in the path is the same parameter."""
    name = identifier(parameter.original)
    known = parameters.get(name)
    if known is not None:
        if known.original == parameter.original and known.place == "path":
            return
        name = unused(f"{parameter.place}_{name}", parameters)
    parameters[name] = parameter


def _answer(document: ApiDocument, node: Node, last: str) -> ApiAnswer:
    """Return the answer of a successful operation, without wrappers such as `{"data": [...]}`."""
    answers = document.at(node.get("responses"))
    code = next((each for each in ("200", "201", "202", "2XX", "default") if each in answers), None)
    media = _media(document, document.at(answers[code])) if code is not None else None
    name, own = document.named(media)
    fields = document.at(own.get("properties"))
    for field_name, each in fields.items():
        inner_name, inner = document.named(each)
        is_named_so = field_name.lower() in (*_LISTS, last.lower())
        if inner.get("type") == "array" and is_named_so:
            return ApiAnswer(document.schema(inner), document.named(inner.get("items"))[0], field_name)
        if "properties" in inner and (field_name == "data" or len(fields) == 1):
            return ApiAnswer(document.schema(inner), inner_name)
    if own.get("type") == "array":
        name = document.named(own.get("items"))[0]
    return ApiAnswer(document.schema(media), name)
