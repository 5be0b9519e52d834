"""Parts of messages: safe text, counts, suggestions for misspelt names."""

import os
import re
import signal
import sys
import unicodedata
from collections.abc import Iterable
from typing import TextIO

ALLOW_SIMULATED = "--allow-simulated (allow_simulated=True)"
"""The option that accepts simulated answers, for errors that the command line and Python callers see."""

_MOST_LISTED = 12
"""Number of known names that an error lists."""

_SURE, _LIKELY = 0.75, 0.58
"""Similarity from which a name is surely meant, and from which it is listed as a possibility."""

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories of controls (escape sequences begin with one), direction marks, and surrogates."""


_IGNORED = (
    r"\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Characters that .NET's culture-sensitive search ignores; CI agents use it, so a command may contain them."""

# Blanks that a line may begin with, besides the ignored characters.
_BLANK = r" \t\x0b\x0c\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"

# Matches the "##vso" of "##vso[task.setvariable …]" and the first colon of "::error::" at the beginning of a line, also
# with ignored characters between them. A space after the match disables the command.
_LOG_COMMAND = re.compile(
    rf"#[{_IGNORED}]*#[\w{_IGNORED}]*(?=\[)|(?:\A|(?<=[\r\n]))[{_BLANK}{_IGNORED}]*:[{_IGNORED}]*(?=:)"
)
# Characters to leave out of the current line before it is searched.
_PASSED_OVER = re.compile(f"[{_IGNORED}]+")
# Matches the first `#` or `:` of a command, which JSON can escape.
_IN_JSON = re.compile(rf"#(?=[{_IGNORED}]*#[\w{_IGNORED}]*\[)|:(?=[{_IGNORED}]*:)")

_LINE_KEPT = 200
"""Characters of the current line that are kept, to find a command that is written in pieces."""


def without_log_commands(text: str) -> str:
    """Return the text with a space before the "[" or second ":" of each command that a CI system executes from a log.

    Azure Pipelines (`##vso[`, `##[`) and TeamCity (`##teamcity[`) execute commands anywhere in a line. GitHub Actions
    executes `##[` anywhere and `::` at the start of a line.
    """
    return _LOG_COMMAND.sub(lambda found: f"{found[0]} ", text)


def json_without_log_commands(text: str) -> str:
    """Return JSON text with the same value, with `#` and `:` escaped if a log command could begin there."""
    return _IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class LogStream:
    """An output stream that disables log commands, even if they are written in several pieces."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._line = ""
        """The current line so far, without blanks at its beginning and characters that a CI system ignores."""

    def write(self, text: str) -> int:
        """Write a text with log commands disabled, also if earlier texts of the line begin one; return its length."""
        whole = without_log_commands(self._line + text)
        self._stream.write(whole[len(self._line) :])

        # A line end begins a new line; blanks and ignored characters at its beginning do not matter.
        line = _PASSED_OVER.sub("", whole[max(whole.rfind("\n"), whole.rfind("\r")) + 1 :]).lstrip()
        self._line = line if len(line) <= _LINE_KEPT else f"-{line[-_LINE_KEPT:]}"  # "-": not a line's beginning
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def disable_log_commands() -> None:
    """Disable log commands in all further output of this process, also in that of threads and finalizers at its end."""
    for name in ("stdout", "stderr"):
        stream = LogStream(getattr(sys, name))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)  # Python writes to this one when it exits


def clean(text: object, most: int = 400) -> str:
    """Return one printable line of at most `most` characters, without control characters and invisible marks.

    A longer text loses its end. If it has no blanks, such as an identifier, it loses its middle. Text from data, a
    model or a server may contain escape sequences that a terminal would execute.
    """
    # Invisible characters are removed first, so four times as many characters are enough for a line of `most`.
    line = " ".join(printable(str(text)[: 4 * most]).split())
    return f"{line[: most - 1]}…" if " " in line and len(line) > most else cut_middle(line, most)


def cut_middle(text: str, most: int) -> str:
    """Return a text without its middle if it is longer than `most` characters."""
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[: most - 1 - half]}…{text[len(text) - half :]}"


def printable(text: str) -> str:
    """Return a text without control characters and invisible marks; tabs and line ends become spaces."""
    if text.isprintable():  # a hundred times as fast as the check below, and true of most texts
        return text

    kept = (letter for letter in text if letter.isspace() or unicodedata.category(letter) not in _HIDDEN)
    return "".join(" " if letter.isspace() else letter for letter in kept)


def cut_apart(first: str, second: str, most: int = 60, before: int = 10) -> tuple[str, str]:
    """Return both texts, cut to at most `most` characters so that their difference is visible.

    Long texts lose their common beginning except for its last `before` characters, then the middle of the rest.
    """
    if max(len(first), len(second)) <= most:
        return first, second

    start = max(0, common_beginning(first, second) - before)

    def cut(text: str) -> str:
        return cut_middle(("…" if start else "") + text[start:], most)

    return cut(first), cut(second)


def common_beginning(first: str, second: str) -> int:
    """Return how many characters two texts have in common at their beginnings."""
    shorter = min(len(first), len(second))
    return next((index for index in range(shorter) if first[index] != second[index]), shorter)


def command_line(words: Iterable[str]) -> str:
    """Return a command line that can be pasted into a shell of this system."""
    import shlex
    import subprocess

    return subprocess.list2cmdline(list(words)) if os.name == "nt" else shlex.join(words)


def plural(number: int, word: str) -> str:
    """Return `1 row`, `2 rows`, `1,000 rows`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def did_you_mean(name: str, known: Iterable[str], ending: str = "") -> str:
    """Return the end of an error's text: `"; did you mean 'bleu'?"`, else `"; known: a, b"`.

    Without a similar name, up to twelve are listed; "" if no other name is known. `ending` is a common suffix of names,
    such as a file extension, that is not compared.
    """
    names = sorted({*known} - {name})
    suggestion = suggest_names(name, names, ending)
    if suggestion or not names:
        return suggestion

    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return f"; known: {', '.join(names[:_MOST_LISTED])}{more}"


def suggest_names(name: str, known: Iterable[str], ending: str = "") -> str:
    """Return `"; did you mean 'bleu'?"` with up to three similar names, or "" if no known name is similar.

    `ending` is a common suffix of names that is not compared.
    """
    from difflib import SequenceMatcher, get_close_matches

    names = {full.removesuffix(ending): full for full in sorted({*known} - {name})}

    word = name.removesuffix(ending)
    near = get_close_matches(word, names, n=3, cutoff=_LIKELY)

    # If one name is surely meant, the others would only distract.
    if near and SequenceMatcher(None, near[0], word).ratio() >= _SURE:
        near = near[:1]

    return f"; did you mean {' or '.join(repr(names[similar]) for similar in near)}?" if near else ""


def how_it_ended(code: int) -> str:
    """Return how a process ended as text: its exit code, or its signal if the code is negative."""
    try:
        return f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit code {code}"
    except ValueError:
        return f"signal {-code}"
