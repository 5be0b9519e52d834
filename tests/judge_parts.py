"""Shared parts of the tests of judges: a server with scripted replies, an endpoint for it, prompts in a line."""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.fault_server import FaultServer, Request, Step, answer, failing

from tunecheck.endpoints import ChatRequest, Completion, Endpoint, Usage, load_endpoint

Asked = dict[str, Any]
"""The body of a request."""

Reply = Callable[[Asked], Step | str]

QUALITY = """\
---
name: Quality
model:
  api: chat
  parameters: {temperature: 0.5, max_tokens: 200}
inputs:
  response: {type: string}
outputs:
  score: {type: integer, minimum: 1, maximum: 5}
  reason: {type: string}
---
system:
You judge quality.

user:
{{response}}
"""


def prompt_file(folder: Path, text: str = QUALITY, name: str = "quality") -> Path:
    path = folder / f"{name}.prompty"
    path.write_text(text, encoding="utf-8")
    return path


def plain_prompt(folder: Path, name: str = "quality", **judge: Any) -> Path:
    """A prompt that declares no outputs, as Azure's do."""
    section = f"judge: {json.dumps(judge)}\n" if judge else ""
    body = "---\nmodel: {api: chat, parameters: {}}\ninputs: {response: {type: string}}\n"
    return prompt_file(folder, f"{body}{section}---\nuser:\n{{{{response}}}}\n", name)


def chat(text: str | None, *, finish: str = "stop", usage: tuple[int, int] | None = (100, 10), **message: Any) -> Step:
    """A chat completion."""
    body: dict[str, Any] = {
        "model": "judge-model",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
        ],
    }
    if usage is not None:
        body["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
    return answer(body)


def judgement(score: object, reason: str = "because") -> str:
    return json.dumps({"reason": reason, "score": score})


class Credential:
    """A credential like azure-identity's; remembers what its tokens were for."""

    def __init__(self) -> None:
        self.scopes: list[str] = []

    def get_token(self, *scopes: str) -> SimpleNamespace:
        self.scopes += scopes
        return SimpleNamespace(token="entra-token", expires_on=4_000_000_000)


class JudgeServer(FaultServer):
    """Answers each request by what `reply` makes of its body, or by the next of several replies."""

    def __init__(self, reply: Reply | Iterable[Step | str]) -> None:
        if callable(reply):
            self._reply_to: Reply = reply
        else:
            rest = iter(reply)
            self._reply_to = lambda asked: next(rest, failing(418, "nobody expected this request"))
        super().__init__(self._step)

    def _step(self, request: Request, attempt: int) -> Step:
        made = self._reply_to(json.loads(request.body))
        return chat(made) if isinstance(made, str) else made

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def asked(self) -> list[Asked]:
        """The bodies of all requests, in order."""
        return [json.loads(request.body) for request in self.requests]

    def endpoint(self, **settings: Any) -> Endpoint:
        definition = {"kind": "openai", "url": f"{self.address}/v1", "model": "judge-model", "retries": 0}
        return load_endpoint({**definition, **settings}, name="judge")


class Scripted(Endpoint):
    """A model without a wire: the next of its texts each time, or an error; remembers what it was asked."""

    kind = "scripted"
    name = "scripted"

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> Completion:
        self.requests.append(request)
        made = self.answers.pop(0)
        await asyncio.sleep(0)
        if isinstance(made, Exception):
            raise made
        return Completion(text=made, usage=Usage(100, 10), request_id=f"r{len(self.requests)}")

    def settings(self) -> dict[str, Any]:
        return {"kind": self.kind}


def format_of(asked: Mapping[str, Any]) -> Any:
    """The response_format of a request: "json_schema", "json_object" or None."""
    found = asked.get("response_format")
    return None if found is None else found["type"]
