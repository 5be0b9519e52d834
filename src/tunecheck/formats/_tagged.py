"""Shapes of calls with arguments between tags. The tool definition gives the types of the values."""

import functools
import re
from contextlib import suppress
from dataclasses import dataclass
from html import unescape
from typing import ClassVar

from tunecheck._json import JSON
from tunecheck.calls._python_text import PythonScanner
from tunecheck.calls._schemas import Schema, type_of
from tunecheck.calls._strict_json import (
    MAX_DEPTH,
    CutOffError,
    UnreadableError,
    decode,
    decode_at,
    place,
    quoted,
    skip_space,
)
from tunecheck.formats._collector import CallCollector, no_call
from tunecheck.formats._profiles import past

_SPACE = re.compile(r"\s*+")
_LITERAL = re.compile(r"\s*+(?:[\[{(\"']|(?:True|False|None)\s*+\Z)")
_NOTHING = ("null", "None")
_WHOLE = re.compile(r"\s*+([+-]?\d{1,300})(\.0{0,300})?\s*+")
"""A whole number. Servers write `007` as 7, and 5.0 as 5."""
_NAME = re.compile(r"[^\s<>{}\[\]:,\"']+")
_TOKEN = re.compile(r"<\|\w{1,40}\|>")
_WRAPPERS = ("properties", "arguments")
_UNESCAPED = re.compile(r"<|&(?!(?:lt|gt|amp|quot|apos);)")
_QUOTED_START = re.compile(r"\s*+<!\[CDATA\[")
_FRAMED = re.compile(r"(?s)(?:(\r\n)|\n?)(?P<value>.*?)(?(1)\r\n|\n?)")
_MENTION = re.compile(r"[ \t\"'`.,;:)]")


@functools.cache
def _patterns(end: str, last: str, argument: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return patterns for the end of a CDATA value, and for the text after a value (another argument, or the end).

    The group `again` contains repeated closing tags.
    """
    # Without the names of groups, which would clash with those of the pattern around it.
    following = re.sub(r"\?P<\w+>", "?:", rf"\s*+(?:{last}|{argument})")
    return re.compile(rf"\]\]>\s*+(?:{end})"), re.compile(rf"(?P<again>(?:\s*+(?:{end}))*+){following}")


@dataclass(frozen=True, slots=True)
class TaggedCalls:
    r"""Calls like `<function=f><parameter=city>Paris</parameter></function>`, or with JSON instead of parameters.

    Args:
        head: the opening tag of a call, with the group `name`; the group `alone` matches if the tag closes itself.
        last: the closing tag of a call.
        argument: the opening tag of an argument, with the group `key`. An optional group `kind` gives the type of the
            value: `string` or `true` for plain text, anything else for JSON. The pattern must have a bounded length.
        end: the closing tag of an argument. It must precede an argument or the end of the call, unless a space or a
            punctuation mark shows that a text mentions it.
        first: the beginning of the head, to recognise further calls.
        framed: one line break on each side of a value is not part of the value.
        escaped: unescape values that are valid XML text.
        guessed: a parameter of a known tool without a type is JSON if it can be, else text.
        lone: a key without a value, which is skipped and reported.
    """

    head: re.Pattern[str]
    last: re.Pattern[str]
    argument: re.Pattern[str]
    end: re.Pattern[str]
    first: str = ""
    framed: bool = False
    escaped: bool = False
    guessed: bool = False
    lone: re.Pattern[str] | None = None

    def begins(self, text: str, position: int, collector: CallCollector) -> bool:
        """Return whether `first` or the head of a call is here."""
        return bool(self.first and text.startswith(self.first, position)) or self.head.match(text, position) is not None

    def read(self, text: str, position: int, mark: str, collector: CallCollector) -> int:
        """Add one call to the collector, and return the position after it.

        Raises:
            UnreadableError: there is no readable call here, or a key of the added call has no value.
        """
        head = self.head.match(text, position)
        if not head:
            raise no_call(mark, text, position)
        name, position = collector.plain_name(_TOKEN.sub("", head["name"]).strip()), head.end()
        if head.groupdict().get("alone"):
            collector.add(collector.format, name)
            return position
        arguments: JSON
        position = skip_space(text, position)
        if text.startswith("{", position):
            arguments, position = decode_at(text, position)
        else:
            arguments, position = self._arguments(text, position, name, collector.schema(name))
        last = self.last.match(text, skip_space(text, position))
        if not last:
            raise self.unclosed(f"the call of {quoted(name)}", text, position)
        collector.add(collector.format, name, arguments)
        while last and last.end() > position:  # a model may repeat the closing tag
            position = last.end()
            last = self.last.match(text, skip_space(text, position))
        if self.lone and (key := self.lone.search(text, head.end(), position)):
            raise UnreadableError(f"a key of {quoted(name)} has no value at {place(text, key.start())}")
        return position

    def unclosed(self, what: str, text: str, start: int) -> UnreadableError:
        """Return the error for a call or argument that is not closed: cut off, unless a closing tag follows later."""
        kind = UnreadableError if self.last.search(text, start) else CutOffError
        return kind(f"{what} is not closed at {place(text, start)}")

    def _arguments(self, text: str, position: int, name: str, schema: Schema | None) -> tuple[dict[str, JSON], int]:
        """Read arguments, and return them with their end position."""
        arguments: dict[str, JSON] = {}
        values, guess = _TagValues(self, text), self.guessed and schema is not None
        while opening := self.argument.match(text, position):
            key = opening["key"].strip()
            if key in arguments:
                raise UnreadableError(f"the argument {quoted(key)} is given twice at {place(text, position)}")
            value, position = values.read(opening)
            if key in _WRAPPERS and schema and not schema.property(key):
                held = _guess_value(value)  # some models wrap the arguments in the schema's key
                if isinstance(held, dict):
                    arguments |= held
                    position = skip_space(text, position)
                    continue
            kind = opening.groupdict().get("kind")
            parameter = schema and schema.property(key)
            arguments[key] = value if kind else _convert(value, parameter, guess=guess)
            if kind not in (None, "string", "true"):
                with suppress(UnreadableError):  # not JSON: text, as in the servers' parsers
                    arguments[key] = decode(value)
            position = skip_space(text, position)
        return arguments, position


class _TagValues:
    """Reads the values of one call, scanning each part of the text once."""

    __slots__ = ("_closing", "_inside", "_shape", "_text")

    def __init__(self, shape: TaggedCalls, text: str) -> None:
        self._shape, self._text = shape, text
        self._closing = (0, 0)
        """Start and end of the closing tag that was found last; it may be that of a later argument."""
        self._inside = 0
        """End of the last closing tag that the value only mentions; 0 without one."""

    def read(self, opening: re.Match[str]) -> tuple[str, int]:
        """Return a value and the position after it: after its closing tag or, if that is missing, at the next argument.

        Raises:
            UnreadableError: no closing tag follows.
        """
        shape, text, start = self._shape, self._text, opening.end()
        quoted_end, _ = _patterns(shape.end.pattern, shape.last.pattern, shape.argument.pattern)
        if cdata := _QUOTED_START.match(text, start):
            if not (end := quoted_end.search(text, cdata.end())):
                raise shape.unclosed(f"the argument {quoted(opening['key'])}", text, start)
            return text[cdata.end() : end.start()], end.end()
        if self._closing[0] < start:
            self._find_closing(start, opening["key"])
        closing, after = self._closing
        inner = shape.argument.search(text, start, closing)
        if inner and self._inside <= inner.start():
            return text[start : inner.start()].strip(), inner.start()
        value = text[start:closing] if closing < after else text[start:closing].rstrip()  # without a closing tag
        if shape.escaped and not _UNESCAPED.search(value):
            value = unescape(value)
        framed = _FRAMED.fullmatch(value) if shape.framed else None
        return framed["value"] if framed else value, after

    def _find_closing(self, start: int, key: str) -> None:
        """Find the closing tag that precedes an argument or the call's end, and the last one inside the value."""
        shape, self._inside = self._shape, 0
        _, following = _patterns(shape.end.pattern, shape.last.pattern, shape.argument.pattern)
        for end in shape.end.finditer(self._text, start):
            if after := following.match(self._text, end.end()):
                self._closing = (end.start(), after.end("again"))
                return
            if not _MENTION.match(self._text, end.end()):
                break
            self._inside = end.end()
        raise shape.unclosed(f"the argument {quoted(key)}", self._text, start)


@functools.cache
def _tags(only: str, prefix: str) -> re.Pattern[str]:
    """Return a pattern for any tag, or only for the closing tag `only`."""
    return re.compile(re.escape(only) or rf"{re.escape(prefix)}<(?P<key>[^\s<>]+)>")


@dataclass(frozen=True, slots=True)
class TreeCalls:
    """Calls with arguments as nested elements: keys are tags, and list items are `<item>` elements.

    `prefix` stands before every tag. `end` matches the text to skip after the last tag.
    """

    prefix: str
    head: re.Pattern[str]
    last: str
    end: re.Pattern[str] = _SPACE

    def begins(self, text: str, position: int, collector: CallCollector) -> bool:
        """Return whether the opening tag of a call is here."""
        return self.head.match(text, position) is not None

    def read(self, text: str, position: int, mark: str, collector: CallCollector) -> int:
        """Read one call."""
        head = self.head.match(text, position)
        if not head:
            raise no_call(mark, text, position)
        value, position = self._inside(text, head.end(), self.last, collector.schema(head["name"]), 0)
        collector.add(collector.format, head["name"], value if isinstance(value, dict) else {})
        return past(self.end, text, position)

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
                raise CutOffError(f"{last} is missing after {place(text, start)}")
            if (made or items or tag[0] != last) and text[position : tag.start()].strip():
                raise UnreadableError(f"text beside arguments at {place(text, position)}")
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
        if self.prefix and self.prefix in text:
            raise UnreadableError(f"a tag that is not closed in {quoted(text)}")
        kinds = schema.types() if schema else frozenset[str]()
        if not text.strip() and (depth == 0 or kinds & {"array", "object"}):
            return [] if "array" in kinds else {}
        return _convert(text, schema, guess=depth > 1)


@dataclass(frozen=True, slots=True)
class BracedCalls:
    """Calls like `call:f{city:<|"|>Paris<|"|>,days:3}`, with bare keys and special quotes around texts.

    `textual`: values of all types are quoted.
    """

    quote: str
    textual: bool = False

    def begins(self, text: str, position: int, collector: CallCollector) -> bool:
        """Return whether `call:` is here."""
        return text.startswith("call:", position)

    def read(self, text: str, position: int, mark: str, collector: CallCollector) -> int:
        """Read one call."""
        brace = text.find("{", position)
        if not self.begins(text, position, collector) or brace < 0:
            raise no_call(mark, text, position)
        name = text[position + len("call:") : brace].strip()
        if not _NAME.fullmatch(name):
            raise no_call(mark, text, position)
        scanner = _BracedScanner(text, brace, self.quote)
        arguments = scanner.value()
        if self.textual:
            arguments = _typed_texts(arguments, collector.schema(name))
        collector.add(collector.format, name, arguments)
        return scanner.position


class _BracedScanner(PythonScanner):
    """Reads objects with bare keys, and texts between special quotes."""

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
        quoted = self._read_quoted()
        if quoted is not None:
            return quoted
        bare = self._read_match(self._BARE)
        if self._quote in bare:
            self._fail("a text that is not opened")
        return _guess_value(bare)

    def _key(self) -> JSON:
        self._skip()
        quoted = self._read_quoted()
        return self._read_match(self._KEY).strip('"') if quoted is None else quoted

    def _read_quoted(self) -> str | None:
        if not self.text.startswith(self._quote, self.position):
            return None
        start = self.position + len(self._quote)
        end = self.text.find(self._quote, start)
        if end < 0:
            self._fail("a text that is not closed")
        self.position = end + len(self._quote)
        return self.text[start:end]

    def _read_match(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.position)
        if not match:
            self._fail("expected a value")
        self.position = match.end()
        return match[0].strip()


def _typed_texts(value: JSON, schema: Schema | None) -> JSON:
    """Convert all texts in a value to the types of the definition."""
    if isinstance(value, dict):
        return {key: _typed_texts(item, schema and schema.property(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_typed_texts(item, schema and schema.item(place)) for place, item in enumerate(value)]
    return _convert(value, schema) if isinstance(value, str) else value


def _convert(text: str, schema: Schema | None, *, guess: bool = True) -> JSON:
    """Convert a text to the type in its definition. Without a type, guess it or keep the text (`null`: None)."""
    kinds = schema.types() if schema else frozenset[str]()
    if not guess and not (schema and (kinds or schema.node.keys() & {"properties", "items", "const"})):
        return None if text == "null" else text
    if "boolean" in kinds and text.strip().casefold() in ("true", "false"):
        return text.strip().casefold() == "true"
    if "null" in kinds and text.strip() in _NOTHING:
        return None
    if kinds and kinds <= {"string", "null", "str", "text", "char", "varchar", "enum"}:
        return text
    whole = _WHOLE.fullmatch(text) if kinds & {"integer", "number"} else None
    value = int(whole[1]) if whole and ("number" in kinds or not whole[2]) else _guess_value(text)
    kind = type_of(value)
    return text if "string" in kinds and kind not in kinds and (kind != "integer" or "number" not in kinds) else value


def _guess_value(text: str) -> JSON:
    """Return the value of JSON or of a Python literal, else the text itself."""
    try:
        return decode(text)
    except UnreadableError:
        return _unescape(text) if '\\"' in text else _literal(text)


def _unescape(text: str) -> JSON:
    """Return the value of escaped JSON, else the text itself."""
    try:
        return decode(str(decode(f'"{text}"')))
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
