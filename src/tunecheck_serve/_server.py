"""The local server of `tunecheck serve`, with Azure ML's scoring protocol and OpenAI's chat completions.

The command calls `run_server` with a source of answers. Other services, such as an agent with memory or an evaluator,
are a `Service` with their own paths.

Every request passes through `Middleware`, in this order. The first step with a reply ends the request:

1. host: a name that is not this machine's gets status 403, if the server listens on a loopback address
2. key: a missing or wrong key gets status 401; the paths `/` and `/health` need none
3. handler: it parses the body (status 400 if it is malformed or asks for a stream) and answers. A model's server waits
   for the latency first, and repeats its answer if the `Idempotency-Key` is known

Errors become replies in the format of OpenAI's API:

| error | status |
|---|---|
| the source has no answer | 404 |
| the content filter refused the request | 400 |
| another error of the endpoint | the endpoint's status from 400 to 599; without a status, 504 for a timeout, else 500 |
| an unknown path, a wrong method, or a body above 16 MiB | 404, 405 or 413 |
| any other exception | 500 |
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import hmac
import os
import re
import time
import uuid
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeAlias, TypeVar, cast

import msgspec
from aiohttp import web

from tunecheck import ConfigurationError, ContentFilterError, EndpointError, NoAnswerError, TimedOutError
from tunecheck.endpoints import ChatRequest, Completion, is_loopback
from tunecheck.plugins import JSON, canonical, clean, dumps, loads
from tunecheck.report import NOT_THIS_MACHINE, is_of_this_machine, running, stopped_by_signals

_NOT_PARAMETERS = {"messages", "tools", "functions", "model", "stream", "stream_options", "n"}
"""The keys of a request that the server reads itself. All others are parameters of the model, such as `temperature`."""


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


class Asked(msgspec.Struct, frozen=True):
    """A parsed request. `digest` is equal for equal requests.

    `model` is the requested model's name, None if the request names none.
    """

    request: ChatRequest
    digest: bytes
    model: str | None = None


def chat_question(body: bytes) -> Asked:
    """Parse the body of a chat completions request.

    Raises:
        BadRequestError: the body is not such a request, or asks for several choices or a stream.
    """
    asked = read_object(body)
    # Each row has one recorded or simulated answer, so there is no second choice.
    if asked.get("n") not in (None, 1):
        raise BadRequestError(f"`n` must be 1, not {asked['n']!r:.60}: this server returns one choice per request")
    if asked.get("stream") is True:
        raise BadRequestError("streaming is not supported by this server: leave out `stream`")

    model = asked.get("model")
    parameters = {name: value for name, value in asked.items() if name not in _NOT_PARAMETERS}
    request = ChatRequest(_messages(asked.get("messages"), "messages"), _tools(asked), parameters)
    return Asked(request, _digest(asked), model if isinstance(model, str) else None)


def score_question(body: bytes) -> Asked:
    """Parse the body of a scoring request, in any of these shapes:

        {"input_data": {"messages": […], "parameters": {…}}}
        {"input_data": {"input_string": […], "parameters": {…}}}
        {"input_data": […], "params": {…}}
        {"input_data": "a question"}

    Parameters may also be beside `input_data`, as `params` or `parameters`. Tools may be in either place.

    Raises:
        BadRequestError: the body is no JSON object, or has no messages.
    """
    asked = read_object(body)
    data = asked.get("input_data")
    inner = data if isinstance(data, dict) else {}

    content = next((inner[key] for key in ("messages", "input_string") if inner.get(key) is not None), data)
    messages = _messages(content, "input_data")

    given = asked.get("params") or asked.get("parameters") or inner.get("parameters")
    parameters = given if isinstance(given, dict) else {}
    return Asked(ChatRequest(messages, _tools(asked) or _tools(inner), parameters), _digest(asked))


def read_object(body: bytes) -> dict[str, JSON]:
    """Parse a request's body, or raise BadRequestError if it is not a JSON object."""
    try:
        value = loads(body)
    except ValueError as error:
        raise BadRequestError(f"the request's body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadRequestError(f"the request's body must be a JSON object, not {value!r:.60}")
    return value


def _digest(asked: Mapping[str, JSON]) -> bytes:
    """Return a hash that is equal for requests with equal content, or raise BadRequestError."""
    try:
        return hashlib.blake2b(canonical(asked), digest_size=16).digest()
    except TypeError as error:
        raise BadRequestError(f"the request's body contains a value that JSON does not allow: {error}") from None


def _messages(value: JSON, field: str) -> Sequence[Mapping[str, JSON]]:
    """Return messages; a text becomes a user message.

    Raises:
        BadRequestError: the value is empty, or no list of objects. The error names the field.
    """
    if isinstance(value, str) and value:
        return [{"role": "user", "content": value}]

    messages = _objects(value, field)
    if not messages:
        raise BadRequestError(f"`{field}` must contain at least one message")
    return messages


def _tools(asked: Mapping[str, JSON]) -> Sequence[Mapping[str, JSON]] | None:
    """Return the request's tools, also those given as `functions`, or None without both."""
    if asked.get("tools") is not None:
        return _objects(asked["tools"], "tools")
    # OpenAI's older API gives functions without a wrapper.
    if asked.get("functions") is not None:
        return [{"type": "function", "function": dict(each)} for each in _objects(asked["functions"], "functions")]
    return None


def _objects(value: JSON, field: str) -> list[dict[str, JSON]]:
    """Return the value as a list of objects, or raise BadRequestError, which names the field."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise BadRequestError(f"`{field}` must be a list of objects, not {value!r:.60}")
    return cast("list[dict[str, JSON]]", value)


@dataclass(eq=False)
class ProblemError(Exception):
    """An error reply in the format of OpenAI's API: {"error": {"message": …, "type": …, "param": …, "code": …}}.

    The server turns the exception into this reply.
    """

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

    def reply(self) -> web.Response:
        return json_reply(self.body(), status=self.status, headers=self.headers())


class BadRequestError(ProblemError):
    """An error of the client's request, with status 400."""

    def __init__(self, text: str) -> None:
        super().__init__(400, text)


def chat_completion(completion: Completion, *, model: str, request_id: str) -> dict[str, JSON]:
    """Return a completion as the reply of a chat completions request."""
    message: dict[str, JSON] = {"role": "assistant", "content": completion.text}
    if completion.tool_calls:
        message["tool_calls"] = [dict(call) for call in completion.tool_calls]
    message |= _reasoning_fields(completion)

    reason = completion.finish_reason or ("tool_calls" if completion.tool_calls else "stop")
    choice: dict[str, JSON] = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    return {
        "id": f"chatcmpl-{request_id}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [choice],
        "usage": _usage(completion),
        **_mark_simulated(completion),
    }


def _reasoning_fields(completion: Completion) -> Mapping[str, JSON]:
    """Return the message fields with the recorded reasoning, empty without reasoning."""
    # Some models give their reasoning as a part of `content`; the message has that field already.
    fields = {name: value for name, value in completion.reasoning_fields.items() if name != "content"}
    return fields or ({"reasoning_content": completion.reasoning} if completion.reasoning else {})


def _mark_simulated(completion: Completion) -> dict[str, JSON]:
    return {"simulated": True} if completion.simulated else {}


def _usage(completion: Completion) -> JSON:
    """Return the token counts of a completion, or None if neither its input nor its output tokens are known."""
    usage = completion.usage
    if usage.input_tokens is None and usage.output_tokens is None:
        return None

    # If one of the counts is unknown, it is reported as 0.
    prompt, answer = usage.input_tokens or 0, usage.output_tokens or 0
    counts: dict[str, JSON] = {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}

    if usage.reasoning_tokens is not None:
        counts["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return counts


# -- settings and start

REQUEST_ID = "x-request-id"
"""The header with the id of a reply, as OpenAI's API names it."""

REPLAYED = "Idempotent-Replayed"
"""The header of a repeated reply. The name is common among payment services."""

MAX_BODY_BYTES = 16 << 20
"""The largest request body in bytes."""

MAX_STORED = 10_000
"""The most answers that are kept for repeated idempotency keys. The oldest are dropped first."""

_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
T = TypeVar("T")

_OPEN_TO_ALL = ("/", "/health")
"""The paths of the health check, which need no key and are not counted."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The server's settings.

    If a `key` is set, every request except the health check needs it. The server waits `latency_ms` before each
    answer. `log` gets a line for each request. If `local_only`, the server refuses requests with a host name that is
    not this machine's.
    """

    key: str | None = field(default=None, repr=False)
    latency_ms: float = 0.0
    log: Callable[[str], None] | None = None
    local_only: bool = True


def key_from(variable: str | None) -> str | None:
    """Return the key in this environment variable, or None if `variable` is None.

    Raises:
        ConfigurationError: the variable is not set, or contains only white space.
    """
    if variable is None:
        return None

    # White space around a key, such as a line break from a file, is no part of it.
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ConfigurationError(f"--key-env {variable}: the environment variable is unset or blank; set it to the key")
    return key


class Service(ABC):
    """A service with its own paths. `about` and `paths` are shown when the server starts."""

    name: str
    about: str
    paths: str

    @abstractmethod
    def add_to(self, app: web.Application, middleware: Middleware) -> None:
        """Add the service's request handlers to the application; it has those of the health check already."""

    def health(self) -> dict[str, JSON]:
        """Return the service's part of a health check: its name and counts of its own."""
        return {"model": self.name}


def make_app(source: ChatSource | Service, options: ServerOptions | None = None) -> web.Application:
    """Return an aiohttp application that serves a model's answers or another service."""
    middleware = Middleware(options or ServerOptions())
    # The middleware is outermost, so that refusals and errors of all handlers get the same format.
    app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[middleware.outermost])
    service = source if isinstance(source, Service) else ModelServer(source)

    async def health(_: web.Request) -> web.Response:
        return json_reply({"status": "ok", **service.health(), **middleware.counts})

    app.add_routes([web.get(path, health) for path in _OPEN_TO_ALL])
    service.add_to(app, middleware)
    return app


async def run_server(
    source: ChatSource | Service,
    options: ServerOptions | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    on_ready: Callable[[str], None] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serve until `stop` is set or SIGINT or SIGTERM arrives, then finish the requests in flight.

    `on_ready` is called with the server's address when it is ready.

    Raises:
        ConfigurationError: other machines can reach the host, and no key is required.
    """
    options = options or ServerOptions()
    if not is_loopback(host) and not options.key:
        raise ConfigurationError(f"--host {host} lets other machines send requests; require a key: --key-env NAME")

    stop = stop or asyncio.Event()
    # Other machines reach a public address by names that the server cannot know.
    options = replace(options, local_only=is_loopback(host))

    async with running(make_app(source, options), host, port) as url:
        with stopped_by_signals(stop):
            if on_ready:
                on_ready(url)
            await stop.wait()


# -- a model's answers


class ModelServer(Service):
    """A service that offers a model's answers as a scoring endpoint and as chat completions."""

    paths = "/score, /v1/chat/completions"

    def __init__(self, source: ChatSource, about: str = "answers") -> None:
        self.name, self.about = source.name, about
        self._source = source
        self._replies: ReplyStore[Completion] = ReplyStore()

    def add_to(self, app: web.Application, middleware: Middleware) -> None:
        """Add the routes of both protocols and of the model list."""
        self._middleware = middleware
        # The paths of OpenAI, of Azure's newer API, and of Azure's older API, which names a deployment.
        chat = ("/v1", "/openai/v1", "/openai/deployments/{deployment}")
        app.add_routes([web.post(f"{prefix}/chat/completions", self.chat) for prefix in chat])
        app.add_routes([web.get(f"{prefix}/models", self.models) for prefix in chat[:2]])

        app.add_routes([web.post("/score", self.score)])
        app.on_cleanup.append(self.close)

    async def models(self, _: web.Request) -> web.Response:
        model = {"id": self.name, "object": "model", "created": 0, "owned_by": "tunecheck"}
        return json_reply({"object": "list", "data": [model]})

    async def score(self, request: web.Request) -> web.Response:
        """Answer a scoring request. `result` contains the model's calls, or its text if it made none."""
        completion, headers = await self.completion(request, score_question(await request.read()))
        return json_reply({"result": completion.columns()["response"], **_mark_simulated(completion)}, headers=headers)

    async def chat(self, request: web.Request) -> web.Response:
        """Answer a chat completions request."""
        question = chat_question(await request.read())
        completion, headers = await self.completion(request, question)

        model = request.match_info.get("deployment") or question.model or self.name
        body = chat_completion(completion, model=model, request_id=headers[REQUEST_ID])
        return json_reply(body, headers=headers)

    async def close(self, _: web.Application) -> None:
        await self._source.close()

    async def completion(self, request: web.Request, question: Asked) -> tuple[Completion, dict[str, str]]:
        """Return the answer to a question, and the reply's headers: the request id, and a mark of a repeated answer.

        The id is that of the recorded answer; a random one if the answer has none.
        """
        ask = functools.partial(self._source.complete, question.request)
        completion, headers = await self._middleware.answer_once(request, self._replies, question.digest, ask)

        # A recorded id may contain characters that a header cannot.
        id_ = re.sub(r"[^ -~]", "", (completion.request_id or "")[:200]).strip()
        return completion, {REQUEST_ID: id_ or uuid.uuid4().hex, **headers}


def json_reply(
    body: Mapping[str, object], *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """Return a JSON reply. It gets a new request id unless the headers contain one."""
    headers = {REQUEST_ID: uuid.uuid4().hex, **(headers or {})}
    return web.Response(body=dumps(body), status=status, headers=headers, content_type="application/json")


# -- checks of every request


class Middleware:
    """The middleware of a server, and the state that its handlers share.

    In `counts`, `requests` has the number of all requests except health checks, `answers` of those that got an answer,
    also a repeated one, `repeats` of those with a known idempotency key, and `refusals` of those with a wrong host name
    or key.
    """

    def __init__(self, options: ServerOptions) -> None:
        self._options = options
        self.counts = dict.fromkeys(("requests", "answers", "repeats", "refusals"), 0)

    async def answer_once(
        self, request: web.Request, replies: ReplyStore[T], digest: bytes, ask: Callable[[], Awaitable[T]]
    ) -> tuple[T, dict[str, str]]:
        """Return the answer to a request and extra headers, which mark a repeated answer.

        `ask` computes the answer. If the request has an idempotency key, `ask` is called only once for that key, and
        `replies` keeps the answer. `digest` is the hash of the question. Waits for the server's artificial latency
        first, and counts the answer.

        Raises:
            BadRequestError: the key was used with another question.
        """
        if self._options.latency_ms:
            await asyncio.sleep(self._options.latency_ms / 1000)

        key = request.headers.get("Idempotency-Key")
        repeated = key is not None and replies.holds(key)
        self.counts["repeats"] += 1 if repeated else 0

        answer = await (ask() if key is None else replies.reply(key, digest, ask))
        self.counts["answers"] += 1
        return answer, {REPLAYED: "true"} if repeated else {}

    @web.middleware
    async def outermost(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Answer a request and log a line about it."""
        started = time.monotonic()
        response = await self._reply(request, handler)

        if self._options.log:
            took = (time.monotonic() - started) * 1000
            again = " (repeated)" if REPLAYED in response.headers else ""
            self._options.log(f"{request.method} {clean(request.path, 200)} {response.status} {took:.0f} ms{again}")
        return response

    async def _reply(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Return the handler's reply, or an error reply for a refusal or an exception."""
        self.counts["requests"] += 0 if request.path in _OPEN_TO_ALL else 1

        refusal = self._refusal(request)
        if refusal:
            self.counts["refusals"] += 1
            return refusal.reply()

        try:
            return await handler(request)
        # aiohttp's own replies, such as those for an unknown path, have no JSON body.
        except web.HTTPException as error:
            problem = ProblemError(error.status, f"{request.method} {request.path}: {error.reason}")
        except web.RequestPayloadError:
            problem = ProblemError(400, f"{request.method} {request.path}: the request's body cannot be decoded")
        except ProblemError as error:
            problem = error
        except EndpointError as error:
            problem = _problem_of_endpoint(error)
        except Exception as error:  # noqa: BLE001 - a source may be user code; the server goes on
            problem = ProblemError(500, f"{type(error).__name__}: {error}", "server_error")
        return problem.reply()

    def _refusal(self, request: web.Request) -> ProblemError | None:
        """Return the problem of a request with a wrong host name or key, or None if the request is allowed."""
        if self._options.local_only and not is_of_this_machine(request):
            return ProblemError(403, NOT_THIS_MACHINE, "permission_error", "wrong_host")

        key = self._options.key
        if key and request.path not in _OPEN_TO_ALL and not key_is_right(key, request.headers):
            return ProblemError(401, "the API key is missing or wrong", "authentication_error", "invalid_api_key")
        return None


def key_is_right(key: str, headers: Mapping[str, str]) -> bool:
    """Return whether the headers contain the key as bearer token or as Azure's `api-key`, compared in constant time."""
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    offered = token.strip() if scheme.lower() == "bearer" else headers.get("api-key", "")
    # `compare_digest` takes bytes or ASCII text, but a header may have other characters, and bytes that are not UTF-8.
    return hmac.compare_digest(offered.encode("utf-8", "surrogateescape"), key.encode())


def _problem_of_endpoint(error: EndpointError) -> ProblemError:
    """Return an endpoint's error as a problem, with the endpoint's own status if that is an error status."""
    text = str(error)

    if isinstance(error, NoAnswerError):
        return ProblemError(404, text, code="no_answer")
    if isinstance(error, ContentFilterError):
        return ProblemError(400, text, code="content_filter", param="prompt")

    status = error.status or (504 if isinstance(error, TimedOutError) else 500)
    return ProblemError(status if 400 <= status <= 599 else 500, text, "server_error", type(error).__name__)


class ReplyStore(Generic[T]):
    """A store of replies by idempotency key. A question is answered once, also if it is sent many times at once.

    An entry has the hash of the question, and the task that computes its answer.
    """

    def __init__(self, most: int = MAX_STORED) -> None:
        self._most = most
        self._stored: OrderedDict[str, tuple[bytes, asyncio.Future[T]]] = OrderedDict()

    def holds(self, key: str) -> bool:
        return key in self._stored

    async def reply(self, key: str, digest: bytes, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the answer to the question with this digest, computed once for its key.

        A failed answer is computed again for the next request, also if the client has hung up meanwhile. A key beyond
        `most` drops the oldest one. `ask` computes the answer.

        Raises:
            BadRequestError: the key was used with another question.
        """
        if key not in self._stored:
            self._stored[key] = (digest, asyncio.ensure_future(ask()))
            self._stored[key][1].add_done_callback(functools.partial(self._forget_failure, key))
            if len(self._stored) > self._most:
                self._stored.popitem(last=False)

        stored_digest, task = self._stored[key]
        if stored_digest != digest:
            raise BadRequestError("this Idempotency-Key was used with another request; send a new key")

        return await asyncio.shield(task)  # if the client hangs up, its repeated request gets the answer

    def _forget_failure(self, key: str, task: asyncio.Future[T]) -> None:
        """Remove a task that was cancelled or failed, unless its key was dropped and has a new task."""
        failed = task.cancelled() or task.exception() is not None
        if failed and key in self._stored and self._stored[key][1] is task:
            del self._stored[key]
