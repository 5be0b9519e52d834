"""A server on loopback that answers by plan, well or badly, down to the byte, and remembers who asked what.

with FaultServer(lambda seen, attempt: busy(retry_after="1") if attempt == 0 else answer({"result": "hi"})) as server:
    ...  # server.url, server.requests, server.answered
"""

import asyncio
import json
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Self


@dataclass(frozen=True)
class Request:
    """One request as it arrived; header names in lower case."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def key(self) -> str:
        """Its idempotency key."""
        return self.headers.get("idempotency-key", "")

    def json(self) -> object:
        """Its body."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Step:
    """The server's action for one request, after `delay_s`. `length` is what Content-Length says, if that is wrong."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    length: int | None = None
    then: Literal["keep", "close", "reset", "hang", "trickle"] = "keep"
    silent: bool = False
    good: bool = False
    delay_s: float = 0


Plan = Callable[[Request, int], Step]
"""(request, how many requests with this key came before) → what to do."""

_JSON = {"Content-Type": "application/json"}


def answer(value: object, **headers: str) -> Step:
    return Step(
        200, {**_JSON, **{k.replace("_", "-"): v for k, v in headers.items()}}, json.dumps(value).encode(), good=True
    )


def raw(body: bytes, content_type: str = "application/json", status: int = 200, **headers: str) -> Step:
    return Step(status, {"Content-Type": content_type, **{k.replace("_", "-"): v for k, v in headers.items()}}, body)


def failing(status: int, message: str = "it did not work", **headers: str) -> Step:
    fields = {k.replace("_", "-"): v for k, v in headers.items()}
    return Step(status, {**_JSON, **fields}, json.dumps({"error": {"message": message}}).encode())


def busy(retry_after: str | None = None) -> Step:
    return failing(429, "too many requests", **({"Retry_After": retry_after} if retry_after is not None else {}))


def filtered() -> Step:
    error = {
        "code": "content_filter",
        "message": "The response was filtered",
        "innererror": {
            "code": "ResponsibleAIPolicyViolation",
            "content_filter_result": {"violence": {"filtered": True, "severity": "high"}, "hate": {"filtered": False}},
        },
    }
    return Step(400, _JSON, json.dumps({"error": error}).encode())


def truncated(value: object) -> Step:
    body = json.dumps(value).encode()
    return Step(200, _JSON, body[: len(body) // 2], length=len(body), then="close")


def page(status: int = 200) -> Step:
    return raw(b"<html><head><title>Sign in</title></head><body>Please sign in</body></html>", "text/html", status)


RESET = Step(silent=True, then="reset")
HANG = Step(silent=True, then="hang")
TRICKLE = Step(200, _JSON, b'{"result": "' + b"x" * 10_000, length=20_000, then="trickle")


class FaultServer:
    """An HTTP/1.1 server in a thread of its own. `answered` counts good replies, sent whole, by idempotency key."""

    def __init__(self, plan: Plan, *, tls: ssl.SSLContext | None = None) -> None:
        self._plan = plan
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.requests: list[Request] = []
        self.seen: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.connections = 0
        self.under_way = 0
        self.most_under_way = 0

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}/score"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while (request := await _read(reader)) is not None:
                self.under_way += 1
                self.most_under_way = max(self.most_under_way, self.under_way)
                try:
                    if not await self._reply(request, writer):
                        break
                finally:
                    self.under_way -= 1
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _reply(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        attempt = self.seen[request.key]
        self.seen[request.key] += 1
        self.requests.append(request)
        step = self._plan(request, attempt)
        await asyncio.sleep(step.delay_s)
        if step.then == "reset":
            transport = writer.transport
            assert isinstance(transport, asyncio.Transport)
            transport.abort()
            return False
        if not step.silent:
            writer.write(_head(step))
            await (_trickle(step.body, writer) if step.then == "trickle" else _send(step.body, writer))
        if step.then == "hang":
            await asyncio.sleep(3600)
        if step.good:
            self.answered[request.key] += 1
        return step.then == "keep"


def _head(step: Step) -> bytes:
    length = len(step.body) if step.length is None else step.length
    fields = {"Content-Length": str(length), **step.headers}
    lines = [f"HTTP/1.1 {step.status} Status", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


async def _send(body: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(body)
    await writer.drain()


async def _trickle(body: bytes, writer: asyncio.StreamWriter) -> None:
    for byte in body:
        await _send(bytes([byte]), writer)
        await asyncio.sleep(0.02)


async def _read(reader: asyncio.StreamReader) -> Request | None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(first.split(" ")[1], headers, body)
