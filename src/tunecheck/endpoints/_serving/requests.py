"""Requests to the local server, read and checked: what is asked, whatever the path it came by."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tunecheck._json import JSON, canonical, loads

_NOT_PARAMETERS = {"messages", "tools", "functions", "model", "stream", "stream_options", "n"}


class BadRequestError(Exception):
    """A request that cannot be understood; the text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One question. `digest` is equal for equal requests."""

    messages: Sequence[Mapping[str, JSON]]
    tools: Sequence[Mapping[str, JSON]] | None
    digest: bytes
    parameters: Mapping[str, JSON] = field(default_factory=dict)
    model: str | None = None
    stream: bool = False
    with_usage: bool = False


def chat_question(body: bytes) -> Asked:
    """A chat completion's request.

    Raises:
        BadRequestError: it cannot be read; the text says what is wrong with it.
    """
    asked = _object(body)
    if asked.get("n") not in (None, 1):
        raise BadRequestError("n: only one choice is offered")
    model, options = asked.get("model"), asked.get("stream_options")
    return Asked(
        messages=_messages(asked.get("messages"), "messages"),
        tools=_tools(asked),
        digest=_digest(asked),
        parameters={name: value for name, value in asked.items() if name not in _NOT_PARAMETERS},
        model=model if isinstance(model, str) else None,
        stream=asked.get("stream") is True,
        with_usage=isinstance(options, dict) and options.get("include_usage") is True,
    )


def score_question(body: bytes) -> Asked:
    """A scoring call's request: `input_data` is the messages, or holds them as `messages` or `input_string`.

    Raises:
        BadRequestError: as `chat_question`.
    """
    asked = _object(body)
    data = asked.get("input_data")
    inner = data if isinstance(data, dict) else {}
    found = [value for value in (inner.get("messages"), inner.get("input_string")) if value is not None]
    messages = _messages(found[0] if found else data, "input_data")
    parameters = asked.get("params") or asked.get("parameters") or inner.get("parameters")
    return Asked(
        messages=messages,
        tools=_tools(asked) or _tools(inner),
        digest=_digest(asked),
        parameters=parameters if isinstance(parameters, dict) else {},
    )


def _object(body: bytes) -> dict[str, JSON]:
    try:
        value = loads(body)
    except ValueError as error:
        raise BadRequestError(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadRequestError("the body must be a JSON object")
    return value


def _digest(asked: Mapping[str, JSON]) -> bytes:
    try:
        return hashlib.blake2b(canonical(asked), digest_size=16).digest()
    except TypeError as error:
        raise BadRequestError(f"the body cannot be read: {error}") from None


def _messages(value: JSON, where: str) -> Sequence[Mapping[str, JSON]]:
    if isinstance(value, str) and value:
        return [{"role": "user", "content": value}]
    return _objects(value, where) or _refuse(where)


def _tools(asked: Mapping[str, JSON]) -> Sequence[Mapping[str, JSON]] | None:
    if asked.get("tools") is not None:
        return _objects(asked["tools"], "tools")
    if asked.get("functions") is not None:
        return [{"type": "function", "function": dict(each)} for each in _objects(asked["functions"], "functions")]
    return None


def _objects(value: JSON, where: str) -> list[dict[str, JSON]]:
    objects = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else None
    if objects is None or not isinstance(value, list) or len(objects) != len(value):
        raise BadRequestError(f"{where}: must be a list of objects")
    return objects


def _refuse(where: str) -> list[dict[str, JSON]]:
    raise BadRequestError(f"{where}: must not be empty")
