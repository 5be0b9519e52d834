"""Rows of BFCL: an entry of the question files with its answer, functions and tools, in one form for all categories."""

import json
from collections.abc import Sequence
from typing import cast

from tunecheck.calls import tool_name
from tunecheck.datasets import JsonLinesSource, Record, as_list, as_object, as_text, refuse
from tunecheck.plugins import JSON, dumps, loads
from tunecheck_bfcl._data.categories import Category, Language
from tunecheck_bfcl._data.files import BfclFiles
from tunecheck_bfcl._data.prompts import PromptWording

Document = dict[str, JSON]

MAX_DEPTH = 64
"""The deepest level of a schema that is converted. Real schemas have fewer than ten levels."""

_JSON_TYPES = {
    "array": ("array", "list", "tuple", "Array", "ArrayList", "Queue", "Stack"),
    "boolean": ("boolean", "bool"),
    "integer": ("integer", "byte", "short", "long", "Bigint"),
    "number": ("number", "float", "double"),
    "object": ("object", "dict", "HashMap", "Hashtable"),
}
_JSON_TYPE = {name: to for to, names in _JSON_TYPES.items() for name in names}
"""The JSON Schema type for each type name in function documents. Other names become string."""

_LISTS = {"java": ("Array", "ArrayList"), "javascript": ("array",)}
"""The list types of each language, for parameters that take source code as text."""


class RowBuilder:
    """A builder of rows from entries. It reads each simulator's function documents once.

    A single-turn row has `id`, `category`, `check`, `language`, `messages`, `tools`, `functions` and `ground_truth`
    (the possible answers, or None). For Java and JavaScript, it also has `declared`: the documents with the declared
    types.

    A multi-turn row has `id`, `category`, `check`, `turns` (the messages of each turn), `tools`, `functions`,
    `held_out` and `held_out_tools` (by turn number as text), `initial_config`, `involved_classes`, `ground_truth`
    (the call texts of each turn) and `long_context`.

    `functions` are the documents that the model gets at first, and `held_out` those that it gets in later turns.
    `tools` and `held_out_tools` are the same functions as OpenAI tools.
    """

    def __init__(self, files: BfclFiles) -> None:
        self._files = files
        self._wording = PromptWording.read(files.package)
        self._functions: dict[str, bytes] = {}

    def row(self, category: Category, entry: Record, answer: Record | None) -> Record:
        """Return the row of an entry and its answer.

        Raises:
            UnusableRowError: the entry and the answer do not belong together, or have another form.
        """
        if answer is not None and answer.get("id") != entry.get("id"):
            refuse(f"the answer on the same line has the id {answer.get('id')!r}, not {entry.get('id')!r}")
        if category.multi_turn:
            return self._conversation(category, entry, answer or {})
        return self._question(category, entry, answer)

    def _question(self, category: Category, entry: Record, answer: Record | None) -> Record:
        """Return the row of a single question. Refuse an entry with no turn or several."""
        turns = _turns(entry)
        if len(turns) != 1:
            refuse(f"a single-turn question must have one turn, not {len(turns)}")
        declared = _documents(entry.get("function"), "function")
        functions = with_hints(declared, category.language, self._wording)
        row: Record = {
            "id": as_text(entry.get("id"), "id"),
            "category": category.name,
            "check": category.check,
            "language": category.language,
            "messages": turns[0],
            "tools": to_tools(functions, self._wording),
            "functions": list(functions),
            "ground_truth": None if answer is None else as_list(answer.get("ground_truth"), "ground_truth"),
        }
        if category.language != "python":
            row["declared"] = list(declared)
        return row

    def _conversation(self, category: Category, entry: Record, answer: Record) -> Record:
        """Return the row of a conversation. Functions that later turns add are only in `held_out`.

        Refuse the row if the ground truth has another number of turns than the question.
        """
        turns = _turns(entry)
        truth = as_list(answer.get("ground_truth"), "ground_truth")
        if len(truth) != len(turns):
            refuse(f"ground_truth has {len(truth)} turns, but the question has {len(turns)}")
        classes = [
            as_text(name, "involved_classes") for name in as_list(entry.get("involved_classes"), "involved_classes")
        ]
        functions = [function for name in classes for function in self._class_functions(name)]
        held_out = _held_out(entry.get("missed_function"), [document for document, _, _ in functions])
        later_names = {document["name"] for documents in held_out.values() for document in documents}
        offered = [each for each in functions if each[0]["name"] not in later_names]
        return {
            "id": as_text(entry.get("id"), "id"),
            "category": category.name,
            "check": category.check,
            "turns": list(turns),
            "tools": [tool for _, _, tool in offered],
            "functions": [hinted for _, hinted, _ in offered],
            "held_out": {turn: list(documents) for turn, documents in held_out.items()},
            "held_out_tools": {turn: to_tools(documents, self._wording) for turn, documents in held_out.items()},
            "initial_config": as_object(entry.get("initial_config", {}), "initial_config"),
            "involved_classes": list(classes),
            "ground_truth": truth,
            "long_context": category.long_context,
        }

    def _class_functions(self, simulator: str) -> list[tuple[Document, JSON, JSON]]:
        """Return a simulator's functions in three forms each: the original document, with hints, and as a tool."""
        if simulator not in self._functions:
            records = JsonLinesSource(self._files.function_docs(simulator)).records()
            documents = _documents([record for _, record in records], "the function documents")
            hinted = with_hints(documents, "python", self._wording)
            self._functions[simulator] = dumps([*zip(documents, hinted, to_tools(hinted, self._wording), strict=True)])
        # Parsed again for each row, so that a change of one row does not affect others.
        return cast("list[tuple[Document, JSON, JSON]]", loads(self._functions[simulator]))


def _held_out(value: JSON, offered: Sequence[Document]) -> dict[str, list[Document]]:
    """Return the documents of the functions that later turns add, by turn.

    A name that is not in the involved classes is ignored. The category that is not scored has such names.
    """
    by_name = {document["name"]: document for document in offered}
    return {
        turn: [by_name[name] for name in as_list(names, "missed_function") if isinstance(name, str) and name in by_name]
        for turn, names in as_object(value if value is not None else {}, "missed_function").items()
    }


def _turns(entry: Record) -> list[JSON]:
    """Return the messages of each turn of an entry. An entry with a message without role is refused."""
    turns = as_list(entry.get("question"), "question")
    for turn in turns:
        for message in as_list(turn, "question"):
            if "role" not in as_object(message, "a message"):
                refuse("a message of the question has no role")
    return turns


def _documents(value: JSON, what: str) -> list[Document]:
    """Return function documents; each must be an object with a name. `what` names them in errors."""
    documents = [as_object(document, what) for document in as_list(value, what)]
    for document in documents:
        as_text(document.get("name"), f"the name of a function in {what}")
    return documents


def with_hints(documents: Sequence[Document], language: Language, wording: PromptWording) -> list[Document]:
    """Return documents with the language in the description. Java and JavaScript parameters become text."""
    return [_with_hint(document, language, wording) for document in documents]


def _with_hint(document: Document, language: Language, wording: PromptWording) -> Document:
    """Return a document with the language added to its description.

    Java and JavaScript parameters become texts, in which the model writes source code.
    """
    hint = {"python": wording.python, "java": wording.java, "javascript": wording.javascript}[language]
    hinted = document | {"description": _description(document) + hint}
    parameters = document.get("parameters")
    if language == "python" or not isinstance(parameters, dict):
        return hinted
    properties = parameters.get("properties")
    if not isinstance(properties, dict):
        return hinted
    converted = {name: _as_text_parameter(schema, language, wording) for name, schema in properties.items()}
    return hinted | {"parameters": parameters | {"properties": converted}}


def _as_text_parameter(schema: JSON, language: Language, wording: PromptWording) -> JSON:
    """Return a Java or JavaScript parameter as a text parameter. Its description names the original type."""
    if not isinstance(schema, dict):
        return schema
    text_schema = dict(schema)
    declared = schema.get("type")
    is_java = language == "java"
    if declared == "any":
        note = wording.java_any if is_java else wording.javascript_any
    else:
        note = f"{wording.java_type if is_java else wording.javascript_type}{declared}{wording.type_end}"
    if declared in _LISTS[language]:
        items = text_schema.pop("items", None)
        if isinstance(items, dict):
            note += f"{wording.items}{items.get('type')}{wording.items_end}"
    if declared == "dict" and not is_java and isinstance(schema.get("properties"), dict):
        note += wording.entries + json.dumps(text_schema.pop("properties"))
    return text_schema | {"type": "string", "description": _description(schema) + note}


def to_tools(documents: Sequence[Document], wording: PromptWording | None = None) -> list[JSON]:
    """Return documents as OpenAI tools `{"type": "function", "function": {…}}`, in the same order.

    Types are converted to those of JSON Schema at every depth. A float becomes a `number` with `format: float` and an
    addition to the description. Other keys of a document, such as `response`, are kept. `tool_name` converts names.
    """
    tools: list[JSON] = []
    for document in documents:
        declared = document.get("parameters")
        schema = _convert(declared, wording or PromptWording(), 0) if isinstance(declared, dict) else {"properties": {}}
        function: Document = {"name": tool_name(str(document.get("name"))), "parameters": schema | {"type": "object"}}
        tools.append({"type": "function", "function": document | function})
    return tools


def _convert(schema: Document, wording: PromptWording, depth: int) -> Document:
    """Return a schema with the type names of JSON Schema, at every level up to `MAX_DEPTH`.

    A float property becomes a number with `format: float` and a note in the description.
    """
    converted = schema | {"type": _JSON_TYPE.get(str(schema.get("type")), "string")}
    if depth > MAX_DEPTH:
        return converted
    properties = schema.get("properties")
    if isinstance(properties, dict):
        schemas = {name: part for name, part in properties.items() if isinstance(part, dict)}
        parts = {name: _convert(part, wording, depth + 1) for name, part in schemas.items()}
        for name, part in schemas.items():
            if part.get("type") == "float":
                parts[name].update(description=_description(part) + wording.floating, format="float")
        converted["properties"] = {**properties, **parts}
    for key in ("items", "additionalProperties"):
        if isinstance(inner := schema.get(key), dict):
            converted[key] = _convert(inner, wording, depth + 1)
    return converted


def _description(schema: Document) -> str:
    """Return the description of a schema or a function document, "" without one."""
    description = schema.get("description")
    return description if isinstance(description, str) else ""
