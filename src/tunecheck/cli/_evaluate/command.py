"""`tunecheck evaluate`, which is `python evaluate.py`, and `tunecheck score`."""

from __future__ import annotations

from typing import Annotated

import typer

from tunecheck.cli._parameters import (
    RUNNING,
    SHOWING,
    AllowSimulated,
    Concurrency,
    Config,
    Debug,
    EvaluatorNames,
    FailUnder,
    GroupBy,
    Json,
    Judge,
    JunitFile,
    Mapping,
    Margin,
    MarkdownFile,
    MaxCost,
    MaxErrorRate,
    NoWorseThan,
    Prices,
    Quiet,
    ResultsDir,
    RunName,
    Set,
    Workers,
)
from tunecheck.cli._upload import Mlflow, Project

_DATA = "Data and answers"

DatasetFile = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        metavar="FILE",
        help="The data (.jsonl .json .csv .parquet), as given or in datasets/.",
        rich_help_panel=_DATA,
    ),
]
EndpointFile = Annotated[
    str | None,
    typer.Option(
        "--endpoint",
        metavar="FILE",
        help="Who answers: a definition, or the name of one in endpoints/. Without it: the data set's own, else the "
        "embedded simulated endpoint.",
        rich_help_panel=_DATA,
    ),
]
ResponseColumn = Annotated[
    str | None,
    typer.Option(
        "--response-column",
        metavar="COLUMN",
        help="Nobody is asked: this column of the data holds the answers.",
        rich_help_panel=_DATA,
    ),
]
Limit = Annotated[
    int | None,
    typer.Option("--limit", metavar="N", min=1, help="Only the first rows.", rich_help_panel=_DATA),
]
Repeat = Annotated[
    int | None,
    typer.Option(
        "--repeat",
        metavar="K",
        min=1,
        help="Ask each row K times; the metrics then have pass@k and pass^k, too.",
        rich_help_panel=_DATA,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", metavar="N", min=0, help="The simulated endpoint's seed.", rich_help_panel=_DATA),
]
Resume = Annotated[
    str | None,
    typer.Option(
        "--resume",
        metavar="RUN",
        help="Finish a run in its own folder, with the options it was started with. RUN: its id, the beginning of "
        "it, its folder, or last.",
        rich_help_panel=RUNNING,
    ),
]
Reuse = Annotated[
    str | None,
    typer.Option(
        "--reuse",
        metavar="RUN",
        help="A new run, with that run's options where none are given here, that takes over every answer and verdict "
        "whose inputs are unchanged.",
        rich_help_panel=RUNNING,
    ),
]
Upload = Annotated[
    bool,
    typer.Option("--upload", help="Upload the finished run to --project.", rich_help_panel=RUNNING),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Check everything, and say how many calls, tokens and how much money it takes; ask nothing.",
        rich_help_panel=SHOWING,
    ),
]


def evaluate(  # the parameters are read from the context, all at once
    context: typer.Context,
    dataset: DatasetFile = None,
    endpoint: EndpointFile = None,
    response_column: ResponseColumn = None,
    limit: Limit = None,
    repeat: Repeat = None,
    seed: Seed = None,
    evaluators: EvaluatorNames = None,
    judge: Judge = None,
    set_: Set = None,
    mapping: Mapping = None,
    config: Config = None,
    name: RunName = None,
    resume: Resume = None,
    reuse: Reuse = None,
    concurrency: Concurrency = None,
    workers: Workers = None,
    group_by: GroupBy = None,
    prices: Prices = None,
    max_cost: MaxCost = None,
    results_dir: ResultsDir = None,
    fail_under: FailUnder = None,
    max_error_rate: MaxErrorRate = None,
    no_worse_than: NoWorseThan = None,
    margin: Margin = None,
    allow_simulated: AllowSimulated = False,
    junit: JunitFile = None,
    markdown: MarkdownFile = None,
    upload: Upload = False,
    project: Project = None,
    mlflow: Mlflow = None,
    quiet: Quiet = False,
    json: Json = False,
    dry_run: DryRun = False,
    debug: Debug = False,
) -> int:
    """Ask an endpoint every row of a data set, and judge its answers.

    Exit codes:
    0 done
    1 the run failed or was interrupted, or every row has an error
    2 wrong use or configuration
    3 done, but a gate was not met

    Ctrl-C stops in order and prints the command that resumes; a second one leaves at once.
    """
    from tunecheck.cli._evaluate.job_command import run_job
    from tunecheck.cli._evaluate.options import Options

    return run_job(Options.of_command_line(context.params), config, context.obj)


Run = Annotated[
    str, typer.Argument(metavar="RUN", help="A finished run: its id, the beginning of it, its folder, or last.")
]


def score(
    context: typer.Context,
    run: Run,
    evaluators: EvaluatorNames = None,
    judge: Judge = None,
    set_: Set = None,
    mapping: Mapping = None,
    config: Config = None,
    name: RunName = None,
    concurrency: Concurrency = None,
    workers: Workers = None,
    group_by: GroupBy = None,
    prices: Prices = None,
    max_cost: MaxCost = None,
    results_dir: ResultsDir = None,
    fail_under: FailUnder = None,
    max_error_rate: MaxErrorRate = None,
    no_worse_than: NoWorseThan = None,
    margin: Margin = None,
    allow_simulated: AllowSimulated = False,
    junit: JunitFile = None,
    markdown: MarkdownFile = None,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Judge a finished run's recorded answers with other evaluators, in a new run; only judges are asked.

    Exit codes: as of evaluate.
    """
    from tunecheck.cli._evaluate.job_command import run_job
    from tunecheck.cli._evaluate.options import Options

    return run_job(Options.of_command_line(context.params), config, context.obj)
