"""Result files of the leaderboard's layout, written from a run's rows, and the verdicts that the run came to."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, BinaryIO

import msgspec
from msgspec import UNSET

from tunecheck import DataError, Row
from tunecheck.episodes import BY_STEP, REASONING, CallMode, RowVerdict, mode_of
from tunecheck.plugins import JSON, dumps_line, lines, loads, open_regular, replacing
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
    """Return the line of a row without an answer; BFCL's scripts count it as wrong."""
    return {"id": row_id, "result": f"Error during inference: {message}", "traceback": ""}


def result_path(model: str, group: str, category: str) -> PurePath:
    """Return where the results of a model stand below a folder."""
    return PurePath(model_folder(model), group, f"BFCL_v4_{category}_result.json")


def model_folder(model: str) -> str:
    """Return the name of the folder for a model's results, which is its name for the leaderboard, too."""
    folder = "".join("_" if letter in '/\\:*?"<>|' or not letter.isprintable() else letter for letter in model)
    return folder.strip(". ") or "model"


def _counted(value: JSON) -> JSON:
    if isinstance(value, list):
        return [_counted(item) for item in value]
    return 0 if value is None else value


_STATE, _CALLS = "multi_turn_state", "call_check"

_COLUMNS = {
    "category": "inputs.category",
    "target_error": "error.target",
    **{name: f"outputs.{name}" for name in (*BY_STEP, REASONING, "result", "text", "inference_log", "forced_quit")},
    **{name: f"outputs.{name}" for name in ("finish_reason", "finish_reasons")},
    **{f"state_{key}": f"outputs.{_STATE}.{_STATE}_{key}" for key in ("passed", "reason", "properties")},
    **{f"calls_{key}": f"outputs.{_CALLS}.{_CALLS}_{key}" for key in ("passed", "reason", "properties")},
}


class FinishedRow(msgspec.Struct, rename=_COLUMNS):
    """The columns of a run's row for result files and scores; the log stays raw."""

    row_id: str
    category: str = ""
    target_error: Any = UNSET
    result: Any = None
    text: Any = None
    inference_log: msgspec.Raw | msgspec.UnsetType = UNSET
    input_token_count: Any = None
    output_token_count: Any = None
    latency: Any = None
    reasoning_content: Any = None
    finish_reason: Any = None
    finish_reasons: Any = None
    forced_quit: Any = None
    state_passed: bool | msgspec.UnsetType | None = UNSET
    state_reason: str | None = None
    state_properties: dict[str, Any] | None = None
    calls_passed: bool | msgspec.UnsetType | None = UNSET
    calls_reason: str | None = None
    calls_properties: dict[str, Any] | None = None

    def verdict(self, category: Category) -> RowVerdict | None:
        """Return the verdict that the run came to, None if it came to none."""
        passed, reason, properties = self.calls_passed, self.calls_reason, self.calls_properties
        if category.multi_turn:
            passed, reason, properties = self.state_passed, self.state_reason, self.state_properties
        if passed is UNSET or self.target_error is not UNSET:
            return None
        found = properties or {}
        return RowVerdict(passed, found.get("error_type"), found.get("turn"), reason)

    def line(self) -> dict[str, Any]:
        """Return the row's line in a result file."""
        if self.target_error is not UNSET:
            error = self.target_error if isinstance(self.target_error, dict) else {}
            return error_line(self.row_id, f"{error.get('type')}: {error.get('message')}")
        columns = msgspec.structs.asdict(self)
        if self.inference_log is UNSET or self.inference_log == msgspec.Raw(b"null"):
            columns["inference_log"] = None
        return result_line(self.row_id, columns)


_read_row = msgspec.json.Decoder(FinishedRow).decode


def finished_rows(results: Path) -> Iterator[FinishedRow]:
    """Yield the rows in the file of a finished run's results.

    Raises:
        DataError: A line is damaged.
    """
    with open_regular(results, buffering=1 << 20) as file:
        for number, line in enumerate(lines(file), 1):
            try:
                yield _read_row(line)
            except (msgspec.DecodeError, RecursionError, UnicodeError):  # `loads` reads more, or says what is wrong
                yield _read_slowly(line, f"{results}: line {number}")


def _read_slowly(line: bytes, where: str) -> FinishedRow:
    try:
        return _read_row(dumps_line(loads(line)))
    except (ValueError, msgspec.DecodeError) as error:
        raise DataError(f"{where} is damaged: {' '.join(str(error).split())}") from None


class RunFiles:
    """The result files of a run below a folder, and the verdicts of their rows, as far as the run came to some."""

    def __init__(self, folder: Path, model: str) -> None:
        self._folder, self._model = folder, model
        self.files: dict[str, ResultFile] = {}
        self.verdicts: dict[str, dict[str, RowVerdict | None]] = {}
        self._in_text: set[str] = set()
        """Rows whose results hold nothing but text."""

    def write(self, rows: Iterable[FinishedRow]) -> None:
        """Write the rows of a finished run, one file a category.

        A row that ended in an error has a line that says so, as BFCL's own files do, and is wrong; but it is left out
        where not calling is correct, and a count of calls would take the error for a correct answer.
        """
        opened: dict[str, BinaryIO] = {}
        with contextlib.ExitStack() as files:
            for row in rows:
                category = CATEGORIES.get(row.category)
                if category is None or (category.check == "irrelevance" and row.target_error is not UNSET):
                    continue
                if category.name not in opened:
                    path = self._path(category)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    opened[category.name] = files.enter_context(files.enter_context(replacing(path)).open("wb"))
                opened[category.name].write(dumps_line(row.line()))
                self.verdicts.setdefault(category.name, {})[row.row_id] = row.verdict(category)
                if isinstance(row.result, str) or mode_of([row.result]) == "text":
                    self._in_text.add(row.row_id)

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
