"""Replies of APIs other than OpenAI's chat: Anthropic, Gemini, Bedrock; and where each keeps what the model thought."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tunecheck.formats._collector import CallCollector

_THOUGHT_TEXTS = ("reasoning_content", "reasoning", "thinking", "tool_plan")
_THOUGHT_LISTS = ("reasoning_details", "thinking_blocks")
REASONING_FIELDS = (*_THOUGHT_TEXTS, *_THOUGHT_LISTS)
"""The fields of a message in which APIs give the reasoning: several often hold the same."""


def content_of(message: Mapping[str, Any]) -> object:
    """The content of a message: a text or a list of parts, which Gemini keeps under `parts`."""
    content = message.get("content")
    return message.get("parts") if content is None else content


def take_thoughts_of(message: Mapping[str, Any], collector: CallCollector) -> None:
    """What a message's fields say that the model thought."""
    said = (text for key in _THOUGHT_TEXTS if isinstance(text := message.get(key), str) and text.strip())
    listed = (text for key in _THOUGHT_LISTS if (text := "\n".join(_texts(_listed(message.get(key))))))
    thought = next(said, None) or next(listed, None)
    if thought is not None:
        collector.thoughts.append(thought.strip())


def take_part(part: Mapping[str, Any], collector: CallCollector) -> list[str] | None:
    """One part of another API's message: a call or a thought, or text, which is given back; None if it is neither."""
    if part.get("type") == "tool_use" and "name" in part:
        collector.add("anthropic", part["name"], part.get("input"), part.get("id"))
    elif (call := _gemini_call(part)) is not None:
        collector.add("gemini", call.get("name"), call.get("args"), call.get("id"))
    elif isinstance(call := part.get("toolUse"), dict):
        collector.add("bedrock", call.get("name"), call.get("input"), call.get("toolUseId"))
    elif isinstance(held := part.get("reasoningContent"), dict):
        collector.thoughts += _texts([held.get("reasoningText")])
    elif part.get("type") in ("thinking", "reasoning") or part.get("thought") is True:
        collector.thoughts += _texts([part])
    elif "type" not in part and isinstance(part.get("text"), str):
        return [part["text"]]
    else:
        return None
    return []


def is_call_part(part: Mapping[str, Any]) -> bool:
    """Whether this is a call as one of these APIs writes it."""
    if part.get("type") == "tool_use":
        return "name" in part
    call = _gemini_call(part) or part.get("toolUse")
    return isinstance(call, dict) and "name" in call


def _gemini_call(part: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Gemini's call, under the name that its API or its Python client gives it; OpenAI's has `arguments`."""
    call = part.get("functionCall") or part.get("function_call")
    return call if isinstance(call, dict) and ("functionCall" in part or "args" in call) else None


_REASONS = ("stop_reason", "stopReason", "finish_reason")


def message_of(reply: Mapping[str, Any]) -> object:
    """The message in Gemini's (`candidates`) or Bedrock's (`output`) reply, as one of the assistant; None without."""
    candidates, output = reply.get("candidates"), reply.get("output")
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    content = first.get("content", {} if "finishReason" in first else None) if isinstance(first, dict) else None
    if isinstance(content, dict):
        return {"role": "model", **content}
    message = output.get("message") if isinstance(output, dict) else None
    return {"role": "assistant", **message} if isinstance(message, dict) and "content" in message else None


def reason_of_end(reply: Mapping[str, Any]) -> str | None:
    """Why the answer in a reply of Anthropic, Bedrock, Gemini or Cohere ended, in the service's word; None unsaid."""
    candidates = reply.get("candidates")
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    told = (*(reply.get(key) for key in _REASONS), first.get("finishReason") if isinstance(first, dict) else None)
    return next((reason for reason in told if isinstance(reason, str)), None)


def _texts(items: Iterable[object], *, nested: bool = True) -> list[str]:
    """The texts in a list of thoughts: texts, or objects with a text or (`nested`) a list of such."""
    texts: list[str] = []
    for item in items:
        held = [item.get(key) for key in ("thinking", "text", "summary")] if isinstance(item, dict) else [item]
        for value in held:
            if isinstance(value, list) and nested:
                texts += _texts(value, nested=False)
            elif isinstance(value, str) and value.strip():
                texts.append(value.strip())
    return texts


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []
