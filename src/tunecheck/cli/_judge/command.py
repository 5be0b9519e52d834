"""`tunecheck judge`: see how far an evaluator, such as a model that judges, agrees with people."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, cast

import typer

from tunecheck.cli._console import progress_bar
from tunecheck.cli._parameters import (
    RUNNING,
    SCORING,
    SHOWING,
    Concurrency,
    Debug,
    Json,
    Judge,
    MaxCost,
    Prices,
    Quiet,
    ResultsDir,
    RunName,
    Set,
)
from tunecheck.cli._parameters import Mapping as MappingEntries
from tunecheck.cli._recorded_command import RecordedOptions

if TYPE_CHECKING:
    from tunecheck._json import JSON
    from tunecheck._progress import ProgressBar
    from tunecheck.cli._invocation import Invocation
    from tunecheck.evaluation._calibration.labelled_run import Calibration
    from tunecheck.evaluation._calibration.labels import LabelKind

DONE, FAILED = 0, 1

_LABELS = "Labels"

LabelsFile = Annotated[
    str | None,
    typer.Option(
        "--labels",
        metavar="FILE",
        help="Labelled rows (.jsonl .json .csv .parquet): what is judged, and what people said of it.",
        rich_help_panel=_LABELS,
    ),
]
LabelColumn = Annotated[
    str | None,
    typer.Option(
        "--label-column",
        metavar="COLUMN",
        help="The column of the labels; by default label. Rows without one are left out.",
        rich_help_panel=_LABELS,
    ),
]
Kind = Annotated[
    str | None,
    typer.Option(
        "--label-kind",
        metavar="KIND",
        help="pass_fail (pass, true, yes, 1 …), score (numbers, held against the threshold) or class; by default what "
        "they look like.",
        rich_help_panel=_LABELS,
    ),
]
LabelThreshold = Annotated[
    float | None,
    typer.Option(
        "--label-threshold",
        metavar="N",
        help="From which number on labels pass; by default the evaluator's own threshold.",
        rich_help_panel=_LABELS,
    ),
]
Limit = Annotated[
    int | None, typer.Option("--limit", metavar="N", min=1, help="Only the first rows.", rich_help_panel=_LABELS)
]
EvaluatorName = Annotated[
    str | None,
    typer.Option("--evaluator", metavar="NAME", help="A name from `tunecheck plugins`.", rich_help_panel=SCORING),
]
MetricName = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="METRIC",
        help="Whose verdict; by default the evaluator's main one.",
        rich_help_panel=SCORING,
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
Out = Annotated[
    str | None,
    typer.Option(
        "--out", metavar="FILE", help="Write the report as JSON, all rows that differ.", rich_help_panel=SHOWING
    ),
]


@dataclass(frozen=True)
class CalibrateOptions(RecordedOptions):
    """What a run was started with; kept in its manifest, so that it can be finished."""

    recorded_as: ClassVar[str] = "judge_calibrate"

    labels: str | None = None
    evaluator: str | None = None
    label_column: str | None = None
    label_kind: str | None = None
    label_threshold: float | None = None
    limit: int | None = None
    metric: str | None = None
    judge: str | None = None
    set: dict[str, JSON] | None = None
    mapping: dict[str, JSON] | None = None
    prices: str | None = None
    max_cost: float | None = None
    name: str | None = None
    concurrency: int | None = None

    @classmethod
    def of(cls, parameters: Mapping[str, object]) -> CalibrateOptions:
        """From a command's parameters.

        Raises:
            ConfigurationError: a repeated `name=value` option is none.
        """
        from tunecheck.cli._entries import parse_assignments

        given = {name.rstrip("_"): value for name, value in parameters.items()}
        for option in ("set", "mapping"):
            texts = cast("list[str]", given[option] or [])
            given[option] = parse_assignments(texts, f"--{option}") or None
        return super().of(given)


def make_app() -> typer.Typer:
    """The commands about judges."""
    app = typer.Typer(help="See how far a judge agrees with people.")
    app.command()(calibrate)
    app.callback()(_about)
    return app


def _about() -> None:
    """See how far a judge agrees with people."""


def calibrate(
    context: typer.Context,
    labels: LabelsFile = None,
    label_column: LabelColumn = None,
    label_kind: Kind = None,
    label_threshold: LabelThreshold = None,
    limit: Limit = None,
    evaluator: EvaluatorName = None,
    metric: MetricName = None,
    judge: Judge = None,
    set_: Set = None,
    mapping: MappingEntries = None,
    name: RunName = None,
    resume: Resume = None,
    concurrency: Concurrency = None,
    prices: Prices = None,
    max_cost: MaxCost = None,
    results_dir: ResultsDir = None,
    out: Out = None,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Run an evaluator over rows that people have labelled, and say how far it agrees with them.

    Accuracy, Cohen's kappa, which kinds of mistakes, and the rows where they differ. A run like any other: journaled,
    resumed with --resume.

    Exit codes:
    0 done
    1 the run failed or was interrupted, or no row could be compared
    2 wrong use or configuration
    """
    invocation: Invocation = context.obj
    invocation.results_dir = results_dir or invocation.results_dir
    invocation.evaluate = f"{invocation.program} judge calibrate"
    options = _completed(CalibrateOptions.of(context.params), resume, invocation)
    _check_out(out)
    found = _run(options, invocation, resume, progress_bar(options.name or "calibrate", quiet))
    invocation.finished = str(found.run_dir)
    _show(found, out=out, as_json=json, quiet=quiet)
    if found.compared == 0:
        print("error: no row could be compared", file=sys.stderr)
        return FAILED
    return DONE


def _completed(given: CalibrateOptions, resume: str | None, invocation: Invocation) -> CalibrateOptions:
    """The options, with those of the run that is taken up under them: it refuses by itself what does not fit."""
    from tunecheck._errors import ConfigurationError
    from tunecheck.runs._store import find_run

    options = given
    if resume is not None:
        run = find_run(resume, Path(invocation.results_dir))
        if given.name is not None:
            raise ConfigurationError(f"--name: run {run.id} keeps its name; leave --name out")
        options = replace(CalibrateOptions.recorded(run), **given.given())  # type: ignore[arg-type]  # fields of the same class
    for option, example in (("labels", "FILE"), ("evaluator", "NAME")):
        if getattr(options, option) is None:
            raise ConfigurationError(f"--{option} {example} is missing (or give --resume RUN)")
    return options


def _check_out(out: str | None) -> None:
    from tunecheck._errors import ConfigurationError

    if out is not None and (not Path(out).parent.is_dir() or Path(out).is_dir()):
        raise ConfigurationError(f"--out {out}: its folder does not exist, or it is one itself")


def _run(
    options: CalibrateOptions, invocation: Invocation, resume: str | None, progress: ProgressBar | None
) -> Calibration:
    from tunecheck.evaluation._calibration.calibrate import calibrate as run

    assert options.labels is not None
    assert options.evaluator is not None
    name = options.evaluator
    return run(
        labels=options.labels,
        evaluator=_evaluator(options, name),
        name=name,
        label_column=options.label_column or "label",
        label_kind=cast("LabelKind | None", options.label_kind),
        label_threshold=options.label_threshold,
        metric=options.metric,
        column_mapping=_mapping(options, name),
        evaluation_name=options.name,
        concurrency=options.concurrency,
        limit=options.limit,
        max_cost=options.max_cost,
        resume=resume,
        progress=progress or False,
        results_dir=invocation.results_dir,
        command=options.command(),
    )


def _evaluator(options: CalibrateOptions, name: str) -> object:
    """The evaluator, made; the model that it asks has its price."""
    from tunecheck._errors import ConfigurationError
    from tunecheck.cli._entries import settings_by_evaluator
    from tunecheck.cli._evaluate.answer_source import load_named
    from tunecheck.cli._evaluate.evaluator_choice import asks_models, give_prices, make_evaluators
    from tunecheck.endpoints._prices import read_prices

    judge = None if options.judge is None else load_named(options.judge)
    made = make_evaluators([name], settings_by_evaluator(options.set or {}, [name]), judge)
    if judge is not None and not asks_models(made[name]):
        raise ConfigurationError(f"--judge: {name!r} asks no model; leave --judge out")
    if options.prices is not None:
        give_prices(made, read_prices(Path(options.prices)))
    return made[name]


def _mapping(options: CalibrateOptions, name: str) -> dict[str, JSON]:
    from tunecheck._errors import ConfigurationError
    from tunecheck.cli._entries import mapping_layers

    layers = mapping_layers(options.mapping or {}, [name])
    if "target" in layers:
        raise ConfigurationError(
            "mapping 'target.…': nobody is asked for answers here, they stand in the labelled rows"
        )
    return {**layers.get("default", {}), **layers.get(name, {})}


def _show(found: Calibration, *, out: str | None, as_json: bool, quiet: bool) -> None:
    from tunecheck._files.versions import versioned
    from tunecheck._json import dumps_line
    from tunecheck.cli._console import console
    from tunecheck.cli._judge.report import SIMULATED, show
    from tunecheck.runs._store import dumps_readably, write_file

    whole = versioned(found.as_json())
    if out is not None:
        write_file(Path(out), dumps_readably(whole))
    if as_json:
        sys.stdout.write(dumps_line(whole).decode("utf-8"))
    elif quiet:
        print(found.run_dir)
        if found.simulated:
            print(SIMULATED, file=sys.stderr)
    else:
        show(found, console(sys.stdout), out)
