"""Calls to a service that keeps results: one after another, tried again only where that cannot do a thing twice."""

from __future__ import annotations

import io
import random
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Literal, Self, TypeVar

import aiohttp
import yarl

from tunecheck._errors import EndpointError
from tunecheck._json import JSON, dumps, loads
from tunecheck.endpoints import _transport as transport
from tunecheck.endpoints._auth import Auth
from tunecheck.endpoints._faults import one_line, request_id
from tunecheck.endpoints._limits import Clock
from tunecheck.endpoints._masking import Redactor
from tunecheck.endpoints._retry import Backoff, retry_after_s
from tunecheck.endpoints._transport import Bounds, exchange, open_session
from tunecheck.endpoints._urls import proxy_for
from tunecheck.upload._foundry.faults import AttemptFailed, UploadError, field, said, status_name

_TIMEOUT_S = 100.0
_LEAST_BYTES_PER_S = 32 << 10
"""A slower line than that is taken for a dead one."""

_MAX_REPLY_BYTES = 16 << 20

_ADVICE = {
    401: "sign in with `az login`, or check the credential's tenant",
    403: "the identity lacks a right to do this in the project or its storage",
}

Body = Callable[[], "bytes | io.BufferedReader"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an upload, in words that an error begins with. `repeatable`: done twice, it is as if done once."""

    words: str
    repeatable: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """A service's reply: `body` is None where it is not JSON. `headers` are looked up without regard to case."""

    status: int
    headers: Mapping[str, str]
    body: JSON

    def text(self, *path: str | int) -> str:
        """The text at a path of the body.

        Raises:
            ValueError: there is none.
        """
        found = field(self.body, *path)
        if not isinstance(found, str) or not found:
            raise ValueError(f"the service's answer has no {'.'.join(map(str, path))}")
        return found


class Calls:
    """Sends requests with one session: signed in, within time, with backoff. Used as an asynchronous context.

    A service's Retry-After is respected up to two minutes. A step that is not repeatable is tried again only where the
    service certainly did not do it: no connection, 429, or 503 with Retry-After.
    """

    def __init__(
        self,
        redactor: Redactor,
        *,
        user_agent: str,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        self.redactor = redactor
        self.clock = clock or Clock()
        self.user_agent = user_agent
        self._backoff = backoff or Backoff(base_s=0.8, cap_s=60.0)
        self._rng = rng or random.Random()
        self._open: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # A large file goes in blocks over one connection; nothing here is asked side by side.
        self._open = open_session(4, secure=True)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        """The connections."""
        assert self._open is not None
        return self._open

    async def json(
        self, step: Step, method: str, url: str, auth: Auth, body: JSON = None, *, kind: str = "application/json"
    ) -> Answer:
        """Send JSON (nothing, where it is None) and read the answer.

        Raises:
            UploadError: it failed for good.
        """
        content = b"" if body is None else dumps(body)
        send = None if body is None else lambda: content
        return await self.send(step, method, url, auth, send, len(content), kind)

    async def send(
        self, step: Step, method: str, url: str, auth: Auth, body: Body | None, size: int, kind: str
    ) -> Answer:
        """Send what `body` gives, anew for each attempt, and read the answer.

        Raises:
            UploadError: it failed for good.
        """
        renewed = False

        async def attempt() -> Answer:
            nonlocal renewed
            try:
                identity = await auth.headers()
            except EndpointError as error:
                raise AttemptFailed("fatal", str(error)) from None
            content_type = {} if body is None else {"Content-Type": kind}
            try:
                return await self._attempt(method, url, {**identity, **content_type}, body, size)
            except AttemptFailed as failed:
                if failed.status == HTTPStatus.UNAUTHORIZED and not renewed and auth.renew(identity):
                    renewed = True
                    return await attempt()
                raise

        return await self.persist(step, attempt)

    async def persist(self, step: Step, attempt: Callable[[], Awaitable[T]]) -> T:
        """Attempt something until it succeeds.

        Raises:
            UploadError: it failed for good.
        """
        failures = 0
        while True:
            try:
                return await attempt()
            except AttemptFailed as failed:
                failures += 1
                if not failed.again(repeatable=step.repeatable) or failures > self._backoff.retries:
                    raise self._error(step, failed, failures) from None
                await self.clock.sleep(self._backoff.wait_s(failures, failed.retry_after, self._rng))
            except ValueError as error:  # an answer of a shape that nobody expects
                raise UploadError(f"{step.words}: {self._clean(str(error))}", step=step.words, unsure=True) from None

    def _error(self, step: Step, failed: AttemptFailed, failures: int) -> UploadError:
        text = f"{step.words}: {self._clean(str(failed))}"
        text += f" ({_ADVICE[failed.status]})" if failed.status in _ADVICE else ""
        text += f" (after {failures} attempts)" if failures > 1 else ""
        text += f" (request id {failed.request_id})" if failed.request_id else ""
        return UploadError(
            text, step=step.words, status=failed.status, request_id=failed.request_id, unsure=failed.unsure
        )

    def _clean(self, text: str) -> str:
        return one_line(self.redactor.text(text), 600)

    async def _attempt(self, method: str, url: str, headers: Mapping[str, str], body: Body | None, size: int) -> Answer:
        own = {
            "Accept": "application/json",
            "User-Agent": self.user_agent,
            "x-ms-client-request-id": str(uuid.uuid4()),
        }
        bounds = Bounds(_TIMEOUT_S + size / _LEAST_BYTES_PER_S, _MAX_REPLY_BYTES)
        content = body() if body is not None else None
        try:
            address = yarl.URL(url, encoded=True)
            reply = await exchange(self.session, method, address, content, {**own, **headers}, proxy_for(url), bounds)
        except transport.AttemptFailed as failed:
            raise AttemptFailed(_sort(failed), str(failed)) from None
        finally:
            if isinstance(content, io.BufferedReader):
                content.close()
        answer = Answer(reply.status, reply.headers, _json(reply.body))
        if 200 <= answer.status < 300:
            return answer
        raise self.refusal(answer.status, answer.headers, said(answer.body, reply.body))

    def refusal(self, status: int, headers: Mapping[str, str], said: str) -> AttemptFailed:
        """A reply that says no."""
        reason = f"{status_name(status)}{': ' if said else ''}{said}"
        wait_s = retry_after_s(headers, self.clock.wall())
        return AttemptFailed(
            "refused", reason, status=status, request_id=request_id(headers, self.redactor), retry_after=wait_s
        )


def _sort(failed: transport.AttemptFailed) -> Literal["fatal", "unsent", "lost"]:
    if failed.sort == "certificate":
        return "fatal"
    return "lost" if failed.sent else "unsent"


def _json(raw: bytes) -> JSON:
    """None of what is no JSON."""
    try:
        return loads(raw)
    except ValueError:
        return None
