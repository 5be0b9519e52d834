"""The local server's protocols: sources of answers, request parsing, whole and streamed replies, error replies."""

import hashlib
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from tunecheck.endpoints import ChatRequest, Completion
from tunecheck.plugins import JSON, canonical, loads

_WORD = re.compile(r"\s*\S+|\s+")
_ARGUMENT_PIECE = 24
"""Characters of a call's arguments in one chunk of a stream."""

_NOT_PARAMETERS = {"messages", "tools", "functions", "model", "stream", "stream_options", "n"}


class ChatSource(Protocol):
    """The source of a server's answers, such as an endpoint. `name` is offered as the model's name."""

    name: str

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one chat.

        Raises:
            NoAnswerError: the source has no answer to these messages.
            EndpointError: the server replies with this error's status and text.
            ProblemError: the server replies with this problem.
        """
        ...

    async def close(self) -> None:
        """Release connections and files; by default there are none."""
        return


@dataclass(frozen=True, slots=True)
class Asked:
    """A parsed request. `digest` is equal for equal requests."""

    request: ChatRequest
    digest: bytes
    model: str | None = None
    stream: bool = False
    with_usage: bool = False


def chat_question(body: bytes) -> Asked:
    """Parse the body of a chat completions request.

    Raises:
        BadRequestError: the body is not such a request, or asks for several choices.
    """
    asked = read_object(body)
    if asked.get("n") not in (None, 1):
        raise BadRequestError("n: must be 1, because this server gives one choice")
    model, options = asked.get("model"), asked.get("stream_options")
    return Asked(
        ChatRequest(
            messages=_messages(asked.get("messages"), "messages"),
            tools=_tools(asked),
            parameters={name: value for name, value in asked.items() if name not in _NOT_PARAMETERS},
        ),
        _digest(asked),
        model=model if isinstance(model, str) else None,
        stream=asked.get("stream") is True,
        with_usage=isinstance(options, dict) and options.get("include_usage") is True,
    )


def score_question(body: bytes) -> Asked:
    """Parse the body of a scoring request.

    `input_data` is the messages, or contains them under `messages` or `input_string`.

    Raises:
        BadRequestError: the body has no messages.
    """
    asked = read_object(body)
    data = asked.get("input_data")
    inner = data if isinstance(data, dict) else {}
    named = next((inner[key] for key in ("messages", "input_string") if inner.get(key) is not None), data)
    messages = _messages(named, "input_data")
    parameters = asked.get("params") or asked.get("parameters") or inner.get("parameters")
    given = parameters if isinstance(parameters, dict) else {}
    return Asked(ChatRequest(messages, _tools(asked) or _tools(inner), given), _digest(asked))


def read_object(body: bytes) -> dict[str, JSON]:
    """Parse a request's body, or raise BadRequestError if it is not a JSON object."""
    try:
        value = loads(body)
    except ValueError as error:
        raise BadRequestError(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadRequestError("the body must be a JSON object")
    return value


def _digest(asked: Mapping[str, JSON]) -> bytes:
    """Return a hash that is equal for requests with equal content, or raise BadRequestError."""
    try:
        return hashlib.blake2b(canonical(asked), digest_size=16).digest()
    except TypeError as error:
        raise BadRequestError(f"the body cannot be read: {error}") from None


def _messages(value: JSON, where: str) -> Sequence[Mapping[str, JSON]]:
    """Return messages; a text becomes a user message. `where` names the field in a BadRequestError."""
    if isinstance(value, str) and value:
        return [{"role": "user", "content": value}]
    messages = _objects(value, where)
    if not messages:
        raise BadRequestError(f"{where}: must not be empty")
    return messages


def _tools(asked: Mapping[str, JSON]) -> Sequence[Mapping[str, JSON]] | None:
    """Return the request's tools, also those given as `functions`, or None without both."""
    if asked.get("tools") is not None:
        return _objects(asked["tools"], "tools")
    if asked.get("functions") is not None:
        return [{"type": "function", "function": dict(each)} for each in _objects(asked["functions"], "functions")]
    return None


def _objects(value: JSON, where: str) -> list[dict[str, JSON]]:
    """Return the value as a list of objects, or raise BadRequestError, which names the field `where`."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise BadRequestError(f"{where}: must be a list of objects")
    return cast("list[dict[str, JSON]]", value)


@dataclass(frozen=True, slots=True)
class Problem:
    """An error in the format of OpenAI's API."""

    status: int
    message: str
    type: str | None = "invalid_request_error"
    code: str | None = None
    param: str | None = None

    def body(self) -> dict[str, JSON]:
        error: dict[str, JSON] = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return {"error": error}

    def headers(self) -> dict[str, str]:
        """Return Retry-After, in whole seconds, for the statuses that clients should retry."""
        return {"Retry-After": "1"} if self.status in (429, 503) else {}


class ProblemError(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class BadRequestError(ProblemError):
    def __init__(self, text: str) -> None:
        super().__init__(Problem(400, text))


def model_list(name: str) -> dict[str, JSON]:
    return {"object": "list", "data": [{"id": name, "object": "model", "created": 0, "owned_by": "tunecheck"}]}


def score_reply(completion: Completion) -> dict[str, JSON]:
    """Return the reply of a scoring request. `result` contains the model's calls, or its text if it made none."""
    return {"result": completion.columns()["response"], **_mark_simulated(completion)}


def chat_completion(completion: Completion, *, model: str, request_id: str) -> dict[str, JSON]:
    """Return a completion as the reply of a chat completions request."""
    message: dict[str, JSON] = {"role": "assistant", "content": completion.text}
    if completion.tool_calls:
        message["tool_calls"] = [dict(call) for call in completion.tool_calls]
    message |= _beside(completion)
    choice: dict[str, JSON] = {"index": 0, "message": message, "finish_reason": _finish(completion), "logprobs": None}
    body = _envelope("chat.completion", model, request_id)
    return {**body, "choices": [choice], "usage": _usage(completion), **_mark_simulated(completion)}


def chat_pieces(completion: Completion, *, model: str, request_id: str, with_usage: bool) -> Iterator[dict[str, JSON]]:
    """Yield a completion as the chunks of a stream: role, text word by word, calls in pieces, finish reason, usage."""
    body = {**_envelope("chat.completion.chunk", model, request_id), **_mark_simulated(completion)}
    if with_usage:
        body["usage"] = None
    for delta in _deltas(completion):
        yield {**body, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**body, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(completion)}]}
    if with_usage:
        yield {**body, "choices": [], "usage": _usage(completion)}


def _deltas(completion: Completion) -> Iterator[dict[str, JSON]]:
    """Yield the changes of a streamed message: role, reasoning, words of the text, and calls in pieces."""
    yield {"role": "assistant", "content": None if completion.text is None else ""}
    for name, text in _beside(completion).items():
        yield {name: text}
    for match in _WORD.finditer(completion.text or ""):
        yield {"content": match[0]}
    for index, call in enumerate(completion.tool_calls):
        function = call.get("function")
        parts = dict(function) if isinstance(function, dict) else {}
        arguments = parts.pop("arguments", "")
        yield {"tool_calls": [{"index": index, **call, "function": {**parts, "arguments": ""}}]}
        text = arguments if isinstance(arguments, str) else ""
        for start in range(0, len(text), _ARGUMENT_PIECE):
            piece = text[start : start + _ARGUMENT_PIECE]
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _beside(completion: Completion) -> Mapping[str, JSON]:
    """Return the message fields for the recorded reasoning, or nothing without reasoning."""
    fields = {name: value for name, value in completion.reasoning_fields.items() if name != "content"}
    return fields or ({"reasoning_content": completion.reasoning} if completion.reasoning else {})


def _envelope(kind: str, model: str, request_id: str) -> dict[str, JSON]:
    return {"id": f"chatcmpl-{request_id}", "object": kind, "created": int(time.time()), "model": model}


def _mark_simulated(completion: Completion) -> dict[str, JSON]:
    return {"simulated": True} if completion.simulated else {}


def _finish(completion: Completion) -> str:
    return completion.finish_reason or ("tool_calls" if completion.tool_calls else "stop")


def _usage(completion: Completion) -> JSON:
    """Return the token counts of a completion, or None if none is known."""
    usage = completion.usage
    if usage.input_tokens is None and usage.output_tokens is None:
        return None
    asked, answered = usage.input_tokens or 0, usage.output_tokens or 0
    told: dict[str, JSON] = {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered}
    if usage.reasoning_tokens is not None:
        told["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return told
