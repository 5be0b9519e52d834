"""Shapes of calls with arguments between tags or in braces: `tagged`, `tree` and `braced` in families.toml.

    TaggedCalls    <function=f><parameter=city>Paris</parameter></function>
    TreeCalls      <invoke><tool_name>f</tool_name><parameters><city>Paris</city></parameters></invoke>
    BracedCalls    call:f{city:<|"|>Paris<|"|>,days:3}

A profile asks its shape whether a call begins at a position (`begins`), and to read it (`read`). The call is added to a
collector.

Values are texts; the types in the tool's definition say how to read them. The first rule that fits decides:

1. `true` or `false` in any case, if a boolean is allowed
2. `null` or `None`, if null is allowed
3. the text unchanged, if only texts are allowed
4. a whole number: `007` if an integer or a number is allowed, `5.0` only if a number is
5. JSON or a Python literal; but the text unchanged if a text is allowed and the value's type is not

Without a type, the value is the text, and `null` is null. Families with `guessed` apply rule 5 instead. A type in the
argument's own tag comes before all rules: a text stays unchanged, any other type is read as JSON.
"""

import functools
import re
from contextlib import suppress
from html import unescape
from typing import ClassVar

import msgspec

from tunecheck._json import JSON
from tunecheck.calls._model import MAX_DEPTH, CutOffError, UnreadableError, decode, decode_at, place, quoted, skip_space
from tunecheck.calls._python_text import PythonScanner
from tunecheck.calls._schemas import Schema, type_of
from tunecheck.formats._collector import CallCollector, no_call
from tunecheck.formats._profiles import past
from tunecheck.formats._shapes import HeadedCalls

_SPACE = re.compile(r"\s*+")

# -- tagged calls

# special tokens that a model writes into the name: `<|tool_sep|>f`
_SPECIAL_TOKEN = re.compile(r"<\|\w{1,40}\|>")
_WRAPPERS = ("properties", "arguments")  # keys of the schema that some models write around the arguments


class TaggedCalls(HeadedCalls, frozen=True, kw_only=True, tag="tagged", tag_field="kind"):
    r"""Calls like `<function=f><parameter=city>Paris</parameter></function>`, or with JSON instead of parameters.

    Args:
        head: the opening tag of a call, with the group `name`; the group `alone` matches if the tag closes itself.
        last: the closing tag of a call.
        argument: the opening tag of an argument, with the group `key`. An optional group `kind` gives the type of the
            value: `string` or `true` for plain text, anything else for JSON. The pattern must have a bounded length.
        end: the closing tag of an argument. It must precede an argument or the end of the call, unless a space or a
            punctuation mark shows that a text mentions it.
        framed: one line break on each side of a value is not part of the value.
        escaped: unescape values that are valid XML text.
        guessed: a parameter of a known tool without a type is JSON if it can be, else text.
        lone: a key without a value, which is an error; the call is added without it.
    """

    last: re.Pattern[str]
    argument: re.Pattern[str]
    end: re.Pattern[str]
    framed: bool = False
    escaped: bool = False
    guessed: bool = False
    lone: re.Pattern[str] | None = None

    def read(self, text: str, position: int, mark: str, collector: CallCollector) -> int:
        """Add one call to the collector, and return the position after it. `mark` is the text before it, for errors.

        Raises:
            UnreadableError: there is no readable call here, or a key of the added call has no value.
        """
        head = self.match_head(text, position, mark)
        name = collector.plain_name(_SPECIAL_TOKEN.sub("", head["name"]).strip())
        if head.groupdict().get("alone"):  # the tag closes itself: a call without arguments
            collector.add(collector.format, name)
            return head.end()

        arguments: JSON
        arguments_start = skip_space(text, head.end())
        if text.startswith("{", arguments_start):
            arguments, arguments_end = decode_at(text, arguments_start)
        else:
            arguments, arguments_end = self._read_arguments(text, arguments_start, collector.schema(name))

        call_end = self._skip_closing_tags(text, arguments_end)
        if call_end is None:
            raise self.unclosed(f"the call of {quoted(name)}", text, arguments_end)

        collector.add(collector.format, name, arguments)

        lone_key = self.lone.search(text, head.end(), call_end) if self.lone else None
        if lone_key:
            raise UnreadableError(f"an argument of {quoted(name)} has no value at {place(text, lone_key.start())}")
        return call_end

    def _read_arguments(self, text: str, position: int, schema: Schema | None) -> tuple[dict[str, JSON], int]:
        """Read arguments from this position on. Return them by key, and the position after the last one.

        Raises:
            UnreadableError: an argument is given twice or is not closed.
        """
        arguments: dict[str, JSON] = {}
        values = _ValueReader(self, text)
        while opening := self.argument.match(text, position):
            key = opening["key"].strip()
            if key in arguments:
                raise UnreadableError(f"the argument {quoted(key)} is given twice at {place(text, position)}")

            value, value_end = values.read(opening)
            position = skip_space(text, value_end)

            # `<parameter=arguments>{"city": "Paris"}</parameter>` holds the arguments, unless one has this name.
            is_wrapper = key in _WRAPPERS and schema and not schema.property(key)
            wrapped = _guess_value(value) if is_wrapper else None
            if isinstance(wrapped, dict):
                arguments |= wrapped
            else:
                arguments[key] = self._typed_value(value, opening.groupdict().get("kind"), schema, key)
        return arguments, position

    def _typed_value(self, value: str, kind: str | None, schema: Schema | None, key: str) -> JSON:
        """Convert an argument's text to the type in its tag (`kind`), or else to the parameter's type in the schema."""
        if kind in ("string", "true"):
            return value
        if kind:
            try:
                return decode(value)
            except UnreadableError:
                return value  # as in the servers' parsers

        # A parameter without a type is read as JSON if possible (`_convert`), or stays a text.
        convert = _convert if schema and self.guessed else _convert_if_typed
        return convert(value, schema and schema.property(key))

    def _skip_closing_tags(self, text: str, position: int) -> int | None:
        """Return the position after the call's closing tag and its repetitions, or None without a closing tag."""
        closing = self.last.match(text, skip_space(text, position))
        if not closing:
            return None
        while closing and closing.end() > position:  # an empty match would repeat without end
            position = closing.end()
            closing = self.last.match(text, skip_space(text, position))
        return position

    def unclosed(self, part: str, text: str, start: int) -> UnreadableError:
        """Return the error for a part that is not closed, a call or argument: cut off, unless a closing tag follows."""
        kind = UnreadableError if self.last.search(text, start) else CutOffError
        return kind(f"{part} is not closed at {place(text, start)}")


# the beginning of a value such as `<![CDATA[a < b]]>`, which may contain any tag
_CDATA_START = re.compile(r"\s*+<!\[CDATA\[")
# a character that valid XML text has only as an entity, such as `&lt;`
_INVALID_XML = re.compile(r"<|&(?!(?:lt|gt|amp|quot|apos);)")
# a value with one line break on each side; both are of the same kind
_FRAMED = re.compile(r"(?s)(?:(?P<crlf>\r\n)|\n?)(?P<value>.*?)(?(crlf)\r\n|\n?)")
# what follows a closing tag that a text only mentions
_AFTER_MENTION = re.compile(r"[ \t\"'`.,;:)]")


class _ValueReader:
    """Reads the values of one call, scanning each part of the text once.

    A value ends at the first closing tag that an argument or the call's end follows. Text may mention the tag: in
    `<parameter=note>close it with </parameter>, then go</parameter></function>`, the comma shows that the first closing
    tag is only mentioned. If a value's own closing tag is missing, the value ends where the next argument begins.
    """

    __slots__ = ("_after_value", "_mention_end", "_shape", "_text", "_value_end")

    def __init__(self, shape: TaggedCalls, text: str) -> None:
        self._shape, self._text = shape, text
        self._value_end = 0
        """The end of the value: the start of its closing tag, or of a later argument's if its own is missing."""
        self._after_value = 0
        """The position after that closing tag and its repetitions; `_value_end` if the pattern matches empty text."""
        self._mention_end = 0
        """The end of the last closing tag that the value only mentions, or 0 if it mentions none."""

    def read(self, opening: re.Match[str]) -> tuple[str, int]:
        """Return the value after an argument's opening tag, and the position after the value.

        This position is after its closing tag or, if that is missing, at the next argument.

        Raises:
            UnreadableError: no closing tag follows.
        """
        shape, text, start = self._shape, self._text, opening.end()

        cdata = _CDATA_START.match(text, start)
        if cdata:
            end_and_closing_tag = re.compile(rf"\]\]>\s*+(?:{shape.end.pattern})")
            end = end_and_closing_tag.search(text, cdata.end())
            if not end:
                raise shape.unclosed(f"the argument {quoted(opening['key'])}", text, start)
            return text[cdata.end() : end.start()], end.end()

        # A closing tag from an earlier search is used again if it is still ahead.
        if self._value_end < start:
            self._find_closing_tag(start, opening["key"])

        # If another argument begins inside the value, the closing tag that was found belongs to that argument. But an
        # opening tag before a closing tag that the text mentions is mentioned, too.
        next_argument = shape.argument.search(text, start, self._value_end)
        if next_argument and self._mention_end <= next_argument.start():
            return text[start : next_argument.start()].strip(), next_argument.start()

        value = text[start : self._value_end]
        # An empty closing tag: the value ends at the next argument or tag, after white space.
        if self._value_end == self._after_value:
            value = value.rstrip()
        if shape.escaped and not _INVALID_XML.search(value):
            value = unescape(value)

        framed = _FRAMED.fullmatch(value) if shape.framed else None
        return framed["value"] if framed else value, self._after_value

    def _find_closing_tag(self, start: int, key: str) -> None:
        """Find the closing tag of the value at `start`, and the last closing tag that the value only mentions.

        An argument or the call's end follows the value's own tag. Store the positions in `_value_end`, `_after_value`
        and `_mention_end`. `key` is the argument's name for errors.

        Raises:
            UnreadableError: there is no such closing tag.
        """
        shape, self._mention_end = self._shape, 0
        following = _after_closing_tag(shape.end.pattern, shape.last.pattern, shape.argument.pattern)
        for tag in shape.end.finditer(self._text, start):
            after = following.match(self._text, tag.end())
            if after:
                self._value_end, self._after_value = tag.start(), after.end("repeated")
                return

            if not _AFTER_MENTION.match(self._text, tag.end()):
                break
            self._mention_end = tag.end()
        raise shape.unclosed(f"the argument {quoted(key)}", self._text, start)


@functools.cache
def _after_closing_tag(end: str, last: str, argument: str) -> re.Pattern[str]:
    """Return a pattern for the text after a closing tag: repetitions of the tag, then an argument or the call's end.

    The arguments are the patterns of these tags. The group `repeated` matches the repetitions.
    """
    # The other groups lose their names, because two groups of the same name would clash.
    following = re.sub(r"\?P<\w+>", "?:", rf"\s*+(?:{last}|{argument})")
    return re.compile(rf"(?P<repeated>(?:\s*+(?:{end}))*+){following}")


# -- calls as trees of elements


class TreeCalls(HeadedCalls, frozen=True, kw_only=True, tag="tree", tag_field="kind"):
    """Calls with arguments as nested elements: keys are tags, and list items are `<item>` elements.

    `prefix` stands before every tag. `end` matches the text to skip after the last tag.
    """

    prefix: str
    last: str
    end: re.Pattern[str] = _SPACE

    def read(self, text: str, position: int, mark: str, collector: CallCollector) -> int:
        """Add one call to the collector, and return the position after it. `mark` is the text before it, for errors.

        Raises:
            UnreadableError: there is no readable call here.
        """
        head = self.match_head(text, position, mark)
        value, position = self._read_element(text, head.end(), self.last, collector.schema(head["name"]), 0)
        collector.add(collector.format, head["name"], value if isinstance(value, dict) else {})
        return past(self.end, text, position)

    def _read_element(self, text: str, start: int, closing: str, schema: Schema | None, depth: int) -> tuple[JSON, int]:
        """Read the content of an element, from `start` to its closing tag. Return the value and the position after it.

        The content is a text, or inner elements: a list if there are `<item>` elements, else an object. `depth` is the
        number of outer elements.

        Raises:
            CutOffError: the closing tag is missing.
            UnreadableError: text stands beside elements, a tag is not closed, or the elements are nested too deeply.
        """
        if depth > MAX_DEPTH:
            raise UnreadableError(f"the tags are nested deeper than {MAX_DEPTH} levels")

        properties: dict[str, JSON] = {}
        items: list[JSON] = []
        tags = re.compile(rf"{re.escape(self.prefix)}<(?P<key>[^\s<>]+)>")
        if schema and schema.types() == {"string"}:  # a text may contain any tag but its closing tag
            tags = re.compile(re.escape(closing))

        position = start
        while True:
            tag = tags.search(text, position)
            if not tag:
                raise CutOffError(f"{closing} is missing after {place(text, start)}")
            if tag[0] == closing and not properties and not items:
                return self._leaf(text[start : tag.start()], schema, depth), tag.end()
            if text[position : tag.start()].strip():
                raise UnreadableError(f"unexpected text between the arguments of a call at {place(text, position)}")
            if tag[0] == closing:
                # Beside items, other elements do not count.
                return items or properties, tag.end()

            key = tag["key"]
            inner = schema and (schema.item(len(items)) if key == "item" else schema.property(key))
            value, position = self._read_element(text, tag.end(), f"{self.prefix}</{key}>", inner, depth + 1)
            if key == "item":
                items.append(value)
            else:
                properties[key] = value

    def _leaf(self, text: str, schema: Schema | None, depth: int) -> JSON:
        """Convert the text of an element without inner elements to its type. `depth` is the number of outer elements.

        Blank text may stand for an empty object or list.

        Raises:
            UnreadableError: the text contains the prefix of tags, so a tag is not closed.
        """
        if self.prefix and self.prefix in text:
            raise UnreadableError(f"a tag is not closed in {quoted(text)}")

        types = schema.types() if schema else frozenset[str]()
        if not text.strip() and (depth == 0 or types & {"array", "object"}):
            return [] if "array" in types else {}

        # Without a type, an argument stays a text, and a value inside an object or list is read as JSON.
        return _convert(text, schema) if depth > 1 else _convert_if_typed(text, schema)


# -- calls in braces

# `get_time` or `a.b-c`; not `a b`
_BRACED_NAME = re.compile(r"[^\s<>{}\[\]:,\"']+")


class BracedCalls(msgspec.Struct, frozen=True, tag="braced", tag_field="kind"):
    """Calls like `call:f{city:<|"|>Paris<|"|>,days:3}`, with bare keys and special quotes around texts.

    `textual`: values of all types are quoted.
    """

    quote: str
    textual: bool = False

    def begins(self, text: str, position: int, collector: CallCollector) -> bool:
        """Return whether `call:` is here."""
        return text.startswith("call:", position)

    def read(self, text: str, position: int, mark: str, collector: CallCollector) -> int:
        """Add one call to the collector, and return the position after it. `mark` is the text before it, for errors.

        Raises:
            UnreadableError: there is no readable call here.
        """
        brace = text.find("{", position)
        if not self.begins(text, position, collector) or brace < 0:
            raise no_call(mark, text, position)

        name = text[position + len("call:") : brace].strip()
        if not _BRACED_NAME.fullmatch(name):
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
    # a value without quotes, such as `3` or `true`, and a key, such as `city`
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
            self._fail("a text has no opening quote")
        return _guess_value(bare)

    def _key(self) -> JSON:
        """Read a key: a text between special quotes, or a bare word."""
        self._skip()
        quoted = self._read_quoted()
        return self._read_match(self._KEY).strip('"') if quoted is None else quoted

    def _read_quoted(self) -> str | None:
        """Read a text between special quotes, or return None if no quote is here."""
        if not self.text.startswith(self._quote, self.position):
            return None

        start = self.position + len(self._quote)
        end = self.text.find(self._quote, start)
        if end < 0:
            self._fail("a text has no closing quote")
        self.position = end + len(self._quote)
        return self.text[start:end]

    def _read_match(self, pattern: re.Pattern[str]) -> str:
        """Read the text that the pattern matches here, without white space around it."""
        match = pattern.match(self.text, self.position)
        if not match:
            self._fail("expected a value")
        self.position = match.end()
        return match[0].strip()


# -- values, which are texts

_NULLS = ("null", "None")
_TEXT_TYPES = frozenset({"string", "null", "str", "text", "char", "varchar", "enum"})
# Servers write `007` as 7, and `5.0` as 5.
_WHOLE_NUMBER = re.compile(r"\s*+(?P<whole>[+-]?\d{1,300})(?P<fraction>\.0{0,300})?\s*+")
# the beginning of a list, dict, tuple or text, or a constant: `['a']`, `{'a': 1}`, `True`; not `3` or `Trueish`
_PYTHON_LITERAL = re.compile(r"\s*+(?:[\[{(\"']|(?:True|False|None)\s*+\Z)")


def _typed_texts(value: JSON, schema: Schema | None) -> JSON:
    """Return a copy of a value with all texts in it converted to the types in the schema."""
    if isinstance(value, dict):
        return {key: _typed_texts(item, schema and schema.property(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_typed_texts(item, schema and schema.item(index)) for index, item in enumerate(value)]
    return _convert(value, schema) if isinstance(value, str) else value


def _convert_if_typed(text: str, schema: Schema | None) -> JSON:
    """Convert a text to the type in its definition. Without a type, return the text, or None for `null`.

    The keys `properties`, `items` and `const` of a definition also show a type.
    """
    if schema and (schema.types() or schema.node.keys() & {"properties", "items", "const"}):
        return _convert(text, schema)
    return None if text == "null" else text


def _convert(text: str, schema: Schema | None) -> JSON:
    """Convert a text to one of the schema's types; return it unchanged if a text is allowed and nothing else fits.

    A value of a type that the schema does not allow is returned if no text is allowed. Without types, JSON or a Python
    literal in the text is read.
    """
    types = schema.types() if schema else frozenset[str]()
    word = text.strip()

    if "boolean" in types and word.casefold() in ("true", "false"):
        return word.casefold() == "true"
    if "null" in types and word in _NULLS:
        return None
    if types and types <= _TEXT_TYPES:
        return text

    value: JSON = _whole_number(text, types)
    if value is None:
        value = _guess_value(text)

    kind = type_of(value)
    fits = kind in types or (kind == "integer" and "number" in types)
    return text if "string" in types and not fits else value


def _whole_number(text: str, types: frozenset[str]) -> int | None:
    """Return the whole number in a text, or None if it is no whole number or the types do not allow one."""
    match = _WHOLE_NUMBER.fullmatch(text) if types & {"integer", "number"} else None
    if not match or (match["fraction"] and "number" not in types):
        return None
    return int(match["whole"])


def _guess_value(text: str) -> JSON:
    r"""Return the value of JSON, of JSON with escaped quotes (`{\"a\": 1}`), or of a Python literal; else the text.

    Only lists, dicts, texts and constants count as Python literals.
    """
    with suppress(UnreadableError):
        return decode(text)
    with suppress(UnreadableError):
        if '\\"' in text:
            return decode(str(decode(f'"{text}"')))

    scanner = PythonScanner(text)
    with suppress(UnreadableError):
        value = scanner.value() if _PYTHON_LITERAL.match(text) else text
        return value if scanner.at_end() else text
    return text
