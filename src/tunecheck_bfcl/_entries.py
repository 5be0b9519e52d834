"""BFCL's entries as rows for the checks, read straight from the user's copy: no more of each than a check needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tunecheck._json import JSON
from tunecheck.datasets._sources import JsonLinesSource
from tunecheck_bfcl._data.categories import Category
from tunecheck_bfcl._data.files import BfclFiles

CheckRow = Mapping[str, JSON]


def read_entries(files: BfclFiles, category: Category) -> dict[str, CheckRow]:
    """The rows of a category by id, with the columns that the checks take.

    Raises:
        DataError: a file is not there or not JSON Lines.
    """
    answers = _by_id(files.data / category.answers) if category.answers else {}
    rows: dict[str, CheckRow] = {}
    for name, entry in _by_id(files.data / category.questions).items():
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


def _by_id(path: Path) -> dict[str, dict[str, JSON]]:
    return {str(record.get("id")): record for _, record in JsonLinesSource(path).records()}
