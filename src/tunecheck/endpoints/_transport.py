"""HTTP attempts over one aiohttp session, limited in time and size, without redirects, cookies and netrc.

Three parts: which addresses and proxies may be used, one attempt, and the error that an error reply means.

`error_failure()` reads an error reply. The first rule that fits decides:

    the body names a content filter       ContentFilterError; no retry
    the body: an account without credit   RefusedError, like 402; no retry, even with status 429
    3xx                                   EndpointError with the redirect's target; no retry
    400, 404: the model is unknown        EndpointError with the cause `unknown_model`; no retry, counts as refused
    401, 402, 403                         RefusedError; no retry, counts as refused
    408, 504                              TimedOutError; retry
    429                                   ThrottledError; retry, counts as overload (503, too)
    409, 425, 5xx but 501 and 505         EndpointError; retry (500 not if the message says "not supported")
    below 300 with an error in the body   ReplyError; retry
    other statuses                        EndpointError; no retry

The status is that of the model behind the service, if the reply names one (`_own_status`).
"""

import asyncio
import contextlib
import io
import ipaddress
import os
import re
import ssl
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import aiohttp
import msgspec
import yarl

from tunecheck._errors import (
    ConfigurationError,
    ContentFilterError,
    EndpointError,
    RefusedError,
    ReplyError,
    ThrottledError,
    TimedOutError,
)
from tunecheck._json import JSON
from tunecheck.endpoints._answers import read_usage
from tunecheck.endpoints._base import Place, Usage
from tunecheck.endpoints._masking import LEAST_ECHO, Redactor, Secret, hides, insert_env, is_secret_query

# -- which addresses may be called, and through which proxy

# The schemes that may be called, with their default ports.
_PORTS = {"http": 80, "https": 443}


def checked_url(
    text: str, place: Place, redactor: Redactor, *, allow_http: bool = False, sends_secrets: bool = True
) -> str:
    """Return a service's address with environment variables filled in and the fragment removed.

    `place` is where `text`, the written address, stands in the definition. The address must contain no secret, and its
    scheme must suit the host:

        https                        any host
        http                         this machine
        http, with `allow_http`      also private networks, and public hosts if `sends_secrets` is false

    If a secret variable holds the address, the redactor masks its path and query from now on.

    Raises:
        ConfigurationError: the address is wrong; the error never shows credentials.
    """
    from_secret, text = hides(text), insert_env(text, place, redactor).strip()

    try:
        parts = urlsplit(text)
        host, _ = parts.hostname or "", parts.port  # reading an invalid port raises ValueError
    except ValueError:
        raise place.error("the endpoint's url is not valid: write an address such as https://host/path") from None

    if parts.scheme not in _PORTS or not host or not text.isprintable() or " " in text:
        raise place.error("the endpoint's url is not valid: write an address such as https://host/path")
    if parts.username is not None or parts.password is not None:
        raise place.error("the url holds credentials: write them as `auth: {type: key, value: ${env:NAME}}`")

    for name, _ in parse_qsl(parts.query, keep_blank_values=True):
        if is_secret_query(name):
            raise place.error(f"the url's parameter {name} holds a secret: use `headers: {{HEADER: ${{env:NAME}}}}`")

    if parts.scheme == "http" and not is_loopback(host):
        private, masked_host = is_private(host), redactor.text(host)
        if not allow_http:
            hint = ", or add allow_http: true for a private network" if private else ""
            raise place.error(f"the url sends plain http to another machine, {masked_host}: use https{hint}")
        if sends_secrets and not private:
            raise place.error(f"the url would send a key over plain http to the public host {masked_host}: use https")

    # The server receives the path and the query, and may repeat them in error messages.
    if from_secret:
        for part in (parts.path.strip("/"), parts.query):
            if len(part) >= LEAST_ECHO:
                redactor.add(Secret(part), in_answers=False)
    return urlunsplit(parts._replace(fragment=""))


_PRIVATE_ENDINGS = (".local", ".internal", ".lan", ".home.arpa", ".svc", ".cluster.local")
"""Endings of host names that only a private network resolves, such as model.default.svc in Kubernetes."""


def is_private(host: str) -> bool:
    """Return whether a host is an address in a private network, or a name that only private networks resolve."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith(_PRIVATE_ENDINGS)
    return address.is_private and not address.is_unspecified


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def proxy_for(url: str) -> yarl.URL | None:
    """Return the proxy that the environment sets for this address; None if it sets none or excludes the host.

    Calls to this machine never go through a proxy. The proxy's address may contain its user name and password.

    Raises:
        ConfigurationError: the proxy's address is wrong.
    """
    target = urlsplit(url)
    host = target.hostname or ""
    if is_loopback(host) or urllib.request.proxy_bypass(f"{host}:{target.port or _PORTS[target.scheme]}"):
        return None

    proxies = urllib.request.getproxies()
    text = (proxies.get(target.scheme) or proxies.get("all") or "").strip()
    if not text:
        return None

    with contextlib.suppress(ValueError):  # an invalid port, or no host
        # Proxies are often given without a scheme: proxy.example:3128.
        proxy = yarl.URL(text if "://" in text else f"http://{text}")
        if proxy.origin().scheme in _PORTS:
            return proxy
    raise ConfigurationError(
        f"the proxy in the environment variables is not an http(s) address: set {target.scheme}_proxy to "
        "http://host:port, or set no_proxy to bypass it"
    )


# -- one attempt


CONNECT_S = 15.0
"""Time limit for connecting; an attempt as a whole may take longer."""

_CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Variables that name a file or folder of trusted certificates, in the order of their precedence."""

_UNKNOWN_ISSUER = (2, 18, 19, 20, 21)
"""OpenSSL's codes for a certificate of an unknown authority; others mean that it is expired or of another host."""

_LARGE_BODY = 1 << 20
"""Bytes from which on aiohttp warns about a body given as raw bytes."""

# The last event of a stream of chat completions: a line `data: [DONE]`, and line ends after it.
_LAST_EVENT = re.compile(rb"(?:^|[\r\n])data: ?\[DONE\][ \r\n]*\Z")
_LAST_BYTES = 40
"""Number of bytes at the end of a stream that are searched for the last event."""
_LAST_WAIT_S = 0.1
"""Wait for the end of the reply after the last event, so that the connection can be reused."""

_IDLE_S = 4.0
"""Unused connections are closed after this time, before the server closes them and breaks the next request."""


class Reply(msgspec.Struct, frozen=True):
    """A complete reply. Header names are case-insensitive.

    `arrivals` are pairs of the bytes received so far and the seconds since the request was sent, one for each chunk.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    arrivals: Sequence[tuple[int, float]] = ()

    @property
    def is_stream(self) -> bool:
        """True for a stream of server-sent events."""
        return "event-stream" in self.headers.get("content-type", "") or self.body.startswith((b"data: {", b"data:{"))

    def arrived_ms(self, size: int) -> float | None:
        """Return the milliseconds from sending the request to the arrival of this many bytes; None if fewer arrived."""
        return next((seconds * 1000 for received, seconds in self.arrivals if received >= size), None)


@dataclass(eq=False)
class AttemptFailed(Exception):  # noqa: N818 - it is an outcome that a client turns into an error or a retry
    """An attempt without an answer, and its error.

    `retry`: another attempt may succeed. `sent`: the service may have received the request. `retry_after_s`: the wait
    that the service asks for. `overload`: the service is overloaded or throttles. `refused`: the service would refuse
    every further call as well. `usage`: tokens that the attempt may have used; None if it used none.
    """

    error: EndpointError
    retry: bool
    sent: bool = True
    retry_after_s: float | None = None
    overload: bool = False
    refused: bool = False
    usage: Usage | None = None


class HttpTransport:
    """Sends requests to one service over connections without cookies. Create it in the event loop that uses it.

    aiohttp does not read the environment (its `trust_env` is off), because it would replace the key by a `.netrc`
    password and send http calls to this machine through a proxy. The proxy is found by `proxy_for` instead.

    Raises:
        ConfigurationError: the environment names certificates that cannot be read, or a wrong proxy.
    """

    def __init__(
        self, url: str, who: str, redactor: Redactor, connections: int, timeout_s: float, most_bytes: int
    ) -> None:
        """Open a session; this sends nothing.

        `connections`, `timeout_s` and `most_bytes` are limits: of open connections, of an attempt and of a reply. `who`
        names the endpoint at the beginning of each error. `redactor` masks secrets in errors, from now on also
        the proxy's credentials.
        """
        self._url = yarl.URL(url)
        self._who, self._redactor = who, redactor
        self._timeout_s = timeout_s
        self._most_bytes = most_bytes

        self._proxy = proxy_for(url)
        user, password = (self._proxy.user or "", self._proxy.password or "") if self._proxy else ("", "")
        if user or password:  # a user without a password is a token
            redactor.add(Secret(password or user))
            redactor.add(Secret(f"{user}:{password}"))

        tls = tls_context() if self._url.scheme == "https" else True
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections, ssl=tls, keepalive_timeout=_IDLE_S),
            cookie_jar=aiohttp.DummyCookieJar(),  # a session cookie would tie later rows to one replica
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=min(CONNECT_S, timeout_s)),
        )

    async def send(self, url: str, body: bytes | None, headers: Mapping[str, str]) -> Reply:
        """Send a POST request with this body, or a GET request if `body` is None, and read the whole reply.

        Raises:
            AttemptFailed: no complete reply came.
            Exception: any error that is neither of aiohttp nor of the network.
        """
        sent_at = asyncio.get_running_loop().time()
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                self._session.request(
                    "GET" if body is None else "POST",
                    url,
                    # aiohttp warns about raw bytes above 1 MiB, because it writes them at once.
                    data=body if body is None or len(body) < _LARGE_BODY else io.BytesIO(body),
                    headers=headers,
                    allow_redirects=False,  # a redirect could carry the key to another host
                    proxy=self._proxy,
                ) as response,
            ):
                return await self._whole_reply(response, sent_at)
        except Exception as error:  # noqa: BLE001 - `_failure` returns unknown errors unchanged
            raise self._failure(error) from None

    async def _whole_reply(self, response: aiohttp.ClientResponse, sent_at: float) -> Reply:
        """Read a reply to its end, or a stream to its last event (`[DONE]`). Record when each chunk arrived.

        `sent_at` is the event loop's time when the request was sent.

        Raises:
            AttemptFailed: the reply is larger than the limit.
        """
        loop = asyncio.get_running_loop()
        body = bytearray()
        arrivals: list[tuple[int, float]] = []

        streamed = "event-stream" in response.headers.get("content-type", "")

        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > self._most_bytes:
                response.close()
                problem = f"the reply is larger than {self._most_bytes:,} bytes: raise max_reply_bytes"
                raise self._failed(ReplyError, problem, lasting=True)

            arrivals.append((len(body), loop.time() - sent_at))
            if streamed and _LAST_EVENT.search(body[-_LAST_BYTES:]):
                with contextlib.suppress(TimeoutError):  # some servers leave the connection open
                    async with asyncio.timeout(_LAST_WAIT_S):
                        await response.content.readany()
                break
        return Reply(response.status, response.headers, bytes(body), arrivals)

    def _failure(self, error: Exception) -> Exception:
        """Convert an error of aiohttp or of the network to `AttemptFailed`. Return any other error unchanged.

        Only errors of connecting show that the request was not sent. Subclasses are tested before their bases, because
        aiohttp's error about a certificate is also an error of connecting and an OSError.
        """
        match error:
            case aiohttp.ConnectionTimeoutError():
                text = f"timed out while connecting to {self._url.host}:{self._url.port}: check the url and proxy"
                return self._failed(TimedOutError, text, sent=False)
            case TimeoutError():
                return self._failed(TimedOutError, f"no complete answer within {self._timeout_s:g} s: raise timeout_s")
            case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
                cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
                text = str(getattr(cause, "verify_message", "") or getattr(cause, "reason", "") or cause)
                hint = "check the url and the server's certificate"
                if getattr(cause, "verify_code", 0) in _UNKNOWN_ISSUER:
                    hint = "for a private authority, set SSL_CERT_FILE to its certificates"
                return self._failed(EndpointError, f"no secure connection: {text} ({hint})", sent=False, lasting=True)
            case aiohttp.ClientPayloadError():
                return self._failed(ReplyError, "the connection broke off during the answer: see the server's log")
            # The server may have read the request, so this counts as sent.
            case aiohttp.ServerDisconnectedError():
                text = "the server closed the connection without an answer: see the server's log"
            case aiohttp.ClientConnectorError():
                reason = error.os_error.strerror or str(error.os_error) or "the connection was cut"
                reason = "connection refused" if isinstance(error.os_error, ConnectionRefusedError) else reason
                text = f"cannot connect to {error.host}:{error.port} ({reason}): check the url and the server"
                return self._failed(EndpointError, text, sent=False)
            case aiohttp.ClientHttpProxyError():
                text = f"the proxy answered {error.status} {error.message}: check the proxy's address and password"
            case aiohttp.ClientResponseError():
                text = f"the reply is not valid HTTP ({error.message}): check the url, such as its port"
            # aiohttp raises ValueError for some malformed replies, such as an unreadable header.
            case aiohttp.ClientError() | OSError() | ValueError():
                text = f"the connection failed: {type(error).__name__}: {error}"
            case _:
                return error
        return self._failed(EndpointError, text)

    def _failed(
        self, kind: type[EndpointError], reason: str, *, sent: bool = True, lasting: bool = False
    ) -> AttemptFailed:
        """Return a failure without a complete reply, with an error of type `kind`.

        `sent` is False if the service did not get the request; the error's cause is then `unreachable`, and no tokens
        were used. `lasting`: a retry would fail in the same way.
        """
        error = kind(f"{self._who}: {self._redactor.line(reason)}")
        error.cause = error.cause if sent else "unreachable"
        # `Usage()`: the request may have used tokens, but their number is unknown.
        return AttemptFailed(error, not lasting, sent, usage=Usage() if sent else None)

    async def close(self) -> None:
        await self._session.close()


def tls_context() -> ssl.SSLContext:
    """Return a TLS context with the certificates of SSL_CERT_FILE, else REQUESTS_CA_BUNDLE, else CURL_CA_BUNDLE.

    If none of these variables is set, or all are empty, the context has the system's certificates.

    Raises:
        ConfigurationError: the certificates cannot be read.
    """
    for variable in _CERTIFICATES:
        path = os.environ.get(variable)
        if not path:
            continue
        is_folder = Path(path).is_dir()
        try:
            return ssl.create_default_context(cafile=None if is_folder else path, capath=path if is_folder else None)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(f"{variable}={path} has no readable certificates ({error}): correct it") from None
    return ssl.create_default_context()


# -- error replies as typed errors with a one-line message and advice

_REQUEST_IDS = ("x-request-id", "x-ms-request-id", "apim-request-id", "x-ms-client-request-id", "request-id")
"""Headers with the service's id of a call, in the order in which they are searched."""

_FILTER_CODES = frozenset({"content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation"})
"""Codes for a request or an answer that a content filter stopped."""

_SPENT_CODES = frozenset(
    """insufficient_quota insufficient_funds insufficient_balance insufficient_credits billing_error billing_not_active
    billing_hard_limit_reached spend_limit_reached account_deactivated account_disabled account_suspended
    organization_deactivated deactivated_workspace access_terminated SubscriptionDisabled""".split()
)
"""Codes of an account without credit. A retry cannot help, although some services use a retryable status (429)."""

_MOST_SAID = 4_000
"""Characters kept of a service's error message, to recognise refusals. Fewer are shown."""

_FOR_GOOD = re.compile(r"\bunsupported (?:param|value)|\bnot supported\b|\bdoes not support\b", re.I)
"""Messages of replies with status 500 for requests that a retry cannot fix, such as "min_p is not supported"."""

_NO_MODEL_CODES = frozenset({"model_not_found", "DeploymentNotFound", "unknown_model"})
"""Codes of errors about a model or deployment that the service does not have."""

_NO_MODEL = re.compile(
    r"\bmodel\b:?\s*(?:\S{1,200}\s+)?(?:does not exist|(?:is |was )?not found)"
    r"|\b(?:invalid|unknown) model(?: name\b|:)|\bnot a valid model\b",
    re.I,
)
"""Messages of replies with status 400 or 404 if the service does not know the model.

Such as "The model `my-tune` does not exist", "model my-tune not found" and "Invalid model name".
"""

_MODEL_STATUS = "ms-azureml-model-error-statuscode"
"""Azure ML answers 424 if its container failed, with the container's own status in this header."""

_KINDS: Mapping[int, tuple[type[EndpointError], str]] = {
    401: (RefusedError, "check the key or sign-in"),
    402: (RefusedError, "add credit to the account"),
    403: (RefusedError, "check the permissions of the key or identity"),
    404: (EndpointError, "check the url and the deployment's name"),
    408: (TimedOutError, ""),
    413: (EndpointError, "send a shorter request"),
    429: (ThrottledError, "lower the definition's limits, or try later"),
    504: (TimedOutError, ""),
}
"""The error of a status, with advice."""

_PASSING = frozenset({408, 409, 425, 429, *range(500, 600)} - {501, 505})
"""Statuses that may be gone at the next attempt: timeout, conflict, too early, too many requests, and server errors.

No retry changes 501 (not implemented) and 505 (HTTP version not supported).
"""


def request_id(headers: Mapping[str, str], redactor: Redactor) -> str | None:
    """Return the service's id of a call from the first header that has an id, or None."""
    value = next((headers[name] for name in _REQUEST_IDS if headers.get(name)), "")
    return redactor.line(value, 128) or None


def error_failure(
    reply: Reply, body: JSON, who: str, redactor: Redactor, retry_after: float | None = None
) -> AttemptFailed:
    """Return the failure for an error reply, or for a reply with an error in its body although its status is below 300.

    Messages begin with `who`. `retry_after` is the wait in seconds that the service asks for.
    """
    status, usage = _own_status(reply, body), read_usage(body)
    id_ = request_id(reply.headers, redactor)
    codes = _codes(body)
    if not _FILTER_CODES.isdisjoint(codes):
        reason = f"{who} declined the content: {redactor.line(_filter_reason(body))}"
        return AttemptFailed(ContentFilterError(reason, status=status, request_id=id_), retry=False)

    no_credit = not _SPENT_CODES.isdisjoint(codes)
    kind, advice = _KINDS.get(402 if no_credit else status, (ReplyError if status < 300 else EndpointError, ""))
    text = _error_text(body, reply)

    if 300 <= status < 400:
        # The query of a redirect may carry a token.
        text = f"to {reply.headers.get('location', 'nowhere').partition('?')[0]}"
        advice = "redirects are not followed: write the final url"
    no_model = status in (400, 404) and (not _NO_MODEL_CODES.isdisjoint(codes) or _NO_MODEL.search(text) is not None)

    # For an unknown model, the client adds the models that the service offers.
    message = _error_message(reply, status, redactor.line(text), "" if no_model else advice)
    error = kind(f"{who} answered {message}", status=status, request_id=id_)
    error.said = redactor.line(text, _MOST_SAID)
    # The first text under `code`, and the first under `param`.
    error.code, error.param = (
        next((redactor.line(value) for value in _error_values(body, key) if isinstance(value, str)), None)
        for key in ("code", "param")
    )
    error.cause = "unknown_model" if no_model else error.cause

    is_permanent = no_credit or (status == 500 and _FOR_GOOD.search(text) is not None)
    return AttemptFailed(
        error,
        retry=not is_permanent and (status < 300 or status in _PASSING),
        retry_after_s=retry_after,
        overload=not no_credit and status in (429, 503),
        refused=kind is RefusedError or no_model,
        usage=usage if reply.status < 300 or usage != Usage() else None,
    )


def _error_message(reply: Reply, status: int, text: str, advice: str) -> str:
    """Return the message for an error reply: its status, the model's own `status` if that differs, text and advice."""
    message = _status_name(reply.status)
    if reply.status < 300:
        message += " with an error"
    if status != reply.status:
        message += f" (the model's own status: {_status_name(status)})"
    if text:
        message += f": {text}"
    return f"{message} ({advice})" if advice else message


def _own_status(reply: Reply, body: JSON) -> int:
    """Return the status of the model behind the service, or the reply's status if the reply does not name another.

    A reply names the model's status in a header of Azure ML, or in the body if its own status is below 300.
    """
    candidates, pattern = list[JSON](), "[45][0-9]{2}"
    if reply.status == HTTPStatus.FAILED_DEPENDENCY:
        candidates, pattern = [reply.headers.get(_MODEL_STATUS)], "[345][0-9]{2}"
    elif reply.status < 300:
        candidates = _error_values(body, "code", "status")
    return next((int(str(value)) for value in candidates if re.fullmatch(pattern, str(value))), reply.status)


def _error_values(body: JSON, *keys: str) -> list[JSON]:
    """Return the values of these keys in the body of an error reply, without empty ones.

    Values inside `error` come before values at the top level, and those inside `innererror` come last.
    """
    body = body[0] if isinstance(body, list) and len(body) == 1 else body  # Gemini wraps its errors in a list
    error = body.get("error") if isinstance(body, dict) else None
    holders = [holder for holder in (error, body) if isinstance(holder, dict)]
    # Azure gives details under `innererror`.
    holders += [inner for holder in holders if isinstance(inner := holder.get("innererror"), dict)]
    return [holder[key] for holder in holders for key in keys if holder.get(key)]


def _codes(body: JSON) -> set[str]:
    """Return all error codes in the body of an error reply."""
    return {code for code in _error_values(body, "code", "type", "error") if isinstance(code, str)}


def _status_name(status: int) -> str:
    """Return a status with its name, such as "404 Not Found"; an unknown status without a name."""
    with contextlib.suppress(ValueError):
        return f"{status} {HTTPStatus(status).phrase}"
    return str(status)


def _error_text(body: JSON, reply: Reply) -> str:
    """Return the message of an error reply: from its JSON (`body`), the title of a web page, or its text."""
    values = _error_values(body, "message", "detail", "error", "title", "error_description")
    message = next((value for value in values if isinstance(value, str)), "")
    if message:
        # OpenRouter adds the message of the provider behind it.
        details = [data.get("raw") for data in _error_values(body, "metadata") if isinstance(data, dict)]
        return ": ".join([message, *(detail for detail in details if isinstance(detail, str))])

    # Much more than is shown, because a secret that is cut off would not be masked.
    text = reply.body[: 1 << 16].decode("utf-8", "replace")
    if is_page(reply):
        title = re.search(r"<title[^>]*>([^<]{1,200})", text, re.IGNORECASE)
        return f"a web page titled {title[1].strip()!r}" if title else "a web page"
    return text


def is_page(reply: Reply) -> bool:
    """Return whether the reply is a web page, by its content type or its first character."""
    kind = reply.headers.get("content-type", "")
    return "html" in kind.lower() or reply.body[:200].lstrip()[:1] == b"<"


def _filter_reason(body: JSON) -> str:
    """Return the names of the content filters that stopped the answer, else the error's message or "content filter"."""
    for result in _error_values(body, "content_filter_result"):
        filters = result.items() if isinstance(result, dict) else ()
        names = [name for name, verdict in filters if isinstance(verdict, dict) and verdict.get("filtered") is True]
        if names:
            return ", ".join(names)
    return next((text for text in _error_values(body, "message") if isinstance(text, str)), "content filter")
