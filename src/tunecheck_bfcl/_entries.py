"""BFCL's entries as rows for the checks, read straight from the user's copy: no more of each than a check needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from tunecheck import DataError
from tunecheck.datasets import JsonLinesSource
from tunecheck.plugins import JSON, told_as
from tunecheck_bfcl._data.categories import Category
from tunecheck_bfcl._data.files import BfclFiles

CheckRow = Mapping[str, JSON]


def read_entries(files: BfclFiles, category: Category) -> dict[str, CheckRow]:
    """Return the rows of a category by id, with the columns that the checks take.

    Raises:
        DataError: a file is not there or not JSON Lines.
    """
    answers = _records_by_id(files.data / category.answers) if category.answers else {}
    rows: dict[str, CheckRow] = {}
    for name, entry in _records_by_id(files.data / category.questions).items():
        row: dict[str, JSON] = {
            "id": name,
            "check": category.check,
            "language": category.language,
            "question": entry.get("question"),
            "ground_truth": answers.get(name, {}).get("ground_truth"),
        }
        if category.multi_turn:
            row["involved_classes"] = entry.get("involved_classes")
            row["initial_config"] = entry.get("initial_config")
            row["long_context"] = category.long_context
        else:
            row["functions"] = entry.get("function")
        rows[name] = row
    return rows


def _records_by_id(path: Path) -> dict[str, dict[str, JSON]]:
    return {str(record.get("id")): record for _, record in JsonLinesSource(path).records()}


def entry_ids(files: BfclFiles, category: Category) -> set[str]:
    """Return the ids of a category's entries.

    Raises:
        DataError: A file is not there or not JSON Lines.
    """
    path = files.data / category.questions
    try:
        with told_as(DataError, path):
            return {_read_id(line).id for line in path.read_bytes().split(b"\n") if line.strip()}
    except msgspec.DecodeError as error:
        raise DataError(f"{path}: {error}") from None


class _DataEntry(msgspec.Struct):
    id: str


_read_id = msgspec.json.Decoder(_DataEntry).decode
