"""Rows of BFCL: an entry of its question files with its answer, functions and tools, one shape for all categories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from tunecheck._json import JSON, dumps, loads
from tunecheck.datasets._bfcl.categories import Category
from tunecheck.datasets._bfcl.files import BfclFiles
from tunecheck.datasets._bfcl.prompts import Wording
from tunecheck.datasets._bfcl.tools import Document, to_tools, with_hints
from tunecheck.datasets._json_files import JsonLinesSource, kind
from tunecheck.datasets._sources import Record


class UnusableEntryError(Exception):
    """An entry that does not have the shape of its category; its text says what is wrong with it."""


class RowBuilder:
    """Makes rows of entries; it reads each simulator's function documents once.

    A single-turn row has `id`, `category`, `check`, `language`, `messages`, `tools`, `functions`, `ground_truth` (the
    possible answers, or None), and for Java and JavaScript `declared`, the documents with the declared types.

    A multi-turn row has `id`, `category`, `check`, `turns` (messages of each), `tools`, `functions`, `held_out` and
    `held_out_tools` (by the turn, as text, in which they are added), `initial_config`, `involved_classes`,
    `ground_truth` (call texts of each turn), `long_context`.

    `functions` are the documents as the model is shown them, `held_out` those that it is shown later; `tools` and
    `held_out_tools` are the same as OpenAI tools.
    """

    def __init__(self, files: BfclFiles) -> None:
        self._files = files
        self._wording = Wording.read(files.package)
        self._documents: dict[str, bytes] = {}

    def row(self, category: Category, entry: Record, answer: Record | None) -> Record:
        """The row of an entry.

        Raises:
            UnusableEntryError: the entry or its answer has not the shape of its category.
            DataError: the function documents cannot be read.
        """
        if answer is not None and answer.get("id") != entry.get("id"):
            _refuse(f"the answer in the same place has the id {answer.get('id')!r}, not {entry.get('id')!r}")
        if category.multi_turn:
            return self._conversation(category, entry, answer or {})
        return self._question(category, entry, answer)

    def _question(self, category: Category, entry: Record, answer: Record | None) -> Record:
        turns = _turns(entry)
        if len(turns) != 1:
            _refuse(f"a single-turn question has one turn, not {len(turns)}")
        declared = _documents(entry.get("function"), "function")
        functions = with_hints(declared, category.language, self._wording)
        row: Record = {
            "id": _text(entry.get("id"), "id"),
            "category": category.name,
            "check": category.check,
            "language": category.language,
            "messages": turns[0],
            "tools": to_tools(functions, self._wording),
            "functions": list(functions),
            "ground_truth": None if answer is None else _list(answer.get("ground_truth"), "ground_truth"),
        }
        if category.language != "python":
            row["declared"] = list(declared)
        return row

    def _conversation(self, category: Category, entry: Record, answer: Record) -> Record:
        turns = _turns(entry)
        truth = _list(answer.get("ground_truth"), "ground_truth")
        if len(truth) != len(turns):
            _refuse(f"{len(turns)} turns and ground truth for {len(truth)}")
        classes = [_text(name, "involved_classes") for name in _list(entry.get("involved_classes"), "involved_classes")]
        offered = [document for name in classes for document in self._class_documents(name)]
        held_out = _held_out(entry.get("missed_function"), offered)
        later = {document["name"] for documents in held_out.values() for document in documents}
        functions = with_hints([each for each in offered if each["name"] not in later], "python", self._wording)
        return {
            "id": _text(entry.get("id"), "id"),
            "category": category.name,
            "check": category.check,
            "turns": list(turns),
            "tools": to_tools(functions, self._wording),
            "functions": list(functions),
            "held_out": {turn: list(documents) for turn, documents in held_out.items()},
            "held_out_tools": {turn: to_tools(documents, self._wording) for turn, documents in held_out.items()},
            "initial_config": _object(entry.get("initial_config", {}), "initial_config"),
            "involved_classes": list(classes),
            "ground_truth": truth,
            "long_context": category.long_context,
        }

    def _class_documents(self, simulator: str) -> list[Document]:
        if simulator not in self._documents:
            records = JsonLinesSource(self._files.function_docs(simulator)).records()
            self._documents[simulator] = dumps([record for _, record in records])
        # Read anew for each row: rows share nothing, whatever somebody does to one of them.
        return _documents(loads(self._documents[simulator]), "the function documents")


def _held_out(value: JSON, offered: Sequence[Document]) -> dict[str, list[Document]]:
    """The documents of the functions that are added in later turns, by turn.

    A name that no involved class has (the unscored category has some) is passed over: then a turn adds nothing.
    """
    by_name = {document["name"]: document for document in offered}
    return {
        turn: [by_name[name] for name in _list(names, "missed_function") if isinstance(name, str) and name in by_name]
        for turn, names in _object(value if value is not None else {}, "missed_function").items()
    }


def _turns(entry: Record) -> list[JSON]:
    turns = _list(entry.get("question"), "question")
    for turn in turns:
        for message in _list(turn, "question"):
            if "role" not in _object(message, "a message"):
                _refuse("a message without a role")
    return turns


def _documents(value: JSON, what: str) -> list[Document]:
    documents = [_object(document, what) for document in _list(value, what)]
    for document in documents:
        _text(document.get("name"), f"the name of a function in {what}")
    return documents


def _list(value: object, what: str) -> list[JSON]:
    return value if isinstance(value, list) else _refuse(f"{what} must be a list, not {_kind(value)}")


def _object(value: object, what: str) -> dict[str, JSON]:
    return value if isinstance(value, dict) else _refuse(f"{what} must be an object, not {_kind(value)}")


def _text(value: object, what: str) -> str:
    return value if isinstance(value, str) else _refuse(f"{what} must be text, not {_kind(value)}")


def _kind(value: object) -> str:
    return "missing" if value is None else kind(value)


def _refuse(what: str) -> NoReturn:
    raise UnusableEntryError(what)
