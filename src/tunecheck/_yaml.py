"""Read YAML as plain data by the core schema of YAML 1.2, with errors that name line and column.

The result contains only mappings with text keys, lists, texts, numbers, true, false and null. Tags, merge keys,
duplicate keys, expanding aliases and oversized files are refused; dates and `yes`/`no` stay text.

    on: yes             {"on": "yes"}
    day: 2026-03-05     {"day": "2026-03-05"}
    port: 0x1F          {"port": 31}
    ratio: 1e-3         {"ratio": 0.001}
    nothing: ~          {"nothing": null}
    quoted: "12"        {"quoted": "12"}

PyYAML parses the text and composes nodes, and `_Values` converts them. PyYAML's own constructors follow YAML 1.1, in
which `yes` is true and `12:30` a number.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import yaml

from tunecheck._describe import Document, KeyPath
from tunecheck._disk import open_for_reading
from tunecheck._errors import ConfigurationError, raise_as
from tunecheck._json import JSON

MAX_BYTES = 1 << 20
"""Size limit of a file in bytes; definitions and sidecars are a thousand times smaller."""

MAX_DEPTH = 50
"""Maximum nesting depth of a document."""

_TOO_DEEP = f"the YAML is nested deeper than {MAX_DEPTH} levels: use fewer levels"

MAX_NODES = 100_000
"""Maximum number of values in one document; aliased values count each time, which stops alias bombs."""

# The tag of `!!str 12`, which is allowed, because its value is plain data.
_STR_TAG = "tag:yaml.org,2002:str"
_NO_TAG = "!"
"""The tag of nodes without an explicit tag: their style and text decide the type. An explicit `!` means the same."""

# The forms of the core schema: 12, -3; 0o17, 0x1F; 1.5, .5, 1e-3; .inf, -.INF, .NaN; true, Null, ~ or nothing.
_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_PREFIXED = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_NOT_FINITE = re.compile(r"([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z")
_WORDS: Mapping[str, bool | None] = MappingProxyType(
    {word: value for name, value in (("null", None), ("true", True), ("false", False))
     for word in (name, name.capitalize(), name.upper())} | {"": None, "~": None}
)  # fmt: skip


def load_yaml(path: Path | str) -> JSON:
    """Return the value of a YAML file.

    Raises:
        ConfigurationError: the file cannot be read or is not plain YAML; the text names file, line and column.
    """
    return read_yaml(path).value


def parse_yaml(text: str | bytes, name: str, *, most_bytes: int = MAX_BYTES, most_nodes: int = MAX_NODES) -> JSON:
    """Return the value of a YAML text as plain data; `name` names the file in errors.

    Raises:
        ConfigurationError: the text is not plain YAML, or larger than `most_bytes` or `most_nodes` (values) allow.
    """
    return parse_document(text, name, most_bytes=most_bytes, most_nodes=most_nodes).value


def read_yaml(path: Path | str) -> Document:
    """Return the document of a YAML file, with the line of each value.

    Raises:
        ConfigurationError: the file cannot be read or is not plain YAML; the text names file, line and column.
    """
    with raise_as(ConfigurationError, path), open_for_reading(Path(path)) as file:
        raw = file.read(MAX_BYTES + 1)
    return parse_document(raw, str(path))


def parse_document(
    text: str | bytes, name: str, *, most_bytes: int = MAX_BYTES, most_nodes: int = MAX_NODES
) -> Document:
    """Return the document of a YAML text, with the line of each value; `name` names the file in errors.

    Raises:
        ConfigurationError: the text is not plain YAML, or larger than `most_bytes` or `most_nodes` (values) allow.
    """
    if len(text) > most_bytes:
        raise ConfigurationError(f"{name}: the YAML is larger than {most_bytes >> 10} KiB: shorten the YAML")

    plain = _decode(text, name)
    values = _Values(most_nodes)
    try:
        node = _Loader(plain).get_single_node()
        return Document(name, None if node is None else values.value(node, ()), values.lines)
    except _NodeError as error:
        raise ConfigurationError(f"{name}{error}") from None
    except RecursionError:  # PyYAML calls itself for each level
        raise ConfigurationError(f"{name}: {_TOO_DEEP}") from None
    except yaml.MarkedYAMLError as error:
        place = _place(name, error.problem_mark or error.context_mark)
        problem = error.problem or error.context or "not YAML"
        hint = next((hint for part, hint in _HINTS.items() if part in problem), "is this a YAML file?")
        raise ConfigurationError(f"{place}: not YAML: {problem} ({hint})") from None
    except (ValueError, OverflowError) as error:  # a numeric escape or directive out of range
        raise ConfigurationError(f"{name}: not YAML: {error} (correct the escape or directive)") from None
    except yaml.reader.ReaderError as error:
        line, column = plain.count("\n", 0, error.position), error.position - plain.rfind("\n", 0, error.position)
        place = f"{name}, line {line + 1}, column {column}"
        raise ConfigurationError(f"{place}: YAML forbids character U+{int(error.character):04X}: remove it") from None


def _decode(text: str | bytes, name: str) -> str:
    """Return the text, decoded from UTF-8 without its byte order mark.

    Raises:
        ConfigurationError: the bytes are not UTF-8; the error names the line.
    """
    if isinstance(text, str):
        return text.removeprefix("\ufeff")

    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(f"{name}, line {line} is not UTF-8 (byte {error.start}): write UTF-8 text") from None


_HINTS = {
    "'\\t'": "indent with spaces, not tabs",
    "mapping values": "put a text that contains ': ' in quotes",
    "could not find expected ':'": "write each line of a mapping as key: value",
    "expected <block end>": "indent all lines of a list or mapping alike",
    "end of stream": "close each quote and bracket",
    "cannot start any token": "put a text that begins with this character in quotes",
    "another document": "write one document per file",
    "undefined alias": "write the anchor (&name) before its aliases",
}
"""Advice by a part of the parser's error message."""


def _place(name: str, mark: yaml.Mark | None) -> str:
    return f"{name}, line {mark.line + 1}, column {mark.column + 1}" if mark else name


class _NodeError(Exception):
    """A node that is not plain data."""

    def __init__(self, node: yaml.Node, problem: str) -> None:
        super().__init__(f"{_place('', node.start_mark)}: {problem}")


class _Loader(yaml.SafeLoader):
    """Composes nodes and keeps only explicit tags."""

    def resolve(self, kind: object, value: object, implicit: object) -> str:
        """Return the mark for "no explicit tag", so that `_Values` decides each node's type."""
        return _NO_TAG


class _Values:
    """Converts nodes to plain data without PyYAML's constructors."""

    def __init__(self, most_nodes: int) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._most_nodes = most_nodes
        self._nodes = 0

    def value(self, node: yaml.Node, path: KeyPath) -> JSON:
        """Return a node as plain data, and store its line in `self.lines` under its `path` in the document.

        Raises:
            _NodeError: the node has a tag or is a number that JSON cannot hold, or the document is too deep or large.
        """
        self.lines[path] = node.start_mark.line + 1

        # An alias is the same node as its anchor and is counted again each time, which stops alias bombs.
        self._nodes += 1
        if self._nodes > self._most_nodes:
            limit = f"{self._most_nodes:,} values (each use of an alias counts)"
            raise _NodeError(node, f"the YAML has more than {limit}: shorten the YAML, or use fewer aliases")

        if len(path) > MAX_DEPTH:
            raise _NodeError(node, _TOO_DEEP)

        # Any explicit tag but !!str of a text could make an object of another type.
        if node.tag != _NO_TAG and not (node.tag == _STR_TAG and isinstance(node, yaml.ScalarNode)):
            raise _NodeError(node, f"the YAML tag {node.tag} is not supported: remove the tag")

        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        assert isinstance(node, yaml.ScalarNode)
        if node.tag == _STR_TAG or node.style is not None:  # a text that is tagged, quoted, or a block
            # PyYAML reads "\ud83d\ude00", JSON's escape of one character, as two halves.
            return str(node.value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass"))

        try:
            return _read_scalar(node.value)
        except ValueError as error:
            raise _NodeError(node, str(error)) from None

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, JSON]:
        """Return a mapping node as a dict with text keys.

        Raises:
            _NodeError: a key is no text, a merge key, or given twice.
        """
        result: dict[str, JSON] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _NodeError(key, "a key must be a text, not a list or mapping")

            # A quoted "<<" is an ordinary key.
            if key.value == "<<" and key.style is None:
                raise _NodeError(key, "YAML merge keys (<<) are not supported: write the merged keys out")

            if key.value in result:
                first = self.lines[(*path, key.value)]
                raise _NodeError(key, f"the key {key.value!r} is given twice (first in line {first}): keep one")

            result[key.value] = self.value(value, (*path, key.value))
        return result


def _read_scalar(text: str) -> JSON:
    """Return an unquoted scalar as null, true, false, number or text, by the core schema of YAML 1.2.2 (10.3.2).

    Raises:
        ValueError: it is a number that JSON cannot hold.
    """
    if text in _WORDS:
        return _WORDS[text]

    if _INTEGER.match(text) or _PREFIXED.match(text):
        try:
            return int(text, 0 if _PREFIXED.match(text) else 10)
        except ValueError:
            raise ValueError(f"a whole number of {len(text)} digits is too long: quote it as a text") from None

    if _FLOAT.match(text):
        number = float(text)
        if not math.isfinite(number):
            raise ValueError(f"the number {text[:20]} is too large: write a smaller number, or quote it as a text")
        return number

    if _NOT_FINITE.match(text):
        raise ValueError(f"{text} is not a finite number: write a finite number, or quote it as a text")
    return text
