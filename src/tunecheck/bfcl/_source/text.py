"""One call in a model's Java or JavaScript text, decoded as the leaderboard decodes it: `[A.f(a=new int[]{1}, b="x")]`.

The leaderboard parses with a grammar of the language. Here a small recogniser tells calls whose arguments are
expressions of the language from those that are not; and each argument becomes the same text: a literal text without
its quotes, a call as it is written, `new` and everything else in Java without white space.
"""

from __future__ import annotations

from collections.abc import Sequence

from tunecheck.bfcl._call_text import UndecodableError
from tunecheck.bfcl._source.grammar import PREFIXES, Made, Recogniser

_LONGEST = 10_000
"""Longest text, in characters, that is read: unclosed brackets in it cost the square of its length."""

_JAVA_CONSTANTS = frozenset({"true", "false", "null", "this", "super"})
_JAVASCRIPT_CONSTANTS = frozenset({"false", "null", "this", "super", "undefined"})
"""Words that are no names, among arguments without a name."""


def decode_source_text(text: str, language: str) -> list[object]:
    """The call of a text as `[{"f": {"a": "1"}}]`; `[None]` where there is something else than one call.

    Raises:
        UndecodableError: it is no text of the language.
    """
    if len(text) > _LONGEST:
        raise UndecodableError(f"a text of {len(text)} characters")
    text = text.strip("`\n ")
    body = text[text.startswith("[") : len(text) - text.endswith("]")]
    reader = _Reader(body.strip(), java=language == "java")
    try:
        return [reader.call()]
    except RecursionError:
        raise UndecodableError("nested too deeply") from None


class _Reader(Recogniser):
    """Reads one call."""

    def call(self) -> object:
        """The call that the text makes: in Java the first one in it, in JavaScript its first statement."""
        if not self.tokens:
            return None
        first = self._statement()
        while self.place < len(self.tokens):
            self._statement()
        if first is None:
            return None
        name = self.between(first.start, first.opening) if self.java else self.source(first.start, first.opening)
        if self.java and self.tokens[first.start].text == "new":
            name = f"new {self.between(first.start + 1, first.opening)}"
        return {name: self._arguments(first.parts)}

    def _statement(self) -> Made | None:
        """Move past one statement; gives its outermost call, if that counts."""
        self.made.clear()
        start = self.place
        while self.java and self.at("return", "var") and self.place < len(self.tokens) - 1:
            self.place += 1
        self.expression()
        while not self.java and self.skip(","):
            self.expression()
        end = self.place
        if not self.skip(";") and self.is_cut_short(start, end):
            raise UndecodableError("no statement")
        calls = sorted(self.made, key=lambda made: (made.start, -made.end))
        whole = [made for made in calls if self.java or (made.start, made.end) == (start, end)]
        return whole[0] if whole else None

    def _arguments(self, parts: Sequence[tuple[int, int]]) -> dict[str, object]:
        found: dict[str, object] = {}
        for first, last in parts:
            name, value = self._argument(first, last)
            if name == "" and value is None:
                continue
            if name in found:
                raise UndecodableError("an argument is given twice")
            found[name] = value
        return found

    def _argument(self, first: int, last: int) -> tuple[str, object]:
        """An argument's name and text; a bare name has none, anything else without a name is passed over."""
        signs = ("=", *(f"{sign}=" for sign in "+-*/%&|^")) if self.java else ("=",)
        for place in range(first, last):
            if self.tokens[place].text in signs and self.tokens[place].kind == "sign":
                return self.between(first, place), self._value(place + 1, last)
            if self.tokens[place].text in ("(", "{"):
                break
        if (
            last - first == 1
            and self.tokens[first].kind == "name"
            and self.tokens[first].text not in (_JAVA_CONSTANTS if self.java else _JAVASCRIPT_CONSTANTS)
        ):
            return "None", self.tokens[first].text
        return "", None

    def _value(self, first: int, last: int) -> str:
        source = self.source(first, last)
        if not self.java:
            quoted = len(source) > 1 and source[0] in "\"'" and source[-1] in "\"'"
            return source[1:-1] if quoted else source
        if last - first == 1:
            return source[1:-1] if self.tokens[first].kind == "text" else source
        self.place = first
        shape = "" if self.at(*PREFIXES) else self.operand()
        if self.place != last or not shape:
            return self.between(first, last)
        if shape == "object":
            created = self.created
            given = ", ".join(self.source(*part) for part in created.parts)
            return f"new {self.between(first + 1, created.opening)}({given})"
        return f"new {self.between(first + 1, last)}" if shape == "array" else source
