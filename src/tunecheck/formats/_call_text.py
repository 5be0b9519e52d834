"""Read calls in the variants of Python's syntax that models write: `print(f(a=1))`, `f(a: 1)`, `f(city=Paris)`."""

import re
from typing import ClassVar

from tunecheck._json import JSON
from tunecheck.calls._model import NAME, FunctionCall, UnreadableError
from tunecheck.calls._python_text import PythonScanner
from tunecheck.calls._schemas import Schema
from tunecheck.formats._collector import CallCollector

CALL = rf"(?P<wrapped>print\(\s*+)?(?:default_api\.)?(?P<called>{NAME})\s*+\("
"""The beginning of a call. `print(` and `default_api.`, which Gemma and Gemini write, are not part of the name."""

LABEL = r"[*_]*+(?:(?:function |tool )?calls?|output)[*_]*+:[*_]*+"
BEFORE = rf"await\b|(?:\d++[.)]|[-*])[ \t]++|{NAME}[ \t]*+=[ \t]*+"
"""Text before a call on its line: `await`, a list mark, or the name of a result."""

_CALL = re.compile(rf"\s*+{CALL}")
_WORDS = re.compile(r"\s*+([^\s,()\[\]{}\"'=<][^,()\[\]{}\"'=\n]*?)\s*+(?=[,)\]])")
_VALUE_END = re.compile(r"\s*+(?:#[^\n]*+\s*+)*+(?:[,)\]}:]|\Z)")
_AFTER_TEXT = rf"(?=\s*+(?:[)\]}}:]|,\s*+(?:{NAME}\s*+=|[\"'\[{{(\d-]|True|False|None)))"
_TEXT_END = {quote: re.compile(quote + _AFTER_TEXT) for quote in "'\""}


def calls_at(text: str, position: int, collector: CallCollector) -> tuple[list[FunctionCall], int]:
    """Return the list of calls, or the single call, at this position, and its end.

    Raises:
        UnreadableError: there is no readable call, neither with escaped texts nor with unescaped ones.
    """
    scanner = CallScanner(text, position, collector)
    try:
        return scanner.calls_here(), scanner.position
    except UnreadableError as error:
        scanner = CallScanner(text, position, collector, escaped=False)
        try:
            return scanner.calls_here(), scanner.position
        except UnreadableError:
            raise error from None


class CallScanner(PythonScanner):
    """Reads calls with the tools' definitions: words without quotes are a text if the parameter accepts text.

    `escaped`: False for templates that quote texts without escaping. A quote then ends a text only if the value can end
    after it.
    """

    __slots__ = ("_collector", "_escaped", "_texts", "_tool")

    keyword: ClassVar[re.Pattern[str]] = re.compile(rf"[\"']?({NAME})[\"']?\s*+(?:=(?!=)|:)")

    def __init__(self, text: str, position: int, collector: CallCollector, *, escaped: bool = True) -> None:
        super().__init__(text, position)
        self._collector = collector
        self._escaped = escaped
        self._tool = ""
        self._texts = False

    def call(self) -> FunctionCall:
        """Read one call, `f(a=1)`, and skip `print(…)` around it."""
        begins = _CALL.match(self.text, self.position)
        if begins:
            self.position, self._tool = begins.start("called"), begins["called"]
        call = super().call()
        if begins and begins["wrapped"]:
            self._expect(")")
        return call

    def calls_here(self) -> list[FunctionCall]:
        """Read a list of calls, or one call."""
        return self.calls() if self.sees("[") else [self.call()]

    def value(self) -> JSON:
        """Read one literal, which must be followed by the end of the argument."""
        value = super().value()
        if not self._depth and not _VALUE_END.match(self.text, self.position):  # containers check their own items
            self._fail("expected a literal, then ',' or a bracket")
        return value

    def _named_argument(self, keyword: re.Match[str], arguments: dict[str, JSON]) -> None:
        try:
            super()._named_argument(keyword, arguments)
        except UnreadableError:
            self.position, self._depth = keyword.end(), 0
            self._add_argument(arguments, keyword[1], self._unquoted_text(keyword[1]))

    def _unquoted_text(self, name: str) -> JSON:
        """Read an argument without quotes: words, or a list of words, if the definition says that it is text."""
        schema = self._collector.schema(self._tool)
        parameter = schema.property(name) if schema else None
        words = _WORDS.match(self.text, self.position)
        if words and _takes_text(parameter):
            self.position = words.end()
            return words[1]
        self._texts = _takes_text(parameter.item(0) if parameter else None)
        try:
            return self.value()
        finally:
            self._texts = False

    def _quoted_text(self, prefix: str, quote: str, start: int) -> str:
        if self._escaped:
            return super()._quoted_text(prefix, quote, start)
        end = _TEXT_END[quote[0]].search(self.text, start)
        if not end:
            self._fail("a text has no closing quote")
        self.position = end.start() + 1
        return self.text[start : end.start()]

    def _unescape(self, escape: re.Match[str]) -> str:
        return "_" if escape[0] == "\\_" else super()._unescape(escape)  # an escape of Markdown, invalid in Python

    def _word(self) -> JSON:
        words = _WORDS.match(self.text, self.position) if self._texts else None
        if not words:
            return super()._word()
        self.position = words.end()
        return words[1]


def _takes_text(schema: Schema | None) -> bool:
    return schema is not None and "string" in schema.types()
