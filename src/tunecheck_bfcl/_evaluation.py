"""BFCL against an endpoint as one run of the pipeline, which leaves result files in the leaderboard's layout, too."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from tunecheck import EvaluationResult, MultiTurnStateEvaluator, Run, RunError, evaluate
from tunecheck.datasets import Dataset
from tunecheck.endpoints import ReplayEndpoint
from tunecheck.episodes import ConversationTarget
from tunecheck.evaluation import RunArguments, result_or_unanswered
from tunecheck.evaluators import AnyMode
from tunecheck_bfcl._call_check import CallCheckEvaluator, Compat
from tunecheck_bfcl._data.files import find_bfcl
from tunecheck_bfcl._data.loader import select_rows
from tunecheck_bfcl._decoding import Names
from tunecheck_bfcl._scoring import LeaderboardScorer, Scores
from tunecheck_bfcl._writing import RunFiles, model_folder

FOLDER = "bfcl"
"""The folder in a run's own that holds the result files."""


@dataclass(frozen=True)
class BfclOutcome:
    """The outcome of a run: its result, and the leaderboard's scores, None if all rows are errors.

    The result files are below RUN/bfcl/MODEL.
    """

    result: EvaluationResult
    model: str
    scores: Scores | None

    @property
    def folder(self) -> Path:
        """Return the folder of the result files."""
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
    """Ask an endpoint the rows of some categories, and have their conversations.

    Args:
        target: the endpoint, and how it is asked; with `compat`, verdicts are the leaderboard's, to the letter.
        categories: names of categories and groups between commas; by default all that the leaderboard scores.
        ids: only these rows.
        limit: only the first rows of each category.
        names: how functions with dots in their names are expected; see `score_results`.
        data: a copy of BFCL, if not the usual one.
        name: the run's.
        arguments: see `evaluate`.

    Raises:
        ConfigurationError: an argument is wrong, or the data is not there; the text says how to get it.
        RunError: the run was stopped; what it finished is kept, and the text says how to go on.
    """
    dataset = select_rows(categories, ids=ids, limit=limit, folder=data)
    asked = None if isinstance(target.endpoint, ReplayEndpoint) else target.mode
    result = result_or_unanswered(
        evaluate,
        data=dataset,
        target=target,
        evaluators=_evaluators(dataset, target, asked or "auto", names, data),
        evaluation_name=name or f"bfcl-{target.name}",
        group_by="category",
        **arguments,
    )
    written = RunFiles(result.run_dir / FOLDER, target.name)
    try:
        written.write(Run(result.run_dir).rows())
    except OSError as error:
        where = result.run_dir / FOLDER
        raise RunError(f"{where}: cannot be written: {error.strerror}; run {result.run_dir.name} is done") from error
    scores = (
        written.scores(LeaderboardScorer(find_bfcl(data), compat=True, names=names), asked) if written.files else None
    )
    return BfclOutcome(result, target.name, scores)


def _evaluators(
    dataset: Dataset, target: ConversationTarget, mode: AnyMode, names: Names, data: Path | None
) -> dict[str, object]:
    """Return the evaluators that the rows need: for conversations, for single calls, or both."""
    columns = dataset.scan().columns
    how: Compat = "auto" if target.compat is None else "bfcl"
    evaluators: dict[str, object] = {}
    if "turns" in columns:
        evaluators["multi_turn_state"] = MultiTurnStateEvaluator(
            compat=how, mode=mode, data=str(data) if data else None, model=model_folder(target.name)
        )
    if "messages" in columns:
        evaluators["call_check"] = CallCheckEvaluator(compat=how, mode=mode, names=names)
    return evaluators
