"""Read an OpenAPI file and its operations as functions, each with one plain JSON Schema of its arguments.

An operation such as

    paths:
      /owners/{ownerId}/pets:
        post: {operationId: addPet, parameters: […], requestBody: {…}, responses: {201: {…}}}

becomes a function with these parts:

| part | source; the first that exists |
|---|---|
| name | `operationId`, else method and path: `post_owners_ownerId_pets` |
| description | `summary` and `description` |
| parameters | those of the operation, those of its path, names in the path, the fields of the body |
| answer | the schema of the first response of 200, 201, 202, 2XX and default, without wrappers |

**Parameters** are taken from the path, the query, the body and headers, except headers that the client program sends.
Equal names: a body field that is also in the path is the same parameter; any other gets its place as prefix.

**Schemas** (`_SchemaWriter`) have no references, no `allOf` and no null type. Recursive, deep or large parts keep only
their type.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, TypeAlias, cast

import msgspec

from tunecheck import ConfigurationError
from tunecheck.plugins import JSON, loads, parse_yaml, raise_as, read_regular
from tunecheck_authoring._author.world import as_list

Node: TypeAlias = Mapping[str, JSON]
Schema: TypeAlias = dict[str, JSON]

_MAX_BYTES = 64 << 20
"""The largest file in bytes."""
_MOST_YAML_BYTES = 16 << 20
_MOST_YAML_NODES = 1_000_000
"""The limits of YAML, which is slow to read and can repeat parts by aliases."""
_MOST_REFERENCES = 40
"""The most references in a chain."""

_MOST_PARTS = 1_000
"""The most parts of one schema; further parts have only their type."""

_DEEPEST = 6
"""The most levels of schemas inside schemas."""
_LONGEST_TEXT = 1_000
"""The most characters of a description."""
_NUMBERS = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
_TYPES = ("string", "integer", "number", "boolean", "array", "object")


class ApiDocument:
    """An OpenAPI file, read as data.

    Raises:
        ConfigurationError: The file cannot be read, or is no OpenAPI file.
    """

    def __init__(self, path: Path) -> None:
        """Read the file and check that it is OpenAPI.

        Raises:
            ConfigurationError: it cannot be read, has no paths, or has an unknown version.
        """
        self.path = path
        with raise_as(ConfigurationError, path):
            raw = read_regular(path, _MAX_BYTES)

        content = _parse(raw, path)
        if not isinstance(content, dict) or not isinstance(content.get("paths"), dict):
            raise ConfigurationError(f"{path}: is no OpenAPI file, because it has no object `paths`; give another file")

        version = str(content.get("openapi") or content.get("swagger") or "")
        if not version.startswith(("2.", "3.0", "3.1", "3.2")):
            raise ConfigurationError(f"{path}: the OpenAPI version {version!r} is unknown; use 2.0, 3.0, 3.1 or 3.2")
        self.root: Node = content

    def resolve(self, value: JSON | Node) -> Node:
        """Return the object that a value is or refers to, or an empty object if it is none."""
        return self.named(value)[1]

    def named(self, value: JSON | Node) -> tuple[str, Node]:
        """Return the name of the referenced object ("" without a reference), and the object.

        A value that is no object, or a chain of too many references, gives ("", {}).

        Raises:
            ConfigurationError: A reference leaves the file, or leads nowhere.
        """
        name = ""
        # References may form a ring: the bound ends it.
        for _ in range(_MOST_REFERENCES):
            if not isinstance(value, Mapping):
                return "", {}
            reference = value.get("$ref")
            if not isinstance(reference, str):
                return name, value
            name, value = reference.rpartition("/")[2], self._target(reference)
        return "", {}

    def _target(self, reference: str) -> JSON:
        """Return the value to which a reference such as `#/components/schemas/Pet` leads.

        Raises:
            ConfigurationError: the reference leaves the file, or leads nowhere.
        """
        if not reference.startswith("#"):
            raise ConfigurationError(
                f"{self.path}: the reference {reference[:80]!r} leaves the file; bundle both files"
            )

        value: JSON = dict(self.root)

        for step in reference.removeprefix("#").split("/")[1:]:
            # The escapes of JSON Pointer for / and ~, and those of URLs for braces in paths.
            key = step.replace("~1", "/").replace("~0", "~").replace("%7B", "{").replace("%7D", "}")
            if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
                value = value[int(key)]
            elif isinstance(value, dict) and key in value:
                value = value[key]
            else:
                raise ConfigurationError(f"{self.path}: the reference {reference[:80]!r} has no target; correct it")
        return value

    def schema(self, value: JSON | Node) -> Schema:
        """Return a plain JSON Schema without references and null types.

        Parts that are too deep, too many or recursive keep only a type.
        """
        return _SchemaWriter(self).schema(value, ())


def _parse(raw: bytes, path: Path) -> JSON:
    """Return the content of a JSON or YAML file. A file that begins with `{` but is not JSON may still be YAML.

    Raises:
        ConfigurationError: the content is neither.
    """
    # JSON is YAML, too, but YAML is slow to read. A byte order mark may come first.
    if raw.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{":
        try:
            return loads(raw.removeprefix(b"\xef\xbb\xbf"))
        except ValueError as error:
            if path.suffix.lower() == ".json":
                raise ConfigurationError(f"{path}: is not JSON: {error}; correct the file") from None
    return parse_yaml(raw, str(path), most_bytes=_MOST_YAML_BYTES, most_nodes=_MOST_YAML_NODES)


class _SchemaWriter(msgspec.Struct):
    """Writer of one schema without references; `parts` counts the parts so far."""

    document: ApiDocument
    parts: int = 0

    def schema(self, value: JSON | Node, above: tuple[str, ...], depth: int = 0) -> Schema:
        """Return a schema without references. A schema that is too deep, too large or recursive keeps only its type.

        `above` has the names of the schemas around it: a person with a `parent` that is a person is recursive.
        """
        name, node = self.document.named(value)
        self.parts += 1
        if depth > _DEEPEST or self.parts > _MOST_PARTS or (name and name in above):
            return _type_only(node)

        above = (*above, name) if name else above
        node = self._join_schemas(node, depth)

        options = [each for key in ("oneOf", "anyOf") for each in as_list(node.get(key))]
        if options:
            return {**self._alternatives(options, above, depth), **_description(node)}
        return self._plain_schema(node, above, depth)

    def _join_schemas(self, node: Node, depth: int) -> Node:
        """Join the parts of `allOf` and the schema's other keys. `depth` counts the levels above.

        Parts that are too deep or too many are left out.
        For example `{"allOf": [{"$ref": "#/…/Pet"}, {"properties": {"bark": …}}]}` has Pet's fields and `bark`.
        """
        joined: dict[str, JSON] = {}
        for each in as_list(node.get("allOf")):
            part = self.document.named(each)[1]
            self.parts += 1
            if depth < _DEEPEST and self.parts < _MOST_PARTS:
                _merge_into(joined, self._join_schemas(part, depth + 1))

        # The schema's own keys come last, so they win.
        _merge_into(joined, {key: value for key, value in node.items() if key != "allOf"})
        return joined

    def _alternatives(self, options: Sequence[JSON], above: tuple[str, ...], depth: int) -> Schema:
        """Return one schema for alternatives, without null.

        Objects are joined to one object with the fields of all. A field is then required only if all alternatives
        require it. Other alternatives become `anyOf`; a single one stays unchanged. `depth` counts the levels above.
        """
        schemas = [self.schema(each, above, depth + 1) for each in options]
        schemas = [each for each in schemas if each.get("type") != "null"]

        if schemas and all(each.get("type") == "object" for each in schemas):
            joined: Schema = {}
            for each in schemas:
                _merge_into(joined, each)
            required = [set(map(str, as_list(each.get("required")))) for each in schemas]
            return {**joined, "required": [*sorted(set.intersection(*required))]}

        return schemas[0] if len(schemas) == 1 else {"anyOf": [*schemas]} if schemas else {}

    def _plain_schema(self, node: Node, above: tuple[str, ...], depth: int) -> Schema:
        """Return the type, limits, choices, items and fields of a schema without alternatives.

        `above` has the names of the schemas around it, and `depth` counts the levels.
        """
        schema: Schema = {**_type_only(node), **_description(node)}
        schema |= {key: node[key] for key in _NUMBERS if isinstance(node.get(key), (int, float))}
        schema |= {key: node[key] for key in ("format", "pattern") if isinstance(node.get(key), str)}

        if isinstance(node.get("default"), (str, int, float)):
            schema["default"] = node["default"]
        # `const` is a choice of one.
        choices = as_list(node.get("enum")) or ([node["const"]] if "const" in node else [])
        choices = [each for each in choices if each is not None and not isinstance(each, (dict, list))]
        if choices:
            schema["enum"] = choices

        if schema.get("type") == "array":
            schema["items"] = self.schema(node.get("items"), above, depth + 1)
        if isinstance(node.get("properties"), dict) and schema.get("type", "object") == "object":
            schema |= {"type": "object", **self._properties(node, above, depth)}
        return schema

    def _properties(self, node: Node, above: tuple[str, ...], depth: int) -> Schema:
        """Return the fields of an object and the names of required ones. Beyond `_MOST_PARTS`, fields are left out.

        `above` has the names of the schemas around the object, and `depth` counts the levels.
        """
        properties: dict[str, JSON] = {}
        for name, each in self.document.resolve(node.get("properties") or {}).items():
            if self.parts > _MOST_PARTS:
                break
            schema = self.schema(each, above, depth + 1)
            if self.document.resolve(each).get("readOnly") is True:
                schema["readOnly"] = True
            properties[name] = schema

        required = [each for each in as_list(node.get("required")) if isinstance(each, str) and each in properties]
        return {"properties": properties, "required": [*required]}


def _type_only(node: Node) -> Schema:
    """Return a schema with only the type. Return {}, which allows any value, unless there is one known type."""
    listed = node.get("type")
    types = [each for each in (listed if isinstance(listed, list) else [listed]) if each in _TYPES]
    return {"type": types[0]} if len(types) == 1 else {}


def _description(node: Node) -> Schema:
    """Return the description and up to five examples of a schema; keys without a value are left out."""
    text = node.get("description") or node.get("title")
    description: Schema = {"description": one_line(text)} if isinstance(text, str) and text.strip() else {}

    examples = [each for each in (node.get("example"), *_example_values(node.get("examples"))) if _is_short_value(each)]
    return {**description, "examples": examples[:5]} if examples else description


def one_line(text: str) -> str:
    """Return a text of the file as one line of limited length."""
    line = " ".join(text[: 4 * _LONGEST_TEXT].split())
    return line if len(line) <= _LONGEST_TEXT else f"{line[:_LONGEST_TEXT]}…"


def _is_short_value(value: JSON) -> bool:
    """Return True for a boolean, a number, or a text of 1 to 200 characters."""
    return isinstance(value, (bool, int, float)) or (isinstance(value, str) and 0 < len(value) <= 200)


def _example_values(value: JSON) -> Iterator[JSON]:
    """Yield examples from a list, `["Rex"]`, or from objects by name that may wrap the value, `{"a": {"value": 1}}`."""
    for each in value.values() if isinstance(value, dict) else as_list(value):
        yield each.get("value") if isinstance(each, dict) else each


def _merge_into(into: dict[str, JSON], other: Node) -> None:
    """Merge `other` into a schema in place: fields and required names add up, other keys are replaced."""
    for key, value in other.items():
        before = into.get(key)
        if isinstance(before, dict) and isinstance(value, dict) and key == "properties":
            into[key] = {**before, **value}
        elif isinstance(before, list) and isinstance(value, list) and key == "required":
            into[key] = [*before, *(each for each in value if each not in before)]
        else:
            into[key] = value


# -- operations

Place: TypeAlias = Literal["path", "query", "header", "body"]

_METHODS = ("get", "put", "post", "delete", "patch")
_LONGEST_NAME = 60
"""The most characters of a name, before a number or a prefix that makes it unique."""
_MOST_OPERATIONS = 2_000
_CLIENTS_OWN = frozenset("accept content-type authorization user-agent accept-language idempotency-key".split())
"""Headers that the client program sends, not the model."""

_LISTS = ("data", "items", "results", "value", "values", "entries", "records", "content", "list")
"""Fields that hold lists of items."""


class Parameter(msgspec.Struct, frozen=True):
    """A parameter of a function: its place and name in the API (the function's name for it may differ)."""

    schema: Schema
    place: Place
    original: str
    required: bool = False


class ApiAnswer(msgspec.Struct, frozen=True):
    """An operation's answer: its schema, and the schema's name in the file (for a list, the name of its items' schema).

    `field` is the field of the answer that holds the list, if the answer is an object around a list.
    """

    schema: Schema
    name: str
    field: str | None = None

    @property
    def is_list(self) -> bool:
        """True if the answer is a list."""
        return self.schema.get("type") == "array"

    @property
    def fields(self) -> Mapping[str, Schema]:
        """Return the fields of the answered object, or of each item of a list."""
        schema = cast("Schema", self.schema.get("items")) if self.is_list else self.schema
        return cast("Mapping[str, Schema]", schema.get("properties") or {})


class ApiOperation(msgspec.Struct, frozen=True):
    """An operation of the API as a function.

    `parts` are the parts of the path, with parameters as `{name}`; `in_path` holds the names of these parameters in the
    function. `body_name` is the name of the body's schema in the file.
    """

    name: str
    method: str
    parts: tuple[str, ...]
    description: str
    parameters: Mapping[str, Parameter]
    in_path: tuple[str, ...]
    body_name: str
    answer: ApiAnswer

    @property
    def ends_with_key(self) -> bool:
        """Return True if the path ends with a parameter, such as the key of a record in `/pets/{petId}`."""
        return bool(self.parts) and is_parameter(self.parts[-1])


def read_operations(path: Path, only: Collection[str] = ()) -> list[ApiOperation]:
    """Return the operations of an OpenAPI file: all, or those with a path, tag or operationId that matches `only`.

    Raises:
        ConfigurationError: The file cannot be used, has no or too many such operations, or a reference leaves the file.
    """
    document = ApiDocument(path)
    names: set[str] = set()

    entries = [each for each in _entries(document) if _is_selected(each, only)]
    if len(entries) > _MOST_OPERATIONS:
        raise ConfigurationError(f"{path}: has over {_MOST_OPERATIONS:,} operations; choose fewer with --only")

    operations = [_operation(document, each, names) for each in entries]
    if not operations:
        advice = f"correct --only {' or '.join(only)}" if only else "give another file"
        raise ConfigurationError(f"{path}: has no operation to simulate; {advice}")
    return operations


class _ApiEntry(msgspec.Struct, frozen=True):
    """An operation in the file, and `path_item`, the object of its path, with parameters that its operations share."""

    method: str
    path: str
    node: Node
    path_item: Node


def _entries(document: ApiDocument) -> Iterator[_ApiEntry]:
    """Yield every operation of the file with its method and path; `ApiDocument` has checked that there are `paths`.

    Raises:
        ConfigurationError: a reference leaves the file, or leads nowhere.
    """
    for path, each in cast("Node", document.root["paths"]).items():
        path_item = document.resolve(each)
        for method in _METHODS:
            if isinstance(path_item.get(method), dict):
                yield _ApiEntry(method, path, document.resolve(path_item[method]), path_item)


def _is_selected(entry: _ApiEntry, only: Collection[str]) -> bool:
    """Return True if the path, the operationId or a tag matches a pattern in `only`, or if there are no patterns."""
    # Patterns are those of file names, such as `/pets*`.
    names = [entry.path, str(entry.node.get("operationId", "")), *as_list(entry.node.get("tags"))]
    return not only or any(fnmatchcase(str(name), pattern) for name in names for pattern in only)


def _operation(document: ApiDocument, entry: _ApiEntry, names: set[str]) -> ApiOperation:
    """Return an entry of the file as an operation. It gets a name that is not in `names`; the name is added there."""
    node = entry.node
    parts = _path_parts(entry.path)
    operation_id = node.get("operationId")
    title = operation_id if isinstance(operation_id, str) and operation_id.strip() else f"{entry.method} {entry.path}"
    name = unused_name(identifier(title), names)
    names.add(name)

    parameters, body_name = _parameters(document, entry)
    summary, description = (str(node.get(key) or "").strip() for key in ("summary", "description"))
    has_both = summary and description and summary != description
    text = f"{summary.rstrip('.')}. {description}" if has_both else summary or description

    # The function's name of a parameter may differ from the name in the path.
    by_part = {f"{{{each.original}}}": own_name for own_name, each in parameters.items() if each.place == "path"}
    in_path = tuple(by_part[part] for part in parts if part in by_part)

    answer = _answer(document, node, parts[-1] if parts else "")
    return ApiOperation(name, entry.method, parts, one_line(text), parameters, in_path, body_name, answer)


def is_parameter(part: str) -> bool:
    """Return True if a part of a path is a parameter."""
    return part.startswith("{") and part.endswith("}")


def _path_parts(path: str) -> tuple[str, ...]:
    """Return the parts of a path: pets, {id}, feed for `/pets/{id}:feed`."""
    return tuple(part for part in re.sub(r"\}[:.]", "}/", path.partition("?")[0]).split("/") if part)


def identifier(text: str) -> str:
    """Return a valid Python name for any text: `get_pets_id` for `get /pets/{id}`, `n2fa` for `2fa`, `from_`."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[:_LONGEST_NAME].strip("_") or "unnamed"
    name = f"n{name}" if name[0].isdigit() else name
    return f"{name}_" if keyword.iskeyword(name) or keyword.issoftkeyword(name) else name


def unused_name(name: str, taken: Container[str]) -> str:
    """Return the name, with a number if it is taken: `pet_2` for the second `pet`."""
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def _parameters(document: ApiDocument, entry: _ApiEntry) -> tuple[dict[str, Parameter], str]:
    """Return the parameters by their names in the function, and the name of the body's schema in the file.

    Headers that the client program sends, such as those with keys, are no parameters.
    """
    nodes: dict[tuple[str, str], Node] = {}
    for node in (entry.path_item, entry.node):  # an operation's own parameters replace those of the path
        for each in as_list(node.get("parameters")):
            parameter = document.resolve(each)
            nodes[str(parameter.get("in")), str(parameter.get("name"))] = parameter
    # Some files name a parameter in the path without describing it.
    for part in filter(is_parameter, _path_parts(entry.path)):
        nodes.setdefault(("path", part[1:-1]), {"type": "string"})

    parameters: dict[str, Parameter] = {}
    body_name = ""
    for (place, name), parameter in nodes.items():
        is_models_header = place == "header" and name.lower() not in _CLIENTS_OWN | _key_headers(document)
        if place in ("path", "query", "formData") or is_models_header:
            # In OpenAPI 2.0, the type stands in the parameter itself, not in its `schema`.
            schema = _with_parameter_text(document.schema(parameter.get("schema") or parameter), parameter)
            required = place == "path" or parameter.get("required") is True
            own_place = "body" if place == "formData" else cast("Place", place)
            _add_parameter(parameters, Parameter(schema, own_place, name, required))

    # In OpenAPI 2.0, the body is a parameter with `in: body`.
    request = document.resolve(entry.node.get("requestBody"))
    bodies = [(request, _content_schema(document, request))] if request else []
    bodies += [(each, each.get("schema")) for each in nodes.values() if each.get("in") == "body"]
    for holder, media in bodies:
        body_name, body = document.named(media)
        if body.get("type") == "array":
            body_name, _ = document.named(body.get("items"))
        # A record that is replaced at a path without a key is identified by its `id` in the body.
        is_whole = entry.method in ("put", "patch") and "{" not in entry.path
        _add_body(parameters, document.schema(media), required=holder.get("required") is True, with_key=is_whole)
    return parameters, body_name


def _key_headers(document: ApiDocument) -> set[str]:
    """Return the names of headers for API keys, in lower case; OpenAPI 2.0 has them in `securityDefinitions`."""
    components = document.resolve(document.root.get("components"))
    schemes = document.root.get("securityDefinitions") or components.get("securitySchemes")
    return {str(document.resolve(each).get("name")).lower() for each in document.resolve(schemes).values()}


def _with_parameter_text(schema: Schema, parameter: Node) -> Schema:
    """Return the schema with the description and the example of its parameter."""
    text, example = parameter.get("description"), parameter.get("example")
    if isinstance(text, str) and text.strip():
        schema["description"] = one_line(text)
    if isinstance(example, (str, int, float)) and example != "" and "examples" not in schema:
        schema["examples"] = [example]
    return schema


def _content_schema(document: ApiDocument, holder: Node) -> JSON:
    """Return the schema of a body or an answer (`holder`), or None. JSON is preferred if there are several, then forms.

    In OpenAPI 2.0, the schema stands in the answer itself, without a media type.
    """
    content = document.resolve(holder.get("content"))
    kinds = sorted(content, key=lambda kind: ("json" not in kind, "form" not in kind))
    return document.resolve(content[kinds[0]]).get("schema") if kinds else holder.get("schema")


def _add_body(parameters: dict[str, Parameter], schema: Schema, *, required: bool, with_key: bool) -> None:
    """Add the fields of an object body to `parameters`; another body becomes one parameter `body`.

    Read-only fields are left out. With `with_key`, a read-only `id` is kept, because only it identifies the record.
    `required` is true if the request needs the body.
    """
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        if schema:
            _add_parameter(parameters, Parameter(schema, "body", "body", required))
        return

    needed = cast("Sequence[JSON]", schema.get("required") or ())
    for name, each in properties.items():
        field_schema = cast("Schema", each)
        if not field_schema.pop("readOnly", False) or (with_key and name == "id"):
            _add_parameter(parameters, Parameter(field_schema, "body", name, required=required and name in needed))


def _add_parameter(parameters: dict[str, Parameter], parameter: Parameter) -> None:
    """Add a parameter to `parameters` under a free name, unless the path has a parameter of the same original name."""
    name = identifier(parameter.original)
    known = parameters.get(name)
    if known is None:
        parameters[name] = parameter
    elif known.original != parameter.original or known.place != "path":
        parameters[unused_name(f"{parameter.place}_{name}", parameters)] = parameter


def _answer(document: ApiDocument, node: Node, last: str) -> ApiAnswer:
    """Return the answer of a successful operation, without wrappers.

    Its fields are tried in their order: in `{"total": 2, "data": […]}`, `data` holds the list, and in `{"pet": {…}}`,
    the only field holds the object. `last` is the last part of the path: a field of this name may hold the list. `node`
    is the operation.
    """
    answers = document.resolve(node.get("responses"))
    code = next((each for each in ("200", "201", "202", "2XX", "default") if each in answers), None)

    media = _content_schema(document, document.resolve(answers[code])) if code is not None else None
    name, node_of_answer = document.named(media)

    fields = document.resolve(node_of_answer.get("properties"))
    for field_name, each in fields.items():
        inner_name, inner = document.named(each)
        may_hold_list = field_name.lower() in (*_LISTS, last.lower())
        if inner.get("type") == "array" and may_hold_list:
            return ApiAnswer(document.schema(inner), document.named(inner.get("items"))[0], field_name)
        if "properties" in inner and (field_name == "data" or len(fields) == 1):
            return ApiAnswer(document.schema(inner), inner_name)

    if node_of_answer.get("type") == "array":
        name = document.named(node_of_answer.get("items"))[0]
    return ApiAnswer(document.schema(media), name)
