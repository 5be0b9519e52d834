"""How a model that takes only text is told of tools, in the shape of its family, and how its calls are written back."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tunecheck._json import JSON, dumps
from tunecheck.calls._model import FunctionCall

_PLACE = re.compile(r"\{(name|arguments|parameters|index|key|value|python|is_text|calls|tools|result)\}")

_EXAMPLE = FunctionCall("function_name", {"parameter_name": "value"})


_JSON_CALL = '{"name": "{name}", "arguments": {arguments}}'
_TOOLS = "<tools>\n{tools}\n</tools>"


@dataclass(frozen=True, slots=True)
class ToolPrompt:
    """The shape in which a family is shown tools, writes calls, and is told what they came to.

    Args:
        call: one call, with `{name}`, and `{arguments}`, a JSON object, or `{parameters}`; `{index}` counts calls.
        parameter: one of the parameters, with `{key}` and `{value}` (a text as it is, all else as JSON) or `{python}`;
            `{is_text}` is `true` for a text.
        joined: what stands between parameters.
        calls: what stands around all calls of an answer, `{calls}`; `between` stands between them.
        tools: what stands around the definitions, `{tools}`: one a line, or in a JSON list (`listed`).
        result: what stands around what a call came to, `{result}`.
    """

    call: str
    parameter: str = ""
    joined: str = "\n"
    calls: str = "{calls}"
    between: str = "\n"
    tools: str = _TOOLS
    listed: bool = False
    result: str = "<tool_response>\n{result}\n</tool_response>"

    def system(self, tools: Sequence[JSON]) -> str:
        """The part of the system message that tells of tools, as they are defined."""
        defined = [dumps(tool).decode() for tool in tools]
        listed = f"[{', '.join(defined)}]" if self.listed else "\n".join(defined)
        return (
            "You can call functions. These are their definitions, each with its parameters as JSON Schema:\n"
            f"{_filled(self.tools, {'tools': listed})}\n\n"
            "To call a function, write it in exactly this form, several of them one after the other:\n"
            f"{self.written([_EXAMPLE])}\n\n"
            "What the calls came to is told to you like this, and you may call again:\n"
            f"{self.results(['…'])}\n\n"
            "Where no function is needed, or none fits, answer in plain words."
        )

    def written(self, calls: Iterable[FunctionCall]) -> str:
        """Calls as the family writes them."""
        each = self.between.join(self._call(index, call) for index, call in enumerate(calls))
        return _filled(self.calls, {"calls": each})

    def results(self, results: Iterable[str]) -> str:
        """What calls came to."""
        return "\n".join(_filled(self.result, {"result": result}) for result in results)

    def _call(self, index: int, call: FunctionCall) -> str:
        parameters = self.joined.join(self._parameter(key, value) for key, value in call.arguments.items())
        arguments = dumps(call.arguments).decode()
        given = {"name": call.name, "arguments": arguments, "parameters": parameters, "index": str(index)}
        return _filled(self.call, given)

    def _parameter(self, key: str, value: JSON) -> str:
        is_text = isinstance(value, str)
        text = value if isinstance(value, str) else dumps(value).decode()
        given = {"key": key, "value": text, "python": repr(value), "is_text": "true" if is_text else "false"}
        return _filled(self.parameter, given)


def _filled(template: str, values: Mapping[str, str]) -> str:
    """The template with its places filled: braces around anything else are text, and values are not looked into."""
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), template)


def json_objects(opens: str, closes: str) -> ToolPrompt:
    """For families that write each call as a JSON object between two marks."""
    return ToolPrompt(f"{opens}{_JSON_CALL}{closes}")


def json_list(opens: str, closes: str, *, call: str = _JSON_CALL, tools: str = _TOOLS) -> ToolPrompt:
    """For families that write all calls of an answer as one JSON list between two marks."""
    return ToolPrompt(call, calls=f"{opens}[{{calls}}]{closes}", between=", ", tools=tools, listed="[" in tools)


def python_list(opens: str, closes: str, *, tools: str = _TOOLS) -> ToolPrompt:
    """For families that write all calls of an answer as Python does, in one list between two marks."""
    call, parameter = "{name}({parameters})", "{key}={python}"
    return ToolPrompt(call, parameter, ", ", f"{opens}[{{calls}}]{closes}", ", ", tools)
