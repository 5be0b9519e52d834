"""Tool definitions: read them, walk their schemas, and validate the arguments of calls against them.

The module has three parts, in this order:

1. `ToolDefinitions.read` finds the definitions in the forms that data sets have: OpenAI tools, bare functions, JSON
   text, and lists of these.
2. `Schema` is a place in a JSON Schema. It answers the matcher's questions: which schema a property or list item has,
   its default, its types. It looks at a few levels only. A malformed part of a schema gives no answer and no error.
3. `check` validates a call's arguments with the native validator of `jsonschema_rs`.

Definitions come from data sets and arguments from models, so both may be hostile. The native validator cannot be
interrupted, and a few lines of references can cause unlimited work. So `check` takes these steps:

1. Measure the schema and compile it. Large schemas, references to other documents and inner ids are refused.
2. Estimate the work from the figures of the schema and the size of the arguments (`_CompiledSchema.visits`). More than
   about a second is refused.
3. Validate. Patterns run on an engine that takes linear time.
4. Explain invalid arguments with the first three violations, or in general words if collecting them takes too long.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence, Set
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import unquote

import msgspec

from tunecheck._json import JSON, canonical, loads, value_of
from tunecheck.calls._model import levels, tool_name

if TYPE_CHECKING:
    import jsonschema_rs

# -- tool definitions

# keys that hold a list of definitions: {"tools": [{"name": "f"}]}
_WRAPPERS = ("tools", "functions", "tool_definitions")
# keys for the schema of the parameters: OpenAI's, Anthropic's, and that of the Model Context Protocol
_SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema")
# keys whose near misspellings get a hint: of a definition, and of the schema of its parameters
_DEFINITION_KEYS, _OBJECT_KEYS = ("name", "description", "parameters"), ("type", "properties", "required")
_CACHED_CHARACTERS = 262_144  # longer texts are not cached, to keep the cache small
_MOST_NESTED = 4  # wrappers in wrappers, JSON text in JSON text

TOOL_COLUMNS = ("tool_definitions", "tools", "functions")
"""The columns that may contain definitions; the first one present is used."""


class FunctionDefinition(msgspec.Struct, frozen=True):
    """One function: its name, the JSON Schema of its parameters, and its description."""

    name: str
    parameters: Mapping[str, JSON]
    description: str = ""

    @property
    def schema(self) -> Schema:
        """The schema of the parameters."""
        return Schema(self.parameters, self.parameters)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The parameters in the order of their definition."""
        properties = self.parameters.get("properties")
        return tuple(properties) if isinstance(properties, dict) else ()

    def check(self, arguments: Mapping[str, JSON]) -> SchemaCheck:
        """Validate a call's arguments against the schema of the parameters; without a schema, everything is valid.

        A schema that cannot be used is the result's `problem`; no error is raised.
        """
        if not self.parameters:
            return SchemaCheck()

        try:
            text = canonical(self.parameters)
        except (TypeError, ValueError) as error:
            return SchemaCheck(problem=f"the schema of {self.name} cannot be used: {error}"[:300])
        return check(self.name, text, arguments)


class ToolDefinitions(msgspec.Struct, eq=False):
    """The functions that a model was offered, by name.

    Definitions are read on access and never copied. Instances are read-only and can be shared.
    """

    _tools: Mapping[str, Mapping[str, JSON]]

    @classmethod
    def read(cls, value: object) -> ToolDefinitions:
        """Read tool definitions: an OpenAI tool, a bare function schema, a list of these, or the JSON text of any.

        A bare schema is an object with `name`, `description` and `parameters`. None and empty values are no
        definitions. All of these define `f`:

            {"type": "function", "function": {"name": "f", "parameters": {…}}}
            {"name": "f", "parameters": {…}}
            [{"name": "f"}, {"name": "g"}]
            {"tools": [{"name": "f"}]}
            '[{"name": "f"}]'

        Raises:
            ValueError: the text is not JSON, or an item is not a definition of a function; the message says where.
        """
        if value is None or (isinstance(value, (str, list, tuple, dict)) and not value):
            return _NONE
        if isinstance(value, str) and len(value) <= _CACHED_CHARACTERS:
            return _read_text(value)
        return cls(_tools_by_name(value))

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def get(self, name: str) -> FunctionDefinition | None:
        """Return the definition of the function of that name, or None."""
        tool = self._tools.get(name)
        return None if tool is None else FunctionDefinition(name, _parameters(tool), str(tool.get("description") or ""))

    def misspelt_keys(self) -> Iterator[str]:
        """Yield a hint for each probably misspelt key of a definition or its schema.

        A hint is a text such as `'paramters'; did you mean 'parameters'?`.
        """
        for tool in self._tools.values():
            schema = _parameters(tool)
            # A schema under another accepted key, such as `input_schema`, is no misspelt `parameters`.
            has_schema = any(key in tool for key in _SCHEMA_KEYS)
            yield from _misspelt({*tool, "parameters"} if has_schema else {*tool}, _DEFINITION_KEYS)
            yield from _misspelt({*schema}, _OBJECT_KEYS)

    def spelled(self, name: str) -> FunctionDefinition | None:
        """Return the definition of the function of that name, or of a name that differs only by dots and underscores.

        Return None if there is neither.
        """
        if name in self._tools:
            return self.get(name)
        plain = tool_name(name)
        return next((self.get(tool) for tool in self._tools if tool_name(tool) == plain), None)


def _misspelt(keys: Set[str], expected: Sequence[str]) -> Iterator[str]:
    """Yield a hint for each expected key that is missing, if another key is spelled nearly the same."""
    for missing in (key for key in expected if key not in keys):
        for similar in get_close_matches(missing, keys - {*expected}, n=1, cutoff=0.75):
            yield f"{similar[:60]!r}; did you mean {missing!r}?"


_NONE = ToolDefinitions({})


@functools.lru_cache(maxsize=32)  # most data sets repeat the same few tool sets
def _read_text(text: str) -> ToolDefinitions:
    """Read tool definitions from JSON text, cached; raises the ValueError of `_tools_by_name`."""
    return ToolDefinitions(_tools_by_name(text))


def _tools_by_name(value: object) -> dict[str, Mapping[str, JSON]]:
    """Collect the definitions by function name; of several with the same name, the first counts.

    Raises:
        ValueError: the value contains something that is no definition; the message says where.
    """
    tools: dict[str, Mapping[str, JSON]] = {}
    for place, tool in _flat_definitions(value, "tool_definitions", _MOST_NESTED):
        name = tool.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError(f"{place} has no name: write an OpenAI tool, or an object with name and parameters")
        tools.setdefault(name, tool)
    return tools


def _flat_definitions(value: object, place: str, levels_left: int) -> Iterator[tuple[str, Mapping[str, JSON]]]:
    """Yield each definition in lists, wrappers and JSON text, with its place for messages (`tool_definitions[0]`).

    `levels_left` is the number of further levels allowed.

    Raises:
        ValueError: an item is none of these, a text is not JSON, or the nesting is too deep.
    """
    if levels_left < 0:
        raise ValueError(f"{place} is nested too deeply: write a list of tool definitions")

    if isinstance(value, str):
        try:
            inner = loads(value)
        except ValueError as error:
            raise ValueError(f"{place} is not JSON: {error}") from None
        yield from _flat_definitions(inner, place, levels_left - 1)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            # OpenAI's form and bare functions are nearly all items, so they are yielded without another call.
            tool = item.get("function", item) if levels_left and isinstance(item, dict) else None
            if isinstance(tool, dict) and tool.get("name") and isinstance(tool["name"], str):
                yield place, tool  # its exact place is never shown, because it has a name
            else:
                yield from _flat_definitions(item, f"{place}[{index}]", levels_left - 1)
    elif not isinstance(value, dict):
        raise ValueError(f"{place} must be a tool definition, not {type(value).__name__}")
    elif isinstance(function := value.get("function"), dict):
        yield f"{place}.function", function
    else:
        # An object with a `name` is a definition and wraps no list.
        wrapper = next((key for key in _WRAPPERS if "name" not in value and isinstance(value.get(key), list)), None)
        if wrapper is None:
            yield place, value
        else:
            yield from _flat_definitions(value[wrapper], f"{place}.{wrapper}", levels_left - 1)


def _parameters(tool: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Return the JSON Schema of a definition's parameters, an object or its JSON text; empty without a schema."""
    for key in _SCHEMA_KEYS:
        schema = tool.get(key)
        if isinstance(schema, str):  # some data sets contain JSON text inside JSON
            schema = value_of(schema)
        if isinstance(schema, dict):
            return schema
    return {}


# -- schemas

# levels of references and branches that are followed below a node
_MOST_STEPS = 6
_BRANCHES = ("anyOf", "oneOf", "allOf")
# types under which 5 and 5.0 are one number, in the spellings of JSON Schema, BFCL and Java
_NUMBER_NAMES = frozenset(("number", "float", "double", "integer", "int", "long"))
_TYPE_NAMES = {"dict": "object", "float": "number", "double": "number", "tuple": "array", "list": "array"}
"""Type names of the Berkeley Function Calling Leaderboard, with their names in JSON Schema."""


class Schema(msgspec.Struct, frozen=True):
    """A place in a schema document. References are resolved in the document, `root`.

    Each question is put to the node, the targets of its references and its branches, nearest first. In this document,
    the property `city` has the types {"string", "null"}, and `days` has the default 3:

        {"type": "object",
         "properties": {"city": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "days": {"$ref": "#/$defs/days"}},
         "$defs": {"days": {"type": "integer", "default": 3}}}
    """

    node: Mapping[str, JSON]
    root: Mapping[str, JSON]

    def property(self, name: str) -> Schema | None:
        """Return the schema of the property of that name, or of additional properties; None if there is neither."""
        return self._subschema("properties", name) or self._subschema("additionalProperties")

    def item(self, index: int) -> Schema | None:
        """Return the schema of the list's item at this index, or None if the schema has none for it."""
        # One schema for each position is a list under `prefixItems`, in older drafts under `items`.
        return self._subschema("prefixItems", index) or self._subschema("items", index) or self._subschema("items")

    def says_number(self) -> bool:
        """Return whether the schema or one of its branches has a number type.

        JSON Schema then treats `5` and `5.0` as equal.
        """
        return any(not _NUMBER_NAMES.isdisjoint(_type_names(node)) for node in self._variants())

    def types(self) -> frozenset[str]:
        """Return JSON Schema's names of the accepted types, from `type` or else from the values of `enum`.

        Return an empty set if the schema accepts all types.
        """
        names: set[str] = set()
        for node in self._variants():
            names.update(_type_names(node))
            values = node.get("enum")
            if node.get("type") is None and isinstance(values, list):
                names.update(type_of(value) for value in values)
        return frozenset(_TYPE_NAMES.get(name, name) for name in names)

    def default(self, name: str) -> tuple[JSON] | None:
        """Return the default of an optional property as a tuple of one, because the default may be null.

        Return None if the property is required or has no default.
        """
        for node in self._variants():
            required = node.get("required")
            if isinstance(required, list) and name in required:
                return None

        subschema = self.property(name)
        return subschema.own_default() if subschema else None

    def own_default(self) -> tuple[JSON] | None:
        """Return this schema's default as a tuple of one, because the default may be null; None if there is none."""
        for node in self._variants():
            if "default" in node:
                return (node["default"],)
        return None

    def _subschema(self, *steps: str | int) -> Schema | None:
        """Return the subschema at this path of keys and indexes in the first variant that has one; else None."""
        for node in self._variants():
            value: JSON = dict(node)
            for step in steps:
                value = _child(value, step)
            if isinstance(value, dict):
                return Schema(value, self.root)
        return None

    def _variants(self) -> Iterator[Mapping[str, JSON]]:
        """Yield this node, the targets of its references, and its branches of anyOf, oneOf and allOf, at all levels.

        Nearer ones come first. Stop after a few levels, because hostile schemas refer to themselves or branch without
        end.
        """
        waiting: list[tuple[Mapping[str, JSON], int]] = [(self.node, 0)]
        # The list grows while the loop reads it, so nearer nodes come first.
        for node, steps in waiting:
            yield node
            if steps >= _MOST_STEPS or len(waiting) > 50:
                continue

            target = node.get("$ref")
            inner = at_pointer(self.root, target) if isinstance(target, str) else None
            if isinstance(inner, dict):
                waiting.append((inner, steps + 1))

            for key in _BRANCHES:
                branches = node.get(key)
                if isinstance(branches, list):
                    waiting.extend((branch, steps + 1) for branch in branches[:20] if isinstance(branch, dict))


def at_pointer(root: Mapping[str, JSON], reference: str) -> JSON:
    """Return the part of a schema document at a local reference (`#`, `#/$defs/x`).

    `#/$defs/a~1b` is the definition `a/b`, because JSON Pointer writes `~1` for `/` and `~0` for `~`. Return None if
    the reference is not local or points to nothing.
    """
    if not reference.startswith("#/"):
        return dict(root) if reference == "#" else None

    value: JSON = dict(root)
    for part in unquote(reference[2:]).split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        is_index = isinstance(value, list) and key.isdecimal() and key.isascii()
        value = _child(value, int(key[:9]) if is_index else key)  # int() refuses thousands of digits
    return value


def _child(value: JSON, step: str | int) -> JSON:
    """Return the value at this key of an object or index of a list, or None if there is no value."""
    if isinstance(value, dict) and isinstance(step, str):
        return value.get(step)
    return value[step] if isinstance(value, list) and isinstance(step, int) and step < len(value) else None


def _type_names(node: Mapping[str, JSON]) -> list[str]:
    """Return the names under `type`, in lower case."""
    kind = node.get("type")
    return [name.lower() for name in (kind if isinstance(kind, list) else [kind]) if isinstance(name, str)]


def type_of(value: JSON) -> str:
    """Return JSON Schema's name for the type of a JSON value; 5 is an "integer", 5.0 a "number"."""
    names = {bool: "boolean", str: "string", int: "integer", float: "number", dict: "object", list: "array"}
    return names.get(type(value), "null")


# -- validation

_MOST_BYTES = 262_144  # of a schema as JSON text
_CACHED_BYTES = 16_384  # 512 compiled schemas stay small
_MOST_PLACES = 20_000  # places of a schema with its references written out
_DEEPEST = 100  # levels of a schema or of arguments: the native validator must not overflow the stack of any thread
_DEEPEST_RECURSION = 600  # levels of a recursive schema times levels of the arguments, for the same reason
_MOST_VISITS = 10_000_000  # about a second of validation
_EXPLAINED_VISITS = 20_000  # collecting errors costs a thousand times more than finding that there are some
# Values copied into errors, as each error about a missing name copies the object: 3,000 names and as many objects took
# over 100 s.
_MOST_COPIES = 400_000
_MOST_VIOLATIONS = 3  # shown for one call
_MOST_CHARACTERS = 160  # of a message, which is one line
_REGEX_BYTES = 1 << 20  # of one compiled pattern
# Keywords that can lead to several visits of one value, as pieces of canonical JSON: `Of"` is in "anyOf", "oneOf" and
# "allOf"; `"depend` is in "dependentSchemas"; `"property` is in "propertyNames", but not in "properties".
_MULTIPLYING = (b'"$ref"', b'Of"', b'"not"', b'"if"', b'"patternProperties"', b'"contains"', b'"depend', b'"property')
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")  # the last two are those of JSON Schema 2020-12 and 2019-09
_DEFINITIONS = ("$defs", "definitions")  # in new and old drafts
# keywords whose value is an object with names chosen by the author, such as those of properties, as its keys
_NAMED = ("properties", "patternProperties", "dependentSchemas", "dependentRequired", "dependencies")


class SchemaCheck(msgspec.Struct, frozen=True):
    """The result of a validation: the first few violations, or the problem that prevented it."""

    violations: tuple[str, ...] = ()
    problem: str | None = None


def check(name: str, schema: bytes, arguments: Mapping[str, JSON]) -> SchemaCheck:
    """Validate a call's arguments against its function's schema, given as canonical JSON. Never raises.

    The work is estimated first. If it could take seconds, the result is a `problem` instead of a validation. Violations
    are the first three, or one in general words if searching for them could take long.
    """
    # Only small schemas are kept in the cache.
    compiled = (_cached if len(schema) <= _CACHED_BYTES else _CompiledSchema)(schema)
    if compiled.validator is None:
        return SchemaCheck(problem=f"the schema of {name} cannot be used: {compiled.problem}")

    size, depth = _measure(arguments)
    visits = compiled.visits(size, depth)
    recursion = depth * compiled.depth if compiled.recursions else compiled.depth
    if visits > _MOST_VISITS or depth > _DEEPEST or recursion > _DEEPEST_RECURSION:
        return SchemaCheck(problem=f"the arguments of {name} are too large to be checked against its schema")

    try:
        values = dict(arguments)
        if compiled.validator.is_valid(values):
            return SchemaCheck()

        if visits > _EXPLAINED_VISITS or size * compiled.required > _MOST_COPIES:
            return SchemaCheck(violations=("the arguments do not fit the schema",))
        violations = islice(map(_violation, compiled.validator.iter_errors(values)), _MOST_VIOLATIONS)
        return SchemaCheck(violations=tuple(violations))
    except (ValueError, TypeError, OverflowError) as error:  # a lone surrogate, a number the validator cannot hold
        return SchemaCheck(problem=f"the arguments of {name} cannot be checked: {error}"[:_MOST_CHARACTERS])


def _violation(error: jsonschema_rs.ValidationError) -> str:
    """Return a violation as one line, `path: message`, shortened."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
    text = f"{path.removeprefix('.')}: {error.message}" if path else error.message
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"


def _measure(value: Mapping[str, JSON]) -> tuple[int, int]:
    """Return the number of values and the depth of their nesting, to estimate the work of a validation.

    64 characters of text count as one more value. Levels below the first one that is too deep to be validated do not
    count.
    """
    size, depth = 0, 0
    for level in islice(levels(dict(value)), _DEEPEST + 1):
        size += len(level) + sum(len(item) >> 6 for item in level if isinstance(item, str))  # divided by 64
        depth += 1
    return size, depth


class _CompiledSchema:
    """A schema's validator, with figures to estimate the work of a validation.

    places: how often one value may be visited.
    recursions: the number of recursive references, by which each level of nesting in a value multiplies the visits.
    depth: the nesting of the schema.
    required: the number of required names.
    validator, problem: the validator, or why there is none.
    """

    def __init__(self, schema: bytes) -> None:
        """Measure the schema (canonical JSON) and make its validator. Errors are not raised but kept in `problem`."""
        self.places = self.depth = self.recursions = self.required = self._back_references = 0
        self.validator: jsonschema_rs.Validator | None = None
        self.problem = ""
        try:
            self.validator = self._compile(schema)
        except (ValueError, TypeError, OverflowError) as error:
            self.problem = str(getattr(error, "message", error))[:_MOST_CHARACTERS]
        # Without keywords that multiply the visits, each value is visited once.
        if not any(word in schema for word in _MULTIPLYING):
            self.places = 1

    def visits(self, size: int, depth: int) -> int:
        """Return an estimate of the work to validate a value: how often a place of the schema visits a part of it.

        Each of the `size` parts may be visited at each place, and every level of nesting multiplies the visits by the
        number of recursive references: size · places · recursions ^ depth.

        A binary tree, `{"$ref": "#/$defs/node"}` with `left` and `right` that refer to the node again, has 5 places
        (the document, the node, its list of properties, the two properties) and 2 recursive references. A tree of
        3 levels has 7 parts: 7 · 5 · 2³ = 280 visits.
        """
        # A greater exponent makes no difference: 2 ** 64 is above all limits, and powers of 1 are 1.
        return size * self.places * int(max(self.recursions, 1) ** min(depth, 64))

    def _compile(self, schema: bytes) -> jsonschema_rs.Validator:
        """Measure the schema, and make its validator.

        Raises:
            ValueError: the schema is too large, refers to other documents or is invalid.
        """
        import jsonschema_rs  # imported on use: not every match validates calls

        if len(schema) > _MOST_BYTES:
            raise ValueError(f"the schema is longer than {_MOST_BYTES:,} bytes: shorten it")

        root = loads(schema)
        assert isinstance(root, dict)
        self._root = root
        self._id_key = "id" if "draft-04" in str(self._root.get("$schema")) else "$id"
        self._visit(self._root, frozenset(), 0)

        return jsonschema_rs.validator_for(
            _plain_types(self._root),  # type: ignore[arg-type]
            retriever=_fetch_nothing,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=_REGEX_BYTES, dfa_size_limit=_REGEX_BYTES),
            validate_formats=False,
        )

    def _visit(self, node: JSON, followed: frozenset[str], depth: int) -> None:
        """Add this node and all below it to the schema's figures, following references until they recur.

        `followed` are the references that lead here, `depth` is the nesting.

        Raises:
            ValueError: the schema is too large or too deep, a reference is not local, or an inner id changes what
                references mean.
        """
        if not isinstance(node, (dict, list)):
            return

        self.places += 1
        self.depth = max(self.depth, depth)
        if self.places > _MOST_PLACES or depth > _DEEPEST:
            raise ValueError(
                f"the schema is too large (over {_MOST_PLACES:,} values or {_DEEPEST} levels, with its references "
                "replaced): simplify it"
            )

        if isinstance(node, list):
            for item in node:
                self._visit(item, followed, depth + 1)
            return

        if depth and isinstance(node.get(self._id_key), str):
            raise ValueError(f"the key {self._id_key!r} inside the schema changes the meaning of references: remove it")

        required = node.get("required")
        self.required += len(required) if isinstance(required, list) else 0

        for key, inner in node.items():
            if key in _REFERENCES and isinstance(inner, str):
                self._follow(inner, followed, depth + 1)
            # The names of properties are data: a property may have the name "$ref".
            elif key in _NAMED and isinstance(inner, dict):
                self._visit([*inner.values()], followed, depth + 1)
            elif key not in _DEFINITIONS:  # definitions count only at each reference
                self._visit(inner, followed, depth + 1)

    def _follow(self, reference: str, followed: frozenset[str], depth: int) -> None:
        """Visit the target of a local reference. Only count a recursive reference, whose target is in `followed`.

        Raises:
            ValueError: the reference is not local.
        """
        if not reference.startswith("#") or (len(reference) > 1 and reference[1] != "/"):
            raise ValueError(f"the schema's reference {reference[:80]!r} is not local: write a path like '#/$defs/x'")

        if reference in followed:
            self._back_references += 1
            return

        self._visit(at_pointer(self._root, reference), followed | {reference}, depth)
        # Recursive references multiply the visits only below the outermost reference that leads to them. The largest
        # number below one such reference counts, so the count begins again for the next.
        if not followed:
            self.recursions, self._back_references = max(self.recursions, self._back_references), 0


_cached = functools.lru_cache(maxsize=512)(_CompiledSchema)


def _fetch_nothing(uri: str) -> NoReturn:
    """Refuse to fetch another document that a schema refers to (ValueError)."""
    raise ValueError(f"the schema refers to another document: copy {uri[:80]!r} into the schema")


def _plain_types(node: JSON, keyword: str = "") -> JSON:
    """Return a copy of a schema with BFCL's type names replaced by JSON Schema's, and without `"type": "any"`.

    `{"type": ["dict", "null"], "default": {"type": "dict"}}` becomes `{"type": ["object", "null"], "default": {"type":
    "dict"}}`. `keyword` is the schema's keyword with `node` as its value. Data (enum, default, …) is unchanged.
    """
    if keyword in ("enum", "const", "default", "examples"):
        return node

    if keyword == "type":
        # JSON Schema forbids duplicates, which `list` and `tuple` would become.
        names = [_TYPE_NAMES.get(str(name), name) for name in (node if isinstance(node, list) else [node])]
        return [*{repr(name): name for name in names}.values()] if isinstance(node, list) else names[0]
    if isinstance(node, list):
        return [_plain_types(item) for item in node]
    if not isinstance(node, dict):
        return node
    # The keys may be names, such as a property's name `default`, and no keywords.
    if keyword in (*_NAMED, *_DEFINITIONS):
        return {name: _plain_types(value) for name, value in node.items()}
    kinds = _type_names(node)
    return {key: _plain_types(value, key) for key, value in node.items() if key != "type" or "any" not in kinds}
