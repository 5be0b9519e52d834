"""The profile of a model family: the marks of its calls and reasoning, the shape of its calls, and its prompt.

`_families` makes the profiles of the known families from `families.toml`; a user's own module makes others.
`_families` also finds a mark in a text, and asks its profile to read the calls after it:

    mark           call                                closing mark
    <tool_call>    {"name": "f", "arguments": {}}      </tool_call>

`Profile.take` reads call after call until it finds a closing mark, or text that is no call. `ToolPrompt` is the
opposite direction: it writes tools, calls and results for models whose server accepts only text.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from tunecheck._json import JSON, dumps, text_or_json
from tunecheck.calls._model import CutOffError, FunctionCall, UnreadableError, place
from tunecheck.calls._schemas import type_of
from tunecheck.formats._collector import CallCollector

# -- the profile of a family

# what may stand between two calls: white space and one `;` or `,`
_SEPARATOR = re.compile(r"\s*+(?:[;,]\s*+)?")
# what may stand between a mark and its call: white space and the beginning of a code fence
_OPENING = re.compile(r"\s*+(?:```(?:json|python)?\s*+)?")
_FENCE_END = re.compile(r"(?:\s*+```)?")
# a tag without `>` at the end of a text: `<tool_ca`; not `</tool_ca`
_UNFINISHED_TAG = re.compile(r"<[^/>][^>]*+\Z")


@runtime_checkable
class TextShape(Protocol):
    """The format of one call or one list of calls in text."""

    def begins(self, text: str, position: int, collector: CallCollector) -> bool:
        """Return whether a call in this shape begins at this position, complete or not."""

    def read(self, text: str, position: int, mark: str, collector: CallCollector) -> int:
        """Add the calls at this position to the collector, and return where they end.

        Raises:
            UnreadableError: the calls cannot be read; the message says why and where.
        """


class Thought(msgspec.Struct, frozen=True):
    """The marks of a family's reasoning, such as `Thought("<think>", ("</think>",))`.

    Args:
        opens: the opening mark.
        closes: the closing marks; each of them ends the reasoning.
        lone: a closing mark without an opening mark ends reasoning that the prompt has opened.
        leading: the opening mark counts only at the beginning of an answer.
    """

    opens: str
    closes: tuple[str, ...]
    lone: bool = True
    leading: bool = False


class Profile(msgspec.Struct, frozen=True):
    """The format of one family's calls in text.

    The profile of Hermes, and a text that it reads:

        Profile("hermes", JsonCalls(), marks=("<tool_call>",), closes=("</tool_call>",), closed=True)

        <tool_call>{"name": "get_time", "arguments": {"city": "Paris"}}</tool_call>

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
    prompt: "ToolPrompt | None" = None

    def announces(self, text: str, start: int, mark: str, collector: CallCollector) -> bool:
        """Return whether calls in this family's shape follow the mark at `start`."""
        return self.shape.begins(text, self._call_start(text, start, mark), collector)

    def take(self, text: str, start: int, mark: str, collector: CallCollector) -> int:
        """Add the calls after the mark at `start` to the collector, and return the end of the last closing mark.

        Without a closing mark, return the end of the last call. After the first call, the positions are:

            <tool_call>{"name": "f"}, {"name": "g"}</tool_call>
            ^ start    ^ call_start   ^ following
                                    ^ position

        If `mark` is empty, a call begins at `start` without a mark. Any number of calls may follow, and no closing mark
        is required. `collector.call_start` is the start of the call that is being read.

        Raises:
            UnreadableError: no readable call follows, or the calls do not end as the profile requires.
        """
        collector.format = collector.format or self.name
        collector.call_start = start
        call_start = self._call_start(text, start, mark)
        position = self.shape.read(text, call_start, mark, collector)
        # If a fence was opened before the call, its end is skipped, too.
        if "```" in text[start + len(mark) : call_start]:
            position = past(_FENCE_END, text, position)

        while True:
            following = past(_SEPARATOR, text, position)
            closing_end = self._skip_closing_marks(text, following)
            if closing_end is not None:
                return closing_end
            may_follow = self.several or not mark
            if not may_follow or not self.shape.begins(text, following, collector):
                self._check_end(text, following, mark)
                return position

            collector.call_start = following
            position = self.shape.read(text, following, mark, collector)

    def _call_start(self, text: str, start: int, mark: str) -> int:
        """Return where the first call of the mark at `start` begins: after the mark, or at the mark itself."""
        mark_is_part_of_call = self.inside or mark in self.inner or mark in self.within
        return start if mark_is_part_of_call else past(_OPENING, text, start + len(mark))

    def _skip_closing_marks(self, text: str, position: int) -> int | None:
        """Return the end of the closing marks at this position, or None. A model may repeat its closing mark."""
        end = None
        while True:
            closing_mark = next((mark for mark in self.closes if text.startswith(mark, position)), None)
            if not closing_mark:
                return end

            end = position + len(closing_mark)
            position = past(_SEPARATOR, text, end)

    def _check_end(self, text: str, following: int, mark: str) -> None:
        """Check the text at `following`, after the last call, if there is no closing mark.

        Raises:
            CutOffError: the text ends inside a tag, which may be the next mark.
            UnreadableError: the family requires a closing mark, and other text than the next mark follows.
        """
        if self.closes and _UNFINISHED_TAG.match(text, following):
            raise CutOffError(f"the text ends inside a tag at {place(text, following)}")
        if self.closed and following < len(text) and not text.startswith(mark, following):
            raise UnreadableError(f"{mark} is not closed at {place(text, following)}")


def past(pattern: re.Pattern[str], text: str, position: int) -> int:
    """Return the end of the pattern at this position, or the position itself if the pattern does not match."""
    found = pattern.match(text, position)
    return found.end() if found else position


# -- tools described in prompts

# `{name}`; braces with anything else are text
_PLACEHOLDER = re.compile(r"\{(name|arguments|parameters|index|key|value|python|is_text|type|calls|tools|result)\}")

_EXAMPLE_CALL = FunctionCall("function_name", {"parameter_name": "value"})


class Braced(msgspec.Struct, frozen=True, tag="braced", tag_field="kind"):
    """Gemma's format of values: bare keys, and texts between special quotes, `{city:<|"|>Paris<|"|>,days:3}`."""

    quote: str

    def write(self, value: JSON) -> str:
        """Return a value as `{city:<|"|>Paris<|"|>,days:3}`, with the quote (here `<|"|>`) around each text."""
        if isinstance(value, str):
            return f"{self.quote}{value}{self.quote}"
        if isinstance(value, dict):
            return "{" + ",".join(f"{key}:{self.write(item)}" for key, item in value.items()) + "}"
        if isinstance(value, list):
            return f"[{','.join(map(self.write, value))}]"
        return text_or_json(value)


class Elements(msgspec.Struct, frozen=True, tag="elements", tag_field="kind"):
    """Values as nested elements, with lists as `<item>` elements and a `prefix` before every tag.

    `{"to": ["Ada", "Bob"]}` is `<to><item>Ada</item><item>Bob</item></to>`.
    """

    prefix: str

    def write(self, value: JSON) -> str:
        """Return a value as nested elements, `<to><item>Ada</item></to>`, with the prefix before every tag."""
        if not isinstance(value, (dict, list)):
            return text_or_json(value)
        items = value.items() if isinstance(value, dict) else [("item", item) for item in value]
        return "".join(f"{self.prefix}<{key}>{self.write(item)}{self.prefix}</{key}>" for key, item in items)


class ToolPrompt(msgspec.Struct, frozen=True):
    """Templates of a family's tool definitions, calls and results in prompts.

    With `ToolPrompt('<tool_call>{"name": "{name}", "arguments": {arguments}}</tool_call>')`, a call is written as
    `<tool_call>{"name": "get_time", "arguments": {"city": "Paris"}}</tool_call>`.

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
        definitions = [dumps(tool).decode() for tool in tools]
        tools_text = f"[{', '.join(definitions)}]" if self.listed else "\n".join(definitions)

        return (
            "You can call functions. These are their definitions, each with its parameters as JSON Schema:\n"
            f"{_fill(self.tools, {'tools': tools_text})}\n\n"
            "To call a function, write it in exactly this form, several of them one after the other:\n"
            f"{self.written([_EXAMPLE_CALL])}\n\n"
            "What the calls came to is told to you like this, and you may call again:\n"
            f"{self.results(['…'])}\n\n"
            "Where no function is needed, or none fits, answer in plain words."
        )

    def written(self, calls: Iterable[FunctionCall]) -> str:
        """Return the calls in the family's format."""
        written = self.between.join(self._write_call(index, call) for index, call in enumerate(calls))
        return _fill(self.calls, {"calls": written})

    def results(self, results: Iterable[str]) -> str:
        """Return the results of calls in the family's format."""
        return "\n".join(_fill(self.result, {"result": result}) for result in results)

    def _write_call(self, index: int, call: FunctionCall) -> str:
        """Return a call in the format of `call`, with the parameters in the format of `parameter`."""
        parameters = self.joined.join(self._write_parameter(key, value) for key, value in call.arguments.items())
        arguments = dumps(call.arguments).decode()
        values = {"name": call.name, "arguments": arguments, "parameters": parameters, "index": str(index)}
        return _fill(self.call, values)

    def _write_parameter(self, key: str, value: JSON) -> str:
        """Return one parameter in the format of `parameter`."""
        text = self.nested.write(value) if self.nested else text_or_json(value)
        is_text = "true" if isinstance(value, str) else "false"
        return _fill(
            self.parameter,
            {"key": key, "value": text, "python": repr(value), "is_text": is_text, "type": type_of(value)},
        )


def _fill(template: str, values: Mapping[str, str]) -> str:
    """Fill the placeholders of a template. Other braces are text, and placeholders in values stay unchanged."""
    # One pass, so that a value with `{name}` in it is not filled again.
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), template)
