"""The profile of a model family: the marks of its calls and thoughts, and the shape of its calls."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from tunecheck._json import JSON, dumps
from tunecheck.calls._model import FunctionCall
from tunecheck.calls._schemas import type_of
from tunecheck.calls._strict_json import CutOffError, UnreadableError, place
from tunecheck.formats._collector import CallCollector

# -- tools described in prompts

_PLACE = re.compile(r"\{(name|arguments|parameters|index|key|value|python|is_text|type|calls|tools|result)\}")

_EXAMPLE = FunctionCall("function_name", {"parameter_name": "value"})


class Braced(msgspec.Struct, frozen=True, tag="braced", tag_field="kind"):
    """Values as Gemma writes them: keys bare, texts between marks of their own."""

    quote: str

    def written(self, value: JSON) -> str:
        """Write a value and its nested values."""
        if isinstance(value, str):
            return f"{self.quote}{value}{self.quote}"
        if isinstance(value, dict):
            return f"{{{','.join(f'{key}:{self.written(item)}' for key, item in value.items())}}}"
        return f"[{','.join(map(self.written, value))}]" if isinstance(value, list) else _plain(value)


class Elements(msgspec.Struct, frozen=True, tag="elements", tag_field="kind"):
    """Values as elements in elements, lists as `<item>`; `prefix` stands before every tag."""

    prefix: str

    def written(self, value: JSON) -> str:
        """Write a value and its nested values."""
        if not isinstance(value, (dict, list)):
            return _plain(value)
        items = value.items() if isinstance(value, dict) else [("item", item) for item in value]
        return "".join(f"{self.prefix}<{key}>{self.written(item)}{self.prefix}</{key}>" for key, item in items)


@dataclass(frozen=True, slots=True)
class ToolPrompt:
    """The form in which a family is shown tools, writes calls, and gets their results.

    Args:
        call: one call, with `{name}`, and `{arguments}`, a JSON object, or `{parameters}`; `{index}` counts calls.
        parameter: one of the parameters, with `{key}` and `{value}` (text unchanged, other values as JSON or in the
            form of `nested`) or `{python}`; `{is_text}` is `true` for a text, `{type}` the JSON Schema type.
        joined: the separator of parameters.
        calls: the frame of all calls of an answer, `{calls}`; `between` is the separator of calls.
        tools: the frame of the definitions, `{tools}`: one a line, or in a JSON list (`listed`).
        result: the frame of the result of a call, `{result}`.
        nested: how values are written that hold others, in a family that does not write JSON there.
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
        """Return the calls as the family writes them."""
        each = self.between.join(self._call(index, call) for index, call in enumerate(calls))
        return _fill(self.calls, {"calls": each})

    def results(self, results: Iterable[str]) -> str:
        """Return the results of calls as the family gets them."""
        return "\n".join(_fill(self.result, {"result": result}) for result in results)

    def _call(self, index: int, call: FunctionCall) -> str:
        parameters = self.joined.join(self._parameter(key, value) for key, value in call.arguments.items())
        arguments = dumps(call.arguments).decode()
        given = {"name": call.name, "arguments": arguments, "parameters": parameters, "index": str(index)}
        return _fill(self.call, given)

    def _parameter(self, key: str, value: JSON) -> str:
        text = self.nested.written(value) if self.nested else _plain(value)
        is_text = "true" if isinstance(value, str) else "false"
        return _fill(
            self.parameter,
            {"key": key, "value": text, "python": repr(value), "is_text": is_text, "type": type_of(value)},
        )


def _plain(value: JSON) -> str:
    return value if isinstance(value, str) else dumps(value).decode()


def _fill(template: str, values: Mapping[str, str]) -> str:
    """Fill the places of a template. Other braces are text, and values are not searched for places."""
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), template)


# -- the profile of a family


_SEPARATOR = re.compile(r"\s*+(?:[;,]\s*+)?")
_OPENING = re.compile(r"\s*+(?:```(?:json|python)?\s*+)?")
_UNFINISHED_TAG = re.compile(r"<[^/>][^>]*+\Z")
_FENCE_END = re.compile(r"(?:\s*+```)?")


class TextShape(Protocol):
    """How one call, or one list of calls, is written."""

    def begins(self, text: str, position: int, collector: CallCollector) -> bool:
        """Whether calls in this shape begin here, whole or not."""

    def read(self, text: str, position: int, mark: str, collector: CallCollector) -> int:
        """Take the calls that begin here, and say where they end.

        Raises:
            UnreadableError: they cannot be read; the message says why and where.
        """


@dataclass(frozen=True, slots=True)
class Thought:
    """How a family marks its reasoning.

    A closing mark without an opening ends a thought that the prompt has opened, if `lone` is set. `leading`: the
    opening counts at the beginning of an answer only.
    """

    opens: str
    closes: tuple[str, ...]
    lone: bool = True
    leading: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """How one family writes calls.

    Args:
        name: by which it is chosen, `format="hermes"`; also what a reading says was recognised.
        shape: how calls are written.
        marks: what announces calls; none for a family that writes them bare.
        closes: closing marks, which are passed over.
        thoughts: how it marks its reasoning.
        inner: those marks that are the beginning of a call, which some servers or models leave alone.
        inside: every mark is the beginning of the call itself (`<function=f>`).
        sure: the mark is unambiguous. Otherwise it counts only if a call in this shape follows.
        several: calls may follow one another behind one mark.
        closed: what follows the calls must be a closing mark, another call, or nothing.
        prompt: how a model that takes only text is shown tools, and its calls and their results; None: not known.
    """

    name: str
    shape: TextShape
    marks: tuple[str, ...] = ()
    closes: tuple[str, ...] = ()
    thoughts: tuple[Thought, ...] = ()
    inner: tuple[str, ...] = ()
    inside: bool = False
    sure: bool = True
    several: bool = True
    closed: bool = False
    prompt: ToolPrompt | None = None

    def announces(self, text: str, start: int, mark: str, collector: CallCollector) -> bool:
        """Whether calls in this family's shape follow a mark that stands here."""
        return self.shape.begins(text, self._first(text, start, mark), collector)

    def take(self, text: str, start: int, mark: str, collector: CallCollector) -> int:
        """Take the calls behind the mark that stands here, closing marks included, and say where they end.

        Raises:
            UnreadableError: what follows is not a call that can be read.
        """
        collector.format = collector.format or self.name
        first = self._first(text, start, mark)
        position = self.shape.read(text, first, mark, collector)
        if "```" in text[start + len(mark) : first]:
            position = _past(_FENCE_END, text, position)
        while True:
            following = _past(_SEPARATOR, text, position)
            close = next((close for close in self.closes if text.startswith(close, following)), None)
            if close:
                return following + len(close)
            if not self.several or not self.shape.begins(text, following, collector):
                break
            position = self.shape.read(text, following, mark, collector)
        if self.closes and _UNFINISHED_TAG.match(text, following):
            raise CutOffError(f"the text ends inside a tag at {place(text, following)}")
        if self.closed and following < len(text) and not text.startswith(mark, following):
            raise UnreadableError(f"{mark} is not closed at {place(text, following)}")
        return position

    def _first(self, text: str, start: int, mark: str) -> int:
        inside = self.inside or mark in self.inner
        return start if inside else _past(_OPENING, text, start + len(mark))


def _past(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    return found.end() if found else position
