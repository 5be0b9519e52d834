"""BFCL's function documents as a model is shown them, and as OpenAI tools."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tunecheck._json import JSON
from tunecheck.datasets._bfcl.categories import Language
from tunecheck.datasets._bfcl.prompts import Wording

Document = dict[str, JSON]

MAX_DEPTH = 64
"""Deepest schema that is converted; real ones stay below ten."""

_JSON_TYPES = {
    "array": ("array", "list", "tuple", "Array", "ArrayList", "Queue", "Stack"),
    "boolean": ("boolean", "bool"),
    "integer": ("integer", "byte", "short", "long", "Bigint"),
    "number": ("number", "float", "double"),
    "object": ("object", "dict", "HashMap", "Hashtable"),
}
_JSON_TYPE = {name: to for to, names in _JSON_TYPES.items() for name in names}
"""The documents' names of types as those of JSON Schema; any other stands for text."""

_LISTS = {"java": ("Array", "ArrayList"), "javascript": ("array",)}
"""What counts as a list, in each language, when its values are to be given as text."""


def with_hints(documents: Sequence[Document], language: Language, wording: Wording) -> list[Document]:
    """The documents as a model is shown them: with the language named, and Java and JavaScript values as text."""
    return [_with_hint(document, language, wording) for document in documents]


def _with_hint(document: Document, language: Language, wording: Wording) -> Document:
    hint = {"python": wording.python, "java": wording.java, "javascript": wording.javascript}[language]
    hinted = document | {"description": _description(document) + hint}
    parameters = document.get("parameters")
    if language == "python" or not isinstance(parameters, dict):
        return hinted
    properties = parameters.get("properties")
    if not isinstance(properties, dict):
        return hinted
    as_text = {name: _as_text(schema, language, wording) for name, schema in properties.items()}
    return hinted | {"parameters": parameters | {"properties": as_text}}


def _as_text(schema: JSON, language: Language, wording: Wording) -> JSON:
    """A parameter whose values are to be written in the language, as text; what that hides is said in words."""
    if not isinstance(schema, dict):
        return schema
    kept = dict(schema)
    declared = schema.get("type")
    java = language == "java"
    if declared == "any":
        said = wording.java_any if java else wording.javascript_any
    else:
        said = f"{wording.java_type if java else wording.javascript_type}{declared}{wording.type_end}"
    if declared in _LISTS[language]:
        items = kept.pop("items", None)
        if isinstance(items, dict):
            said += f"{wording.items}{items.get('type')}{wording.items_end}"
    if declared == "dict" and not java and isinstance(schema.get("properties"), dict):
        said += wording.entries + json.dumps(kept.pop("properties"))
    return kept | {"type": "string", "description": _description(schema) + said}


def to_tools(documents: Sequence[Document], wording: Wording | None = None) -> list[JSON]:
    """OpenAI tools `{"type": "function", "function": {…}}` for documents, in the same order.

    Types become those of JSON Schema at every depth; a float, a `number` with `format: float` and a word about it. All
    that a document has besides is kept, its `response` too. Names are as `tool_name` makes them.
    """
    words = wording or Wording()
    return [{"type": "function", "function": _function(document, words)} for document in documents]


def tool_name(name: str) -> str:
    """A function's name as a tool may have it: `math.gcd` is `math_gcd`."""
    return name.replace(".", "_")


def _function(document: Document, wording: Wording) -> JSON:
    parameters = document.get("parameters")
    converted = _schema(parameters, wording, 0) if isinstance(parameters, dict) else {"properties": {}}
    assert isinstance(converted, dict)
    return document | {
        "name": tool_name(str(document.get("name"))),
        "parameters": converted | {"type": "object"},
    }


def _schema(schema: JSON, wording: Wording, depth: int) -> JSON:
    """A schema's parts with their types converted; its own type is left to whoever holds it."""
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return schema
    converted = dict(schema)
    properties = schema.get("properties")
    if isinstance(properties, dict):
        converted["properties"] = {
            name: _described(_typed(part, wording, depth + 1), part, wording) for name, part in properties.items()
        }
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            converted[key] = _typed(schema[key], wording, depth + 1)
    return converted


def _typed(schema: JSON, wording: Wording, depth: int) -> JSON:
    if not isinstance(schema, dict):
        return schema
    declared = schema.get("type")
    converted = _schema(schema, wording, depth)
    assert isinstance(converted, dict)
    return converted | {"type": _JSON_TYPE.get(declared, "string") if isinstance(declared, str) else "string"}


def _described(converted: JSON, schema: JSON, wording: Wording) -> JSON:
    """A property that was declared as a float says so still."""
    if not isinstance(converted, dict) or not isinstance(schema, dict) or schema.get("type") != "float":
        return converted
    return converted | {"description": _description(schema) + wording.floating, "format": "float"}


def _description(schema: Document) -> str:
    description = schema.get("description")
    return description if isinstance(description, str) else ""
