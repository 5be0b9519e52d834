"""BFCL V3 as a data set: `bfcl:simple_python`, `bfcl:multi_turn`, `bfcl:live_simple,irrelevance`, `bfcl:all`.

The data is the user's own copy: `tunecheck bfcl get` fetches it. Rows have one form for all categories: an entry of the
question files with its answer, functions and tools.

  question  {"id": "simple_python_0", "question": [[{"role": "user", "content": "…"}]], "function": [{…}]}
  answer    {"id": "simple_python_0", "ground_truth": [{"f": {"a": [1, 2]}}]}

A question file and its answer file have the same ids in the same order; another order is an error.

Models get functions as BFCL gives them, in these steps:

  1. `with_hints`     names the language in the description; Java and JavaScript parameters become texts
  2. `to_tools`       OpenAI tools with JSON Schema's types: float becomes number, dict becomes object, and so on
  3. `held_out`       functions that a later turn adds are withheld until then, without the hint, as in BFCL
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import cast

from tunecheck import ConfigurationError, DataError, datasets
from tunecheck.calls import tool_name
from tunecheck.datasets import JsonLinesSource, Record
from tunecheck.plugins import JSON, did_you_mean, dumps, loads
from tunecheck_bfcl._data import files as bfcl
from tunecheck_bfcl._data.prompts import OWN_HINTS, Hints, read_hints

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

    def __init__(self, files: bfcl.BfclFiles) -> None:
        self._files = files
        self._hints = read_hints(files.package)
        self._functions: dict[str, bytes] = {}

    def row(self, category: bfcl.Category, entry: Record) -> Record:
        """Return the row of an entry, which has its answer's `ground_truth`.

        Raises:
            UnusableRowError: the entry has another form.
        """
        return self._conversation(category, entry) if category.multi_turn else self._question(category, entry)

    def _question(self, category: bfcl.Category, entry: Record) -> Record:
        """Return the row of a single question. Refuse an entry with no turn or several."""
        turns = _turns(entry)
        if len(turns) != 1:
            datasets.refuse(f"`question` must have one turn in a single-turn category, not {len(turns)}")

        declared = _documents(entry.get("function"), "function")
        functions = with_hints(declared, category.language, self._hints)

        # The model gets `tools` or `functions`, with hints. Verdicts need the declared types, in `declared`.
        row: Record = {
            "id": datasets.as_text(entry.get("id"), "id"),
            "category": category.name,
            "check": category.check,
            "language": category.language,
            "messages": turns[0],
            "tools": to_tools(functions, self._hints),
            "functions": list(functions),
            "ground_truth": datasets.as_list(entry["ground_truth"], "ground_truth") if category.answers else None,
        }

        if category.language != "python":
            row["declared"] = list(declared)
        return row

    def _conversation(self, category: bfcl.Category, entry: Record) -> Record:
        """Return the row of a conversation. Functions that later turns add are only in `held_out`.

        Refuse the row if the ground truth has another number of turns than the question.
        """
        turns = _turns(entry)
        truth = datasets.as_list(entry["ground_truth"], "ground_truth")
        truth = [datasets.as_list(turn, f"ground_truth[{number}]") for number, turn in enumerate(truth)]
        if len(truth) != len(turns):
            datasets.refuse(f"`ground_truth` must have as many turns as `question` ({len(turns)}), not {len(truth)}")

        class_names = datasets.as_list(entry.get("involved_classes"), "involved_classes")
        classes = [datasets.as_text(name, "involved_classes") for name in class_names]

        functions = [function for name in classes for function in self._class_functions(name)]

        held_out = _held_out_documents(entry.get("missed_function"), [document for document, _, _ in functions])
        later_names = {document["name"] for documents in held_out.values() for document in documents}
        # A function of a later turn must not be offered from the start.
        offered = [(hinted, tool) for document, hinted, tool in functions if document["name"] not in later_names]

        return {
            "id": datasets.as_text(entry.get("id"), "id"),
            "category": category.name,
            "check": category.check,
            "turns": list(turns),
            "tools": [tool for _, tool in offered],
            "functions": [hinted for hinted, _ in offered],
            "held_out": {turn: list(documents) for turn, documents in held_out.items()},
            "held_out_tools": {turn: to_tools(documents, self._hints) for turn, documents in held_out.items()},
            "initial_config": datasets.as_object(entry.get("initial_config", {}), "initial_config"),
            "involved_classes": list(classes),
            "ground_truth": truth,
            "long_context": category.long_context,
        }

    def _class_functions(self, simulator: str) -> list[tuple[Document, JSON, JSON]]:
        """Return a simulator's functions in three forms each: the original document, with hints, and as a tool.

        A simulator that BFCL does not have is refused with UnusableRowError.
        """
        if simulator not in bfcl.FUNCTION_DOCS:
            datasets.refuse(f"BFCL has no simulator {simulator[:100]!r}; known: {', '.join(bfcl.FUNCTION_DOCS)}")
        if simulator not in self._functions:
            # Kept as bytes: one simulator's documents serve hundreds of rows.
            records = JsonLinesSource(self._files.function_docs(simulator)).records()
            documents = _documents([record for _, record in records], f"the function documents of {simulator}")
            hinted = with_hints(documents, "python", self._hints)
            self._functions[simulator] = dumps([*zip(documents, hinted, to_tools(hinted, self._hints), strict=True)])
        # Parsed again for each row, so that a change of one row does not affect others.
        return cast("list[tuple[Document, JSON, JSON]]", loads(self._functions[simulator]))


def _held_out_documents(missed: JSON, documents: Sequence[Document]) -> dict[str, list[Document]]:
    """Return the documents of the functions that later turns add, by turn.

    `missed` is an entry's `missed_function`, and `documents` are those of the row's simulators. `{"2": ["sort"]}` gives
    the document of `sort` for turn 2. A name without a document is ignored, as in the category that is not scored.
    """
    by_name = {document["name"]: document for document in documents}
    return {
        turn: [
            by_name[name]
            for name in datasets.as_list(names, "missed_function")
            if isinstance(name, str) and name in by_name
        ]
        for turn, names in datasets.as_object({} if missed is None else missed, "missed_function").items()
    }


def _turns(entry: Record) -> list[JSON]:
    """Return the messages of each turn of an entry. An entry with a message without role is refused."""
    turns = datasets.as_list(entry.get("question"), "question")
    for turn in turns:
        for message in datasets.as_list(turn, "question"):
            if "role" not in datasets.as_object(message, "a message"):
                datasets.refuse("a message in `question` has no `role`")
    return turns


def _documents(value: JSON, label: str) -> list[Document]:
    """Return a list's function documents; each must be an object with a name. `label` names the list in errors."""
    documents = [datasets.as_object(document, label) for document in datasets.as_list(value, label)]
    for document in documents:
        datasets.as_text(document.get("name"), f"the name of a function in {label}")
    return documents


def with_hints(documents: Sequence[Document], language: bfcl.Language, hints: Hints) -> list[Document]:
    """Return documents with the language in the description. Java and JavaScript parameters become text."""
    return [_with_hint(document, language, hints) for document in documents]


def _with_hint(document: Document, language: bfcl.Language, hints: Hints) -> Document:
    """Return a document with the language added to its description; `hints` are the texts that are added.

    Java and JavaScript parameters become texts, in which the model writes source code. The parameter `{"type":
    "ArrayList", "items": {"type": "int"}}` becomes `{"type": "string", "description": " Java type ArrayList, …"}`.
    """
    hinted = document | {"description": _description(document) + hints[language]}

    parameters = document.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    if language == "python" or not isinstance(parameters, dict) or not isinstance(properties, dict):
        return hinted

    converted = {name: _as_text_parameter(schema, language, hints) for name, schema in properties.items()}
    return hinted | {"parameters": parameters | {"properties": converted}}


def _as_text_parameter(schema: JSON, language: bfcl.Language, hints: Hints) -> JSON:
    """Return a Java or JavaScript parameter as a text parameter. `hints` name the original type in its description."""
    if not isinstance(schema, dict):
        return schema
    text_schema, declared = dict(schema), schema.get("type")
    note = hints[f"{language}_any"]
    if declared != "any":
        note = f"{hints[f'{language}_type']}{declared}{hints['type_end']}"

    if declared in _LISTS[language]:
        # A text has no items, so the schema of the items moves into the description.
        items = text_schema.pop("items", None)
        if isinstance(items, dict):
            note += f"{hints['items']}{items.get('type')}{hints['items_end']}"

    if declared == "dict" and language == "javascript" and isinstance(schema.get("properties"), dict):
        note += hints["entries"] + json.dumps(text_schema.pop("properties"))

    return text_schema | {"type": "string", "description": _description(schema) + note}


def to_tools(documents: Sequence[Document], hints: Hints = OWN_HINTS) -> list[JSON]:
    """Return documents as OpenAI tools `{"type": "function", "function": {…}}`, in the same order.

    Types are converted to those of JSON Schema at every level up to `MAX_DEPTH`. A property of type `float` becomes a
    `number` with `format: float`, and a note from `hints` is appended to its description. Other keys of a document,
    such as `response`, are kept. Dots in names become underscores.
    """
    tools: list[JSON] = []
    for document in documents:
        declared = document.get("parameters")
        schema = _convert(declared, hints, 0) if isinstance(declared, dict) else {"properties": {}}
        function: Document = {"name": tool_name(str(document.get("name"))), "parameters": schema | {"type": "object"}}
        tools.append({"type": "function", "function": document | function})
    return tools


def _convert(schema: Document, hints: Hints, depth: int) -> Document:
    """Return a schema with the type names of JSON Schema, at every level up to `MAX_DEPTH`.

    A float property becomes a number with `format: float` and a note from `hints` in the description. `depth` is the
    level of this schema, from 0.
    """
    converted = schema | {"type": _JSON_TYPE.get(str(schema.get("type")), "string")}
    # Deeper levels stay unconverted. A hostile schema would otherwise exhaust the stack.
    if depth > MAX_DEPTH:
        return converted

    properties = schema.get("properties")
    if isinstance(properties, dict):
        schemas = {name: part for name, part in properties.items() if isinstance(part, dict)}
        parts = {name: _convert(part, hints, depth + 1) for name, part in schemas.items()}

        for name, part in schemas.items():
            if part.get("type") == "float":
                parts[name].update(description=_description(part) + hints["floating"], format="float")
        converted["properties"] = {**properties, **parts}

    for key in ("items", "additionalProperties"):
        inner = schema.get(key)
        if isinstance(inner, dict):
            converted[key] = _convert(inner, hints, depth + 1)
    return converted


def _description(schema: Document) -> str:
    """Return the description of a schema or a function document, "" without one."""
    description = schema.get("description")
    return description if isinstance(description, str) else ""


_DATA = "?data="


def load_bfcl(argument: str) -> datasets.Dataset:
    """Return the rows of the categories that `argument` names by comma-separated categories and groups.

    `simple_python?data=FOLDER` reads the copy of BFCL in FOLDER, instead of that in `TUNECHECK_BFCL` or the cache.
    `RowBuilder` describes the columns of a row.

    Raises:
        DataError: there is no such category, or the data is missing. The text then tells how to get it.
    """
    names, _, folder = argument.partition(_DATA)
    return select_rows(names, folder=Path(folder).expanduser() if folder else None)


def select_rows(
    categories: str | None, *, ids: Sequence[str] = (), limit: int | None = None, folder: Path | None = None
) -> datasets.Dataset:
    """Return rows of the user's copy of BFCL, in the order of the data.

    Args:
        categories: comma-separated names of categories and groups; by default the categories of `ids`, or without
            `ids` all scored categories.
        ids: only these rows.
        limit: at most this many rows of each category.
        folder: the copy of BFCL; by default as in `find_bfcl`.

    Raises:
        ConfigurationError: the limit is below 1.
        DataError: the copy is missing, or a category or an id does not exist.
    """
    if limit is not None and limit < 1:
        raise ConfigurationError(f"`limit` must be at least 1 row, not {limit}")

    # The data set is named after the given categories, else after those of the ids.
    of_ids = [name for name, category in bfcl.CATEGORIES.items() if category in map(bfcl.category_of, ids)]
    name = (",".join(of_ids) or "all") if categories is None else categories
    chosen = bfcl.named_categories(name)
    source = BfclSource(f"bfcl:{name}", bfcl.find_bfcl(folder), chosen, frozenset(ids), limit)

    # Each evaluator judges only its kind of rows, so mixed categories need both.
    kinds = {"multi_turn_state" if category.multi_turn else "call_check" for category in chosen}
    # The conversation target also handles rows with a single question.
    defaults = datasets.DatasetDefaults(evaluators=sorted(kinds, reverse=True), target="conversation")
    return datasets.Dataset(source, defaults=defaults)


@dataclass(eq=False)
class BfclSource(datasets.Source):
    """The rows of some categories, read on demand.

    `label` is the source's name. `ids` selects rows; if it is empty, all rows are read. `limit` is the most rows of
    each category.
    """

    label: str
    files: bfcl.BfclFiles
    categories: Sequence[bfcl.Category]
    ids: frozenset[str]
    limit: int | None
    unit = "row"

    def __post_init__(self) -> None:
        self.name = self.label

    def state(self) -> object:
        """Return the state of every file that the rows depend on; an equal value means unchanged rows."""
        texts = [self.files.package / text for text in bfcl.TEXTS]
        return [JsonLinesSource(path).state() for path in (*self.files.required(self.categories), *texts)]

    def records(self, digest: datasets.Digest | None = None) -> Iterator[tuple[int, Record]]:
        """Yield the selected rows, numbered from 1. Each row is added to `digest` as a line of canonical JSON.

        Raises:
            DataError: a file cannot be read, or no row has one of `ids`.
        """
        if self.ids:
            self._check_ids()

        builder = RowBuilder(self.files)
        number = 0
        for category in self.categories:
            # The limit counts selected rows, so it comes after the selection.
            entries = read_entries(self.files, category, partial(builder.row, category))
            rows = (row for row in entries if not self.ids or row["id"] in self.ids)
            for row in islice(rows, self.limit):
                number += 1
                if digest is not None:
                    digest.add(row)
                yield number, row

    def _check_ids(self) -> None:
        """Raise DataError if a selected id belongs to no row of the categories. The error names the first such id."""
        questions = [JsonLinesSource(self.files.data / category.questions) for category in self.categories]
        known = [str(entry.get("id")) for source in questions for _, entry in source.records()]
        for missing in sorted(self.ids.difference(known))[:1]:
            is_like_an_id = bfcl.category_of(missing) is not None
            hint = (
                did_you_mean(missing[:100], known)
                if is_like_an_id
                else "; ids begin with a category: multi_turn_base_0"
            )
            raise DataError(f"{self.label}: there is no row {missing[:100]!r}{hint}")


def read_entries(files: bfcl.BfclFiles, category: bfcl.Category, read: Callable[[Record], Record]) -> Iterator[Record]:
    """Yield a row for each entry of a category: what `read` returns for the entry with its answer's `ground_truth`.

    The lines of questions and answers are paired by position. Without an answer file, the ground truth is None.

    Raises:
        DataError: the two files have other ids or numbers of lines, or `read` raised ValueError.
    """
    questions = JsonLinesSource(files.data / category.questions)
    answers = JsonLinesSource(files.data / category.answers).records() if category.answers else ()

    nothing: tuple[None, Record] = (None, {})
    for (line, entry), (_, answer) in zip_longest(questions.records(), answers, fillvalue=nothing):
        try:
            if category.answers and answer.get("id") != entry.get("id"):
                other = f"{category.answers} has the id {answer.get('id')!r} on this line"
                raise datasets.UnusableRowError(f"{other}; delete the copy and run `bfcl get`")
            row = read({**entry, "ground_truth": answer.get("ground_truth")})
        except ValueError as error:
            questions.refuse(f"the entry {entry.get('id')!r} cannot be used: {error}", line)
        yield row
