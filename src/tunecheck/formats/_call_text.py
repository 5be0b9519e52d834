"""Calls in Python's syntax as models write them in text: `print(f(a=1))`, `f(a: 1)`, `f(city=Paris)`."""

import re
from typing import ClassVar

from tunecheck._json import JSON
from tunecheck.calls._arithmetic import computed
from tunecheck.calls._model import FunctionCall
from tunecheck.calls._python_text import NAME, PythonScanner
from tunecheck.calls._schemas import Schema
from tunecheck.calls._strict_json import UnreadableError, exact
from tunecheck.formats._collector import CallCollector
from tunecheck.formats._source_calls import decode_source_text, language_of

CALL = rf"(?P<wrapped>print\(\s*+)?(?:default_api\.)?(?P<called>{NAME})\s*+\("
"""How a call begins; what Gemma and Gemini put around it is none of its name."""

LABEL = r"[*_]*+(?:(?:function |tool )?calls?|output)[*_]*+:[*_]*+"
BEFORE = rf"await\b|(?:\d++[.)]|[-*])[ \t]++|{NAME}[ \t]*+=[ \t]*+"
"""What models write before a call on its line: how it begins is a list, or the name of a result."""

_CALL = re.compile(rf"\s*+{CALL}")
_WORDS = re.compile(r"\s*+([^\s,()\[\]{}\"'=<][^,()\[\]{}\"'=\n]*?)\s*+(?=[,)\]])")
_OPERATOR = re.compile(r"\s*+(\*\*|//|[-+*/%])")
_BINDING = {"+": 1, "-": 1, "*": 2, "/": 2, "//": 2, "%": 2, "**": 3}
_VALUE_END = re.compile(r"\s*+(?:#[^\n]*+\s*+)*+(?:[,)\]}:]|\Z)")
_TOKEN = re.compile(r"\\.|[\"'()\[\]{}]", re.DOTALL)


def closed(text: str, start: int) -> int | None:
    """Where the first bracket or quote from here on is closed, and all within it; None where it never is."""
    depth, quote = 0, ""
    for token in _TOKEN.finditer(text, start):
        mark = token[0]
        if quote:
            quote = "" if mark == quote else quote
        elif mark in ("'", '"'):
            quote = mark
        elif mark in ("(", "[", "{"):
            depth += 1
        elif len(mark) == 1:
            depth -= 1
        if depth <= 0 and not quote:
            return token.end()
    return None


class CallScanner(PythonScanner):
    """Reads calls of tools, by their definitions.

    Words without quotes are a text where the parameter takes one, arithmetic is worked out, and the arguments of a
    tool that takes Java or JavaScript are texts of it.
    """

    __slots__ = ("_collector", "_loose", "_texts", "_tool")

    keyword: ClassVar[re.Pattern[str]] = re.compile(rf"[\"']?({NAME})[\"']?\s*+(?:=(?!=)|:)")

    def __init__(self, text: str, position: int, collector: CallCollector) -> None:
        super().__init__(text, position)
        self._collector = collector
        self._tool = ""
        self._loose = self._texts = False

    def call(self) -> FunctionCall:
        """`f(a=1)`, without what stands around it."""
        begins = _CALL.match(self.text, self.position)
        if begins:
            self.position, self._tool = begins.start("called"), begins["called"]
        call = self._source_call() or super().call()
        if begins and begins["wrapped"]:
            self._expect(")")
        return call

    def calls_here(self) -> list[FunctionCall]:
        """A list of calls, or one call."""
        return self.calls() if self.sees("[") else [self.call()]

    def value(self) -> JSON:
        """One literal; where a first look has found none, also arithmetic on literals."""
        if self._loose:
            return self._operation(0)
        value = super().value()
        if not self._depth and not _VALUE_END.match(self.text, self.position):  # a container looks itself
            self._fail("not a literal, or a missing bracket or ','")
        return value

    def _operation(self, least: int) -> JSON:
        """A literal and the operators after it that bind at least so strongly."""
        self._skip()
        signed = self.text.startswith(("-", "+"), self.position)
        value = super().value()
        while (operator := _OPERATOR.match(self.text, self.position)) and _BINDING[operator[1]] >= least:
            sign = operator[1]
            if signed and sign == "**":
                self._fail("not a literal")
            self.position = operator.end()
            value = self._computed(sign, value, self._operation(_BINDING[sign] + (sign != "**")))
        return value

    def _computed(self, sign: str, left: JSON, right: JSON) -> JSON:
        if not isinstance(left, (int, float, str)) or not isinstance(right, (int, float, str)):
            self._fail("not a literal")
        try:
            return exact(computed(sign, left, right))
        except (ValueError, TypeError, ArithmeticError) as error:
            self._fail(f"arithmetic that fails ({error})")

    def _source_call(self) -> FunctionCall | None:
        definition = self._collector.definition(self._tool)
        language = language_of(definition) if definition else None
        end = closed(self.text, self.position) if language else None
        if language is None or end is None:
            return None
        try:
            (call,) = decode_source_text(self.text[self.position : end], language)
        except UnreadableError:
            return None  # a model may answer in Python's syntax all the same
        if not isinstance(call, dict):
            return None
        self.position = end
        ((name, arguments),) = call.items()
        return FunctionCall(name, arguments)

    def _argument(self, arguments: dict[str, JSON], positions: list[int]) -> None:
        self._skip()
        keyword = self.keyword.match(self.text, self.position)
        try:
            super()._argument(arguments, positions)
        except UnreadableError:
            if not keyword:
                raise
            self.position, self._depth = keyword.end(), 0
            self._give(arguments, keyword[1], self._written(keyword[1]))

    def _written(self, name: str) -> JSON:
        """An argument that is no literal."""
        schema = self._collector.schema(self._tool)
        parameter = schema.property(name) if schema else None
        words = _WORDS.match(self.text, self.position)
        if words and _takes_text(parameter):
            self.position = words.end()
            return words[1]
        self._loose, self._texts = True, _takes_text(parameter.item(0) if parameter else None)
        try:
            return self.value()
        finally:
            self._loose = self._texts = False

    def _unescaped(self, escape: re.Match[str]) -> str:
        return "_" if escape[0] == "\\_" else super()._unescaped(escape)  # of Markdown; no literal has it

    def _word(self) -> JSON:
        words = _WORDS.match(self.text, self.position) if self._texts else None
        if not words:
            return super()._word()
        self.position = words.end()
        return words[1]


def _takes_text(schema: Schema | None) -> bool:
    return schema is not None and "string" in schema.types()
