"""Text for people: two consoles, and model output made harmless before it reaches a terminal."""

from __future__ import annotations

import contextlib
import os
import sys
import unicodedata
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["clean", "console", "counted", "printable", "stop_writing"]

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Controls (escape sequences begin with one), marks that turn the writing direction, halves of characters."""


def clean(text: object, most: int = 400) -> str:
    """One printable line: control characters, escape sequences and invisible marks are gone, white space is single.

    Anything may stand in a text that comes from data, a model or a server; a terminal would obey some of it.
    """
    line = " ".join(printable(str(text)[: 4 * most]).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def printable(text: str) -> str:
    """The same without a limit, and with its spaces as they are: for lines that were laid out."""
    return "".join(" " if letter.isspace() else letter for letter in text if _visible(letter))


def _visible(letter: str) -> bool:
    return letter.isspace() or unicodedata.category(letter) not in _HIDDEN


def counted(number: int, word: str) -> str:
    """`1 row`, `2 rows`, `1,000 rows`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def console(stream: TextIO) -> Console:
    """A console that takes no text for markup; colours only on a terminal, and not where NO_COLOR is set."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            """Leave it to the program what a reader that has gone means; rich would end the process."""
            raise BrokenPipeError

    return Plain(file=stream, markup=False, highlight=False, emoji=False)


def stop_writing() -> None:
    """Whoever read our output has gone: write the rest nowhere, so that nothing complains at the end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
