"""`tunecheck memory run`: hold a benchmark's long conversations with an agent, and print its scores."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from msgspec import to_builtins

from tunecheck import ConfigurationError, cli
from tunecheck.cli import RUNNING, SCORING, Invocation, ModelOptions, ResumableOptions, command, flag, option
from tunecheck.pipeline import cost_text
from tunecheck.plugins import JSON, Trust, clean
from tunecheck.views import Table, View, Words, console, print_view

if TYPE_CHECKING:
    from tunecheck.endpoints import Endpoint
    from tunecheck_memory._evaluation import MemoryOutcome
    from tunecheck_memory._run_files import MemorySummary
    from tunecheck_memory._session import ClockName

_TESTING, _TEXTS = "What is tested, and how", "Texts and definitions"


class MemoryRunOptions(ModelOptions, ResumableOptions):
    command: ClassVar[str] = "memory run"
    anew: ClassVar[str] = "with --fresh"
    fixed: ClassVar[bool] = True

    config: str | None = option(
        "Configuration file: from the GoodAI benchmark, or your own.",
        "CONFIG.yml",
        _TESTING,
        flags=("--config", "-c"),
        acts="loads",
    )
    endpoint: str | None = option(
        "Endpoint to test: a model, or an agent with its own memory (kind memory_agent).", "FILE", _TESTING, acts="asks"
    )
    max_prompt_size: int | None = option(
        "Send at most the newest N tokens; can be changed with --resume.", "N", _TESTING, least=1, fixed=False
    )
    judge: str | None = option(
        "Model that scores answers that word rules cannot score; can be changed with --resume.",
        "FILE",
        SCORING,
        fixed=False,
        acts="asks",
    )
    unjudged: bool = option(
        "Without --judge, do not score tests that need a judge; leave out those that ask it while they run.",
        None,
        SCORING,
        default=False,
        fixed=False,
    )
    isolated: bool = flag("Run each test in its own conversation, without waits for tokens.", _TESTING)
    clock: str | None = option(
        "virtual (default): skip waits; mirrored: skip them and send /advance to a memory agent; real: wait.",
        "CLOCK",
        _TESTING,
    )
    seed: int | None = option(
        "Seed for definitions and filler; default: the configuration's seed, else 0.", "N", _TESTING, least=0
    )
    repeat: int | None = option(
        "Repeat the conversation K times, to see how reliably each test passes.", "K", _TESTING, least=1
    )
    regenerate: bool = flag("Make the definitions again, even if they exist.", _TEXTS)
    reuse: bool = flag("Use existing definitions even if they were made from another configuration.", _TEXTS)
    definitions: str | None = option(
        "Folder of the definitions; default: datasets/memory/<run name>/definitions.", "DIR", _TEXTS, acts="writes"
    )
    filler: str | None = option("Quiz questions to insert between the tests; default: a small pool.", "FILE", _TEXTS)
    wording: str | None = option("YAML of other texts for the conversation, e.g. the introduction.", "FILE", _TEXTS)
    texts: str | None = option("Passages for chapter break tests, which are left out without passages.", "PATH", _TEXTS)
    generator: str | None = option("Model that writes the material of some tests.", "FILE", _TEXTS, acts="asks")
    tokenizer: str | None = option("Tokenizer that counts tokens; default: cl100k_base.", "NAME", RUNNING)
    resume: str | None = option(
        "Finish a run: name, id, beginning of an id, folder, or last (also without RUN).",
        "[RUN]",
        RUNNING,
        bare="last",
        recorded=False,
    )
    fresh: bool = flag("Start a new run (the default).", RUNNING, recorded=False)


@command(MemoryRunOptions)
def run(options: MemoryRunOptions, invocation: Invocation) -> int:
    """Interleave the tests of a configuration in one long conversation with an agent, and score what it remembers.

    A definition is one test with all its texts; definitions are made once and kept for the next run. Every message is
    logged, so --resume continues exactly where the run stopped. RUN/memory/ has the files that the GoodAI benchmark
    writes.

    Exit codes:
    0 done
    1 the run failed or was interrupted, or every test has an error
    2 wrong use or configuration
    """
    if options.resume is not None and options.fresh:
        raise ConfigurationError("--resume and --fresh exclude each other; give only one of them")
    if options.regenerate and options.reuse:
        raise ConfigurationError("--regenerate and --reuse exclude each other; give only one of them")

    options, trust = cli.begin(options, invocation)
    if options.config is None or options.endpoint is None:
        what, option = ("endpoint", "--endpoint FILE") if options.config else ("configuration", "-c CONFIG.yml")
        raise ConfigurationError(f"no {what} is given; give {option}, or --resume RUN to continue a run")

    outcome = _run(options, options.config, options.endpoint, trust)
    invocation.finished = str(outcome.result.run_dir)

    if options.json:
        cli.print_json(_summary(outcome))
    elif options.quiet:
        cli.print_path(outcome.result.run_dir)
    else:
        _print_outcome(outcome)
    return cli.FAILED if cli.every_row_failed(outcome.result, "test") else cli.DONE


_PLAN_FIELDS = ("definitions", "texts", "filler", "wording", "isolated", "seed", "max_prompt_size", "unjudged", "name")
"""Options with the names of fields of `MemoryPlan`."""


def _run(options: MemoryRunOptions, config: str, agent: str, trust: Trust) -> MemoryOutcome:
    """Hold the conversations that the options describe; `agent` is the name or file of an endpoint."""
    from tunecheck_memory._evaluation import MemoryPlan, run_memory

    # A resumed run has its definitions already, and its events depend on them.
    regenerate = options.regenerate and options.resume is None
    same_fields: dict[str, Any] = {name: getattr(options, name) for name in _PLAN_FIELDS}

    plan = MemoryPlan(
        configuration=config,
        endpoint=_endpoint(agent, options.prices, trust),
        judge=None if options.judge is None else _endpoint(options.judge, options.prices, trust),
        generator=None if options.generator is None else _endpoint(options.generator, options.prices, trust),
        mode="regenerate" if regenerate else "reuse" if options.reuse else None,
        tokenizer=options.tokenizer or "cl100k_base",
        repeat=options.repeat or 1,
        clock=cast("ClockName", options.clock or "virtual"),
        **same_fields,
    )
    return run_memory(plan, **cli.run_arguments(options, "memory", max_cost=options.max_cost, trust=trust))


def _endpoint(name: str, prices: str | None, trust: Trust) -> Endpoint:
    """Load an endpoint by its name or file, with the prices of the file `prices`, if any."""
    from tunecheck.endpoints import read_prices

    endpoint = cli.load_named(name, trust)
    if prices is not None:
        read_prices(Path(prices)).give(endpoint)
    return endpoint


def _summary(outcome: MemoryOutcome) -> dict[str, JSON]:
    """Return what `--json` prints: the run's summary and figures, its notes, and the folders of its results."""
    return {
        **cli.run_summary(outcome.result),
        **to_builtins(outcome.figures),
        "notes": [*outcome.result.notes],
        "results": [str(folder) for folder in outcome.results],
    }


def _print_outcome(outcome: MemoryOutcome) -> None:
    """Print a finished run: its figures, and the files that hold them."""
    result = outcome.result
    folders = [clean(str(folder.relative_to(result.run_dir))) for folder in outcome.results]
    files = ["memory/summary.json  eval_results.jsonl", *folders]
    cli.print_run(result, "test", lambda: _print_figures(outcome.figures, result.usage), files)


def _print_figures(figures: MemorySummary, usage: dict[str, JSON]) -> None:
    """Print the run's figures: a table of its data sets, then a few lines on the whole."""
    rows = [
        (Words(clean(title), foreign=True), str(each.tests), str(each.scored), _score(each.mean), _score(each.std))
        for title, each in figures.datasets.items()
    ]
    print_view(View("memory", [Table(("data set", "tests", "scored", "mean", "std"), rows)]), console(sys.stdout))
    print(*_lines(figures, usage), sep="\n")


def _score(value: float | None) -> str:
    """Return a score with two decimals, or a dash if there is none."""
    return "–" if value is None else f"{value:.2f}"


def _lines(figures: MemorySummary, usage: dict[str, JSON]) -> Iterator[str]:
    """Yield the lines below the table: the total score, the length of the conversation, and the calls made."""
    accuracy = "" if figures.accuracy is None else f" · accuracy {100 * figures.accuracy:.0f}%"
    yield f"score {figures.score:.2f} of {figures.max_score} (± {figures.std:.2f}){accuracy}"

    parts = [f"{figures.messages:,.0f} messages, {figures.tokens:,.0f} tokens per conversation"]
    if figures.tokens_per_second is not None:
        parts.append(f"{figures.tokens_per_second:,.1f} tokens/s")
    parts.append(f"verbosity {figures.verbosity:,.0f} tokens")
    if figures.memory_span is not None:
        parts.append(f"remembered over {figures.memory_span:,.0f} tokens")

    yield " · ".join(parts)

    spent = []
    for name, title in _ENDPOINT_TITLES.items():
        if isinstance(endpoint_usage := usage.get(name), dict):
            price = cost_text(endpoint_usage)
            spent.append(f"{title}: {endpoint_usage.get('calls'):,} calls{f', cost {price}' if price else ''}")
    if spent:
        yield " · ".join(spent)


_ENDPOINT_TITLES = {"target": "agent", "judge": "judge during the tests", "memory": "judge after the tests"}
