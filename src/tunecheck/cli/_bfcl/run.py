"""`tunecheck bfcl run`: ask an endpoint BFCL's questions, have its conversations, and show the scores."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from tunecheck._errors import ConfigurationError
from tunecheck._messages import clean
from tunecheck.cli._console import print_json
from tunecheck.cli._invocation import Invocation
from tunecheck.cli._options import RUNNING, command, flag, option
from tunecheck.cli._running import begin, every_row_failed, print_run, run_arguments, run_errors, run_summary
from tunecheck.cli._shared_options import ResumableOptions

if TYPE_CHECKING:
    from tunecheck.conversations._target import ConversationTarget
    from tunecheck.conversations._target import Mode as AskingMode
    from tunecheck.evaluation._bfcl import BfclOutcome

DONE, FAILED = 0, 1

FOLDER, SCORES = "bfcl", "bfcl_score"
"""The folders in a run's own that hold the result files, and their verdicts."""

_ASKING = "What is asked, and how"


@dataclass(frozen=True, kw_only=True)
class BfclRunOptions(ResumableOptions):
    """The options of `bfcl run`."""

    command: ClassVar[str] = "bfcl run"
    fixed: ClassVar[bool] = True

    endpoint: str | None = option("Who answers: a definition, or the name of one in endpoints/.", "FILE", _ASKING)
    categories: str | None = option(
        "Categories and groups (all, multi_turn, single_turn, live, non_live); by default all.", "A,B", _ASKING
    )
    ids: str | None = option("Only the rows with these ids.", "ID,ID", _ASKING)
    limit: int | None = option("Only the first N rows of each category.", "N", _ASKING, least=1)
    mode: str | None = option(
        "tools: the endpoint takes tools and answers with tool calls (default); text: functions stand in the "
        "prompt, calls in the answer's text.",
        "MODE",
        _ASKING,
    )
    step_limit: int | None = option("Most answers in one turn; by default 20.", "N", _ASKING, least=1)
    compat: bool = flag(
        "As the leaderboard does it, to the letter: 21 answers in one turn, its decoding, its verdicts.", _ASKING
    )
    include_input_log: bool = flag("Keep every request's messages and tools in the log.", RUNNING)
    exclude_state_log: bool = flag("Leave the simulators' states out of the log.", RUNNING)
    data: str | None = option("A copy of BFCL, if not the one of `datasets get bfcl`.", "DIR", RUNNING)
    reuse: str | None = option(
        "A new run that reuses every answer and verdict of that one whose inputs are unchanged.",
        "RUN",
        RUNNING,
        recorded=False,
    )

    @property
    def bfcl_data(self) -> Path | None:
        """The copy of BFCL."""
        return None if self.data is None else Path(self.data)


@command(BfclRunOptions)
def run(options: BfclRunOptions, invocation: Invocation) -> int:
    """Run BFCL V3 against an endpoint: single questions, and conversations with simulators behind the calls.

    A run like any other: journaled, resumed with --resume, read with `tunecheck runs`. The result files are below
    RUN/bfcl/, laid out as the leaderboard's, and `tunecheck bfcl score` scores them again.

    Exit codes:
    0 done
    1 the run failed or was interrupted, or every row has an error
    2 wrong use or configuration
    """

    options = begin(options, invocation)
    if options.endpoint is None:
        raise ConfigurationError("no endpoint: give --endpoint FILE, or --resume RUN")
    outcome = _run(options)
    invocation.finished = str(outcome.result.run_dir)
    return _report(options, outcome)


def _run(options: BfclRunOptions) -> BfclOutcome:
    from tunecheck.evaluation._bfcl import run_bfcl

    return run_bfcl(
        _target(options),
        categories=options.categories,
        ids=_ids(options.ids),
        limit=options.limit,
        data=options.bfcl_data,
        name=options.name,
        **run_arguments(options, "bfcl", reuse=options.reuse),
    )


def _ids(option: str | None) -> list[str]:
    """The ids between the commas of the option; none where it was not given."""
    ids = [each.strip() for each in (option or "").split(",") if each.strip()]
    if option is not None and not ids:  # all rows is the last thing that was meant
        raise ConfigurationError("--ids: names no row; ids are such as multi_turn_base_0")
    return ids


def _target(options: BfclRunOptions) -> ConversationTarget:
    from tunecheck.cli._evaluate.answer_source import load_named
    from tunecheck.conversations._target import STEP_LIMIT, ConversationTarget

    assert options.endpoint is not None
    return ConversationTarget(
        load_named(options.endpoint),
        mode=cast("AskingMode", options.mode or "tools"),
        step_limit=STEP_LIMIT if options.step_limit is None else options.step_limit,
        compat=options.compat,
        include_input_log=options.include_input_log,
        include_state_log=not options.exclude_state_log,
        bfcl_data=options.bfcl_data,
    )


def _report(options: BfclRunOptions, outcome: BfclOutcome) -> int:
    """Score the result files, write the verdicts beside them, show the table; gives the exit code."""
    from tunecheck.bfcl._scoring import score_results
    from tunecheck.cli._bfcl.score import print_table, write_scores

    result = outcome.result
    if not outcome.files:  # nothing but errors, in categories where not calling is right
        print(f"error: every row ended in an error: {next(run_errors(result.run_dir, 'row'), '')}", file=sys.stderr)
        return FAILED
    scores = score_results(outcome.folder, compat=True, mode=outcome.asked, data=options.bfcl_data)
    summary = write_scores(scores, result.run_dir / SCORES)
    if options.json:
        print_json({**run_summary(result), "scores": summary})
    elif options.quiet:
        print(result.run_dir)
    else:
        files = [f"{FOLDER}/{clean(outcome.model)}/…_result.json  {SCORES}/  eval_results.jsonl"]
        print_run(result, "row", lambda: print_table(scores), files, f" · {clean(outcome.model)}")
    return FAILED if every_row_failed(result, "row") else DONE
