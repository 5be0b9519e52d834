"""`tunecheck memory run`: have the long conversations of a benchmark with an agent, and show its scores."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

import typer
from typer.core import TyperCommand

from tunecheck.cli._console import progress_bar
from tunecheck.cli._memory.options import (
    Clock,
    Config,
    Definitions,
    EndpointFile,
    Filler,
    Fresh,
    Generator,
    Isolated,
    MaxPromptSize,
    Regenerate,
    Repeat,
    Resume,
    ReuseDefinitions,
    Seed,
    Texts,
    TokenizerName,
    Wording,
)
from tunecheck.cli._parameters import (
    Concurrency,
    Debug,
    Json,
    Judge,
    MaxCost,
    Prices,
    Quiet,
    ResultsDir,
    RunName,
)
from tunecheck.cli._recorded_command import RecordedOptions

if TYPE_CHECKING:
    from tunecheck._json import JSON
    from tunecheck._progress import ProgressBar
    from tunecheck.cli._invocation import Invocation
    from tunecheck.endpoints._base import Endpoint
    from tunecheck.evaluation._memory import MemoryOutcome
    from tunecheck.memory._clock import ClockName
    from tunecheck.memory._making import Mode

_MOST_LOOKED_AT = 100
"""Runs, the newest first, among which an unfinished one of the same configuration is looked for."""

_NEVER_RECORDED = ("name", "concurrency", "max_cost", "prices", "regenerate", "reuse")
"""Options in which two runs of the same configuration may differ."""

_MAY_CHANGE = ("concurrency", "max_cost")
"""Options that a run may go on with another value of."""

OF_THE_SAME = "the unfinished run of these options"
"""What `--resume` without a run stands for; no run has blanks in its id."""


class ResumingCommand(TyperCommand):
    """Its `--resume` may stand without a value."""

    def parse_args(self, ctx: object, args: list[str]) -> list[str]:
        """Give a bare `--resume` its value."""
        said: list[str] = []
        for arg, following in zip(args, [*args[1:], "--"], strict=True):
            said += [arg, OF_THE_SAME] if arg == "--resume" and following.startswith("-") else [arg]
        return super().parse_args(ctx, said)  # type: ignore[arg-type]  # click's context, of whichever click it is


@dataclass(frozen=True)
class MemoryRun(RecordedOptions):
    """What a run was started with; kept in its manifest, so that it can be finished."""

    recorded_as: ClassVar[str] = "memory_run"

    config: str | None = None
    endpoint: str | None = None
    judge: str | None = None
    generator: str | None = None
    max_prompt_size: int | None = None
    isolated: bool = False
    clock: str | None = None
    seed: int | None = None
    repeat: int | None = None
    regenerate: bool = False
    reuse: bool = False
    definitions: str | None = None
    filler: str | None = None
    wording: str | None = None
    texts: str | None = None
    tokenizer: str | None = None
    name: str | None = None
    concurrency: int | None = None
    max_cost: float | None = None
    prices: str | None = None

    def of_the_same(self) -> dict[str, JSON]:
        """What makes two runs ones of the same configuration."""
        return {name: value for name, value in self.given().items() if name not in _NEVER_RECORDED}


def run(
    context: typer.Context,
    config: Config = None,
    endpoint: EndpointFile = None,
    judge: Judge = None,
    max_prompt_size: MaxPromptSize = None,
    isolated: Isolated = False,
    clock: Clock = None,
    seed: Seed = None,
    repeat: Repeat = None,
    regenerate: Regenerate = False,
    reuse: ReuseDefinitions = False,
    definitions: Definitions = None,
    filler: Filler = None,
    wording: Wording = None,
    texts: Texts = None,
    generator: Generator = None,
    tokenizer: TokenizerName = None,
    name: RunName = None,
    resume: Resume = None,
    fresh: Fresh = False,
    concurrency: Concurrency = None,
    max_cost: MaxCost = None,
    prices: Prices = None,
    results_dir: ResultsDir = None,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Weave the tests of a configuration into one long conversation with an agent, and score what it remembers.

    A run like any other: journaled message by message, resumed with --resume exactly where it stopped, read with
    `tunecheck runs` and `tunecheck report`. What the GoodAI benchmark would have written is below RUN/memory/.

    Exit codes:
    0 done
    1 the run failed or was interrupted, or every test has an error
    2 wrong use or configuration
    """
    invocation: Invocation = context.obj
    invocation.results_dir = results_dir or invocation.results_dir
    invocation.evaluate = f"{invocation.program} memory run"
    given, named = MemoryRun.of(context.params), resume
    resume = _of_the_same(given, invocation) if named == OF_THE_SAME and not fresh else named
    options = _options(given, resume, invocation, fresh=fresh)
    if named is None and not fresh:
        _name_unfinished(options, invocation)
    outcome = _run(options, invocation, resume, progress_bar(options.name or "memory", quiet))
    invocation.finished = str(outcome.result.run_dir)
    return _report(options, outcome, as_json=json, quiet=quiet)


def _options(given: MemoryRun, resume: str | None, invocation: Invocation, *, fresh: bool) -> MemoryRun:
    from tunecheck._errors import ConfigurationError
    from tunecheck.runs._store import find_run

    if resume is not None and fresh:
        raise ConfigurationError("--resume goes on with a run, --fresh begins a new one: give one of them")
    if given.regenerate and given.reuse:
        raise ConfigurationError("--regenerate makes definitions anew, --reuse takes those there are: give one of them")
    if resume is None:
        for option, value in (("-c CONFIG.yml", given.config), ("--endpoint FILE", given.endpoint)):
            if value is None:
                raise ConfigurationError(f"nothing says what to run: give {option}, or --resume RUN")
        return given
    found = find_run(resume, Path(invocation.results_dir))
    options = MemoryRun.recorded(found)
    changed = {key: value for key, value in given.given().items() if value != getattr(options, key)}
    fixed = next((key.replace("_", "-") for key in changed if key not in _MAY_CHANGE), None)
    if fixed is not None:
        raise ConfigurationError(f"--{fixed}: run {found.id} goes on as it was begun; start a new one with --fresh")
    return replace(options, **{key: getattr(given, key) for key in changed})


def _of_the_same(given: MemoryRun, invocation: Invocation) -> str | None:
    """The run that `--resume` alone goes on with; None, and a line that says so, where there is none."""
    if given.config is None or given.endpoint is None:
        return None
    unfinished = _unfinished(given, Path(invocation.results_dir))
    if unfinished is None:
        print("note: no run of this configuration is unfinished; this is a new one", file=sys.stderr)
    return unfinished


def _name_unfinished(options: MemoryRun, invocation: Invocation) -> None:
    """Say that there is an unfinished run of the same configuration, and how to go on with it."""
    from tunecheck._messages import clean

    unfinished = _unfinished(options, Path(invocation.results_dir))
    if unfinished is not None:
        print(
            f"note: run {clean(unfinished)} of this configuration is unfinished; this is a new one. To go on with that "
            f"one:  {clean(invocation.resuming(unfinished))}",
            file=sys.stderr,
        )


def _unfinished(options: MemoryRun, results: Path) -> str | None:
    """The newest run that was begun with the same options, if it has not finished, nor is being written now."""
    from tunecheck._errors import ConfigurationError
    from tunecheck.runs._store import list_runs

    for found in islice(reversed([*list_runs(results)]), _MOST_LOOKED_AT):
        try:
            if MemoryRun.recorded(found).of_the_same() == options.of_the_same():
                return None if found.status() in ("finished", "running") else found.id
        except ConfigurationError:  # of another command, or damaged
            continue
    return None


def _run(options: MemoryRun, invocation: Invocation, resume: str | None, progress: ProgressBar | None) -> MemoryOutcome:
    from tunecheck.evaluation._memory import run_memory

    agent, judge, generator = (_endpoint(name, options.prices) for name in _endpoints(options))
    assert agent is not None
    assert options.config is not None
    mode: Mode | None = "regenerate" if options.regenerate and resume is None else "reuse" if options.reuse else None
    return run_memory(
        options.config,
        agent,
        judge=judge,
        generator=generator,
        definitions=_path(options.definitions),
        mode=mode,
        texts=_path(options.texts),
        filler=_path(options.filler),
        wording=_path(options.wording),
        tokenizer=options.tokenizer or "cl100k_base",
        isolated=options.isolated,
        seed=options.seed,
        repeat=options.repeat or 1,
        max_prompt_size=options.max_prompt_size,
        clock=cast("ClockName", options.clock or "virtual"),
        name=options.name,
        concurrency=options.concurrency,
        max_cost=options.max_cost,
        resume=resume,
        results_dir=invocation.results_dir,
        progress=progress or False,
        command=options.command(),
    )


def _endpoints(options: MemoryRun) -> tuple[str | None, str | None, str | None]:
    return options.endpoint, options.judge, options.generator


def _endpoint(name: str | None, prices: str | None) -> Endpoint | None:
    from tunecheck.cli._evaluate.answer_source import load_named

    if name is None:
        return None
    endpoint = load_named(name)
    if prices is not None:
        from tunecheck.endpoints._prices import read_prices

        read_prices(Path(prices)).give(endpoint)
    return endpoint


def _path(option: str | None) -> Path | None:
    return None if option is None else Path(option)


def _report(options: MemoryRun, outcome: MemoryOutcome, *, as_json: bool, quiet: bool) -> int:
    """Show what came of it; gives the exit code."""
    from tunecheck.cli._memory.figures import DONE, FAILED, print_figures, write_json

    result = outcome.result
    if as_json:
        write_json(outcome)
    elif quiet:
        print(result.run_dir)
    else:
        print_figures(outcome, [*_errors(outcome)])
    if result.row_count and result.failed_row_count == result.row_count:
        print("error: every test ended in an error", file=sys.stderr)
        return FAILED
    return DONE


def _errors(outcome: MemoryOutcome) -> Iterator[str]:
    """The kinds of errors, the commonest first, with a test each."""
    from tunecheck._messages import clean, counted
    from tunecheck.runs._failures import read_failures
    from tunecheck.runs._store import Run

    if not outcome.result.failed_row_count:
        return
    for group in read_failures(Run(outcome.result.run_dir).rows(), {}).error_groups:
        yield f"{clean(group.words, 200)} ({counted(group.rows, 'test')}, e.g. {clean(group.example, 60)})"
