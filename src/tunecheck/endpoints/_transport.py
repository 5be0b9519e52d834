"""One HTTP attempt over a shared aiohttp session: bounded in time and size, no redirects, no cookies, no netrc."""

import asyncio
import contextlib
import io
import os
import re
import ssl
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import aiohttp
import yarl

from tunecheck._errors import ConfigurationError
from tunecheck.endpoints._urls import proxy_for

MAX_REPLY_BYTES = 64 << 20
"""Largest reply that is accepted."""

CONNECT_S = 15.0
"""Longest wait for a connection, where the whole attempt may take longer."""

_CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")

_LARGE_BODY = 1 << 20

_LAST_EVENT = re.compile(rb"(?:^|[\r\n])data: ?\[DONE\][ \r\n]*\Z")
_LAST_BYTES = 40
"""Where the last event of a stream is looked for."""
_LAST_WAIT_S = 0.1
"""How long the end of the reply is waited for after it, so that the connection can be used again."""

_IDLE_S = 4.0
"""How long an unused connection is kept: less than servers do, whose closing would break the next request on it."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: `headers` are looked up without regard to case.

    `arrivals`: how many bytes had come when, in seconds since the request was sent.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    arrivals: Sequence[tuple[int, float]] = ()

    @property
    def is_stream(self) -> bool:
        """Whether it is a stream of events."""
        return "event-stream" in self.headers.get("content-type", "") or self.body.startswith((b"data: {", b"data:{"))

    def arrived_ms(self, size: int) -> float | None:
        """When so many bytes had come, in milliseconds since the request was sent."""
        at = bisect_left(self.arrivals, size, key=lambda arrival: arrival[0])
        return self.arrivals[at][1] * 1000 if at < len(self.arrivals) else None


class AttemptFailed(Exception):  # noqa: N818 - it is an outcome that a client turns into an error or a retry
    """No complete reply came; the text says why in a few words. `sent` is whether the request may have arrived."""

    def __init__(
        self, sort: Literal["timeout", "connection", "certificate", "reply"], reason: str, *, sent: bool = True
    ) -> None:
        super().__init__(reason)
        self.sort = sort
        self.sent = sent


class HttpTransport:
    """Posts bodies to one service, over connections without cookies. Made inside the event loop that it is used in.

    aiohttp's own reading of the environment is not used: it would send a `.netrc` password in place of the key, and a
    plain-http call to loopback through a proxy.

    Raises:
        ConfigurationError: the environment names certificates that cannot be read.
    """

    def __init__(self, url: str, *, connections: int, timeout_s: float) -> None:
        self._url = yarl.URL(url)
        self._timeout_s = timeout_s
        proxy = proxy_for(url)
        self.proxy_secret = proxy.authorization if proxy else None
        self._proxy = proxy.url if proxy else None
        self._proxy_headers = {"Proxy-Authorization": self.proxy_secret.reveal()} if self.proxy_secret else None
        tls = tls_context() if self._url.scheme == "https" else True
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections, ssl=tls, keepalive_timeout=_IDLE_S),
            cookie_jar=aiohttp.DummyCookieJar(),  # a session cookie would tie later rows to one replica
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=min(CONNECT_S, timeout_s)),
        )

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        """Send one request to an address of the service and read its whole reply.

        Raises:
            AttemptFailed: no complete reply came.
        """
        sent_at = asyncio.get_running_loop().time()
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                self._session.post(
                    url,
                    # aiohttp warns of raw bytes above a mebibyte, which it would write in one go.
                    data=body if len(body) < _LARGE_BODY else io.BytesIO(body),
                    headers=headers,
                    allow_redirects=False,  # a redirect could carry the key to another host
                    proxy=self._proxy,
                    proxy_headers=self._proxy_headers,
                ) as response,
            ):
                return await _whole_reply(response, sent_at)
        except AttemptFailed:
            raise
        except Exception as error:  # noqa: BLE001 - told apart there
            raise self._failed(error) from None

    def _failed(self, error: Exception) -> Exception:
        """Return the failure that an error of aiohttp means; the error itself if it is no outcome of a request."""
        match error:
            case aiohttp.ConnectionTimeoutError():
                return AttemptFailed(
                    "timeout", f"no connection to {self._url.host}:{self._url.port} in time", sent=False
                )
            case TimeoutError():
                return AttemptFailed("timeout", f"no complete answer within {self._timeout_s:g} s")
            case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
                cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
                text = str(getattr(cause, "verify_message", "") or getattr(cause, "reason", "") or cause)
                hint = "a private authority's certificates are named with SSL_CERT_FILE"
                return AttemptFailed("certificate", f"no secure connection: {text} ({hint})", sent=False)
            case aiohttp.ClientPayloadError():
                return AttemptFailed("reply", "the answer broke off")
            case aiohttp.ServerDisconnectedError():
                text = "the server closed the connection without an answer"
            case aiohttp.ClientConnectorError():
                text = f"cannot connect to {error.host}:{error.port}: {error.os_error.strerror or error.os_error}"
                return AttemptFailed("connection", text, sent=False)
            case aiohttp.ClientHttpProxyError():
                text = f"the proxy answered {error.status} {error.message}"
            case aiohttp.ClientResponseError():
                text = f"the server does not speak HTTP as expected: {error.message}"
            # ValueError: what a hostile reply makes of aiohttp's own parsing (a header it cannot read).
            case aiohttp.ClientError() | OSError() | ValueError():
                text = f"the connection failed: {type(error).__name__}: {error}"
            case _:
                return error
        return AttemptFailed("connection", text)

    async def close(self) -> None:
        await self._session.close()


async def _whole_reply(response: aiohttp.ClientResponse, sent_at: float) -> Reply:
    loop = asyncio.get_running_loop()
    body = bytearray()
    arrivals: list[tuple[int, float]] = []
    streamed = "event-stream" in response.headers.get("content-type", "")
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > MAX_REPLY_BYTES:
            response.close()
            raise AttemptFailed("reply", f"the answer is larger than {MAX_REPLY_BYTES >> 20} MiB")
        arrivals.append((len(body), loop.time() - sent_at))
        if streamed and _LAST_EVENT.search(body[-_LAST_BYTES:]):
            with contextlib.suppress(TimeoutError):  # some servers leave the connection open
                async with asyncio.timeout(_LAST_WAIT_S):
                    await response.content.readany()
            break
    return Reply(response.status, response.headers, bytes(body), arrivals)


def tls_context() -> ssl.SSLContext:
    """The system's certificates, or those that SSL_CERT_FILE, REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE names instead."""
    for variable in _CERTIFICATES:
        place = os.environ.get(variable)
        if not place:
            continue
        folder = Path(place).is_dir()
        try:
            return ssl.create_default_context(cafile=None if folder else place, capath=place if folder else None)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(f"{variable} names certificates that cannot be read: {place}: {error}") from None
    return ssl.create_default_context()
