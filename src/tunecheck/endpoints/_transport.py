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
from tunecheck.endpoints._urls import Proxy, proxy_for

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


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long one attempt may take, and how large its reply may be."""

    timeout_s: float
    reply_bytes: int


class HttpTransport:
    """Posts bodies to one address. Made inside the event loop that it is used in."""

    def __init__(self, url: str, *, connections: int, timeout_s: float) -> None:
        self._url = yarl.URL(url)
        self._bounds = Bounds(timeout_s, MAX_REPLY_BYTES)
        self._proxy = proxy_for(url)
        self.proxy_secret = self._proxy.authorization if self._proxy else None
        secure = self._url.scheme == "https"
        self._session = open_session(connections, secure=secure, connect_s=min(CONNECT_S, timeout_s))

    async def post(self, body: bytes, headers: Mapping[str, str]) -> Reply:
        # aiohttp warns of raw bytes above a mebibyte, which it would write in one go.
        data = body if len(body) < _LARGE_BODY else io.BytesIO(body)
        return await exchange(self._session, "POST", self._url, data, headers, self._proxy, self._bounds)

    async def close(self) -> None:
        await self._session.close()


def open_session(connections: int, *, secure: bool, connect_s: float = CONNECT_S) -> aiohttp.ClientSession:
    """Connections without cookies.

    aiohttp's own reading of the environment is not used: it would send a `.netrc` password in place of the key, and a
    plain-http call to loopback through a proxy.

    Raises:
        ConfigurationError: the environment names certificates that cannot be read.
    """
    tls = tls_context() if secure else True
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections, ssl=tls, keepalive_timeout=_IDLE_S),
        cookie_jar=aiohttp.DummyCookieJar(),  # a session cookie would tie later rows to one replica
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_s),
    )


async def exchange(
    session: aiohttp.ClientSession,
    method: str,
    url: yarl.URL,
    data: bytes | io.BufferedIOBase | None,
    headers: Mapping[str, str],
    proxy: Proxy | None,
    bounds: Bounds,
) -> Reply:
    """Send one request and read its whole reply.

    Raises:
        AttemptFailed: no complete reply came.
    """
    secret = proxy.authorization if proxy else None
    sent_at = asyncio.get_running_loop().time()
    try:
        async with (
            asyncio.timeout(bounds.timeout_s),
            session.request(
                method,
                url,
                data=data,
                headers=headers,
                allow_redirects=False,  # a redirect could carry the key to another host
                proxy=proxy.url if proxy else None,
                proxy_headers={"Proxy-Authorization": secret.reveal()} if secret else None,
            ) as response,
        ):
            return await _whole_reply(response, bounds.reply_bytes, sent_at)
    except aiohttp.ConnectionTimeoutError:
        raise AttemptFailed("timeout", f"no connection to {url.host}:{url.port} in time", sent=False) from None
    except TimeoutError:
        raise AttemptFailed("timeout", f"no complete answer within {bounds.timeout_s:g} s") from None
    except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as error:
        raise AttemptFailed("certificate", _reason(error), sent=False) from None
    except aiohttp.ClientPayloadError:
        raise AttemptFailed("reply", "the answer broke off") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        # ValueError: what a hostile reply makes of aiohttp's own parsing (a header it cannot read).
        sent = not isinstance(error, aiohttp.ClientConnectorError)
        raise AttemptFailed("connection", _reason(error), sent=sent) from None


async def _whole_reply(response: aiohttp.ClientResponse, most: int, sent_at: float) -> Reply:
    loop = asyncio.get_running_loop()
    chunks: list[bytes] = []
    arrivals: list[tuple[int, float]] = []
    size, tail = 0, b""
    streamed = "event-stream" in response.headers.get("content-type", "")
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > most:
            response.close()
            raise AttemptFailed("reply", f"the answer is larger than {most >> 20} MiB")
        chunks.append(chunk)
        arrivals.append((size, loop.time() - sent_at))
        tail = (tail + chunk[-_LAST_BYTES:])[-_LAST_BYTES:]
        if streamed and _LAST_EVENT.search(tail):
            with contextlib.suppress(TimeoutError):  # some servers leave the connection open
                async with asyncio.timeout(_LAST_WAIT_S):
                    await response.content.readany()
            break
    return Reply(response.status, response.headers, b"".join(chunks), arrivals)


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


def _reason(error: BaseException) -> str:
    if isinstance(error, (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError)):
        cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
        text = str(getattr(cause, "verify_message", "") or getattr(cause, "reason", "") or cause)
        return f"no secure connection: {text} (a private authority's certificates are named with SSL_CERT_FILE)"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the server closed the connection without an answer"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect to {error.host}:{error.port}: {error.os_error.strerror or error.os_error}"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status} {error.message}"
    if isinstance(error, aiohttp.ClientResponseError):
        return f"the server does not speak HTTP as expected: {error.message}"
    return f"the connection failed: {type(error).__name__}: {error}"
