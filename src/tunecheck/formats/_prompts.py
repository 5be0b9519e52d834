"""Show tools and results to a model that takes only text, and write its calls, in the form of its family."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from tunecheck._json import JSON, dumps
from tunecheck.calls._model import FunctionCall
from tunecheck.calls._schemas import type_of

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
