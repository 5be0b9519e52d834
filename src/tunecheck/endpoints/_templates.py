"""Request templates (`{"input_data": "${messages}"}`) and paths into a reply (`choices[0].message`)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tunecheck._json import JSON, MISSING, Missing, ValuePath, dumps, find_value, parse_path
from tunecheck._messages import did_you_mean
from tunecheck.endpoints._base import ChatRequest, time_text
from tunecheck.endpoints._config import Place
from tunecheck.endpoints._masking import ENV_REFERENCE, Redactor, resolved

_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)\}")
_NAMES = ("messages", "parameters", "time", "tools")


@dataclass(frozen=True, slots=True)
class _Reference:
    """One `${…}` of a template: `name` is one of `_NAMES`, or data, where `path` leads into a row's columns."""

    name: str
    path: ValuePath = ()


_Node: TypeAlias = "_Reference | tuple[str | _Reference, ...] | list[_Node] | dict[str, _Node] | JSON"


class RequestTemplate:
    """A request body with references, checked when it is made.

    `${messages}`, `${tools}`, `${parameters}` and `${data.column}` stand for values where they are a whole text, and
    for text (JSON where it is not text) within a longer one; `${time}` is when a conversation with a clock of its own
    sends the request (ISO 8601, UTC), and nothing otherwise. A key whose whole value is `${tools}` or `${time}` is left
    out where there is none. `$${` is a literal `${`. Values of `${env:NAME}` are given to the redactor.
    """

    def __init__(self, body: JSON, place: Place, redactor: Redactor) -> None:
        self._redactor = redactor
        self.references: set[str] = set()
        self._root = self._compile(body, place)

    def render(self, request: ChatRequest, parameters: Mapping[str, JSON]) -> JSON:
        """The body for one request.

        Raises:
            ValueError: the row lacks a column that the template names.
        """
        values: dict[str, object] = {
            "messages": request.messages,
            "tools": request.tools,
            "parameters": parameters,
            "time": "" if request.sent_at is None else time_text(request.sent_at),
        }
        return _rendered(self._root, values, request)  # type: ignore[return-value]

    def _compile(self, value: JSON, place: Place) -> _Node:
        if isinstance(value, str):
            return self._compile_text(value, place)
        if isinstance(value, list):
            return [self._compile(item, place.at(index)) for index, item in enumerate(value)]
        if isinstance(value, dict):
            return {key: self._compile(item, place.at(key)) for key, item in value.items()}
        return value

    def _compile_text(self, text: str, place: Place) -> _Node:
        if "${" not in text:
            return resolved(text, place, self._redactor)
        parts: list[str | _Reference] = []
        position = 0
        for match in _REFERENCE.finditer(text):
            parts.append(text[position : match.start()])
            parts.append("${" if match[1] is None else self._reference(match, place))
            position = match.end()
        parts.append(text[position:])
        kept = [part for part in parts if part != ""]
        if all(isinstance(part, str) for part in kept):
            return "".join(map(str, kept))
        return kept[0] if len(kept) == 1 else tuple(kept)

    def _reference(self, match: re.Match[str], place: Place) -> _Reference | str:
        inner = match[1]
        if ENV_REFERENCE.fullmatch(match[0]):
            return str(resolved(match[0], place, self._redactor))
        if inner in _NAMES:
            reference = _Reference(inner)
        else:
            try:
                first, *columns = parse_path(inner)
            except ValueError:
                first, columns = "", []
            if first != "data" or not columns:
                known = [*_NAMES, "data.<column>", "env:<NAME>"]
                raise place.error(f"unknown reference {match[0]}{did_you_mean(inner, known)}")
            reference = _Reference("data", tuple(columns))
        self.references.add(reference.name)
        return reference


def _rendered(node: _Node, values: Mapping[str, object], request: ChatRequest) -> object:
    if isinstance(node, _Reference):
        return _referenced(node, values, request)
    if isinstance(node, dict):
        return {key: _rendered(item, values, request) for key, item in node.items() if not _left_out(item, request)}
    if isinstance(node, list):
        return [_rendered(item, values, request) for item in node]
    if isinstance(node, tuple):
        filled = [part if isinstance(part, str) else _referenced(part, values, request) for part in node]
        return "".join(part if isinstance(part, str) else dumps(part).decode() for part in filled)
    return node


def _left_out(node: _Node, request: ChatRequest) -> bool:
    if not isinstance(node, _Reference):
        return False
    return (node.name == "tools" and not request.tools) or (node.name == "time" and request.sent_at is None)


def _referenced(reference: _Reference, values: Mapping[str, object], request: ChatRequest) -> object:
    if reference.name != "data":
        return values[reference.name]
    value = find_value(request.row.values, reference.path) if request.row else MISSING
    if isinstance(value, Missing):
        column = ".".join(map(str, reference.path))
        raise ValueError(f"the endpoint's request names ${{data.{column}}}, which this row does not have")
    return value
