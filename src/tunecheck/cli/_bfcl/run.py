"""`tunecheck bfcl run`: ask an endpoint BFCL's questions, have its conversations, and show the scores."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, cast

import typer

from tunecheck.cli._console import progress_bar
from tunecheck.cli._parameters import RUNNING, Concurrency, Debug, Json, Quiet, ResultsDir, RunName
from tunecheck.cli._recorded_command import RecordedOptions

if TYPE_CHECKING:
    from tunecheck._json import JSON
    from tunecheck._progress import ProgressBar
    from tunecheck.cli._invocation import Invocation
    from tunecheck.conversations._target import ConversationTarget
    from tunecheck.conversations._target import Mode as AskingMode
    from tunecheck.evaluation._bfcl import BfclOutcome

DONE, FAILED = 0, 1

FOLDER, SCORES = "bfcl", "bfcl_score"
"""The folders in a run's own that hold the result files, and their verdicts."""

_MOST_ERRORS = 5

_ASKING = "What is asked, and how"

EndpointFile = Annotated[
    str | None,
    typer.Option(
        "--endpoint",
        metavar="FILE",
        help="Who answers: a definition, or the name of one in endpoints/.",
        rich_help_panel=_ASKING,
    ),
]
Categories = Annotated[
    str | None,
    typer.Option(
        "--categories",
        metavar="A,B",
        help="Categories and groups (all, multi_turn, single_turn, live, non_live); by default all.",
        rich_help_panel=_ASKING,
    ),
]
Ids = Annotated[
    str | None,
    typer.Option("--ids", metavar="ID,ID", help="Only the rows with these ids.", rich_help_panel=_ASKING),
]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit", metavar="N", min=1, help="Only the first N rows of each category.", rich_help_panel=_ASKING
    ),
]
Mode = Annotated[
    str | None,
    typer.Option(
        "--mode",
        metavar="MODE",
        help="tools: the endpoint takes tools and answers with tool calls (default); text: functions stand in the "
        "prompt, calls in the answer's text.",
        rich_help_panel=_ASKING,
    ),
]
StepLimit = Annotated[
    int | None,
    typer.Option(
        "--step-limit", metavar="N", min=1, help="Most answers in one turn; by default 20.", rich_help_panel=_ASKING
    ),
]
Compat = Annotated[
    bool,
    typer.Option(
        "--compat",
        help="As the leaderboard does it, to the letter: 21 answers in one turn, its decoding, its verdicts.",
        rich_help_panel=_ASKING,
    ),
]
InputLog = Annotated[
    bool,
    typer.Option(
        "--include-input-log", help="Keep every request's messages and tools in the log.", rich_help_panel=RUNNING
    ),
]
NoStates = Annotated[
    bool,
    typer.Option("--exclude-state-log", help="Leave the simulators' states out of the log.", rich_help_panel=RUNNING),
]
Data = Annotated[
    str | None,
    typer.Option(
        "--data", metavar="DIR", help="A copy of BFCL, if not the one of `datasets get bfcl`.", rich_help_panel=RUNNING
    ),
]
Resume = Annotated[
    str | None,
    typer.Option(
        "--resume",
        metavar="RUN",
        help="Finish a run in its own folder, with the options it was started with. RUN: its id, the beginning of it, "
        "its folder, or last.",
        rich_help_panel=RUNNING,
    ),
]
Reuse = Annotated[
    str | None,
    typer.Option(
        "--reuse",
        metavar="RUN",
        help="A new run that takes over every answer and verdict of that one whose inputs are unchanged.",
        rich_help_panel=RUNNING,
    ),
]


@dataclass(frozen=True)
class BfclRun(RecordedOptions):
    """What a run was started with; kept in its manifest, so that it can be finished."""

    recorded_as: ClassVar[str] = "bfcl_run"

    endpoint: str | None = None
    categories: str | None = None
    ids: str | None = None
    limit: int | None = None
    mode: str | None = None
    step_limit: int | None = None
    compat: bool = False
    include_input_log: bool = False
    exclude_state_log: bool = False
    data: str | None = None
    name: str | None = None
    concurrency: int | None = None


def run(
    context: typer.Context,
    endpoint: EndpointFile = None,
    categories: Categories = None,
    ids: Ids = None,
    limit: Limit = None,
    mode: Mode = None,
    step_limit: StepLimit = None,
    compat: Compat = False,
    include_input_log: InputLog = False,
    exclude_state_log: NoStates = False,
    data: Data = None,
    name: RunName = None,
    resume: Resume = None,
    reuse: Reuse = None,
    concurrency: Concurrency = None,
    results_dir: ResultsDir = None,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Run BFCL V3 against an endpoint: single questions, and conversations with simulators behind the calls.

    A run like any other: journaled, resumed with --resume, read with `tunecheck runs`. The result files are below
    RUN/bfcl/, laid out as the leaderboard's, and `tunecheck bfcl score` scores them again.

    Exit codes:
    0 done
    1 the run failed or was interrupted, or every row has an error
    2 wrong use or configuration
    """
    invocation: Invocation = context.obj
    invocation.results_dir = results_dir or invocation.results_dir
    invocation.evaluate = f"{invocation.program} bfcl run"
    options = _options(BfclRun.of(context.params), resume, invocation)
    outcome = _run(
        options, invocation, resume=resume, reuse=reuse, progress=progress_bar(options.name or "bfcl", quiet)
    )
    invocation.finished = str(outcome.result.run_dir)
    return _report(options, outcome, as_json=json, quiet=quiet)


def _options(given: BfclRun, resume: str | None, invocation: Invocation) -> BfclRun:
    from tunecheck._errors import ConfigurationError
    from tunecheck.runs._store import find_run

    if resume is None:
        if given.endpoint is None:
            raise ConfigurationError("no endpoint: give --endpoint FILE, or --resume RUN")
        return given
    found = find_run(resume, Path(invocation.results_dir))
    options = BfclRun.recorded(found)
    changed = [key for key, value in given.given().items() if value != getattr(options, key)]
    if set(changed) - {"concurrency"}:
        option = changed[0].replace("_", "-")
        raise ConfigurationError(f"--{option}: run {found.id} goes on as it was begun; start a new one with --reuse")
    return options


def _run(
    options: BfclRun, invocation: Invocation, *, resume: str | None, reuse: str | None, progress: ProgressBar | None
) -> BfclOutcome:
    from tunecheck.evaluation._bfcl import run_bfcl

    return run_bfcl(
        _target(options),
        categories=options.categories,
        ids=_ids(options.ids),
        limit=options.limit,
        data=Path(options.data) if options.data else None,
        name=options.name,
        concurrency=options.concurrency,
        resume=resume,
        reuse=reuse,
        results_dir=invocation.results_dir,
        progress=progress or False,
        command=options.command(),
    )


def _ids(option: str | None) -> list[str]:
    """The ids between the commas of the option; none where it was not given."""
    from tunecheck._errors import ConfigurationError

    found = [each.strip() for each in (option or "").split(",") if each.strip()]
    if option is not None and not found:  # all rows is the last thing that was meant
        raise ConfigurationError("--ids: names no row; ids are such as multi_turn_base_0")
    return found


def _target(options: BfclRun) -> ConversationTarget:
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
        bfcl_data=Path(options.data) if options.data else None,
    )


def _report(options: BfclRun, outcome: BfclOutcome, *, as_json: bool, quiet: bool) -> int:
    """Score the result files, write the verdicts beside them, show the table; gives the exit code."""
    from tunecheck._json import dumps_line
    from tunecheck.bfcl._scoring import score_results
    from tunecheck.cli._bfcl.score import print_table, write_scores

    result = outcome.result
    data = Path(options.data) if options.data else None
    if not outcome.files:  # nothing but errors, in categories where not calling is right
        print(f"error: every row ended in an error: {next(_errors(outcome), '')}", file=sys.stderr)
        return FAILED
    scores = score_results(outcome.folder, compat=True, mode=outcome.asked, data=data)
    summary = write_scores(scores, result.run_dir / SCORES)
    if as_json:
        about: dict[str, JSON] = {
            "run": result.run_dir.name,
            "run_dir": str(result.run_dir),
            "rows": result.row_count,
            "failed_rows": result.failed_row_count,
            "simulated": result.simulated,
            "scores": summary,
        }
        sys.stdout.write(dumps_line(about).decode("utf-8"))
    elif quiet:
        print(result.run_dir)
    else:
        _print_report(outcome, lambda: print_table(scores))
    if result.row_count and result.failed_row_count == result.row_count:
        print("error: every row ended in an error", file=sys.stderr)
        return FAILED
    return DONE


def _print_report(outcome: BfclOutcome, table: Callable[[], None]) -> None:
    from tunecheck._messages import clean, counted
    from tunecheck.cli._evaluate.summary import SIMULATED

    result = outcome.result
    print(f"{clean(result.run_dir.name)} · {counted(result.row_count, 'row')} · {clean(outcome.model)}")
    if result.simulated:
        print(SIMULATED)
    table()
    if result.failed_row_count:
        failed = counted(result.failed_row_count, "row")
        print(f"{failed} with an error; --resume {clean(result.run_dir.name)} tries again")
        for error in islice(_errors(outcome), _MOST_ERRORS):
            print(f"  {error}")
    for note in result.notes:
        print(f"note: {clean(note)}")
    print(f"files in {result.run_dir}\n  {FOLDER}/{clean(outcome.model)}/…_result.json  {SCORES}/  eval_results.jsonl")


def _errors(outcome: BfclOutcome) -> Iterator[str]:
    """The kinds of errors, the commonest first, with a row each."""
    from tunecheck._messages import clean, counted
    from tunecheck.runs._failures import read_failures
    from tunecheck.runs._store import Run

    for group in read_failures(Run(outcome.result.run_dir).rows(), {}).error_groups:
        yield f"{clean(group.words, 200)} ({counted(group.rows, 'row')}, e.g. {clean(group.example, 60)})"
