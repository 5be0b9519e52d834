"""Text from outside as a terminal, a page or a summary can show it: short, on one line, nothing in it that acts."""

from __future__ import annotations

import unicodedata

__all__ = ["clean", "counted", "printable"]

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
