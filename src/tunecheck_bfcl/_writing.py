"""Result files of the leaderboard's layout, written from a run's rows."""

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import BinaryIO

from tunecheck._disk import replacing
from tunecheck._json import JSON, dumps_line
from tunecheck._targets import Row
from tunecheck.episodes._output import BY_STEP, OUTPUT_COLUMNS, REASONING
from tunecheck_bfcl._data.categories import CATEGORIES


def result_line(row: Row | str, output: Mapping[str, JSON]) -> dict[str, JSON]:
    """The line of a result file for a row (or its id) and its answer, conversation or single call.

    BFCL's scripts add the counts up: what was not counted is 0 there. `raw_text` is what a model wrote of a single
    question whose calls were read from another form than the call text in the result.
    """
    line: dict[str, JSON] = {"id": row if isinstance(row, str) else row.id, "result": output.get("result")}
    for name in BY_STEP:
        line[name] = _counted(output.get(name))
    if output.get("inference_log") is not None:
        line["inference_log"] = output["inference_log"]
    if output.get("forced_quit") is True:
        line["forced_quit"] = True
    if output.get(REASONING):
        line[REASONING] = output[REASONING]
    reason = output.get("finish_reason") if output.get("finish_reasons") is None else output["finish_reasons"]
    if reason is not None:
        line["finish_reason"] = reason
    result, text = output.get("result"), output.get("text")
    if isinstance(result, str) and text not in (None, result):
        line["raw_text"] = text
    return line


def error_line(row_id: str, message: str) -> dict[str, JSON]:
    """The line of a row that has no answer: BFCL's scripts count it as wrong."""
    return {"id": row_id, "result": f"Error during inference: {message}", "traceback": ""}


def result_path(model: str, group: str, category: str) -> PurePath:
    folder = "".join("_" if letter in '/\\:*?"<>|' or not letter.isprintable() else letter for letter in model)
    return PurePath(folder.strip(". ") or "model", group, f"BFCL_v4_{category}_result.json")


def _counted(value: JSON) -> JSON:
    if isinstance(value, list):
        return [_counted(item) for item in value]
    return 0 if value is None else value


def write_result_files(rows: Iterable[Mapping[str, JSON]], folder: Path, model: str) -> list[Path]:
    """Write the result rows of a finished run below `folder`, one file a category, and say where.

    A row that ended in an error has a line that says so, as BFCL's own files do, and is wrong; but it is left out where
    not calling is correct, and a count of calls would take the error for a correct answer.
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
                written[path] = opened.enter_context(opened.enter_context(replacing(path)).open("wb"))
            written[path].write(dumps_line(_line(row)))
    return list(written)


def _line(row: Mapping[str, JSON]) -> dict[str, JSON]:
    row_id = str(row.get("row_id"))
    error = row.get("error.target")
    if error is not None:
        fields = error if isinstance(error, dict) else {}
        return error_line(row_id, f"{fields.get('type')}: {fields.get('message')}")
    return result_line(row_id, {name: row.get(f"outputs.{name}") for name in (*OUTPUT_COLUMNS, REASONING)})
