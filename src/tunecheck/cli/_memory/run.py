"""`tunecheck memory run`: have the long conversations of a benchmark with an agent, and show its scores."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tunecheck._errors import ConfigurationError
from tunecheck._messages import clean
from tunecheck.cli._console import print_json
from tunecheck.cli._invocation import Invocation
from tunecheck.cli._memory.options import UNFINISHED, MemoryRunOptions
from tunecheck.cli._options import command
from tunecheck.cli._running import begin, every_row_failed, run_arguments
from tunecheck.cli._stored_options import recorded_options

if TYPE_CHECKING:
    from tunecheck.endpoints._base import Endpoint
    from tunecheck.evaluation._memory import MemoryOutcome
    from tunecheck.memory._clock import ClockName
    from tunecheck.memory._making import Mode

DONE, FAILED = 0, 1

_MOST_LOOKED_AT = 100
"""Runs, the newest first, among which an unfinished one of the same configuration is looked for."""


@command(MemoryRunOptions)
def run(options: MemoryRunOptions, invocation: Invocation) -> int:
    """Interleave the tests of a configuration in one long conversation with an agent, and score what it remembers.

    A run like any other: logged message by message, resumed with --resume exactly where it stopped, read with
    `tunecheck runs` and `tunecheck report`. What the GoodAI benchmark would have written is below RUN/memory/.

    Exit codes:
    0 done
    1 the run failed or was interrupted, or every test has an error
    2 wrong use or configuration
    """

    if options.resume is not None and options.fresh:
        raise ConfigurationError("--resume goes on with a run, --fresh begins a new one: give one of them")
    if options.regenerate and options.reuse:
        raise ConfigurationError("--regenerate makes definitions anew, --reuse takes those there are: give one of them")
    asked = options.resume
    options = begin(_with_unfinished(options), invocation)
    for option, value in (("-c CONFIG.yml", options.config), ("--endpoint FILE", options.endpoint)):
        if value is None:
            raise ConfigurationError(f"nothing says what to run: give {option}, or --resume RUN")
    if asked is None and not options.fresh:
        _name_unfinished(options, invocation)
    outcome = _run(options)
    invocation.finished = str(outcome.result.run_dir)
    return _report(options, outcome)


def _with_unfinished(options: MemoryRunOptions) -> MemoryRunOptions:
    """The options with the run that a bare `--resume` goes on with; with none, and a line that says so, without one."""
    if options.resume != UNFINISHED:
        return options
    if options.config is None or options.endpoint is None:
        return replace(options, resume=None)
    unfinished = _unfinished(options)
    if unfinished is None:
        print("note: no run of this configuration is unfinished; this is a new one", file=sys.stderr)
    return replace(options, resume=unfinished)


def _name_unfinished(options: MemoryRunOptions, invocation: Invocation) -> None:
    """Say that there is an unfinished run of the same configuration, and how to go on with it."""
    unfinished = _unfinished(options)
    if unfinished is not None:
        print(
            f"note: run {clean(unfinished)} of this configuration is unfinished; this is a new one. To go on with that "
            f"one:  {clean(invocation.resuming(unfinished))}",
            file=sys.stderr,
        )


def _unfinished(options: MemoryRunOptions) -> str | None:
    """The newest run that was begun with the same options, if it has not finished, nor is being written now."""
    from tunecheck.runs._store import list_runs

    for run in islice(reversed([*list_runs(options.folder)]), _MOST_LOOKED_AT):
        try:
            begun = recorded_options(MemoryRunOptions, run.id, run.manifest().command)
            if begun.of_the_same() == options.of_the_same():
                return None if run.status() in ("finished", "running") else run.id
        except ConfigurationError:  # of another command, or damaged
            continue
    return None


def _run(options: MemoryRunOptions) -> MemoryOutcome:
    from tunecheck.evaluation._memory import run_memory

    names = options.endpoint, options.judge, options.generator
    agent, judge, generator = (_endpoint(name, options.prices) for name in names)
    assert agent is not None
    assert options.config is not None
    mode: Mode | None = (
        "regenerate" if options.regenerate and options.resume is None else "reuse" if options.reuse else None
    )
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
        **run_arguments(options, "memory", max_cost=options.max_cost),
    )


def _endpoint(name: str | None, prices: str | None) -> Endpoint | None:
    from tunecheck.cli._evaluate.answer_source import load_named
    from tunecheck.endpoints._prices import read_prices

    if name is None:
        return None
    endpoint = load_named(name)
    if prices is not None:
        read_prices(Path(prices)).give(endpoint)
    return endpoint


def _path(option: str | None) -> Path | None:
    return None if option is None else Path(option)


def _report(options: MemoryRunOptions, outcome: MemoryOutcome) -> int:
    """Show what came of it; gives the exit code."""
    from tunecheck.cli._memory.figures import print_figures, summary

    if options.json:
        print_json(summary(outcome))
    elif options.quiet:
        print(outcome.result.run_dir)
    else:
        print_figures(outcome)
    return FAILED if every_row_failed(outcome.result, "test") else DONE
