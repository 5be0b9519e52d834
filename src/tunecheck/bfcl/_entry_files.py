"""BFCL's entries as rows for the checks, read straight from the user's copy: no more of each than a check needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tunecheck._json import JSON
from tunecheck.datasets._bfcl.categories import Category
from tunecheck.datasets._bfcl.files import BfclFiles
from tunecheck.datasets._json_files import JsonLinesSource

CheckRow = Mapping[str, JSON]


def read_entries(files: BfclFiles, category: Category) -> dict[str, CheckRow]:
    """The rows of a category by id, with the columns that `check_single_turn` and `check_multi_turn` take.

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
