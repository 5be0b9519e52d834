"""Calls in Python's syntax as models write them in text: `print(f(a=1))`, `f(a: 1)`, `f(city=Paris)`."""

import re
from typing import ClassVar

from tunecheck._json import JSON
from tunecheck.calls._model import FunctionCall
from tunecheck.calls._python_text import NAME, PythonScanner
from tunecheck.calls._strict_json import UnreadableError
from tunecheck.formats._collector import CallCollector

CALL = rf"(?P<wrapped>print\(\s*+)?(?:default_api\.)?(?P<called>{NAME})\s*+\("
"""How a call begins; what Gemma and Gemini put around it is none of its name."""

LABEL = r"[*_]*+(?:(?:function |tool )?calls?|output)[*_]*+:[*_]*+"
BEFORE = rf"await\b|(?:\d++[.)]|[-*])[ \t]++|{NAME}[ \t]*+=[ \t]*+"
"""What models write before a call on its line: how it begins is a list, or the name of a result."""

_CALL = re.compile(rf"\s*+{CALL}")
_WORDS = re.compile(rf"\s*+({NAME})\s*+=\s*+([^\s,()\[\]{{}}\"'=][^,()\[\]{{}}\"'=\n]*?)\s*+(?=[,)])")


class CallScanner(PythonScanner):
    """Reads calls of tools: words without quotes are a text where the tool's parameter takes one."""

    __slots__ = ("_collector", "_tool")

    keyword: ClassVar[re.Pattern[str]] = re.compile(rf"[\"']?({NAME})[\"']?\s*+(?:=(?!=)|:)")

    def __init__(self, text: str, position: int, collector: CallCollector) -> None:
        super().__init__(text, position)
        self._collector = collector
        self._tool = ""

    def call(self) -> FunctionCall:
        """`f(a=1)`, without what stands around it."""
        begins = _CALL.match(self.text, self.position)
        if begins:
            self.position, self._tool = begins.start("called"), begins["called"]
        call = super().call()
        if begins and begins["wrapped"]:
            self._expect(")")
        return call

    def calls_here(self) -> list[FunctionCall]:
        """A list of calls, or one call."""
        return self.calls() if self.sees("[") else [self.call()]

    def _argument(self, arguments: dict[str, JSON], positions: list[int]) -> None:
        start = self.position
        try:
            super()._argument(arguments, positions)
        except UnreadableError:
            words, schema = _WORDS.match(self.text, start), self._collector.schema(self._tool)
            parameter = schema.property(words[1]) if words and schema else None
            if not words or not parameter or "string" not in parameter.types():
                raise
            self.position = words.end()
            self._give(arguments, words[1], words[2])
