"""The options of `evaluate` and `score`."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar, Self

from tunecheck.cli._options import GATING, RUNNING, SCORING, SHOWING, Argument, Option
from tunecheck.cli._shared_options import EvaluatorOptions, ResumableOptions, RunOptions
from tunecheck.cli._upload import DestinationOptions

_DATA = "Data and answers"

_EXCLUSIVE = (("endpoint", "response_column"), ("dataset", "run"))


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(EvaluatorOptions, RunOptions):
    """The options of `score`; `evaluate` has them, too, but for the run."""

    command: ClassVar[str] = "evaluate"  # its runs go on by `evaluate --resume`

    run: Annotated[str | None, Argument("A finished run: its id, the beginning of it, its folder, or last.", "RUN")]
    evaluators: Annotated[
        list[str] | None,
        Option("Names from `tunecheck plugins`; by default the data set's.", "A,B", SCORING, names=True),
    ] = None
    config: Annotated[
        str | None,
        Option("A YAML file with these options as keys; the command line wins.", "FILE", RUNNING, recorded=False),
    ] = None
    workers: Annotated[
        int | None,
        Option("Processes for evaluators that burn CPU; 0: threads only.", "N", RUNNING, least=0),
    ] = None
    group_by: Annotated[
        list[str] | None,
        Option("Metrics by this column's values, too (repeatable).", "COLUMN", RUNNING),
    ] = None
    fail_under: Annotated[
        list[str] | None,
        Option(
            "Exit with 3 unless this holds, e.g. 'function_call_match>=0.8', 'rouge.rouge>0.5', "
            "'match\\[call]>=0.7' for the rows of one group (repeatable).",
            "GATE",
            GATING,
        ),
    ] = None
    max_error_rate: Annotated[
        float | None,
        Option(
            "Exit with 3 if more rows than this share have an error; 0 where there is a gate.",
            "SHARE",
            GATING,
            least=0,
            most=1,
        ),
    ] = None
    no_worse_than: Annotated[
        str | None,
        Option(
            "Exit with 3 unless this run is shown to be worse than RUN by less than --margin: by the main metric of "
            "each evaluator, or of those that --fail-under names.",
            "RUN",
            GATING,
        ),
    ] = None
    margin: Annotated[
        float | None,
        Option(
            "How much worse is still accepted, in the metric's unit (0.02: two points of a pass rate).",
            "M",
            GATING,
            least=0,
        ),
    ] = None
    allow_simulated: Annotated[bool, Option("Let gates judge a run that asked no model.", panel=GATING)] = False
    junit: Annotated[
        str | None, Option("Write gates and error rates as JUnit XML.", "FILE", SHOWING, recorded=False)
    ] = None
    markdown: Annotated[str | None, Option("Write a summary for a pull request.", "FILE", SHOWING, recorded=False)] = (
        None
    )


@dataclass(frozen=True, kw_only=True)
class Options(ScoreOptions, ResumableOptions, DestinationOptions):
    """The options of `evaluate`; with `run` they are those of a `score`."""

    run: Annotated[str | None, Option(hidden=True)] = None
    dataset: Annotated[
        str | None, Option("The data (.jsonl .json .csv .parquet), as given or in datasets/.", "FILE", _DATA)
    ] = None
    endpoint: Annotated[
        str | None,
        Option(
            "Who answers: a definition, or the name of one in endpoints/. Without it: the data set's own, else the "
            "embedded simulated endpoint.",
            "FILE",
            _DATA,
        ),
    ] = None
    response_column: Annotated[
        str | None, Option("Nobody is asked: this column of the data holds the answers.", "COLUMN", _DATA)
    ] = None
    limit: Annotated[int | None, Option("Only the first rows.", "N", _DATA, least=1)] = None
    repeat: Annotated[
        int | None,
        Option("Ask each row K times; the metrics then have pass@k and pass^k, too.", "K", _DATA, least=1),
    ] = None
    seed: Annotated[int | None, Option("The simulated endpoint's seed.", "N", _DATA, least=0)] = None
    reuse: Annotated[
        str | None,
        Option(
            "A new run, with that run's options where none are given here, that reuses every answer and verdict "
            "whose inputs are unchanged.",
            "RUN",
            RUNNING,
            recorded=False,
        ),
    ] = None
    upload: Annotated[bool, Option("Upload the finished run to --project.", panel=RUNNING, recorded=False)] = False
    dry_run: Annotated[
        bool,
        Option(
            "Check everything, and say how many calls, tokens and how much money it takes; ask nothing.",
            panel=SHOWING,
            recorded=False,
        ),
    ] = False

    @classmethod
    def of_score(cls, options: ScoreOptions) -> Self:
        """The same options, as those of `evaluate`."""
        return cls(**{field.name: getattr(options, field.name) for field in fields(options)})

    def over(self, lower: Self) -> Self:
        """These options, and the lower ones where these give none.

        What says the same in two ways is taken from one place only: an endpoint given here does away with a response
        column below, and data with a run.
        """
        for group in _EXCLUSIVE:
            if any(getattr(self, name) is not None for name in group):
                without: dict[str, Any] = dict.fromkeys(group)
                lower = replace(lower, **without)
        return super().over(lower)
