"""OpenAI's Responses API in the terms of chat completions: a chat's body made one of it, its reply made a chat's."""

from collections.abc import Iterator, Mapping, Sequence

from tunecheck._json import JSON
from tunecheck.endpoints._api_facts import FORMAT, LIMITS

_PARTS: Mapping[str, str] = {"text": "text", "image_url": "image", "input_audio": "audio", "file": "file"}


def responses_body(chat: Mapping[str, JSON]) -> dict[str, JSON]:
    """The body that asks what this one asks of chat completions. Nothing is stored, as there."""
    body: dict[str, JSON] = {"store": False}
    for name, value in chat.items():
        if name == "messages" and isinstance(value, list):
            body["input"] = [item for message in value if isinstance(message, dict) for item in _items(message)]
        elif name in ("tools", "functions") and isinstance(value, list):
            body["tools"] = [_flat({"strict": False}, tool) for tool in value]
        elif name == "tool_choice":
            body[name] = _flat({}, value)
        elif name in LIMITS:
            body["max_output_tokens"] = value
        elif name == FORMAT and isinstance(value, dict):
            held = value.get("json_schema")
            body["text"] = {"format": {**(held if isinstance(held, dict) else {}), "type": value.get("type")}}
        elif name == "reasoning_effort":
            body["reasoning"] = {"effort": value}
        else:
            body[name] = value
    return body


def _flat(first: Mapping[str, JSON], tool: JSON) -> JSON:
    """A tool with the keys of its function beside its type."""
    held = tool.get("function") if isinstance(tool, dict) else None
    return {"type": "function", **first, **held} if isinstance(held, dict) else tool


def _items(message: Mapping[str, JSON]) -> Iterator[JSON]:
    """What stands for a message: itself, the calls that it makes, or the result of one."""
    role, content, calls = message.get("role"), message.get("content"), message.get("tool_calls")
    if role == "tool":
        result = _content(content, "input")
        yield {"type": "function_call_output", "call_id": message.get("tool_call_id"), "output": result}
        return
    thoughts = message.get("reasoning_details")
    for thought in thoughts if isinstance(thoughts, list) else ():
        if isinstance(thought, dict) and thought.get("encrypted_content"):  # others are not known to the service
            yield thought
    if content not in (None, "", []) or not calls:
        yield {"role": role, "content": _content(content, "output" if role == "assistant" else "input")}
    for call in calls if isinstance(calls, list) else ():
        held = call.get("function") if isinstance(call, dict) else None
        if isinstance(call, dict) and isinstance(held, dict):
            said = {"name": held.get("name"), "arguments": held.get("arguments")}
            yield {"type": "function_call", "call_id": call.get("id"), **said}


def _content(content: JSON, side: str) -> JSON:
    return [_part(part, side) for part in content] if isinstance(content, list) else content or ""


def _part(part: JSON, side: str) -> JSON:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(part, dict) or not isinstance(kind, str) or kind not in _PARTS:
        return part
    held = part.get(kind)
    inner = {"image_url": held.get("url")} if kind == "image_url" and isinstance(held, dict) else {}
    inner = held if kind == "file" and isinstance(held, dict) else inner
    return {**{key: value for key, value in part.items() if key != "file"}, **inner, "type": f"{side}_{_PARTS[kind]}"}


def chat_reply(reply: JSON) -> JSON:
    """A reply of the Responses API as one of chat completions; any other reply as it is."""
    output = reply.get("output") if isinstance(reply, dict) and "choices" not in reply else None
    if not isinstance(reply, dict) or not isinstance(output, list):
        return reply
    items = [item for item in output if isinstance(item, dict)]
    calls: list[JSON] = [_call(item) for item in items if item.get("type") == "function_call"]
    said = [item.get("content") for item in items if item.get("type") == "message"]
    content: JSON = [part for parts in said if isinstance(parts, list) for part in parts]
    thoughts: JSON = [item for item in items if item.get("type") == "reasoning"]
    message: dict[str, JSON] = {"role": "assistant", "content": content or None, "reasoning_details": thoughts}
    if calls:
        message["tool_calls"] = calls
    choice: JSON = {"message": message, "finish_reason": _reason(reply, calls)}
    failed: JSON = {"error": reply.get("error") or "it failed", "message": None}
    return {**reply, "choices": [failed if reply.get("status") == "failed" else choice]}


def _reason(reply: Mapping[str, JSON], calls: Sequence[JSON]) -> str:
    details = reply.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    if reply.get("status") == "incomplete":
        return "content_filter" if reason == "content_filter" else "length"
    return "tool_calls" if calls else "stop"


def _call(item: Mapping[str, JSON]) -> JSON:
    function: JSON = {"name": item.get("name"), "arguments": item.get("arguments")}
    return {"id": item.get("call_id"), "type": "function", "function": function}
