"""Result files in BFCL's layout, `<model>/<group>/BFCL_v4_<category>_result.json`, written from a run's rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

from tunecheck._json import JSON, dumps_line
from tunecheck.conversations._columns import OUTPUT_COLUMNS, error_line, result_line, result_path
from tunecheck.datasets._bfcl.categories import CATEGORIES

_PARTIAL = ".partial"


def write_result_files(rows: Iterable[Mapping[str, JSON]], folder: Path, model: str) -> list[Path]:
    """Write the result rows of a finished run below `folder`, one file a category, and say where.

    A row that ended in an error has a line that says so, as BFCL's own files do, and is wrong; but it is left out where
    a model is right by not calling, and whoever counts would take the error for a right answer.
    """
    written: dict[Path, BinaryIO] = {}
    with contextlib.ExitStack() as opened:
        for row in rows:
            category = CATEGORIES.get(str(row.get("inputs.category")))
            if category is None or (category.check == "irrelevance" and "error.target" in row):
                continue
            group = "multi_turn" if category.multi_turn else "live" if category.live else "non_live"
            path = folder / result_path(model, group, category.name)
            if path not in written:
                path.parent.mkdir(parents=True, exist_ok=True)
                written[path] = opened.enter_context(path.with_name(path.name + _PARTIAL).open("wb"))
            written[path].write(dumps_line(_line(row)))
    for path in written:
        path.with_name(path.name + _PARTIAL).replace(path)
    return list(written)


def _line(row: Mapping[str, JSON]) -> dict[str, JSON]:
    row_id = str(row.get("row_id"))
    error = row.get("error.target")
    if error is not None:
        told = error if isinstance(error, dict) else {}
        return error_line(row_id, f"{told.get('type')}: {told.get('message')}")
    return result_line(row_id, {name: row.get(f"outputs.{name}") for name in OUTPUT_COLUMNS})
