"""BFCL's entries as rows for the checks, read straight from the user's copy: no more of each than a check needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from tunecheck._json import JSON
from tunecheck.datasets._judging import Judging
from tunecheck.datasets._sources import JsonLinesSource
from tunecheck_bfcl._data.categories import Category
from tunecheck_bfcl._data.files import BfclFiles


@dataclass(frozen=True, slots=True)
class Entry:
    """A conversation's ground truth, and what its simulators start from.

    `truth` holds the calls of each turn; a turn without any asks for an answer, not for calls. `judging` is what the
    row says of how it is judged strictly.
    """

    id: str
    truth: list[list[JSON]]
    simulators: list[str]
    config: Mapping[str, JSON]
    long_context: bool
    judging: Judging

    @classmethod
    def read(cls, row: Mapping[str, object]) -> Entry:
        """The entry in a row with the columns of a data set `bfcl:multi_turn_…`.

        Raises:
            ValueError: a column holds something else; the text says which.
        """
        truth = row.get("ground_truth")
        if not isinstance(truth, list) or not all(isinstance(turn, list) for turn in truth):
            raise ValueError("ground_truth must be a list with the calls of each turn, each a list too")
        names = row.get("involved_classes")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("involved_classes must be a list of simulators' names")
        config = row.get("initial_config")
        if config is not None and not isinstance(config, Mapping):
            raise ValueError("initial_config must be an object with the configuration of each simulator")
        return cls(
            id=str(row.get("id") or ""),
            truth=cast("list[list[JSON]]", truth),
            simulators=cast("list[str]", names),
            config=cast("Mapping[str, JSON]", config or {}),
            long_context=row.get("long_context") is True,
            judging=Judging.read(row, len(truth)),
        )


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
