"""Shapes of calls with arguments between tags. The tool definition gives the types of the values."""

import functools
import re
from dataclasses import dataclass
from typing import ClassVar

from tunecheck._json import JSON
from tunecheck.calls._python_text import PythonScanner
from tunecheck.calls._schemas import Schema, type_of
from tunecheck.calls._strict_json import MAX_DEPTH, UnreadableError, decode, place, quoted, skip_space
from tunecheck.formats._collector import CallCollector

_SPACE = re.compile(r"\s*+")
_LITERAL = re.compile(r"\s*+(?:[\[{(\"']|(?:True|False|None)\s*+\Z)")
_NOTHING = ("null", "None")
_QUOTED_START, _QUOTED_END = "<![CDATA[", "]]>"


@functools.cache
def _closing(end: str, last: str, argument: str) -> re.Pattern[str]:
    """Match the end of a value, before another argument or the end of the call."""
    argument = re.sub(r"\?P<\w+>", "?:", argument)
    return re.compile(rf"{re.escape(end)}(?=\s*+(?:{last}|{argument}))", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TaggedCalls:
    r"""`<function=f><parameter=city>Paris</parameter></function>`.

    Args:
        head: the opening of a call, with the group `name`.
        last: the closing of a call.
        argument: the opening of an argument, with the group `key` and, where values are typed by themselves, `kind`:
            `string` or `true` for plain text, anything else for JSON.
        end: the closing of an argument. A value may hold it: it counts where an argument or the call's end follows.
        first: how the head begins, for what follows a call.
        empty: a call without arguments, where that looks different; it counts only where there is such a tool.
        framed: one line break on each side of a value is not part of it.
    """

    head: re.Pattern[str]
    last: re.Pattern[str]
    argument: re.Pattern[str]
    end: str
    first: str = ""
    empty: re.Pattern[str] | None = None
    framed: bool = False

    def begins(self, text: str, position: int, collector: CallCollector) -> bool:
        """True at the first mark or the head of a call."""
        return (
            bool(self.first and text.startswith(self.first, position))
            or self._head(text, position, collector) is not None
        )

    def _head(self, text: str, position: int, collector: CallCollector) -> re.Match[str] | None:
        empty = self.empty.match(text, position) if self.empty else None
        return empty if empty and collector.knows(empty["name"]) else self.head.match(text, position)

    def read(self, text: str, position: int, mark: str, collector: CallCollector) -> int:
        """Read one call."""
        head = self._head(text, position, collector)
        if not head:
            raise UnreadableError(f"{mark} is not followed by a call at {place(text, position)}")
        name, position = head["name"].strip(), head.end()
        schema = collector.schema(name)
        arguments: dict[str, JSON] = {}
        while True:
            position = skip_space(text, position)
            if last := self.last.match(text, position):
                break
            opening = self.argument.match(text, position)
            if not opening:
                raise UnreadableError(f"the call of {quoted(name)} is not closed at {place(text, position)}")
            key = opening["key"].strip()
            if key in arguments:
                raise UnreadableError(f"the argument {quoted(key)} is given twice at {place(text, position)}")
            value, position = self._value(text, opening)
            kind = opening.groupdict().get("kind")
            arguments[key] = _of_kind(value, kind, key) if kind else _typed(value, schema and schema.property(key))
        collector.add(collector.format, name, arguments)
        return last.end()

    def _value(self, text: str, opening: re.Match[str]) -> tuple[str, int]:
        start = opening.end()
        if text.startswith(_QUOTED_START, start):
            end = text.find(_QUOTED_END + self.end, start)
            if end >= 0:
                return text[start + len(_QUOTED_START) : end], end + len(_QUOTED_END) + len(self.end)
        closing = _closing(self.end, self.last.pattern, self.argument.pattern).search(text, start)
        if not closing:
            raise UnreadableError(f"the argument {quoted(opening['key'])} is not closed at {place(text, start)}")
        value = text[start : closing.start()]
        if self.framed:
            value = value.removeprefix("\n").removesuffix("\n")
        return value, closing.end()


def _of_kind(value: str, kind: str, key: str) -> JSON:
    if kind in ("string", "true"):
        return value
    try:
        return decode(value)
    except UnreadableError as error:
        raise UnreadableError(f"the argument {quoted(key)} is {error}") from None


@functools.cache
def _tags(only: str, prefix: str) -> re.Pattern[str]:
    """Match any tag, or only the tag that closes a text."""
    return re.compile(re.escape(only) or rf"{re.escape(prefix)}<(?P<key>[^\s<>]+)>")


@dataclass(frozen=True, slots=True)
class TreeCalls:
    """Arguments as elements in elements, keys as tags and lists as `<item>`; `prefix` stands before every tag.

    `end`: what is passed over after the last tag.
    """

    prefix: str
    head: re.Pattern[str]
    last: str
    end: re.Pattern[str] = _SPACE

    def begins(self, text: str, position: int, collector: CallCollector) -> bool:
        """True at the opening of a call."""
        return self.head.match(text, position) is not None

    def read(self, text: str, position: int, mark: str, collector: CallCollector) -> int:
        """Read one call."""
        head = self.head.match(text, position)
        if not head:
            raise UnreadableError(f"{mark} is not followed by a call at {place(text, position)}")
        value, position = self._inside(text, head.end(), self.last, collector.schema(head["name"]), 0)
        collector.add(collector.format, head["name"], value if isinstance(value, dict) else {})
        end = self.end.match(text, position)
        return end.end() if end else position

    def _inside(self, text: str, start: int, last: str, schema: Schema | None, depth: int) -> tuple[JSON, int]:
        """Read elements or text up to a closing tag."""
        if depth > MAX_DEPTH:
            raise UnreadableError(f"nested deeper than {MAX_DEPTH} levels")
        made: dict[str, JSON] = {}
        items: list[JSON] = []
        position, tags = start, _tags(last if schema and schema.types() == {"string"} else "", self.prefix)
        while True:
            tag = tags.search(text, position)
            if not tag:
                raise UnreadableError(f"{last} is missing after {place(text, start)}")
            if tag[0] == last:
                break
            key = tag["key"]
            inner = schema and (schema.item(len(items)) if key == "item" else schema.property(key))
            value, position = self._inside(text, tag.end(), f"{self.prefix}</{key}>", inner, depth + 1)
            if key == "item":
                items.append(value)
            else:
                made[key] = value
        if not made and not items:
            return self._leaf(text[start : tag.start()], schema, depth), tag.end()
        return items or made, tag.end()

    def _leaf(self, text: str, schema: Schema | None, depth: int) -> JSON:
        kinds = schema.types() if schema else frozenset[str]()
        if not text.strip() and (depth == 0 or kinds & {"array", "object"}):
            return [] if "array" in kinds else {}
        return _typed(text, schema)


@dataclass(frozen=True, slots=True)
class BracedCalls:
    """`call:f{city:<|"|>Paris<|"|>,days:3}`: bare keys, and texts between quotes of the family's own.

    `textual`: everything stands between quotes, whatever its type.
    """

    quote: str
    textual: bool = False

    def begins(self, text: str, position: int, collector: CallCollector) -> bool:
        """True at the word `call:`."""
        return text.startswith("call:", position)

    def read(self, text: str, position: int, mark: str, collector: CallCollector) -> int:
        """Read one call."""
        brace = text.find("{", position)
        if not self.begins(text, position, collector) or brace < 0:
            raise UnreadableError(f"{mark} is not followed by a call at {place(text, position)}")
        name = text[position + len("call:") : brace].strip()
        scanner = _BracedScanner(text, brace, self.quote)
        arguments = scanner.value()
        if self.textual:
            arguments = _typed_texts(arguments, collector.schema(name))
        collector.add(collector.format, name, arguments)
        return scanner.position


class _BracedScanner(PythonScanner):
    """Reads objects with bare keys, and texts between quotes of the family's own."""

    __slots__ = ("_quote",)

    space: ClassVar[re.Pattern[str]] = _SPACE
    _BARE = re.compile(r"[^,{}\[\]]++")
    _KEY = re.compile(r"[^:{},]++")

    def __init__(self, text: str, position: int, quote: str) -> None:
        super().__init__(text, position)
        self._quote = quote

    def value(self) -> JSON:
        """Read an object, a list, a text, or a bare value."""
        self._skip()
        if self.text.startswith(("{", "["), self.position):
            return self._container(self.text[self.position])
        quoted = self._quoted()
        return _untyped(self._matched(self._BARE)) if quoted is None else quoted

    def _key(self) -> JSON:
        self._skip()
        quoted = self._quoted()
        return self._matched(self._KEY).strip('"') if quoted is None else quoted

    def _quoted(self) -> str | None:
        if not self.text.startswith(self._quote, self.position):
            return None
        start = self.position + len(self._quote)
        end = self.text.find(self._quote, start)
        if end < 0:
            self._fail("a text that is not closed")
        self.position = end + len(self._quote)
        return self.text[start:end]

    def _matched(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.position)
        if not match:
            self._fail("expected a value")
        self.position = match.end()
        return match[0].strip()


def _typed_texts(value: JSON, schema: Schema | None) -> JSON:
    """Return the value with all its texts typed by the definition."""
    if isinstance(value, dict):
        return {key: _typed_texts(item, schema and schema.property(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_typed_texts(item, schema and schema.item(place)) for place, item in enumerate(value)]
    return _typed(value, schema) if isinstance(value, str) else value


def _typed(text: str, schema: Schema | None) -> JSON:
    """Convert a bare text to the type in its definition; without one, guess from its form, or keep the text."""
    kinds = schema.types() if schema else frozenset[str]()
    if "string" not in kinds:
        return _untyped(text)
    if "null" in kinds and text.strip() in _NOTHING:
        return None
    if kinds == {"string"} or kinds == {"string", "null"}:
        return text
    value = _untyped(text)
    return value if type_of(value) in kinds - {"integer", "number", "string"} else text


def _untyped(text: str) -> JSON:
    """Return the value of JSON or of a Python literal, else the text itself."""
    try:
        return decode(text)
    except UnreadableError:
        return _literal(text)


def _literal(text: str) -> JSON:
    """Return the value of a Python list, dict, text or constant, else the text itself."""
    if not _LITERAL.match(text):
        return text
    scanner = PythonScanner(text)
    try:
        value = scanner.value()
    except UnreadableError:
        return text
    return value if scanner.at_end() else text
