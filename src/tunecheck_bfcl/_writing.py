"""Result files of the leaderboard's layout, written from a run's rows, and the verdicts that the run came to."""

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import BinaryIO

from tunecheck import Row
from tunecheck.episodes import BY_STEP, REASONING, CallMode, RowVerdict, mode_of
from tunecheck.pipeline import ResultRow
from tunecheck.plugins import JSON, dumps_line, replacing
from tunecheck_bfcl._data.categories import CATEGORIES, Category
from tunecheck_bfcl._result_files import ResultFile, asked_in_mode
from tunecheck_bfcl._scoring import LeaderboardScorer, Scores
from tunecheck_bfcl._summary import CategoryScore, ModelScore


def result_line(row: Row | str, output: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the line of a result file for a row (or its id) and its answer.

    BFCL's scripts add the counts up: what was not counted is 0 there. `raw_text` is the model's own text, if its calls
    were read from another form than the call text in the result.
    """
    line: dict[str, JSON] = {"id": row if isinstance(row, str) else row.id, "result": output.get("result")}
    for name in BY_STEP:
        line[name] = _count(output.get(name))
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
    """Return the line of a row without an answer; BFCL's scripts count it as wrong."""
    return {"id": row_id, "result": f"Error during inference: {message}", "traceback": ""}


def result_path(model: str, group: str, category: str) -> PurePath:
    """Return where the results of a model stand below a folder."""
    return PurePath(model_folder(model), group, f"BFCL_v4_{category}_result.json")


def model_folder(model: str) -> str:
    """Return the name of the folder for a model's results, which is its name for the leaderboard, too."""
    folder = "".join("_" if letter in '/\\:*?"<>|' or not letter.isprintable() else letter for letter in model)
    return folder.strip(". ") or "model"


def _count(value: JSON) -> JSON:
    if isinstance(value, list):
        return [_count(item) for item in value]
    return 0 if value is None else value


def _line_of(row: ResultRow) -> dict[str, JSON]:
    """Return the line of a run's row in a result file."""
    row_id = str(row.get("row_id"))
    if "error.target" in row:
        error = row["error.target"]
        told = error if isinstance(error, dict) else {}
        return error_line(row_id, f"{told.get('type')}: {told.get('message')}")
    start = "outputs."
    return result_line(row_id, {name.removeprefix(start): row[name] for name in row if name.startswith(start)})


def _verdict(row: ResultRow, category: Category) -> RowVerdict | None:
    """Return the verdict that the run came to, None if it came to none."""
    metric = "multi_turn_state" if category.multi_turn else "call_check"
    start = f"outputs.{metric}.{metric}"
    if f"{start}_passed" not in row or "error.target" in row:
        return None
    passed, reason, found = (row.get(f"{start}_{key}") for key in ("passed", "reason", "properties"))
    error_type, turn = (found.get("error_type"), found.get("turn")) if isinstance(found, dict) else (None, None)
    return RowVerdict(
        passed if isinstance(passed, bool) else None,
        error_type if isinstance(error_type, str) else None,
        turn if isinstance(turn, int) else None,
        reason if isinstance(reason, str) else None,
    )


class RunFiles:
    """The result files of a run below a folder, and the verdicts of their rows, as far as the run came to some."""

    def __init__(self, folder: Path, model: str) -> None:
        self._folder, self._model = folder, model
        self.files: dict[str, ResultFile] = {}
        self.verdicts: dict[str, dict[str, RowVerdict | None]] = {}
        self._in_text: set[str] = set()
        """Rows whose results hold nothing but text."""

    def write(self, rows: Iterable[ResultRow]) -> None:
        """Write the rows of a finished run, one file a category.

        A row that ended in an error has a line that says so, as BFCL's own files do, and is wrong; but it is left out
        where not calling is correct, and a count of calls would take the error for a correct answer.
        """
        opened: dict[str, BinaryIO] = {}
        with contextlib.ExitStack() as files:
            for row in rows:
                category = CATEGORIES.get(str(row.get("inputs.category")))
                if category is None or (category.check == "irrelevance" and "error.target" in row):
                    continue
                if category.name not in opened:
                    path = self._path(category)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    opened[category.name] = files.enter_context(files.enter_context(replacing(path)).open("wb"))
                row_id, result = str(row.get("row_id")), row.get("outputs.result")
                opened[category.name].write(dumps_line(_line_of(row)))
                self.verdicts.setdefault(category.name, {})[row_id] = _verdict(row, category)
                if isinstance(result, str) or mode_of([result]) == "text":
                    self._in_text.add(row_id)

    def _path(self, category: Category) -> Path:
        group = "multi_turn" if category.multi_turn else "live" if category.live else "non_live"
        path = self._folder / result_path(self._model, group, category.name)
        self.files[category.name] = ResultFile(path, model_folder(self._model), category)
        return path

    def scores(self, scorer: LeaderboardScorer, asked: CallMode | None) -> Scores:
        """Return the scores: each row's verdict by the run; others, and those read in another mode, are judged here.

        `asked` is how the model was asked; if it is None, the files decide.
        """
        mode = asked or asked_in_mode([*self.files.values()])
        categories: dict[str, CategoryScore] = {}
        for name in filter(self.files.__contains__, CATEGORIES):
            known = self.verdicts[name]
            unknown = {each for each, verdict in known.items() if verdict is None}
            if asked is None:
                unknown |= {each for each in known if (each in self._in_text) != (mode == "text")}
            judged = scorer.score_rows(self.files[name], mode, unknown) if unknown else {}
            verdicts = [(each, judged.get(each, verdict)) for each, verdict in known.items()]
            missing = len(scorer.entry_ids(CATEGORIES[name]) - known.keys())
            categories[name] = CategoryScore(name, [(each, found) for each, found in verdicts if found], missing)
        model = next(iter(self.files.values())).model
        return Scores(True, {model: ModelScore(model, categories)}, [])
