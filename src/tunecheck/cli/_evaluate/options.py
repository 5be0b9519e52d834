"""The options of `evaluate` and `score`.

`evaluate` and `score` share one implementation, so the options of a `score` become those of an `evaluate` with `run`
set (`Options.of_score`). Plug-ins add options to `evaluate` (`evaluate_options`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import msgspec

from tunecheck._errors import PluginError, TunecheckError
from tunecheck._json import JSON
from tunecheck.cli import _shared_options as shared
from tunecheck.cli._options import GATING, RUNNING, SCORING, SHOWING, CommandOptions, argument, completed, flag, option
from tunecheck.plugins import Candidate, load_all

if TYPE_CHECKING:
    from tunecheck.runs._store import Run

_DATA = "Data and answers"

_EXCLUSIVE = (("endpoint", "response_column"), ("dataset", "run"))
"""Options of which a run has only one: the source of its answers, and the source of its rows."""


class ScoreOptions(
    shared.EvaluatorOptions, shared.NamesOptions, shared.GateOptions, shared.ClusterOptions, shared.RunOptions
):
    """The options of `score`; `evaluate` has all of them except `run`."""

    command: ClassVar[str] = "evaluate"  # `evaluate --resume` resumes its runs
    core: ClassVar[Sequence[str]] = (
        "run", "dataset", "endpoint", "response_column", "limit", "repeat", "evaluators", "set", "mapping", "judge",
        "name", "config", "concurrency", "max_cost", "resume", "reuse", "results_dir", "fail_under", "no_worse_than",
        "margin", "better_than", "dry_run", "details",
    )  # fmt: skip
    """At most 24 including `--help` and `--help-all`, in one line each."""

    run: str | None = argument("A finished run: name, id, beginning of an id, folder, or last.", "RUN")
    evaluators: list[str] | None = option("Evaluators; default: the data's (score: RUN's).", "A,B", SCORING, names=True)
    primary: str | None = option("Deciding metric; default: the data's, else match, else the first.", "M", SCORING)
    calls: str | None = option(
        "strict: only tool_calls count (default if the API has them); lenient: also in text.", "strict|lenient", SCORING
    )
    config: str | None = option("YAML file with these options as keys.", "FILE", RUNNING, recorded=False)
    workers: int | None = option("Worker processes for evaluators; 0: threads only.", "N", RUNNING, least=0)
    evaluator_timeout: float | None = option(
        "Timeout of one evaluator call in seconds; default 600.", "S", RUNNING, least=0.001, acts="speeds"
    )
    group_by: list[str] | None = option("Also show metrics per value of this column (repeatable).", "COLUMN", RUNNING)
    junit: str | None = option("Write gates and errors as JUnit XML.", "FILE", SHOWING, recorded=False, acts="writes")
    markdown: str | None = option("Write a summary for a pull request.", "FILE", SHOWING, recorded=False, acts="writes")
    details: bool = flag("Print every figure, cause and cost.", SHOWING, recorded=False)


class Options(ScoreOptions, shared.ResumableOptions, shared.ConversationOptions):
    """The options of `evaluate`, or those of a `score` if `run` is set."""

    added: ClassVar[Sequence[tuple[Candidate, type[AddedOptions]]]] = ()
    """The option classes of plug-ins, with their origins; empty for a `score`."""

    run: str | None = option(hidden=True)
    dataset: str | None = option("Data set: a file, or its name in datasets/.", "FILE", _DATA)
    endpoint: str | None = option("Endpoint to evaluate, or several as a,b.", "FILE", _DATA, acts="asks")
    response_column: str | None = option("Score this column's answers; call no endpoint.", "COLUMN", _DATA)
    limit: int | None = option("Use only the first N rows.", "N", _DATA, least=1)
    number_ids: bool = flag("Accept repeated ids: in line 7, a repeated ID becomes ID@7.", _DATA)
    repeat: int | None = option("Trials per row; adds pass@k, pass^k.", "K", _DATA, least=1, most=1_000, acts="speeds")
    seed: int | None = option("Seed for simulated answers and the row order of --until-decided.", "N", _DATA, least=0)
    until_decided: bool = flag("Run rows in random order; stop once the gate against a run is decided.", GATING)
    all: bool = flag("With --resume: also run the rows that --until-decided left out.", RUNNING, recorded=False)
    reuse: str | None = option("New run with RUN's options; reuse what is unchanged.", "RUN", RUNNING, recorded=False)
    on: str | None = option("Run on Ray: ray (starts it), ray:ADDRESS or ray:auto.", "WHERE", RUNNING, recorded=False)
    dry_run: bool = flag("Check everything and estimate calls and cost; make no call.", SHOWING, recorded=False)

    @classmethod
    def of_score(cls, options: ScoreOptions) -> Self:
        """Return the options of a `score` as those of an `evaluate`; options that a `score` lacks have no value."""
        return cls(**{field.name: getattr(options, field.name) for field in fields(options)})

    @property
    def endpoint_name(self) -> str:
        """The name of the run's endpoint: `big` for `endpoints/big.yaml`; empty without `--endpoint`."""
        return Path(self.endpoint or "").stem

    def over(self, lower: Self) -> Self:
        """Return these options, completed from lower ones.

        Options that exclude each other are taken from one source only: an endpoint here removes a response column
        below, and a data set removes a run. For example, `--endpoint a` over `response_column: answer` gives only the
        endpoint.
        """
        for group in _EXCLUSIVE:
            if any(getattr(self, name) is not None for name in group):
                without: dict[str, Any] = dict.fromkeys(group)
                lower = replace(lower, **without)
        return super().over(lower)


class Addition(msgspec.Struct, frozen=True):
    """The result of a plug-in's option: keys for `--json`, lines for users, and the error that ends the command.

    The error is raised after the results of all runs are printed.
    """

    facts: Mapping[str, JSON] = msgspec.field(default_factory=dict)
    lines: Sequence[str] = ()
    failure: TunecheckError | None = None


AfterRun: TypeAlias = "Callable[[Run], Addition]"


class AddedOptions(CommandOptions):
    """Base of the options that a plug-in adds to `evaluate`."""

    def before_run(self, *, simulated: bool, allow_simulated: bool) -> AfterRun:
        """Check the options before the first call.

        Args:
            simulated: True if no real model answers.
            allow_simulated: True if the user accepts simulated answers for gates and uploads.

        Returns:
            A function that processes the finished run.

        Raises:
            ConfigurationError: an option is invalid.
        """
        return lambda run: Addition()


def evaluate_options() -> type[Options]:
    """Return the options of `evaluate`, extended by those of plug-ins.

    Raises:
        PluginError: an option of a plug-in has a name that Tunecheck or another plug-in uses.
    """
    added = [(origin, completed(kind)) for origin, kind in load_all("options")]
    owners: list[tuple[str, type[Any]]] = [("Tunecheck", Options), *((by.origin, kind) for by, kind in added)]

    # Methods and helpers may have equal names: `own_options` calls those of each class on its own object.
    for (origin, kind), (user, other) in permutations(owners, 2):
        for declared in fields(kind) if kind is not Options else ():
            # Two classes may have the same option from a common base, such as `debug`.
            if hasattr(other, declared.name) and other.__dataclass_fields__.get(declared.name) is not declared:
                name = msgspec.structs.replace(declared.metadata["option"], name=declared.name).flag
                raise PluginError(f"{name} of {origin} has the name of an option or method of {user}: rename it")

    bases, members = (kind for _, kind in added), {"__annotations__": {}, "__module__": __name__, "added": added}
    return type("EvaluateOptions", (Options, *bases), members)


def own_options(options: Options) -> Iterator[tuple[Candidate, AddedOptions]]:
    """Yield the options of each plug-in as an object of its class, with its origin."""
    for candidate, kind in options.added:
        yield candidate, kind(**{declared.name: getattr(options, declared.name) for declared in fields(kind)})
