"""Java and JavaScript text as tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tunecheck.bfcl._call_text import UndecodableError

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<text>\"\"\".*?\"\"\"|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`)
    |(?P<number>(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?)[\w]*)
    |(?P<name>[^\W\d][\w$]*|[$][\w$]*|\#\w+|@\w+)
    |(?P<sign>->|=>|::|\.\.\.|[=!]==?|<<=|>>>?=|[-+*/%&|^]=|<<|>=|<=|&&|\|\||\?\?|\?\.|\+\+|--|\*\*|[^\s\w])
    """,
    re.VERBOSE | re.DOTALL,
)
_REGEX = re.compile(r"/(?![/*])(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/\w*")


@dataclass(frozen=True, slots=True)
class Token:
    """One token: its kind ("text", "number", "name", "sign"), and where it stands."""

    kind: str
    text: str
    start: int
    end: int


def tokens_of(text: str, *, java: bool) -> list[Token]:
    """The tokens of a text, without white space and comments.

    Raises:
        UndecodableError: something in it is no token, or a text is not closed.
    """
    tokens: list[Token] = []
    place = 0
    while place < len(text):
        begins = not tokens or (tokens[-1].kind == "sign" and tokens[-1].text not in (")", "]", "}"))
        found = (_REGEX.match(text, place) if begins and not java else None) or _TOKEN.match(text, place)
        if found is None:
            raise UndecodableError(f"not readable: {text[place : place + 20]!r}")
        kind = found.lastgroup or "number"
        if kind == "sign" and (found[0] in "\"'`" or text.startswith("/*", place)):
            raise UndecodableError("a text or comment that is not closed")
        if kind != "space":
            tokens.append(Token(kind, found[0], found.start(), found.end()))
        place = found.end()
    return tokens
