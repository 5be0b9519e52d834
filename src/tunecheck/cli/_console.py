"""Consoles that take no text for markup, and what to do when their reader has gone."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TextIO

from tunecheck._json import JSON, dumps_line
from tunecheck._messages import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from tunecheck._progress import ProgressBar

SIMULATED = "SIMULATED answers: no model was asked"


def console(stream: TextIO) -> Console:
    """A console that takes no text for markup; colours only on a terminal, and not where NO_COLOR is set."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            """Leave it to the program what a reader that has gone means; rich would end the process."""
            raise BrokenPipeError

    return Plain(file=stream, markup=False, highlight=False, emoji=False)


def grid(*columns: str) -> Table:
    """A table without lines, with a column aligned `left` or `right` for each word."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for justify in columns:
        table.add_column(justify="right" if justify == "right" else "left", overflow="fold")
    return table


def print_parts(console: Console, parts: Iterable[RenderableType]) -> None:
    """Print the parts of a page, each after an empty line."""
    from rich.text import Text

    for part in parts:
        console.print()
        console.print(part if not isinstance(part, str) else Text(part))


def progress_bar(name: str, quiet: bool | None) -> ProgressBar | None:
    """A bar on a terminal; None where there is none, or none is wanted."""
    if quiet:
        return None
    from tunecheck._progress import ProgressBar

    shown = console(sys.stderr)
    return ProgressBar(name, console=shown) if shown.is_terminal else None


def stop_writing() -> None:
    """Whoever read our output has gone: write the rest nowhere, so that nothing complains at the end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_path(path: str | os.PathLike[str]) -> None:
    """Print a path as it is, for the shell that reads it; to a terminal without what one would obey."""
    print(printable(os.fspath(path)) if sys.stdout.isatty() else os.fspath(path))


def print_json(value: JSON) -> None:
    sys.stdout.write(dumps_line(value).decode("utf-8"))


def cost_text(spent: Mapping[str, JSON], form: str = ".4g") -> str | None:
    """What calls came to, `0.0103 USD`, or `unknown` where some came without token counts; None without a price."""
    cost = spent.get("cost")
    if isinstance(cost, (int, float)):
        return f"{cost:{form}} {spent.get('currency')}"
    return "unknown" if spent.get("uncounted_calls") else None


def skill_text(idle: int, calling: int, rows: int) -> str:
    """What two agents would score that look at nothing: one that calls nothing, one that always calls."""
    return f"by calls alone, calling nothing passes {idle / rows:.1%}, always calling at most {calling / rows:.1%}"
