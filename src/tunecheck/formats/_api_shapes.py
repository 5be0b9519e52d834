"""Replies of APIs other than OpenAI's chat: Anthropic, Gemini, Bedrock; and where each keeps what the model thought."""

from collections.abc import Iterable, Mapping
from typing import Any

from tunecheck.formats._collector import CallCollector

_THOUGHT_FIELDS = ("reasoning_content", "reasoning", "thinking", "tool_plan")


def content_of(message: Mapping[str, Any]) -> object:
    """The content of a message: a text or a list of parts, which Gemini keeps under `parts`."""
    content = message.get("content")
    return message.get("parts") if content is None else content


def take_thoughts_of(message: Mapping[str, Any], collector: CallCollector) -> None:
    """What a message's fields say that the model thought."""
    said = next((text for key in _THOUGHT_FIELDS if isinstance(text := message.get(key), str) and text), None)
    if said is None:
        details = message.get("reasoning_details")
        said = "\n".join(_texts(details)) if isinstance(details, list) else None
    if said and said.strip():
        collector.thoughts.append(said.strip())


def take_part(part: Mapping[str, Any], collector: CallCollector) -> list[str] | None:
    """One part of another API's message: a call or a thought, or text, which is given back; None if it is neither."""
    if part.get("type") == "tool_use" and "name" in part:
        collector.add("anthropic", part["name"], part.get("input"), part.get("id"))
    elif isinstance(call := part.get("functionCall"), dict):
        collector.add("gemini", call.get("name"), call.get("args"), call.get("id"))
    elif isinstance(call := part.get("toolUse"), dict):
        collector.add("bedrock", call.get("name"), call.get("input"), call.get("toolUseId"))
    elif isinstance(held := part.get("reasoningContent"), dict):
        collector.thoughts += _texts([held.get("reasoningText")])
    elif part.get("type") in ("thinking", "reasoning") or part.get("thought") is True:
        collector.thoughts += _texts([part, *_listed(part.get("summary"))])
    elif "type" not in part and isinstance(part.get("text"), str):
        return [part["text"]]
    else:
        return None
    return []


def is_call_part(part: Mapping[str, Any]) -> bool:
    """Whether this is a call as one of these APIs writes it."""
    if part.get("type") == "tool_use":
        return "name" in part
    return any(isinstance(part.get(key), dict) and "name" in part[key] for key in ("functionCall", "toolUse"))


def message_of(reply: Mapping[str, Any]) -> object:
    """The message in Gemini's (`candidates`) or Bedrock's (`output`) reply, as one of the assistant; None without."""
    candidates, output = reply.get("candidates"), reply.get("output")
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    content = first.get("content") if isinstance(first, dict) else None
    if isinstance(content, dict):
        return {"role": "model", **content}
    message = output.get("message") if isinstance(output, dict) else None
    return {"role": "assistant", **message} if isinstance(message, dict) and "content" in message else None


def _texts(items: Iterable[object]) -> list[str]:
    texts = []
    for item in items:
        held = [item.get(key) for key in ("thinking", "text", "summary")] if isinstance(item, dict) else [item]
        texts += [text.strip() for text in held if isinstance(text, str) and text.strip()]
    return texts


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []
