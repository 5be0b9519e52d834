"""An endpoint's answer as it stands in a result file: `[{"name": "<arguments as JSON>"}, …]`, or text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tunecheck._json import JSON, dumps
from tunecheck.conversations._decoding import decode_step
from tunecheck.conversations._nested import NestedCall


def answer_step(text: str | None, tool_calls: Sequence[Mapping[str, JSON]], *, compat: bool = False) -> JSON:
    """The calls of an answer with calls, else its text.

    Arguments stay the text that they came as. Where one of the calls is none (no function, no name), the whole answer
    is text, which nobody takes for calls. Some servers write no arguments as nothing at all: that is `{}`,
    unless `compat` keeps it as it came.
    """
    if not tool_calls:
        return text or ""
    entries: list[JSON] = []
    for call in tool_calls:
        function = call.get("function")
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(function, dict) or not isinstance(name, str):
            return f"tool_calls: {dumps([dict(each) for each in tool_calls]).decode()}"
        arguments = function.get("arguments")
        if not arguments and not compat:
            arguments = {}
        entries.append({name: arguments if isinstance(arguments, str) else dumps(arguments).decode()})
    return entries


def answer_text(text: str | None, tool_calls: Sequence[Mapping[str, JSON]], *, source: bool = False) -> str:
    """The text of an answer; calls that a server took out of it are written as call text again.

    `source` writes arguments that are text as they are: for functions whose values are given as another language's
    source.
    """
    if text or not tool_calls:
        return text or ""
    step = answer_step(None, tool_calls)
    decoded = decode_step(step)
    if isinstance(step, str) or decoded.problem is not None:
        return step if isinstance(step, str) else dumps(step).decode()
    return f"[{', '.join(_source_text(call) if source else call.text() for call in decoded.calls)}]"


def _source_text(call: NestedCall) -> str:
    given = (
        f"{name}={value if isinstance(value, str) else dumps(value).decode()}" for name, value in call.arguments.items()
    )
    return f"{call.name}({', '.join(given)})"
