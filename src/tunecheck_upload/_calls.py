"""Calls to a service that stores results: in sequence, retried only where a retry cannot do a thing twice.

What fails for good raises UploadError.
"""

import io
import random
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType, TracebackType
from typing import Literal, Self, TypeVar

import aiohttp
import yarl

from tunecheck._errors import EndpointError, RunError
from tunecheck._json import JSON, dumps, value_of
from tunecheck._messages import clean
from tunecheck.endpoints import _transport as transport
from tunecheck.endpoints._auth import Auth
from tunecheck.endpoints._failures import request_id
from tunecheck.endpoints._limits import Backoff, Clock, is_passing, retry_after_s
from tunecheck.endpoints._masking import Redactor
from tunecheck.endpoints._urls import proxy_for

_TIMEOUT_S = 100.0
_LEAST_BYTES_PER_S = 32 << 10
"""A connection slower than that is taken for a dead one."""

_MAX_REPLY_BYTES = 16 << 20

_ADVICE = {
    401: "sign in with `az login`, or check the credential's tenant",
    403: "the identity lacks a right to do this in the project or its storage",
}

Body = Callable[[], "bytes | io.BufferedReader"]

T = TypeVar("T")


class UploadError(RunError):
    """An upload that did not get through.

    `step` says where, `status` is the service's HTTP status and `request_id` its own id of the call, where there are
    any. `unsure`: it is unknown whether the service did what it was asked.
    """

    def __init__(
        self,
        message: str,
        *,
        step: str = "",
        status: int | None = None,
        request_id: str | None = None,
        unsure: bool = False,
    ) -> None:
        super().__init__(message)
        self.step = step
        self.status = status
        self.request_id = request_id
        self.unsure = unsure


class FailedAttempt(Exception):  # noqa: N818 - an outcome that becomes an error or a new attempt
    """One attempt without success.

    `sort`: `unsent` (the service never saw it), `lost` (it may have), `refused` (it said no), `fatal` (stop).
    """

    def __init__(
        self,
        sort: Literal["unsent", "lost", "refused", "fatal"],
        reason: str,
        *,
        status: int | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.sort = sort
        self.status = status
        self.request_id = request_id
        self.retry_after = retry_after

    @property
    def unsure(self) -> bool:
        """Whether the service may have done what it was asked."""
        if self.sort == "refused":
            return self.status in (408, 500, 502, 504) or (self.status == 503 and self.retry_after is None)
        return self.sort == "lost"

    def may_retry(self, *, repeatable: bool) -> bool:
        """Whether another attempt is worth it, and safe."""
        if self.sort in ("fatal", "unsent"):
            return self.sort == "unsent"
        passing = self.sort == "lost" or (self.status is not None and self.status != 409 and is_passing(self.status))
        return passing and (repeatable or not self.unsure)


_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an upload, in words that an error begins with. `repeatable`: done twice, it is as if done once."""

    words: str
    repeatable: bool = True

    def failed(self, reason: object, *, status: int | None = None, unsure: bool = False) -> UploadError:
        return UploadError(f"{self.words}: {reason}", step=self.words, status=status, unsure=unsure)


@dataclass(frozen=True, slots=True)
class ServiceReply:
    """A service's reply to a step: `body` is None where it is not JSON."""

    step: Step
    status: int
    body: JSON

    def text(self, *path: str | int) -> str:
        text = value_at(self.body, *path)
        if not isinstance(text, str) or not text:
            reason = f"the service's answer has no {'.'.join(map(str, path))}"
            raise self.step.failed(reason, status=self.status, unsure=True)
        return text


class Calls:
    """Sends requests with one session: signed in, within time, with backoff. Used as an asynchronous context.

    A service's Retry-After is respected up to two minutes. A step that is not repeatable is tried again only where the
    service certainly did not do it: no connection, 429, or 503 with Retry-After.
    """

    def __init__(
        self, redactor: Redactor, *, user_agent: str, clock: Clock | None = None, rng: random.Random | None = None
    ) -> None:
        self.redactor = redactor
        self.user_agent = user_agent
        self._clock = clock or Clock()
        self._rng = rng or random.Random()
        self._backoff = Backoff(base_s=0.8, cap_s=60.0)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # A large file goes in blocks over one connection; requests here never run side by side.
        self._session = transport.open_session(4, secure=True)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        assert self._session is not None
        return self._session

    async def pause(self, seconds: float) -> None:
        """Wait for something at the destination."""
        await self._clock.sleep(seconds)

    async def json(
        self,
        step: Step,
        method: str,
        url: str,
        auth: Auth,
        body: JSON = None,
        *,
        kind: str = "application/json",
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> ServiceReply:
        """Send JSON (nothing, where it is None) and read the reply."""
        content = b"" if body is None else dumps(body)
        send = None if body is None else lambda: content
        return await self.send(step, method, url, auth, send, len(content), kind, headers)

    async def send(
        self,
        step: Step,
        method: str,
        url: str,
        auth: Auth,
        body: Body | None,
        size: int,
        kind: str,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> ServiceReply:
        """Send what `body` gives, anew for each attempt, and read the reply."""
        renewed = False
        content_type = {} if body is None else {"Content-Type": kind}

        async def attempt() -> ServiceReply:
            nonlocal renewed
            try:
                identity = await auth.headers()
            except EndpointError as error:
                raise FailedAttempt("fatal", str(error)) from None
            try:
                reply = await self._exchange(method, url, {**identity, **content_type, **headers}, body, size)
            except FailedAttempt as failed:
                if failed.status == HTTPStatus.UNAUTHORIZED and not renewed and auth.renew(identity):
                    renewed = True
                    return await attempt()
                raise
            return ServiceReply(step, reply.status, value_of(reply.body))

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
            except FailedAttempt as failed:
                failures += 1
                if not failed.may_retry(repeatable=step.repeatable) or failures > self._backoff.retries:
                    raise self._error(step, failed, failures) from None
                await self._clock.sleep(self._backoff.wait_s(failures, failed.retry_after, self._rng))
            except ValueError as error:  # the storage client could not read the reply
                raise step.failed(self._clean(str(error)), unsure=True) from None

    def _error(self, step: Step, failed: FailedAttempt, failures: int) -> UploadError:
        text = f"{step.words}: {self._clean(str(failed))}"
        text += f" ({_ADVICE[failed.status]})" if failed.status in _ADVICE else ""
        text += f" (after {failures} attempts)" if failures > 1 else ""
        text += f" (request id {failed.request_id})" if failed.request_id else ""
        return UploadError(
            text, step=step.words, status=failed.status, request_id=failed.request_id, unsure=failed.unsure
        )

    def _clean(self, text: str) -> str:
        return clean(self.redactor.text(text), 600)

    async def _exchange(
        self, method: str, url: str, headers: Mapping[str, str], body: Body | None, size: int
    ) -> transport.Reply:
        own = {"Accept": "application/json", "User-Agent": self.user_agent, "x-ms-client-request-id": str(uuid.uuid4())}
        bounds = transport.Bounds(_TIMEOUT_S + size / _LEAST_BYTES_PER_S, _MAX_REPLY_BYTES)
        address = yarl.URL(url, encoded=True)
        content = body() if body is not None else None
        try:
            reply = await transport.exchange(
                self.session, method, address, content, {**own, **headers}, proxy_for(url), bounds
            )
        except transport.AttemptFailed as failed:
            sort: Literal["fatal", "lost", "unsent"] = "lost" if failed.sent else "unsent"
            raise FailedAttempt("fatal" if failed.sort == "certificate" else sort, str(failed)) from None
        finally:
            if isinstance(content, io.BufferedReader):
                content.close()
        if 200 <= reply.status < 300:
            return reply
        raise self.refusal(reply.status, reply.headers, _error_text(reply.body))

    def refusal(self, status: int, headers: Mapping[str, str], text: str) -> FailedAttempt:
        try:
            name = f"{status} {HTTPStatus(status).phrase}"
        except ValueError:
            name = str(status)
        return FailedAttempt(
            "refused",
            f"{name}: {text}" if text else name,
            status=status,
            request_id=request_id(headers, self.redactor),
            retry_after=retry_after_s(headers, self._clock.wall()),
        )


def _error_text(raw: bytes) -> str:
    """The message of `{"error": {"code", "message"}}`, of MLflow's `{"error_code", "message"}`, or the text itself."""
    body = value_of(raw)
    error = value_at(body, "error")
    holder = error if isinstance(error, dict) else body
    if isinstance(holder, dict):
        code = holder.get("code") or holder.get("error_code")
        message = holder.get("message") or holder.get("detail") or (error if isinstance(error, str) else "")
        if message:
            return f"({code}) {message}" if isinstance(code, str) else str(message)
    text = raw[: 1 << 14].decode("utf-8", "replace")
    return "a web page" if text.lstrip()[:1] == "<" else text


def value_at(value: JSON, *path: str | int) -> JSON:
    for key in path:
        if isinstance(key, int):
            value = value[key] if isinstance(value, list) and key < len(value) else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value
