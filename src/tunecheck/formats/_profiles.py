"""The profile of a model family: the marks of its calls and reasoning, and the shape of its calls."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from tunecheck._json import JSON, dumps, text_or_json
from tunecheck.calls._model import FunctionCall
from tunecheck.calls._schemas import type_of
from tunecheck.calls._strict_json import CutOffError, UnreadableError, find_close, place
from tunecheck.formats._collector import CallCollector

# -- tools described in prompts

_PLACE = re.compile(r"\{(name|arguments|parameters|index|key|value|python|is_text|type|calls|tools|result)\}")

_EXAMPLE = FunctionCall("function_name", {"parameter_name": "value"})


class Braced(msgspec.Struct, frozen=True, tag="braced", tag_field="kind"):
    """Gemma's format of values: bare keys, and texts between special quotes."""

    quote: str

    def written(self, value: JSON) -> str:
        """Write a value and its nested values."""
        if isinstance(value, str):
            return f"{self.quote}{value}{self.quote}"
        if isinstance(value, dict):
            return f"{{{','.join(f'{key}:{self.written(item)}' for key, item in value.items())}}}"
        return f"[{','.join(map(self.written, value))}]" if isinstance(value, list) else text_or_json(value)


class Elements(msgspec.Struct, frozen=True, tag="elements", tag_field="kind"):
    """Values as nested elements, with lists as `<item>` elements and a `prefix` before every tag."""

    prefix: str

    def written(self, value: JSON) -> str:
        """Write a value and its nested values."""
        if not isinstance(value, (dict, list)):
            return text_or_json(value)
        items = value.items() if isinstance(value, dict) else [("item", item) for item in value]
        return "".join(f"{self.prefix}<{key}>{self.written(item)}{self.prefix}</{key}>" for key, item in items)


@dataclass(frozen=True, slots=True)
class ToolPrompt:
    """Templates of a family's tool definitions, calls and results in prompts.

    Args:
        call: one call, with `{name}` and either `{arguments}` (a JSON object) or `{parameters}`; `{index}` is the
            number of the call.
        parameter: one parameter, with `{key}` and `{value}` (text unchanged, other values as JSON or in the format
            `nested`) or `{python}`. `{is_text}` is `true` for a text, `{type}` the JSON Schema type.
        joined: the separator of parameters.
        calls: the frame around all `{calls}` of an answer.
        between: the separator of calls.
        tools: the frame around the definitions, `{tools}`.
        listed: write the definitions as a JSON list instead of one per line.
        result: the frame around the `{result}` of a call.
        nested: the format of nested values in families that do not use JSON for them.
    """

    call: str
    parameter: str = ""
    joined: str = "\n"
    calls: str = "{calls}"
    between: str = "\n"
    tools: str = "<tools>\n{tools}\n</tools>"
    listed: bool = False
    result: str = "<tool_response>\n{result}\n</tool_response>"
    nested: Braced | Elements | None = None

    def system(self, tools: Sequence[JSON]) -> str:
        """Return the part of the system message that defines the tools."""
        defined = [dumps(tool).decode() for tool in tools]
        listed = f"[{', '.join(defined)}]" if self.listed else "\n".join(defined)
        return (
            "You can call functions. These are their definitions, each with its parameters as JSON Schema:\n"
            f"{_fill(self.tools, {'tools': listed})}\n\n"
            "To call a function, write it in exactly this form, several of them one after the other:\n"
            f"{self.written([_EXAMPLE])}\n\n"
            "What the calls came to is told to you like this, and you may call again:\n"
            f"{self.results(['…'])}\n\n"
            "Where no function is needed, or none fits, answer in plain words."
        )

    def written(self, calls: Iterable[FunctionCall]) -> str:
        """Return the calls in the family's format."""
        each = self.between.join(self._call(index, call) for index, call in enumerate(calls))
        return _fill(self.calls, {"calls": each})

    def results(self, results: Iterable[str]) -> str:
        """Return the results of calls in the family's format."""
        return "\n".join(_fill(self.result, {"result": result}) for result in results)

    def _call(self, index: int, call: FunctionCall) -> str:
        parameters = self.joined.join(self._parameter(key, value) for key, value in call.arguments.items())
        arguments = dumps(call.arguments).decode()
        given = {"name": call.name, "arguments": arguments, "parameters": parameters, "index": str(index)}
        return _fill(self.call, given)

    def _parameter(self, key: str, value: JSON) -> str:
        text = self.nested.written(value) if self.nested else text_or_json(value)
        is_text = "true" if isinstance(value, str) else "false"
        return _fill(
            self.parameter,
            {"key": key, "value": text, "python": repr(value), "is_text": is_text, "type": type_of(value)},
        )


def _fill(template: str, values: Mapping[str, str]) -> str:
    """Fill the placeholders of a template. Other braces are text, and placeholders in values stay unchanged."""
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), template)


# -- the profile of a family


_SEPARATOR = re.compile(r"\s*+(?:[;,]\s*+)?")
_OPENING = re.compile(r"\s*+(?:```(?:json|python)?\s*+)?")
_UNFINISHED_TAG = re.compile(r"<[^/>][^>]*+\Z")
_FENCE_END = re.compile(r"(?:\s*+```)?")


class TextShape(Protocol):
    """The format of one call or one list of calls in text."""

    def begins(self, text: str, position: int, collector: CallCollector) -> bool:
        """Return whether a call in this shape begins at this position, complete or not."""

    def read(self, text: str, position: int, mark: str, collector: CallCollector) -> int:
        """Add the calls at this position to the collector, and return where they end.

        Raises:
            UnreadableError: the calls cannot be read; the message says why and where.
        """


@dataclass(frozen=True, slots=True)
class Thought:
    """The marks of a family's reasoning.

    `lone`: a closing mark without an opening mark ends reasoning that the prompt has opened. `leading`: the opening
    mark counts only at the beginning of an answer.
    """

    opens: str
    closes: tuple[str, ...]
    lone: bool = True
    leading: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """The format of one family's calls in text.

    Args:
        name: the name of the format (`format="hermes"`), also used as `Reading.format`.
        shape: the shape of calls.
        marks: marks before calls; empty if the family writes calls without marks.
        closes: closing marks, which are skipped.
        thoughts: the marks of reasoning.
        inner: marks that are already part of the call, because some servers or models leave out the outer mark.
        within: beginnings of calls that are no marks, but count after the family's first call.
        inside: every mark is the beginning of the call itself (`<function=f>`).
        sure: the marks are unambiguous. Otherwise a mark counts only if a call in this shape follows.
        several: several calls may follow one mark.
        closed: after the calls, only a closing mark, another call, or the end of the text is allowed.
        prompt: templates of tools, calls and results for models that accept only text; None if unknown.
    """

    name: str
    shape: TextShape
    marks: tuple[str, ...] = ()
    closes: tuple[str, ...] = ()
    thoughts: tuple[Thought, ...] = ()
    inner: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    inside: bool = False
    sure: bool = True
    several: bool = True
    closed: bool = False
    prompt: ToolPrompt | None = None

    def announces(self, text: str, start: int, mark: str, collector: CallCollector) -> bool:
        """Return whether calls in this family's shape follow the mark at `start`."""
        return self.shape.begins(text, self._first(text, start, mark), collector)

    def take(self, text: str, start: int, mark: str, collector: CallCollector) -> int:
        """Add the calls after the mark at `start` to the collector, and return the end of the closing marks.

        An empty mark continues after an unreadable call.

        Raises:
            UnreadableError: no readable call follows.
        """
        collector.format = collector.format or self.name
        first = self._first(text, start, mark)
        position = self.shape.read(text, first, mark, collector)
        if "```" in text[start + len(mark) : first]:
            position = past(_FENCE_END, text, position)
        while True:
            following = past(_SEPARATOR, text, position)
            closed = position
            while close := next((close for close in self.closes if text.startswith(close, following)), None):
                closed = following + len(close)  # a model may repeat the closing mark
                following = past(_SEPARATOR, text, closed)
            if closed > position:
                return closed
            if not (self.several or not mark) or not self.shape.begins(text, following, collector):
                break
            collector.begun = following
            position = self.shape.read(text, following, mark, collector)
        if self.closes and _UNFINISHED_TAG.match(text, following):
            raise CutOffError(f"the text ends inside a tag at {place(text, following)}")
        if self.closed and following < len(text) and not text.startswith(mark, following):
            raise UnreadableError(f"{mark} is not closed at {place(text, following)}")
        return position

    def after_unreadable(self, text: str, mark: str, collector: CallCollector) -> int | None:
        """Return where the next call begins if the unreadable one is an object in a list or one of several."""
        listed = not text.startswith(mark, collector.begun)
        start = collector.begun if listed else self._first(text, collector.begun, mark)
        end = find_close(text, start) if (listed or self.several) and text.startswith("{", start) else None
        following = len(text) if end is None else past(_SEPARATOR, text, end)
        return following if self.shape.begins(text, following, collector) else None

    def _first(self, text: str, start: int, mark: str) -> int:
        inside = self.inside or mark in self.inner or mark in self.within
        return start if inside else past(_OPENING, text, start + len(mark))


def past(pattern: re.Pattern[str], text: str, position: int) -> int:
    """Return the end of the pattern at this position, or the position itself if the pattern does not match."""
    found = pattern.match(text, position)
    return found.end() if found else position
