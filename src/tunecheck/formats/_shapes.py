"""Shapes of calls in JSON or Python: an object with a name, a name before an object, `f(a=1)`.

The shapes, with the text that follows a family's mark:

    JsonCalls      {"name": "f", "arguments": {"a": 1}}, or lists of these; Python's syntax is read, too
    NamedCalls     f[ARGS]{"a": 1}
    PythonCalls    [f(a=1), g()]
    GlaiveCalls    {"name": "f", "arguments": '{"a": "it's"}'}
    AnyOf          the first of several shapes that begins here

`read` adds the calls to a collector and returns their end. If a call cannot be read, it raises UnreadableError.
"""

import re
from contextlib import suppress
from typing import ClassVar

import msgspec

from tunecheck._json import JSON
from tunecheck.calls._model import (
    NAME,
    CutOffError,
    FunctionCall,
    UnreadableError,
    decode_at,
    kind_of,
    place,
    quoted,
    skip_space,
)
from tunecheck.calls._python_text import PythonScanner, literal_at
from tunecheck.calls._schemas import Schema
from tunecheck.formats._collector import CallCollector, no_call
from tunecheck.formats._json_shapes import take_named
from tunecheck.formats._profiles import TextShape, past

# -- the variants of Python's syntax that models write: `print(f(a=1))`, `f(a: 1)`, `f(city=Paris)`

CALL = rf"(?P<wrapped>print\(\s*+)?(?:default_api\.)?(?P<called>{NAME})\s*+\("
"""The beginning of a call. `print(` and `default_api.`, which Gemma and Gemini write, are not part of the name."""

# `Output:`, `**Tool call:**`, `**Function calls**:`; used without regard to case
LABEL = r"[*_]*+(?:(?:function |tool )?calls?|output)[*_]*+:[*_]*+"
BEFORE = rf"await\b|(?:\d++[.)]|[-*])[ \t]++|{NAME}[ \t]*+=[ \t]*+"
"""Text before a call on its line: `await`, a list mark, or the name of a result."""

# white space and the beginning of a call: `f(`, `print(f(`, `default_api.get_time (`
_CALL = re.compile(rf"\s*+{CALL}")
# words without quotes up to the end of a value: `New York` in `city=New York, days=3`; not `"Paris"` or `a=b`
_WORDS = re.compile(r"\s*+([^\s,()\[\]{}\"'=<][^,()\[\]{}\"'=\n]*?)\s*+(?=[,)\]])")
# what follows a literal: comments, then a comma, bracket, colon or the end; not `x` in `'Paris' x`
_VALUE_END = re.compile(r"\s*+(?:#[^\n]*+\s*+)*+(?:[,)\]}:]|\Z)")
# what follows the closing quote of a text that is not escaped: the value ends, and another argument or item may begin.
# The apostrophe in `'it's nice', days=3` does not end the text, because `s nice` follows.
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
    except UnreadableError:
        with suppress(UnreadableError):
            scanner = CallScanner(text, position, collector, escaped=False)
            return scanner.calls_here(), scanner.position
        raise


class CallScanner(PythonScanner):
    """Reads calls with the tools' definitions: words without quotes are a text if the parameter accepts text.

        f(city=Paris, tags=[red, blue], days: 3)     read if `city` is a text and `tags` a list of texts
        f(note='it's nice')                          read if `escaped` is False

    `escaped`: False for templates that quote texts without escaping. A quote then ends a text only if the value can end
    after it.
    """

    __slots__ = ("_collector", "_escaped", "_takes_words", "_tool")

    keyword: ClassVar[re.Pattern[str]] = re.compile(rf"[\"']?({NAME})[\"']?\s*+(?:=(?!=)|:)")

    def __init__(self, text: str, position: int, collector: CallCollector, *, escaped: bool = True) -> None:
        super().__init__(text, position)
        self._collector = collector
        self._escaped = escaped
        self._tool = ""
        self._takes_words = False

    def call(self) -> FunctionCall:
        """Read one call, `f(a=1)`, and skip `print(…)` around it."""
        beginning = _CALL.match(self.text, self.position)
        if beginning:
            self.position, self._tool = beginning.start("called"), beginning["called"]
        call = super().call()
        if beginning and beginning["wrapped"]:
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
        """Read the value after a name and `=`: a literal, or a text without quotes."""
        try:
            super()._named_argument(keyword, arguments)
        except UnreadableError:
            # The failed literal left the position inside it, so reading starts again after `=`.
            self.position, self._depth = keyword.end(), 0
            self._add_argument(arguments, keyword[1], self._unquoted_text(keyword[1]))

    def _unquoted_text(self, name: str) -> JSON:
        """Read an argument's words without quotes if its definition says that it is a text, or a list of texts.

        Raises:
            UnreadableError: the definition allows neither, or the words cannot be read.
        """
        schema = self._collector.schema(self._tool)
        parameter = schema.property(name) if schema else None

        words = _WORDS.match(self.text, self.position)
        if words and _takes_text(parameter):
            self.position = words.end()
            return words[1]

        self._takes_words = _takes_text(parameter.item(0) if parameter else None)
        try:
            return self.value()
        finally:
            self._takes_words = False

    def _quoted_text(self, prefix: str, quote: str, start: int) -> str:
        """Read a text as Python does; if texts are not escaped, up to the first quote after which the value can end.

        `start` is the position after the opening `quote`.
        """
        if self._escaped:
            return super()._quoted_text(prefix, quote, start)

        end = _TEXT_END[quote[0]].search(self.text, start)
        if not end:
            self._fail("a text has no closing quote")
        self.position = end.start() + 1
        return self.text[start : end.start()]

    def _unescape(self, escape: re.Match[str]) -> str:
        """Return the character for an escape, also for `\\_`."""
        return "_" if escape[0] == "\\_" else super()._unescape(escape)  # an escape of Markdown, invalid in Python

    def _word(self) -> JSON:
        """Read words as a text inside a list of texts; elsewhere, read a constant."""
        words = _WORDS.match(self.text, self.position) if self._takes_words else None
        if not words:
            return super()._word()
        self.position = words.end()
        return words[1]


def _takes_text(schema: Schema | None) -> bool:
    """Return whether there is a schema that accepts a text."""
    return schema is not None and "string" in schema.types()


# -- shapes

# `f(` or `[f(`, also with white space between
_CALL_OR_LIST = re.compile(rf"\[?\s*+{CALL}")
_NOTHING = re.compile("")


class JsonCalls(msgspec.Struct, frozen=True, tag="json", tag_field="kind"):
    """Calls like `{"name": "f", "arguments": {…}}`, or lists of them.

    `keyed`: calls are written as `{"f": {…}}`. `alone`: calls are those of Llama after `<|python_tag|>`. A call in
    Python's syntax is then code if any text follows it, and further calls begin with `{`, never with a bracket.
    """

    keyed: bool = False
    alone: bool = False

    def begins(self, text: str, position: int, collector: CallCollector) -> bool:
        """Return whether an object or a list begins at this position."""
        return text.startswith("{" if self.alone else ("{", "["), position)

    def read(self, text: str, position: int, mark: str, collector: CallCollector) -> int:
        """Add the calls of one object, of a list, or in Python's syntax to the collector, and return their end.

        Raises:
            UnreadableError: no readable call follows `mark`, the text before this position.
        """
        python = PythonCalls(alone=self.alone)
        is_code = self.alone and not text.startswith(("{", "["), position)
        if is_code or (not self.keyed and python.begins(text, position, collector)):
            return python.read(text, position, mark, collector)

        value, position = value_at(text, position, mark)
        if not self.keyed:
            take_named(value, collector)
            return position

        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, dict):
                raise UnreadableError(f"call {len(collector.calls) + 1} is {kind_of(item)}, not an object")
            for name, arguments in item.items():
                collector.add(collector.format, name, arguments)
        return position


def value_at(text: str, position: int, mark: str) -> tuple[JSON, int]:
    """Read the object or list after a mark, as JSON or as a Python literal.

    Raises:
        UnreadableError: there is no readable object or list.
    """
    position = skip_space(text, position)
    if text[position : position + 1] not in ("{", "["):
        raise no_call(mark, text, position, "an object")
    return literal_at(text, position)


class HeadedCalls(msgspec.Struct, frozen=True):
    """Base of the shapes whose calls begin with a pattern.

    Args:
        head: the beginning of a call, with the group `name`.
        first: the beginning of the head, to recognise further calls.
    """

    head: re.Pattern[str]
    first: str = ""

    def begins(self, text: str, position: int, collector: CallCollector) -> bool:
        """Return whether `first` or the head of a call stands at this position."""
        return bool(self.first and text.startswith(self.first, position)) or self.head.match(text, position) is not None

    def match_head(self, text: str, position: int, mark: str) -> re.Match[str]:
        """Return the match of a call's beginning (`head`) at this position; raise UnreadableError without one.

        `mark` is the text before the call, for the error.
        """
        head = self.head.match(text, position)
        if not head:
            raise no_call(mark, text, position)
        return head


class NamedCalls(HeadedCalls, frozen=True, kw_only=True, tag="named", tag_field="kind"):
    """Calls with a JSON object after the name: `f[ARGS]{…}`.

    Args:
        head: the text before the arguments, with the group `name` and an optional group `id`. If an optional group
            `empty` matches, arguments may be missing.
        last: the text to skip after the arguments.
    """

    last: re.Pattern[str] = _NOTHING

    def read(self, text: str, position: int, mark: str, collector: CallCollector) -> int:
        """Add one call to the collector, and return its end. `mark` is the text before it.

        Raises:
            UnreadableError: there is no readable call.
        """
        arguments: JSON = None
        head = self.match_head(text, position, mark)
        name, position = head["name"], head.end()

        closing = text[position : past(self.last, text, position)].strip()
        if text.startswith("{", position):
            arguments, position = decode_at(text, position)
        # Arguments may be missing if the head says so, or if a closing tag follows it.
        elif head.groupdict().get("empty") is None and not closing.startswith("<"):
            kind = UnreadableError if text[position:].strip() else CutOffError
            raise kind(f"the call of {quoted(name)} has no arguments at {place(text, position)}")

        # Kimi K2 sometimes writes a number in place of the tool's name.
        name = collector.tool_of_number(name, arguments) if name.isdigit() and not collector.knows(name) else name
        collector.add(collector.format, name, arguments, head.groupdict().get("id"))
        return past(self.last, text, position)


class PythonCalls(msgspec.Struct, frozen=True, tag="python", tag_field="kind"):
    """Calls like `[f(a=1), g()]`, or one call per line.

    `known`: only calls of tools count. `alone`: only a special token may follow, otherwise the text is code. Llama
    writes calls of its built-in tools in this way.
    """

    known: bool = False
    alone: bool = False

    def begins(self, text: str, position: int, collector: CallCollector) -> bool:
        """Return whether a name and its parenthesis begin here, perhaps in a list: `f(` or `[f(`."""
        call = _CALL_OR_LIST.match(text, position)
        return call is not None and (not self.known or collector.knows(call["called"]))

    def read(self, text: str, position: int, mark: str, collector: CallCollector) -> int:
        """Add a list of calls or one call to the collector, and return its end. `mark` is the text before it.

        Raises:
            UnreadableError: there is no readable call or, with `alone`, other text follows.
        """
        calls: list[FunctionCall] = []
        if not self.alone or self.begins(text, position, collector):
            calls, position = calls_at(text, position, collector)

        following = skip_space(text, position)
        ends_here = following == len(text) or text.startswith("<|", following)
        if self.alone and not (calls and ends_here):
            raise UnreadableError(f"{mark} is followed by code, not by a call, at {place(text, following)}")

        for call in calls:
            # Llama calls its built-in tools like `brave_search.call(…)`.
            name = call.name.removesuffix(".call") if self.alone and not collector.knows(call.name) else call.name
            collector.add(collector.format, name, call.arguments)
        return position


class AnyOf(msgspec.Struct, frozen=True):
    """Several shapes: the first shape that begins here is read, or the first of all if none does."""

    shapes: tuple[TextShape, ...]

    def begins(self, text: str, position: int, collector: CallCollector) -> bool:
        """Return whether one of the shapes begins here."""
        return any(shape.begins(text, position, collector) for shape in self.shapes)

    def read(self, text: str, position: int, mark: str, collector: CallCollector) -> int:
        """Add calls to the collector in the shape that begins here, and return their end."""
        shape = next((shape for shape in self.shapes if shape.begins(text, position, collector)), self.shapes[0])
        return shape.read(text, position, mark, collector)


class GlaiveCalls(msgspec.Struct, frozen=True, tag="glaive", tag_field="kind"):
    """Calls like `{"name": "f", "arguments": '{"a": "it's"}'}`: JSON text in apostrophes that may contain others."""

    def begins(self, text: str, position: int, collector: CallCollector) -> bool:
        """Return whether an object begins at this position."""
        return text.startswith("{", position)

    def read(self, text: str, position: int, mark: str, collector: CallCollector) -> int:
        """Add one call to the collector, and return its end. A call in another form is read as JSON or Python.

        The end of the arguments' JSON shows which apostrophe closes them.

        Raises:
            UnreadableError: there is no readable call.
        """
        opening = _GLAIVE.match(text, position)
        if not opening:
            return JsonCalls().read(text, position, mark, collector)

        name, _ = decode_at(text, opening.start("name"))
        try:
            arguments, end = decode_at(text, opening.end()) if opening["empty"] is None else (None, opening.end())
            closing = _GLAIVE_END.match(text, end)
            if not closing:
                raise UnreadableError(f"a call's arguments must end with an apostrophe and '}}', at {place(text, end)}")
        except UnreadableError:
            if "\\'" not in text:  # invalid in JSON, but not in Python's texts
                raise
            return JsonCalls().read(text, position, mark, collector)

        collector.add(collector.format, name, arguments)
        return closing.end()


# `{"name": "f", "arguments": '`, and the second apostrophe if nothing stands between them
_GLAIVE = re.compile(
    r"\s*+\{\s*+\"name\"\s*+:\s*+(?P<name>\"(?:[^\"\\]|\\.)*+\")\s*+,\s*+\"arguments\"\s*+:\s*+"
    r"'[ \t\r\n]*+(?P<empty>(?='))?"
)
_GLAIVE_END = re.compile(r"[ \t\r\n]*+'\s*+\}")
