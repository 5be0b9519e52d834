"""Replies of the local server on the wire: chat completions whole and in pieces, the scoring reply, and errors."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tunecheck._json import JSON
from tunecheck.endpoints._base import Completion

_WORD = re.compile(r"\s*\S+|\s+")
_ARGUMENT_PIECE = 24
"""Characters of a call's arguments in one piece of a stream."""


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as OpenAI's API words it; `inner` is what Azure adds as its `innererror`.

    `retry_after_s` is when to come back, in seconds.
    """

    status: int
    message: str
    type: str | None = "invalid_request_error"
    code: str | None = None
    param: str | None = None
    retry_after_s: float | None = None
    inner: Mapping[str, JSON] | None = None

    def body(self) -> dict[str, JSON]:
        """The reply's body."""
        error: dict[str, JSON] = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        if self.inner is not None:
            error |= {"status": self.status, "innererror": dict(self.inner)}
        return {"error": error}

    def headers(self) -> dict[str, str]:
        """When to come back, as services say it: in whole seconds, and to the millisecond where that is not exact."""
        seconds = self.retry_after_s
        if seconds is None:
            return {"Retry-After": "1"} if self.status in (429, 503) else {}
        exact = {} if seconds == int(seconds) else {"retry-after-ms": f"{seconds * 1000:.0f}"}
        return {"Retry-After": str(math.ceil(seconds)), **exact}


class ProblemError(Exception):
    """An answer that is this error reply."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Refusal(Completion):
    """A model's refusal in its own words, which chat completions have a place for beside the text."""

    refusal: str = ""


def model_list(name: str) -> dict[str, JSON]:
    """The one model there is, as a model list."""
    return {"object": "list", "data": [{"id": name, "object": "model", "created": 0, "owned_by": "tunecheck"}]}


def score_reply(completion: Completion) -> dict[str, JSON]:
    """The reply of a scoring script: `result` holds the calls where the model called, else its text."""
    return {"result": completion.columns()["response"], **_marked(completion)}


def chat_completion(completion: Completion, *, model: str, request_id: str) -> dict[str, JSON]:
    """A whole chat completion with one choice."""
    message: dict[str, JSON] = {"role": "assistant", "content": completion.text}
    if completion.tool_calls:
        message["tool_calls"] = [dict(call) for call in completion.tool_calls]
    if isinstance(completion, Refusal):
        message["refusal"] = completion.refusal
    choice: dict[str, JSON] = {"index": 0, "message": message, "finish_reason": _finish(completion), "logprobs": None}
    body = _envelope("chat.completion", model, request_id)
    return {**body, "choices": [choice], "usage": _usage(completion), **_marked(completion)}


def chat_pieces(completion: Completion, *, model: str, request_id: str, with_usage: bool) -> Iterator[dict[str, JSON]]:
    """The same as the pieces of a stream: the role, the text word by word, each call's name and arguments, the end."""
    body = {**_envelope("chat.completion.chunk", model, request_id), **_marked(completion)}
    if with_usage:
        body["usage"] = None
    for delta in _deltas(completion):
        yield {**body, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**body, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(completion)}]}
    if with_usage:
        yield {**body, "choices": [], "usage": _usage(completion)}


def _deltas(completion: Completion) -> Iterator[dict[str, JSON]]:
    yield {"role": "assistant", "content": None if completion.text is None else ""}
    for match in _WORD.finditer(completion.text or ""):
        yield {"content": match[0]}
    if isinstance(completion, Refusal):
        yield {"refusal": completion.refusal}
    for index, call in enumerate(completion.tool_calls):
        yield from _call_deltas(index, call)


def _call_deltas(index: int, call: Mapping[str, JSON]) -> Iterator[dict[str, JSON]]:
    function = call.get("function")
    parts = dict(function) if isinstance(function, dict) else {}
    arguments = parts.pop("arguments", "")
    yield {"tool_calls": [{"index": index, **call, "function": {**parts, "arguments": ""}}]}
    text = arguments if isinstance(arguments, str) else ""
    for start in range(0, len(text), _ARGUMENT_PIECE):
        piece = text[start : start + _ARGUMENT_PIECE]
        yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _envelope(kind: str, model: str, request_id: str) -> dict[str, JSON]:
    return {"id": f"chatcmpl-{request_id}", "object": kind, "created": int(time.time()), "model": model}


def _marked(completion: Completion) -> dict[str, JSON]:
    return {"simulated": True} if completion.simulated else {}


def _finish(completion: Completion) -> str:
    return completion.finish_reason or ("tool_calls" if completion.tool_calls else "stop")


def _usage(completion: Completion) -> JSON:
    asked, answered = completion.usage.input_tokens, completion.usage.output_tokens
    if asked is None and answered is None:
        return None
    asked, answered = asked or 0, answered or 0
    return {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered}
