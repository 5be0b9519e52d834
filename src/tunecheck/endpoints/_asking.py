"""Asks a model in its family's form: its calls are read from its text, and tools told in text where that is wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from tunecheck._json import JSON
from tunecheck.calls._writing import write_calls
from tunecheck.endpoints._answers import content_parts
from tunecheck.endpoints._base import ChatRequest, Completion, Endpoint
from tunecheck.formats._reading import read_calls

if TYPE_CHECKING:
    from tunecheck.formats._profiles import Profile
    from tunecheck.formats._prompts import ToolPrompt

Message = Mapping[str, JSON]


async def ask(endpoint: Endpoint, request: ChatRequest) -> Completion:
    """The endpoint's answer; where its definition names a `format`, the calls in its text are its tool calls.

    With `tools: text`, tools, earlier calls and what they came to are told in text, and none are sent beside it.

    Raises:
        EndpointError, StopRunError: as `Endpoint.complete`.
    """
    profile = endpoint.profile
    if profile is None:
        return await endpoint.complete(request)
    told = profile.prompt if endpoint.tools_as_text else None
    asked = request if told is None else in_text(request, told)
    return with_calls(await endpoint.complete(asked), profile, request.tools)


def with_calls(completion: Completion, profile: Profile | str, tools: object) -> Completion:
    """The completion with the calls that stand in its text, read by the profile (or "auto") and typed by the tools.

    `raw_text` keeps the text as it came. Without a call that can be read, all stays as it is.
    """
    if completion.tool_calls or not completion.text:
        return completion
    try:
        reading = read_calls(completion.text, tools=tools, format=profile)
    except ValueError:  # definitions of some kind of their own
        reading = read_calls(completion.text, format=profile)
    if not reading.calls:
        return completion
    thoughts = [thought for thought in (completion.reasoning, reading.reasoning) if thought]
    return replace(
        completion,
        text=reading.text or None,
        tool_calls=tuple(cast("Sequence[Message]", write_calls(reading.calls, "openai"))),
        raw_text=completion.raw_text or completion.text,
        reasoning="\n".join(thoughts) or None,
    )


def in_text(request: ChatRequest, prompt: ToolPrompt) -> ChatRequest:
    """The request with its tools in the system message, and calls and their results as the family writes them."""
    messages: list[Message] = []
    results: list[str] = []
    for message in request.messages:
        if message.get("role") == "tool":
            results.append(_text_of(message))
            continue
        if results:
            messages.append({"role": "user", "content": prompt.results(results)})
            results = []
        messages.append(_written(message, prompt))
    if results:
        messages.append({"role": "user", "content": prompt.results(results)})
    if request.tools:
        messages = with_system(messages, prompt.system([dict(tool) for tool in request.tools]))
    return replace(request, messages=messages, tools=None)


def with_system(messages: Sequence[Message], text: str) -> list[Message]:
    """The messages with this text before all; a system message that is there already follows in the same one."""
    if messages and messages[0].get("role") == "system":
        return [{**messages[0], "content": f"{text}\n\n{messages[0].get('content')}"}, *messages[1:]]
    return [{"role": "system", "content": text}, *messages]


def _written(message: Message, prompt: ToolPrompt) -> Message:
    """A message of the model's with its calls in its text."""
    if not message.get("tool_calls"):
        return message
    calls = read_calls({"role": "assistant", "tool_calls": message["tool_calls"]}).calls
    texts = [text for text in (_text_of(message), prompt.written(calls)) if text]
    return {**{key: value for key, value in message.items() if key != "tool_calls"}, "content": "\n".join(texts)}


def _text_of(message: Message) -> str:
    return "\n".join(part for part in content_parts(message) if isinstance(part, str))
