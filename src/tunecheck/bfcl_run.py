"""BFCL against an endpoint as one run of the pipeline, which leaves result files in the leaderboard's layout, too."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck.conversations.bfcl_selection import select_rows
from tunecheck.conversations.result_files import write_result_files
from tunecheck.conversations.target import STEP_LIMIT, ConversationTarget, Mode
from tunecheck.datasets import Dataset
from tunecheck.endpoints import Endpoint
from tunecheck.errors import RunError
from tunecheck.evaluate import EvaluationResult, evaluate
from tunecheck.jsontext import JSON
from tunecheck.runs.store import Run

if TYPE_CHECKING:
    from tunecheck.evaluators.multi_turn_state import Compat
    from tunecheck.progress import ProgressCallback

__all__ = ["BfclOutcome", "run_bfcl"]

FOLDER = "bfcl"
"""The folder in a run's own that holds the result files."""


@dataclass(frozen=True)
class BfclOutcome:
    """What came of a run: its result, and the result files, below `folder`/`model`."""

    result: EvaluationResult
    folder: Path
    model: str
    files: Sequence[Path]


def run_bfcl(
    endpoint: Endpoint,
    *,
    categories: str | None = None,
    ids: Sequence[str] = (),
    limit: int | None = None,
    mode: Mode = "tools",
    step_limit: int | None = None,
    compat: bool = False,
    include_input_log: bool = False,
    include_state_log: bool = True,
    data: Path | None = None,
    name: str | None = None,
    concurrency: int | None = None,
    resume: str | os.PathLike[str] | None = None,
    reuse: str | os.PathLike[str] | None = None,
    results_dir: str | os.PathLike[str] = "eval_results",
    progress: bool | ProgressCallback = False,
    command: Mapping[str, JSON] | None = None,
) -> BfclOutcome:
    """Ask an endpoint the rows of some categories, and have their conversations.

    Args:
        endpoint: the model.
        categories: names of categories and groups between commas; by default all that the leaderboard scores.
        ids: only these rows.
        limit: only the first rows of each category.
        mode, step_limit, compat, include_input_log, include_state_log: see `ConversationTarget`; `compat` also makes
            the verdicts the leaderboard's, to the letter.
        data: a copy of BFCL, if not the usual one.
        name, concurrency, resume, reuse, results_dir, progress, command: see `evaluate`.

    Raises:
        ConfigurationError: an argument is wrong, or the data is not there; the text says how to get it.
        RunError: the run was stopped; what it finished is kept, and the text says how to go on.
    """
    dataset = select_rows(categories, ids=ids, limit=limit, folder=data)
    target = ConversationTarget(
        endpoint,
        mode=mode,
        step_limit=STEP_LIMIT if step_limit is None else step_limit,
        compat=compat,
        include_input_log=include_input_log,
        include_state_log=include_state_log,
        bfcl_data=data,
    )
    result = evaluate(
        data=dataset,
        target=target,
        evaluators=_evaluators(dataset, compat=compat, mode=mode, data=data),
        evaluation_name=name or f"bfcl-{endpoint.name}",
        concurrency=concurrency,
        resume=resume,
        reuse=reuse,
        results_dir=results_dir,
        progress=progress,
        group_by="category",
        command=command,
    )
    folder = result.run_dir / FOLDER
    try:
        files = write_result_files(Run(result.run_dir).rows(), folder, endpoint.name)
    except OSError as error:
        raise RunError(f"{folder}: cannot be written: {error.strerror}; run {result.run_dir.name} is done") from error
    return BfclOutcome(result, folder, endpoint.name, files)


def _evaluators(dataset: Dataset, *, compat: bool, mode: Mode, data: Path | None) -> dict[str, object]:
    """Those that the rows need: for conversations, for single calls, or both."""
    from tunecheck.evaluators.call_check import CallCheckEvaluator
    from tunecheck.evaluators.multi_turn_state import MultiTurnStateEvaluator

    columns = dataset.scan().columns
    how: Compat = "bfcl" if compat else "auto"
    found: dict[str, object] = {}
    if "turns" in columns:
        found["multi_turn_state"] = MultiTurnStateEvaluator(compat=how, mode=mode, data=str(data) if data else None)
    if "messages" in columns:
        found["call_check"] = CallCheckEvaluator(compat=how, mode=mode)
    return found
