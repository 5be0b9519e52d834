"""`tunecheck judge calibrate`: see how far an evaluator, such as a model that judges, agrees with people."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from tunecheck._errors import ConfigurationError
from tunecheck.cli._console import console, print_json
from tunecheck.cli._invocation import Invocation
from tunecheck.cli._options import SCORING, SHOWING, command, option
from tunecheck.cli._output_files import check_output, write_output
from tunecheck.cli._running import begin, run_arguments
from tunecheck.cli._shared_options import EvaluatorOptions, ResumableOptions

if TYPE_CHECKING:
    from tunecheck._json import JSON
    from tunecheck.evaluation._calibration.labelled_run import Calibration
    from tunecheck.evaluation._calibration.labels import LabelKind

DONE, FAILED = 0, 1

_LABELS = "Labels"


@dataclass(frozen=True, kw_only=True)
class CalibrateOptions(EvaluatorOptions, ResumableOptions):
    """The options of `judge calibrate`."""

    command: ClassVar[str] = "judge calibrate"
    anew: ClassVar[str] = "without --resume"

    labels: str | None = option(
        "Labelled rows (.jsonl .json .csv .parquet): what is judged, and what people said of it.", "FILE", _LABELS
    )
    label_column: str | None = option(
        "The column of the labels; by default label. Rows without one are left out.", "COLUMN", _LABELS
    )
    label_kind: str | None = option(
        "pass_fail (pass, true, yes, 1 …), score (numbers, held against the threshold) or class; by default what "
        "they look like.",
        "KIND",
        _LABELS,
    )
    label_threshold: float | None = option(
        "From which number on labels pass; by default the evaluator's own threshold.", "N", _LABELS
    )
    limit: int | None = option("Only the first rows.", "N", _LABELS, least=1)
    evaluator: str | None = option("A name from `tunecheck plugins`.", "NAME", SCORING)
    metric: str | None = option("Whose verdict; by default the evaluator's main one.", "METRIC", SCORING)
    out: str | None = option("Write the report as JSON, all rows that differ.", "FILE", SHOWING, recorded=False)


@command(CalibrateOptions)
def calibrate(options: CalibrateOptions, invocation: Invocation) -> int:
    """Run an evaluator over rows that people have labelled, and say how far it agrees with them.

    Accuracy, Cohen's kappa, which kinds of mistakes, and the rows where they differ. A run like any other: journaled,
    resumed with --resume.

    Exit codes:
    0 done
    1 the run failed or was interrupted, or no row could be compared
    2 wrong use or configuration
    """

    options = begin(options, invocation)
    for name, value in (("labels FILE", options.labels), ("evaluator NAME", options.evaluator)):
        if value is None:
            raise ConfigurationError(f"--{name} is missing (or give --resume RUN)")
    check_output("--out", options.out)
    calibration = _run(options)
    invocation.finished = str(calibration.run_dir)
    _show(calibration, options)
    if calibration.compared == 0:
        print("error: no row could be compared", file=sys.stderr)
        return FAILED
    return DONE


def _run(options: CalibrateOptions) -> Calibration:
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
        limit=options.limit,
        **run_arguments(options, "calibrate", max_cost=options.max_cost),
    )


def _evaluator(options: CalibrateOptions, name: str) -> object:
    """The evaluator, made; the model that it asks has its price."""
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
    from tunecheck.cli._entries import mapping_layers

    layers = mapping_layers(options.mapping or {}, [name])
    if "target" in layers:
        raise ConfigurationError(
            "mapping 'target.…': nobody is asked for answers here, they stand in the labelled rows"
        )
    return {**layers.get("default", {}), **layers.get(name, {})}


def _show(calibration: Calibration, options: CalibrateOptions) -> None:
    from tunecheck._files.versions import versioned
    from tunecheck.cli._judge.report import SIMULATED, show
    from tunecheck.runs._store import dumps_readably

    whole = versioned(calibration.as_json())
    if options.out is not None:
        write_output(options.out, dumps_readably(whole))
    if options.json:
        print_json(whole)
    elif options.quiet:
        print(calibration.run_dir)
        if calibration.simulated:
            print(SIMULATED, file=sys.stderr)
    else:
        show(calibration, console(sys.stdout), options.out)
