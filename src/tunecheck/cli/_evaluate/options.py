"""The options of `evaluate` and `score`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

from tunecheck._errors import TunecheckError
from tunecheck._json import JSON
from tunecheck.cli._gates.options import GateOptions
from tunecheck.cli._options import GATING, RUNNING, SCORING, SHOWING, CommandOptions, argument, flag, option
from tunecheck.cli._shared_options import (
    ClusterOptions,
    ConversationOptions,
    EvaluatorOptions,
    NamesOptions,
    ResumableOptions,
    RunOptions,
)

if TYPE_CHECKING:
    from tunecheck.runs._store import Run

_DATA = "Data and answers"

_EXCLUSIVE = (("endpoint", "response_column"), ("dataset", "run"))


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(EvaluatorOptions, NamesOptions, GateOptions, ClusterOptions, RunOptions):
    """The options of `score`; `evaluate` has all of them but `run`."""

    command: ClassVar[str] = "evaluate"  # `evaluate --resume` resumes its runs

    run: str | None = argument("A finished run: its id, the beginning of it, its folder, or last.", "RUN")
    evaluators: list[str] | None = option(
        "Names from `tunecheck plugins`; by default the data set's.", "A,B", SCORING, names=True
    )
    primary: str | None = option(
        "The metric that decides between runs; by default the one that the data declares, else match if rows have "
        "calls, else the first evaluator.",
        "M",
        SCORING,
    )
    calls: str | None = option(
        "Which calls count: strict: those that the API returned; lenient: those in the text, too. By default strict "
        "for answers of an API that returns calls and was sent tools.",
        "strict|lenient",
        SCORING,
    )
    config: str | None = option(
        "A YAML file with these options as keys; the command line wins.", "FILE", RUNNING, recorded=False
    )
    workers: int | None = option("Processes for evaluators; 0: threads only.", "N", RUNNING, least=0)
    evaluator_timeout: float | None = option(
        "Seconds that one call of an evaluator may take; by default 600.", "S", RUNNING, least=0.001
    )
    group_by: list[str] | None = option("Metrics by this column's values, too (repeatable).", "COLUMN", RUNNING)
    junit: str | None = option(
        "Write gates and error rates as JUnit XML.", "FILE", SHOWING, recorded=False, acts="writes"
    )
    markdown: str | None = option("Write a summary for a pull request.", "FILE", SHOWING, recorded=False, acts="writes")
    details: bool = flag("Print every figure, cause and cost.", SHOWING, recorded=False)


@dataclass(frozen=True, kw_only=True)
class Options(ScoreOptions, ResumableOptions, ConversationOptions):
    """The options of `evaluate`, or those of a `score` if `run` is set."""

    run: str | None = option(hidden=True)
    dataset: str | None = option("The data (.jsonl .json .csv .parquet), as given or in datasets/.", "FILE", _DATA)
    endpoint: str | None = option(
        "Who answers: a definition, or the name of one in endpoints/. Without it: the data set's own, else the "
        "embedded simulated endpoint.",
        "FILE",
        _DATA,
        acts="asks",
    )
    response_column: str | None = option("Nobody is asked: this column of the data holds the answers.", "COLUMN", _DATA)
    limit: int | None = option("Only the first rows.", "N", _DATA, least=1)
    number_ids: bool = flag("Call a row with an earlier one's id <id>@<its number> instead of refusing it.", _DATA)
    repeat: int | None = option(
        "Ask each row K times; the metrics then have pass@k and pass^k, too.", "K", _DATA, least=1
    )
    seed: int | None = option("Of the simulated endpoint, and of --until-decided's order.", "N", _DATA, least=0)
    until_decided: bool = flag(
        "Ask the rows in random order, and stop once --no-worse-than or --better-than is decided.", GATING
    )
    all: bool = flag("With --resume: ask also the rows that --until-decided left out.", RUNNING, recorded=False)
    reuse: str | None = option(
        "A new run, with that run's options where none are given here, that reuses every answer and verdict "
        "whose inputs are unchanged.",
        "RUN",
        RUNNING,
        recorded=False,
    )
    on: str | None = option(
        "Answer and judge rows elsewhere: ray starts Ray on this machine, ray:ADDRESS joins a cluster.",
        "WHERE",
        RUNNING,
        recorded=False,
    )
    dry_run: bool = flag(
        "Check everything, and say how many calls, tokens and how much money it takes; ask nothing.",
        SHOWING,
        recorded=False,
    )

    @classmethod
    def of_score(cls, options: ScoreOptions) -> Self:
        return cls(**{field.name: getattr(options, field.name) for field in fields(options)})

    def over(self, lower: Self) -> Self:
        """Return these options, completed by lower ones.

        Options that exclude each other come from one source: an endpoint given here removes a response column
        below, and a data set removes a run.
        """
        for group in _EXCLUSIVE:
            if any(getattr(self, name) is not None for name in group):
                without: dict[str, Any] = dict.fromkeys(group)
                lower = replace(lower, **without)
        return super().over(lower)


@dataclass(frozen=True, slots=True)
class Addition:
    """The outcome of a plug-in's option: keys of `--json`, lines for people, and the error that ends the command."""

    facts: Mapping[str, JSON] = field(default_factory=dict)
    lines: Sequence[str] = ()
    failure: TunecheckError | None = None


AfterRun: TypeAlias = "Callable[[Run], Addition]"


@dataclass(frozen=True, kw_only=True)
class AddedOptions(CommandOptions):
    """Base of the options that a plug-in adds to `evaluate`."""

    def before_run(self, *, simulated: bool, allow_simulated: bool) -> AfterRun:
        """Check the options before the first call.

        Args:
            simulated: No model answers the rows.
            allow_simulated: The user accepts simulated answers, for gates and uploads.

        Returns:
            A function that handles the finished run.

        Raises:
            ConfigurationError: An option is wrong.
        """
        return lambda run: Addition()


def with_added(options: type[Options], added: Sequence[type[AddedOptions]]) -> type[Options]:
    """Return the options of `evaluate` with those of plug-ins."""
    kind = type("EvaluateOptions", (options, *added), {"__annotations__": {}, "__module__": __name__})
    return dataclass(frozen=True, kw_only=True)(kind)
