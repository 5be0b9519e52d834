"""The figures of a memory run on a terminal, and as JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tunecheck._messages import clean
from tunecheck.cli._console import console
from tunecheck.cli._running import print_run, run_summary

if TYPE_CHECKING:
    from tunecheck._json import JSON
    from tunecheck.evaluation._memory import MemoryOutcome
    from tunecheck.memory._run_files import RunFigures


def summary(outcome: MemoryOutcome) -> dict[str, JSON]:
    """The run as data, for `--json`."""
    left_out: list[JSON] = [{"title": each.title, "reason": each.reason} for each in outcome.left_out]
    return {
        **run_summary(outcome.result),
        **outcome.figures.data(),
        "usage": outcome.result.usage,
        "left_out": left_out,
        "notes": [*outcome.result.notes],
        "results": [str(folder) for folder in outcome.results],
    }


def print_figures(outcome: MemoryOutcome) -> None:
    """Print the scores, the figures and where the files are."""
    result = outcome.result
    folders = [clean(str(folder.relative_to(result.run_dir))) for folder in outcome.results]
    files = ["memory/summary.json  eval_results.jsonl", *folders]
    print_run(result, "test", lambda: _print_figures(outcome), files)


def _print_figures(outcome: MemoryOutcome) -> None:
    _print_datasets(outcome.figures)
    for line in _lines(outcome.figures, outcome.result.usage):
        print(line)


def _print_datasets(figures: RunFigures) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("data set")
    for name in ("tests", "scored", "mean", "std"):
        table.add_column(name, justify="right")
    for title, each in figures.datasets.items():
        scores = [_score(each.mean), _score(each.deviation)]
        table.add_row(clean(title), str(each.tests), str(each.scored), *scores)
    console(sys.stdout).print(table)


def _score(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _lines(figures: RunFigures, usage: dict[str, JSON]) -> Iterator[str]:
    accuracy = "" if figures.accuracy is None else f" · accuracy {100 * figures.accuracy:.0f}%"
    yield f"score {figures.score:.2f} of {figures.most} (± {figures.deviation:.2f}){accuracy}"
    parts = [f"{figures.messages:,.0f} messages, {figures.tokens:,.0f} tokens in a conversation"]
    if figures.tokens_per_second is not None:
        parts.append(f"{figures.tokens_per_second:,.1f} tokens/s")
    parts.append(f"verbosity {figures.verbosity:,.0f} tokens")
    if figures.span is not None:
        parts.append(f"remembered over {figures.span:,.0f} tokens")
    yield " · ".join(parts)
    spent = [line for name in ("target", "judge", "memory") if (line := _spent(name, usage.get(name)))]
    if spent:
        yield " · ".join(spent)


_WHO = {"target": "agent", "judge": "judge in the tests", "memory": "judge of the replies"}


def _spent(name: str, spent: JSON) -> str:
    if not isinstance(spent, dict):
        return ""
    calls, cost = spent.get("calls"), spent.get("cost")
    price = f", {cost:.4g} {spent.get('currency')}" if isinstance(cost, float) else ""
    return f"{_WHO[name]}: {calls:,} calls{price}"
