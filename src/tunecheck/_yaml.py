"""YAML in: plain data only, typed by YAML 1.2's core schema, with errors that say where.

Nothing but mappings with text keys, lists, text, numbers, true, false and null comes out: no tags, no dates (they stay
text), no `yes`/`no` booleans, no merge keys. Duplicate keys, expanding aliases and oversized files are refused.
"""

import copy
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn, Protocol, TypeAlias

import yaml

from tunecheck._errors import ConfigurationError, told_as
from tunecheck._json import JSON

MAX_BYTES = 1 << 20
"""Largest file that is read; definitions and sidecars are a thousand times smaller."""

MAX_DEPTH = 50
MAX_NODES = 100_000
"""Most values in one document, repeated ones counted each time: what an alias bomb runs into."""

KeyPath: TypeAlias = tuple[str | int, ...]


_STR_TAG = "tag:yaml.org,2002:str"
_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_PREFIXED = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_NOT_FINITE = re.compile(r"([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z")
_WORDS: Mapping[str, bool | None] = MappingProxyType(
    {word: value for name, value in (("null", None), ("true", True), ("false", False))
     for word in (name, name.capitalize(), name.upper())} | {"": None, "~": None}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document: its value, and where in the text each part of it stands."""

    name: str
    value: JSON
    lines: Mapping[KeyPath, int]

    def where(self, *path: str | int) -> str:
        """`file.yaml, line 4` for the value at this path, or for the closest one around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.name}, line {self.lines[path]}" if path in self.lines else self.name


def load(path: Path | str) -> JSON:
    """The value of one YAML file.

    Raises:
        ConfigurationError: the file cannot be read, or is not plain YAML; names file, line and column.
    """
    return read(path).value


def loads(text: str | bytes, name: str, *, most_bytes: int = MAX_BYTES, most_nodes: int = MAX_NODES) -> JSON:
    """The value of a YAML text; `name` stands in errors for the file. The limits are for what is no definition.

    Raises:
        ConfigurationError: the text is not plain YAML; names line and column.
    """
    return document(text, name, most_bytes=most_bytes, most_nodes=most_nodes).value


def read(path: Path | str) -> Document:
    """The document of one YAML file, with the line of each value.

    Raises:
        ConfigurationError: as `load`.
    """
    with told_as(ConfigurationError, path), Path(path).open("rb") as file:
        raw = file.read(MAX_BYTES + 1)
    return document(raw, str(path))


def document(text: str | bytes, name: str, *, most_bytes: int = MAX_BYTES, most_nodes: int = MAX_NODES) -> Document:
    """The document of a YAML text, with the line of each value.

    Raises:
        ConfigurationError: as `loads`.
    """
    if len(text) > most_bytes:
        raise ConfigurationError(f"{name}: larger than {most_bytes >> 10} KiB, as no file of its kind should be")
    plain = _decoded(text, name)
    try:
        return _Reader(plain, name, most_nodes).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "not YAML"
        hint = next((hint for part, hint in _HINTS.items() if part in problem), "is this a YAML file?")
        raise ConfigurationError(f"{_place(name, mark)}: not YAML: {problem} ({hint})") from None
    except (ValueError, OverflowError) as error:  # a numeric escape or directive out of range
        raise ConfigurationError(f"{name}: not YAML: {error}") from None
    except yaml.reader.ReaderError as error:
        line = plain.count("\n", 0, error.position) + 1
        column = error.position - plain.rfind("\n", 0, error.position)
        raise ConfigurationError(
            f"{name}, line {line}, column {column}: the character U+{int(error.character):04X} is not allowed"
        ) from None


def _decoded(text: str | bytes, name: str) -> str:
    if isinstance(text, str):
        return text.removeprefix("\ufeff")
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(f"{name}, line {line}: not UTF-8 (byte {error.start})") from None


_HINTS = {
    "'\\t'": "indent with spaces, not tabs",
    "mapping values": "a text that holds ': ' needs quotes",
    "could not find expected ':'": "a line of a mapping is key: value",
    "expected <block end>": "lines of one list or mapping are indented alike",
    "end of stream": "a quote or bracket is not closed",
    "cannot start any token": "a text that begins with it needs quotes",
}
"""What to do, by a part of the parser's words."""


class _Mark(Protocol):
    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...


def _place(name: str, mark: _Mark | None) -> str:
    return f"{name}, line {mark.line + 1}, column {mark.column + 1}" if mark else name


class _Reader:
    """Builds plain data from the parser's events: nothing of PyYAML's constructors takes part."""

    def __init__(self, text: str, name: str, most_nodes: int) -> None:
        self._name, self._most_nodes = name, most_nodes
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=yaml.SafeLoader)
        self._anchors: dict[str, tuple[JSON, int]] = {}
        self._nodes = 0
        self._lines: dict[KeyPath, int] = {}

    def document(self) -> Document:
        next(self._events)
        event = next(self._events)
        value: JSON = None
        if isinstance(event, yaml.DocumentStartEvent):
            value = self._value(next(self._events), ())
            next(self._events)
            event = next(self._events)
        if not isinstance(event, yaml.StreamEndEvent):
            self._refuse(event, "a second document; one file holds one")
        return Document(self._name, value, self._lines)

    def _value(self, event: yaml.Event, path: KeyPath) -> JSON:
        if event.start_mark:
            self._lines[path] = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        before = self._nodes
        self._count(event, 1)
        if len(path) > MAX_DEPTH:
            self._refuse(event, f"nested deeper than {MAX_DEPTH} levels")
        value = self._new_value(event, path)
        anchor: str | None = getattr(event, "anchor", None)
        if anchor is not None:
            self._anchors[anchor] = (value, self._nodes - before)
        return value

    def _new_value(self, event: yaml.Event, path: KeyPath) -> JSON:
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        tag: str | None = getattr(event, "tag", None)
        if tag not in (None, "!"):
            self._refuse(event, f"the tag {tag} is not supported: definitions are plain data")
        if isinstance(event, yaml.SequenceStartEvent):
            return [self._value(item, (*path, index)) for index, item in enumerate(self._until(yaml.SequenceEndEvent))]
        return self._mapping(path)

    def _mapping(self, path: KeyPath) -> dict[str, JSON]:
        result: dict[str, JSON] = {}
        for event in self._until(yaml.MappingEndEvent):
            key = self._key(event)
            if key in result:
                self._refuse(event, f"the key {key!r} is given twice (first in line {self._lines[(*path, key)]})")
            result[key] = self._value(next(self._events), (*path, key))
        return result

    def _until(self, end: type[yaml.Event]) -> Iterator[yaml.Event]:
        while not isinstance(event := next(self._events), end):
            yield event

    def _key(self, event: yaml.Event) -> str:
        if not isinstance(event, yaml.ScalarEvent):
            self._refuse(event, "a key must be text")
        if event.value == "<<" and event.style is None:
            self._refuse(event, "merge keys (<<) are not supported: write the keys out")
        return str(event.value)

    def _scalar(self, event: yaml.ScalarEvent) -> JSON:
        tag: str | None = event.tag
        if tag not in (None, "!", _STR_TAG):
            self._refuse(event, f"the tag {tag} is not supported: definitions are plain data")
        text = str(event.value)
        if tag is not None or event.style is not None:
            return text
        try:
            return _typed(text)
        except ValueError as error:
            self._refuse(event, str(error))

    def _alias(self, event: yaml.AliasEvent) -> JSON:
        if event.anchor not in self._anchors:
            self._refuse(event, f"the alias *{event.anchor} has no complete anchor before it")
        value, nodes = self._anchors[event.anchor]
        self._count(event, nodes)
        return copy.deepcopy(value)

    def _count(self, event: yaml.Event, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > self._most_nodes:
            self._refuse(event, f"more than {self._most_nodes} values, aliases written out")

    def _refuse(self, event: yaml.Event, problem: str) -> NoReturn:
        raise ConfigurationError(f"{_place(self._name, event.start_mark)}: {problem}")


def _typed(text: str) -> JSON:
    """A plain scalar by the core schema of YAML 1.2.2, section 10.3.2."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.match(text):
        return _integer(text, 10)
    if _PREFIXED.match(text):
        return _integer(text, 0)
    if _FLOAT.match(text):
        number = float(text)
        if not math.isfinite(number):
            raise ValueError(f"the number {text[:20]} is too large")
        return number
    if _NOT_FINITE.match(text):
        raise ValueError(f"{text} is not a number that JSON can hold; quote it if text is meant")
    return text


def _integer(text: str, base: int) -> int:
    try:
        return int(text, base)
    except ValueError:
        raise ValueError(f"a whole number of {len(text)} digits is too long") from None
