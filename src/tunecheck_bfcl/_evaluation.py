"""BFCL against an endpoint as one run of the pipeline, which also writes result files in the leaderboard's layout.

`tunecheck bfcl run` calls `run_bfcl()`. After the run, RUN has:

  eval_results.jsonl                                             rows with answers and verdicts, as of every run
  bfcl/MODEL/GROUP/BFCL_v4_CATEGORY_result.json                  the answers in the leaderboard's layout
  bfcl_score/                                                    the leaderboard's verdicts and figures

The scores take the run's own verdicts. A row is judged again if one of these holds (`RunFiles.scores`):

  the run has no verdict       the evaluator failed, or the row ended in an error
  a recorded run is replayed   and the row's mode differs from the one inferred for the whole model
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, BinaryIO, Unpack, cast

import msgspec

from tunecheck import EvaluationResult, MultiTurnStateEvaluator, Run, evaluate
from tunecheck.datasets import Dataset
from tunecheck.endpoints import ReplayEndpoint
from tunecheck.episodes import BY_STEP, REASONING, CallMode, ConversationTarget, RowVerdict, mode_of
from tunecheck.evaluation import RunArguments, result_or_unanswered
from tunecheck.evaluators import AnyMode
from tunecheck.pipeline import ResultRow
from tunecheck.plugins import JSON, dumps_line, replacing
from tunecheck_bfcl._call_check import CallCheckEvaluator, Compat
from tunecheck_bfcl._data.files import CATEGORIES, Category, find_bfcl
from tunecheck_bfcl._data.loader import select_rows
from tunecheck_bfcl._decoding import Names
from tunecheck_bfcl._scoring import LeaderboardScorer, ResultFile, Scores, asked_in_mode, check_rows
from tunecheck_bfcl._summary import CategoryScore, ModelScore

FOLDER = "bfcl"
"""The subfolder of a run's folder with the result files."""


class BfclOutcome(msgspec.Struct, frozen=True):
    """The outcome of a run: the result and the leaderboard's scores, which are None if all rows are errors.

    The result files are below RUN/bfcl/MODEL.
    """

    result: EvaluationResult
    model: str
    scores: Scores | None

    @property
    def folder(self) -> Path:
        """The folder of the result files."""
        return self.result.run_dir / FOLDER


def run_bfcl(
    target: ConversationTarget,
    *,
    categories: str | None = None,
    ids: Sequence[str] = (),
    limit: int | None = None,
    names: Names = "auto",
    data: Path | None = None,
    name: str | None = None,
    **arguments: Unpack[RunArguments],
) -> BfclOutcome:
    """Run an endpoint on the questions and conversations of some categories, and judge the answers.

    Args:
        target: the endpoint and the way it is called. With `compat`, verdicts are exactly the leaderboard's.
        categories: comma-separated names of categories and groups; by default all that the leaderboard scores.
        ids: only these rows.
        limit: at most this many rows of each category.
        names: how functions with dots in their names are expected; see `score_results`.
        data: the copy of BFCL; by default as in `find_bfcl`.
        name: the run's name.
        arguments: see `evaluate`.

    Raises:
        ConfigurationError: an argument is wrong.
        DataError: the data is missing. The text tells how to get it.
        RunError: the run was stopped; finished rows are kept, and the text tells how to resume. Or the result files
            cannot be written.
    """
    dataset = select_rows(categories, ids=ids, limit=limit, folder=data)
    # Replayed answers were given in an unknown mode, which is inferred from them.
    mode = None if isinstance(target.endpoint, ReplayEndpoint) else target.mode

    result = result_or_unanswered(
        evaluate,
        data=dataset,
        target=target,
        evaluators=_evaluators(dataset, target, mode or "auto", names, data),
        evaluation_name=name or f"bfcl-{target.name}",
        group_by="category",
        **arguments,
    )

    run, folder = Run(result.run_dir), result.run_dir / FOLDER
    result_files = RunFiles(folder, target.name)
    with run.writing(folder):
        result_files.write(run.rows())

    scorer = LeaderboardScorer(find_bfcl(data), compat=True, names=names)
    return BfclOutcome(result, target.name, result_files.scores(scorer, mode) if result_files.files else None)


def _evaluators(
    dataset: Dataset, target: ConversationTarget, mode: AnyMode, names: Names, data: Path | None
) -> dict[str, object]:
    """Return the evaluators that the rows need: for conversations, for single questions, or both."""
    columns = dataset.scan().columns
    compat: Compat = "auto" if target.compat is None else "bfcl"
    # Columns tell the kinds of rows: `turns` are conversations, `messages` single questions.
    evaluators: dict[str, object] = {}

    if "turns" in columns:
        evaluators["multi_turn_state"] = MultiTurnStateEvaluator(
            compat=compat, mode=mode, data=str(data) if data else None, model=model_folder(target.name)
        )
    if "messages" in columns:
        evaluators["call_check"] = CallCheckEvaluator(compat=compat, mode=mode, names=names)

    return evaluators


class RunFiles:
    """Writes the result files of a run into a folder, and holds the run's verdicts on their rows."""

    def __init__(self, folder: Path, model: str) -> None:
        """Prepare to write a model's result files below a folder. `files` and `verdicts` are filled by `write`."""
        self._folder, self._model = folder, model
        self.files: dict[str, ResultFile] = {}
        self.verdicts: dict[str, dict[str, RowVerdict | None]] = {}
        self._text_row_ids: set[str] = set()
        """Ids of rows with only text as result."""

    def write(self, rows: Iterable[ResultRow]) -> None:
        """Write the rows of a finished run to one result file per category; keep the run's verdicts in `verdicts`.

        As in BFCL's own files, a row that ended in an error has a line with the error and counts as wrong. It is left
        out if the correct answer is not to call, because the error would then count as correct.
        """
        opened: dict[str, BinaryIO] = {}
        with contextlib.ExitStack() as stack:
            for row in rows:
                category = CATEGORIES.get(str(row.get("inputs.category")))
                if category is None or (category.check == "irrelevance" and "error.target" in row):
                    continue

                # `replacing` puts each file in place only when it is complete.
                if category.name not in opened:
                    path = self._add_file(category)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    opened[category.name] = stack.enter_context(stack.enter_context(replacing(path)).open("wb"))

                row_id, result = str(row.get("row_id")), row.get("outputs.result")
                opened[category.name].write(dumps_line(_line_of(row)))
                self.verdicts.setdefault(category.name, {})[row_id] = _recorded_verdict(row, category)
                # `scores` needs these ids if the mode is inferred.
                if mode_of(result) == "text":
                    self._text_row_ids.add(row_id)

    def _add_file(self, category: Category) -> Path:
        """Note a category's result file in `files`, and return its path."""
        group = "live" if category.live else "non_live"
        if category.multi_turn:
            group = "multi_turn"
        path = self._folder / result_path(self._model, group, category.name)
        self.files[category.name] = ResultFile(path, model_folder(self._model), category)
        return path

    def scores(self, scorer: LeaderboardScorer, mode: CallMode | None) -> Scores:
        """Return the leaderboard's scores of the written files.

        A row is judged again if the run has no verdict on it or decoded it in another mode. `mode` is how the model
        was asked; None infers it from the files.
        """
        leaderboard_mode = mode or asked_in_mode([*self.files.values()])
        scores: dict[str, CategoryScore] = {}
        for category in (category for name, category in CATEGORIES.items() if name in self.files):
            verdicts = self.verdicts[category.name]
            judged_again = {row_id for row_id, verdict in verdicts.items() if verdict is None}
            # The evaluators inferred the mode row by row; the leaderboard has one mode for a model.
            if mode is None:
                is_text = leaderboard_mode == "text"
                judged_again |= {row_id for row_id in verdicts if (row_id in self._text_row_ids) != is_text}

            entries = check_rows(scorer.files, category)
            if judged_again:
                verdicts |= scorer.verdicts(self.files[category.name], leaderboard_mode, entries, judged_again)
            judged = [(row_id, verdict) for row_id, verdict in verdicts.items() if verdict]
            scores[category.name] = CategoryScore(category.name, judged, entries.keys())

        model = next(iter(self.files.values())).model
        return Scores(compat=True, models={model: ModelScore(model, scores)}, passed_over=[])


def result_line(row_id: str, output: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the line of a result file for a row with this output.

    Missing counts are written as 0, because BFCL's scripts add the counts up. `raw_text` is the model's original text,
    if it differs from the call text in the result. Example: `{"id": "simple_python_0", "result": [{"f": "{}"}],
    "input_token_count": 310, "output_token_count": 12, "latency": 0.8, "finish_reason": "tool_calls"}`.
    """
    line: dict[str, JSON] = {"id": row_id, "result": output.get("result")}
    for name in BY_STEP:
        line[name] = _zero_if_missing(output.get(name))

    result, text, reasons = (output.get(name) for name in ("result", "text", "finish_reasons"))
    optional: dict[str, JSON] = {
        "inference_log": output.get("inference_log"),
        "forced_quit": output.get("forced_quit") or None,
        REASONING: output.get(REASONING) or None,
        # A conversation has a list with a reason per step, a single question one reason.
        "finish_reason": output.get("finish_reason") if reasons is None else reasons,
        "raw_text": text if isinstance(result, str) and text != result else None,
    }
    return line | {name: value for name, value in optional.items() if value is not None}


def result_path(model: str, group: str, category: str) -> PurePath:
    """Return the relative path of a model's result file."""
    return PurePath(model_folder(model), group, f"BFCL_v4_{category}_result.json")


def model_folder(model: str) -> str:
    """Return the name of the folder for a model's results. The leaderboard uses it as the model's name."""
    # These characters are not allowed in names of files on Windows, or would lead into another folder.
    folder = "".join("_" if letter in '/\\:*?"<>|' or not letter.isprintable() else letter for letter in model)
    return folder.strip(". ") or "model"


def _zero_if_missing(value: JSON) -> JSON:
    """Return a token count or latency, or nested lists of them, with 0 for each missing value."""
    if isinstance(value, list):
        return [_zero_if_missing(item) for item in value]
    return 0 if value is None else value


def _line_of(row: ResultRow) -> dict[str, JSON]:
    """Return the line of a result file for a row of a run. BFCL's scripts count a row without an answer as wrong."""
    row_id = str(row.get("row_id"))
    if "error.target" in row:
        error = row["error.target"]
        details = error if isinstance(error, dict) else {}
        message = f"{details.get('type')}: {details.get('message')}"
        return {"id": row_id, "result": f"Error during inference: {message}", "traceback": ""}

    prefix = "outputs."
    return result_line(row_id, {name.removeprefix(prefix): row[name] for name in row if name.startswith(prefix)})


def _recorded_verdict(row: ResultRow, category: Category) -> RowVerdict | None:
    """Return the run's verdict on a row, or None if the evaluator failed or the row ended in an error."""
    metric = "multi_turn_state" if category.multi_turn else "call_check"
    prefix = f"outputs.{metric}.{metric}"
    if f"{prefix}_passed" not in row or "error.target" in row:
        return None

    passed, reason, properties = (cast("Any", row.get(f"{prefix}_{key}")) for key in ("passed", "reason", "properties"))
    # A damaged file of rows may have values of any type.
    known = properties if isinstance(properties, dict) else {}
    return RowVerdict(passed if isinstance(passed, bool) else None, known.get("error_type"), known.get("turn"), reason)
