"""Call text of prompting endpoints: `[cd(folder='docs'), send(text=cat('a.txt'))]`, calls inside calls included.

Text is read by a scanner, never compiled and never evaluated. Beside call text, every format that `tunecheck.calls`
knows is read: a model that was asked for call text may answer as it was trained.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import cast

from tunecheck._json import JSON
from tunecheck.calls._bounds import MAX_CHARACTERS, MAX_TEXT_DEPTH, UnreadableError
from tunecheck.calls._formats.reading import read_calls
from tunecheck.calls._python_text import NAME, PythonScanner
from tunecheck.conversations._nested import NestedCall

_NO_CALL = "the answer holds no call"

_NAME = re.compile(NAME)
_FENCED = re.compile(r"```[\w+-]*[ \t]*\r?\n(.*?)\r?\n?[ \t]*```", re.DOTALL)
_NOTHING = re.compile(r"[\s`]*+(?:\[\s*+\])?[\s`]*+")
_CALL_AHEAD = re.compile(rf"\[?\s*{NAME}\s*\(")


@dataclass(frozen=True, slots=True)
class Decoded:
    """What one answer of a model asks for.

    `calls` in order; none of them and no `problem`: the answer is empty. `problem` says why an answer that is not
    empty holds no call that could be made.
    """

    calls: tuple[NestedCall, ...] = ()
    problem: str | None = None


def decode_text(text: str) -> Decoded:
    """The calls of a text, in brackets or bare (`cd('docs')`), inside a code fence or not. It never raises."""
    if _NOTHING.fullmatch(text):
        return Decoded()
    body = text.strip(" \t\r\n")
    fenced = _FENCED.fullmatch(body)
    body = fenced[1].strip() if fenced else body.strip("`")
    if _CALL_AHEAD.match(body) and len(body) <= MAX_CHARACTERS:
        try:
            calls = _Scanner(body).all()
        except (UnreadableError, RecursionError):
            pass  # another format, or text that only begins like a call: the general reader says what is wrong
        else:
            return Decoded(tuple(calls))
    reading = read_calls(text)
    if reading.problem is not None:
        return Decoded(problem=reading.problem)
    if not reading.calls:
        return Decoded(problem=_NO_CALL)
    return Decoded(tuple(NestedCall(call.name, call.arguments) for call in reading.calls))


class _Scanner(PythonScanner):
    """Reads call text in which an argument may be a call itself."""

    __slots__ = ("_nested",)

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._nested = 0

    def all(self) -> list[NestedCall]:
        """All calls of the text, with or without brackets around them, and nothing else."""
        if self.sees("["):
            calls = self.calls()
        else:
            calls = [self.call()]
            while self.sees(","):
                self.position += 1
                calls.append(self.call())
        if not self.at_end():
            raise UnreadableError("more text after the calls")
        return [NestedCall(call.name, cast("dict[str, object]", call.arguments)) for call in calls]

    def _word(self) -> JSON:
        name = _NAME.match(self.text, self.position)
        if name is None or not self.text.startswith("(", name.end()):
            return super()._word()
        self._nested += 1
        if self._nested > MAX_TEXT_DEPTH:
            raise UnreadableError(f"calls nested deeper than {MAX_TEXT_DEPTH} levels")
        call = self.call()
        self._nested -= 1
        return cast("JSON", NestedCall(call.name, cast("dict[str, object]", call.arguments)))
