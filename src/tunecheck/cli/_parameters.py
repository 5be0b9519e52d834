"""The options that commands share, as typer declares them: names, help, and where they stand in the help."""

from __future__ import annotations

from typing import Annotated

import typer

SCORING, RUNNING, GATING, SHOWING = "Evaluators", "The run", "Gates", "Output"

EvaluatorNames = Annotated[
    str | None,
    typer.Option(
        "--evaluators",
        metavar="A,B",
        help="Names from `tunecheck plugins`; by default the data set's.",
        rich_help_panel=SCORING,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="E.PARAMETER=VALUE",
        help="An evaluator's parameter, e.g. bleu.threshold=0.4 (repeatable).",
        rich_help_panel=SCORING,
    ),
]
Mapping = Annotated[
    list[str] | None,
    typer.Option(
        "--mapping",
        metavar="PARAMETER=COLUMN",
        help="Where a parameter's value comes from, e.g. 'response=${target.response}'; for one evaluator only: "
        "'bleu.response=${data.answer}' (repeatable).",
        rich_help_panel=SCORING,
    ),
]
Judge = Annotated[
    str | None,
    typer.Option(
        "--judge",
        metavar="FILE",
        help="The model of LLM-judged evaluators: a definition, or the name of one in endpoints/.",
        rich_help_panel=SCORING,
    ),
]
Prices = Annotated[
    str | None,
    typer.Option(
        "--prices",
        metavar="FILE",
        help="A YAML file with the price of a million tokens by model.",
        rich_help_panel=RUNNING,
    ),
]
MaxCost = Annotated[
    float | None,
    typer.Option(
        "--max-cost",
        metavar="AMOUNT",
        min=0,
        help="Stop in order before calls cost more than this; the run can be resumed.",
        rich_help_panel=RUNNING,
    ),
]
Config = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="A YAML file with these options as keys; the command line wins.",
        rich_help_panel=RUNNING,
    ),
]
RunName = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="The run's name; by default the data set's.", rich_help_panel=RUNNING),
]
Concurrency = Annotated[
    int | None,
    typer.Option(
        "--concurrency",
        metavar="N",
        min=1,
        help="Calls under way at once; by default the endpoint's limit, else 10.",
        rich_help_panel=RUNNING,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        min=0,
        help="Processes for evaluators that burn CPU; 0: threads only.",
        rich_help_panel=RUNNING,
    ),
]
GroupBy = Annotated[
    list[str] | None,
    typer.Option(
        "--group-by",
        metavar="COLUMN",
        help="Metrics by this column's values, too (repeatable).",
        rich_help_panel=RUNNING,
    ),
]
ResultsDir = Annotated[
    str | None,
    typer.Option(
        "--results-dir", metavar="DIR", help="Where run folders are; by default eval_results.", rich_help_panel=RUNNING
    ),
]
FailUnder = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-under",
        metavar="GATE",
        help="Exit with 3 unless this holds, e.g. 'function_call_match>=0.8', 'rouge.rouge>0.5', "
        "'match\\[call]>=0.7' for the rows of one group (repeatable).",
        rich_help_panel=GATING,
    ),
]
MaxErrorRate = Annotated[
    float | None,
    typer.Option(
        "--max-error-rate",
        metavar="SHARE",
        min=0,
        max=1,
        help="Exit with 3 if more rows than this share have an error; 0 where there is a gate.",
        rich_help_panel=GATING,
    ),
]
NoWorseThan = Annotated[
    str | None,
    typer.Option(
        "--no-worse-than",
        metavar="RUN",
        help="Exit with 3 unless this run is shown to be worse than RUN by less than --margin: by the main metric of "
        "each evaluator, or of those that --fail-under names.",
        rich_help_panel=GATING,
    ),
]
Margin = Annotated[
    float | None,
    typer.Option(
        "--margin",
        metavar="M",
        min=0,
        help="How much worse is still accepted, in the metric's unit (0.02: two points of a pass rate).",
        rich_help_panel=GATING,
    ),
]
JunitFile = Annotated[
    str | None,
    typer.Option("--junit", metavar="FILE", help="Write gates and error rates as JUnit XML.", rich_help_panel=SHOWING),
]
MarkdownFile = Annotated[
    str | None,
    typer.Option("--markdown", metavar="FILE", help="Write a summary for a pull request.", rich_help_panel=SHOWING),
]
AllowSimulated = Annotated[
    bool,
    typer.Option("--allow-simulated", help="Let gates judge a run that asked no model.", rich_help_panel=GATING),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", help="Print the run's folder and nothing else.", rich_help_panel=SHOWING)
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.", rich_help_panel=SHOWING)]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.", rich_help_panel=SHOWING)]
