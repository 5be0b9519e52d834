"""Parts of messages: harmless text, counts, similar names."""

import os
import signal
import unicodedata
from collections.abc import Iterable

_MOST_LISTED = 12
_SURE, _LIKELY = 0.75, 0.58
"""How much alike a name is to one that is surely meant, and to those among which it may be."""
_LETTERS_BEFORE = 10

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Controls (escape sequences begin with one), marks that turn the writing direction, halves of characters."""


def clean(text: object, most: int = 400) -> str:
    """Return one printable line, without control characters, escape sequences and invisible marks.

    Text from data, a model or a server may hold anything; a terminal would obey some of it.
    """
    line = " ".join(printable(str(text)[: 4 * most]).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def printable(text: str) -> str:
    """Return a text without control characters and invisible marks; its spaces stay."""
    if text.isprintable():  # as most are, which is seen a hundred times as fast
        return text
    return "".join(
        " " if letter.isspace() else letter
        for letter in text
        if (letter.isspace() or unicodedata.category(letter) not in _HIDDEN)
    )


def cut_apart(first: str, second: str, most: int = 60) -> tuple[str, str]:
    """Return two texts of at most `most` characters each that show their difference.

    Long texts lose their common beginning except for a few letters, then the middle of the rest.
    """
    if max(len(first), len(second)) <= most:
        return first, second
    letters = enumerate(zip(first, second, strict=False))
    alike = next((at for at, (one, other) in letters if one != other), min(len(first), len(second)))
    start = max(0, alike - _LETTERS_BEFORE)

    def cut(text: str) -> str:
        rest = ("…" if start else "") + text[start:]
        half = (most - 1) // 2
        return rest if len(rest) <= most else f"{rest[: most - 1 - half]}…{rest[-half:]}"

    return cut(first), cut(second)


def command_line(words: Iterable[str]) -> str:
    """Return a command to copy into a shell of this system."""
    import shlex
    import subprocess

    return subprocess.list2cmdline(list(words)) if os.name == "nt" else shlex.join(words)


def counted(number: int, word: str) -> str:
    """Return `1 row`, `2 rows`, `1,000 rows`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def did_you_mean(name: str, known: Iterable[str], ending: str = "") -> str:
    """Return `"; did you mean 'bleu'?"`, else `"; known: a, b"`, for the end of an error's text.

    `ending` is a common ending of names that is not compared, such as a file's suffix.
    """
    from difflib import SequenceMatcher, get_close_matches

    names = {each.removesuffix(ending): each for each in sorted({*known} - {name})}
    word = name.removesuffix(ending)
    near = get_close_matches(word, names, n=3, cutoff=_LIKELY)
    if near:
        if SequenceMatcher(None, near[0], word).ratio() >= _SURE:
            near = near[:1]
        return f"; did you mean {' or '.join(repr(names[each]) for each in near)}?"
    if not names:
        return ""
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return f"; known: {', '.join([*names.values()][:_MOST_LISTED])}{more}"


def how_it_ended(code: int) -> str:
    """Return how a process ended: its exit code, or the signal for a negative code."""
    try:
        return f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit code {code}"
    except ValueError:
        return f"signal {-code}"
