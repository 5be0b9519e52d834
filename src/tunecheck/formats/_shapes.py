"""Shapes of calls that hold JSON or Python: an object with a name, a name before an object, `f(a=1)`."""

import re
from dataclasses import dataclass

from tunecheck._json import JSON
from tunecheck.calls._python_text import NAME, PythonScanner
from tunecheck.calls._strict_json import UnreadableError, decode_at, kind_of, place, quoted, skip_space
from tunecheck.formats._call_text import CALL, CallScanner
from tunecheck.formats._collector import CallCollector
from tunecheck.formats._profiles import Shape
from tunecheck.formats._spellings import take_named

_AFTER_VALUE = rf"(?=\s*+(?:[)\]}}:]|,\s*+(?:{NAME}\s*+=|[\"'\[{{(\d-]|True|False|None)))"
_VALUE_END = {quote: re.compile(quote + _AFTER_VALUE) for quote in "'\""}
_CALL = re.compile(rf"\[?\s*+{CALL}")
_APOSTROPHE_FIRST = re.compile(r"[\s\[{]*+'")


@dataclass(frozen=True, slots=True)
class JsonCalls:
    """`{"name": "f", "arguments": {…}}`, or a list of such objects; `keyed`: `{"f": {…}}`."""

    keyed: bool = False

    def begins(self, text: str, position: int, collector: CallCollector) -> bool:
        """An object or a list."""
        return text.startswith(("{", "["), position)

    def read(self, text: str, position: int, mark: str, collector: CallCollector) -> int:
        """One object or one list; of calls in Python's syntax, where they stand in its place."""
        python = PythonCalls()
        if not self.keyed and python.begins(text, position, collector):
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
    """The object or list after a mark, as JSON or, in apostrophes, as Python writes it.

    Raises:
        UnreadableError: there is none.
    """
    position = skip_space(text, position)
    if text[position : position + 1] not in ("{", "["):
        raise UnreadableError(f"{mark} is not followed by an object at {place(text, position)}")
    try:
        return decode_at(text, position)
    except UnreadableError as error:
        return literal_at(text, position, error)


def literal_at(text: str, position: int, error: UnreadableError) -> tuple[JSON, int]:
    """A dict or list as Python writes it; for what is neither this nor JSON, the problem of what it looks like.

    Raises:
        UnreadableError: it is neither.
    """
    scanner = PythonScanner(text, position)
    try:
        return scanner.value(), scanner.position
    except UnreadableError as python_error:
        raise (python_error if _APOSTROPHE_FIRST.match(text, position) else error) from None


@dataclass(frozen=True, slots=True)
class NamedCalls:
    """A name with its arguments as a JSON object after it: `f[ARGS]{…}`.

    Args:
        head: what stands before the arguments, with the group `name` and, where there is one, `id`; where a group
            `empty` matches, a call may stand without arguments.
        first: how the head begins, for what follows a call.
        last: what is passed over after the arguments.
    """

    head: re.Pattern[str]
    first: str = ""
    last: re.Pattern[str] | None = None

    def begins(self, text: str, position: int, collector: CallCollector) -> bool:
        """By its first mark, where it has one."""
        return bool(self.first and text.startswith(self.first, position)) or self.head.match(text, position) is not None

    def read(self, text: str, position: int, mark: str, collector: CallCollector) -> int:
        """One call."""
        head = self.head.match(text, position)
        if not head:
            raise UnreadableError(f"{mark} is not followed by a call at {place(text, position)}")
        arguments: JSON = None
        name, position = head["name"], head.end()
        if text.startswith("{", position):
            arguments, position = decode_at(text, position)
        elif head.groupdict().get("empty") is None:
            raise UnreadableError(f"{mark}{quoted(name)} has no arguments at {place(text, position)}")
        collector.add(collector.format, name, arguments, head.groupdict().get("id"))
        last = self.last.match(text, position) if self.last else None
        return last.end() if last else position


@dataclass(frozen=True, slots=True)
class PythonCalls:
    """`[f(a=1), g()]`, or calls one a line; `known`: only of tools."""

    known: bool = False

    def begins(self, text: str, position: int, collector: CallCollector) -> bool:
        """A name and a bracket."""
        call = _CALL.match(text, position)
        return call is not None and (not self.known or collector.knows(call["called"]))

    def read(self, text: str, position: int, mark: str, collector: CallCollector) -> int:
        """One list or one call."""
        scanner = CallScanner(text, position, collector)
        try:
            calls = scanner.calls_here()
        except UnreadableError as error:
            scanner = _LooseScanner(text, position, collector)
            try:
                calls = scanner.calls_here()
            except UnreadableError:
                raise error from None
        for call in calls:
            collector.add(collector.format, call.name, call.arguments)
        return scanner.position


class _LooseScanner(CallScanner):
    """For templates that put quotes around a text and escape nothing: a quote counts where a value can end."""

    __slots__ = ()

    def _text(self, prefix: str, quote: str, start: int) -> str:
        end = _VALUE_END[quote[0]].search(self.text, start)
        if not end:
            self._fail("a text that is not closed")
        self.position = end.start() + 1
        return self.text[start : end.start()]


@dataclass(frozen=True, slots=True)
class PythonTagCalls:
    """What Llama writes for its built-in tools: objects, or calls in Python's syntax and nothing after them."""

    def begins(self, text: str, position: int, collector: CallCollector) -> bool:
        """An object; a further call in Python's syntax would be code."""
        return text.startswith("{", position)

    def read(self, text: str, position: int, mark: str, collector: CallCollector) -> int:
        """Objects up to where no other follows, or all calls."""
        if not _CALL.match(text, position):
            if not text.startswith(("{", "["), position):
                raise UnreadableError(f"{mark} is followed by code, not by a call, at {place(text, position)}")
            return JsonCalls().read(text, position, mark, collector)
        scanner = CallScanner(text, position, collector)
        calls = scanner.calls_here()
        if not scanner.at_end() and not scanner.sees("<|"):
            raise UnreadableError(f"{mark} is followed by code, not by a call, at {place(text, scanner.position)}")
        for call in calls:
            name = call.name if collector.knows(call.name) else call.name.removesuffix(".call")  # of a built-in tool
            collector.add(collector.format, name, call.arguments)
        return scanner.position


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Whichever of several shapes begins; the first where none does."""

    shapes: tuple[Shape, ...]

    def begins(self, text: str, position: int, collector: CallCollector) -> bool:
        """One of them does."""
        return any(shape.begins(text, position, collector) for shape in self.shapes)

    def read(self, text: str, position: int, mark: str, collector: CallCollector) -> int:
        """As the shape that begins."""
        shape = next((shape for shape in self.shapes if shape.begins(text, position, collector)), self.shapes[0])
        return shape.read(text, position, mark, collector)


# -- Glaive's

_MAX_KEYS = 20  # of a call, which has two


@dataclass(frozen=True, slots=True)
class GlaiveCalls:
    """`{"name": "f", "arguments": '{"a": "it's"}'}`: arguments are JSON text in apostrophes, and hold others."""

    def begins(self, text: str, position: int, collector: CallCollector) -> bool:
        """An object."""
        return text.startswith("{", position)

    def read(self, text: str, position: int, mark: str, collector: CallCollector) -> int:
        """One call."""
        position = skip_space(text, position)
        if not text.startswith("{", position):
            raise UnreadableError(f"{mark} is not followed by an object at {place(text, position)}")
        value, position = _glaive_object(text, position)
        take_named(value, collector)
        return position


def _glaive_object(text: str, position: int) -> tuple[JSON, int]:
    """A JSON object in which a value may be JSON text between apostrophes, whose own apostrophes are as they are."""
    made: dict[str, JSON] = {}
    position = skip_space(text, position + 1)
    while text[position : position + 1] != "}":
        key, position = decode_at(text, position)
        position = _expect(text, position, ":")
        if not isinstance(key, str) or key in made or len(made) >= _MAX_KEYS:
            raise UnreadableError(f"no object with name and arguments, at {place(text, position)}")
        value_at = _apostrophes_at if text[position : position + 1] == "'" else decode_at
        made[key], position = value_at(text, position)
        position = skip_space(text, position)
        if text[position : position + 1] != "}":
            position = _expect(text, position, ",")
    return made, position + 1


def _apostrophes_at(text: str, position: int) -> tuple[JSON, int]:
    """`'{…}'`: the JSON value says itself where it ends; `''` is nothing."""
    inside = skip_space(text, position + 1)
    if text[inside : inside + 1] == "'":
        return None, inside + 1
    try:
        value, end = decode_at(text, inside)
        return value, _expect(text, end, "'")
    except UnreadableError as error:
        return _escaped_apostrophes_at(text, position, error)


def _escaped_apostrophes_at(text: str, position: int, error: UnreadableError) -> tuple[JSON, int]:
    r"""The same where apostrophes inside are written `\'`, which JSON does not have: read as Python's text of JSON."""
    if "\\'" not in text:
        raise error
    scanner = PythonScanner(text, position)
    try:
        inner = scanner.value()
        if not isinstance(inner, str):
            raise error
        value, end = decode_at(inner, skip_space(inner, 0))
    except UnreadableError:
        raise error from None
    if inner[end:].strip():
        raise error
    return value, scanner.position


def _expect(text: str, position: int, token: str) -> int:
    position = skip_space(text, position)
    if text[position : position + 1] != token:
        raise UnreadableError(f"expected {token!r} at {place(text, position)}")
    return skip_space(text, position + 1)
