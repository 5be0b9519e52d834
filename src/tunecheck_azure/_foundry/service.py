"""Calls to an Azure service through azure-core: with sign-in, and with retries only if repeating is safe.

A request is sent again (`SafeRetryPolicy`) by the first line that fits:

  Retry-After above 120 s, invalid certificate     never
  the step is repeatable (`UploadStep.repeatable`)  after the errors and statuses of azure-core, for any method
  429, or 503 with Retry-After                      always: the service certainly did nothing
  otherwise                                         never: a second request could create a second run

After the last attempt the step fails with UploadError. `unsure` is set if the service may have done the step: the
request was sent and no reply came, the reply is unreadable, or its status is 408, 500, 502, 504, or 503 without
Retry-After. Then the next upload looks for the run before it creates one.

Replies come from outside, so `_BoundedAdapter` limits their size and time, and `ServiceReply` checks each text and
id that is read from them. Tokens, signatures and keys are masked in every error text.
"""

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl

import msgspec
from azure.core import PipelineClient
from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError, ServiceRequestError
from azure.core.pipeline import policies
from azure.core.pipeline.transport import RequestsTransport
from azure.core.rest import HttpRequest
from azure.storage.blob import ContainerClient, ContentSettings
from requests import Session
from requests.adapters import HTTPAdapter
from requests.exceptions import SSLError
from urllib3.exceptions import ProtocolError

from tunecheck.endpoints import Redactor, Secret, retry_after_s
from tunecheck.plugins import JSON, dumps, value_of
from tunecheck_upload import Artifact, Contents, RunUpload, UploadError, UploadRecord, UploadStep, checked_id, value_at

_CONNECT_S, _READ_S = 30, 100
"""Seconds to wait for a connection, and for the next part of a reply."""

_RETRIES = 6
"""The most retries of one request. azure-core allows three of them after statuses, three after failed connections and
three after lost replies. Three retries wait 0, 1.6 and 3.2 seconds, if the service sends no Retry-After."""

_MOST_WAIT_S = 120
"""The longest Retry-After that is waited for. A longer one fails the step."""

_MOST_BYTES, _MOST_REPLY_S = 64 << 20, 600
"""Limits of a reply: its size, unpacked, and the time in which it must arrive."""

_MOST_TEXT = 4096
"""The most characters of a text in a reply, such as a storage's address with its signature."""

# The address of a run's page. Printable ASCII without spaces and without @, which could hide the host behind a user.
_PAGE = re.compile(r"https://[!-?A-~]{1,4000}")

# The beginning of a storage's address: "https://account.blob.core.windows.net/" of ".../container?sig=…".
_HTTPS = re.compile(r"https://[\w.-]+(:\d+)?/", re.ASCII)

_ANY_METHOD = ("GET", "POST", "PATCH", "PUT", "DELETE")
_RETRY_AFTER, _REQUEST_ID = "Retry-After", "x-ms-request-id"
_PERHAPS_DONE = (408, 500, 502, 504)
"""Statuses after which the service may have carried out the request."""

_ADVICE = {
    401: " (sign in with `az login`, or check the credential's tenant)",
    403: " (the identity lacks a permission in the project or in its storage)",
}

T = TypeVar("T")
ProjectT = TypeVar("ProjectT")


class ServiceReply(msgspec.Struct, frozen=True):
    """A service's reply to a step. `body` is None if the reply is empty."""

    step: UploadStep
    status: int
    body: JSON

    def text(self, *path: str | int) -> str:
        """Return the text at this path of the body; raise UploadError if it is missing, too long or not printable."""
        text = value_at(self.body, *path)
        if not isinstance(text, str) or not 0 < len(text) <= _MOST_TEXT or not text.isprintable():
            reason = f"the service's reply has no usable text in {'.'.join(map(str, path))}"
            raise UploadError(self.step, reason, status=self.status, unsure=True)
        return text

    def id(self, *path: str | int) -> str:
        """Return the id at this path of the body; raise UploadError if there is none."""
        return checked_id(self.step, value_at(self.body, *path))

    def part(self, *path: str | int) -> "ServiceReply":
        """Return this reply with only the value at this path as its body, None if there is none."""
        return ServiceReply(self.step, self.status, value_at(self.body, *path))

    def page(self, *path: str | int) -> str | None:
        """Return the https address of a page at this path of the body, or None if there is none."""
        address = value_at(self.body, *path)
        return address if isinstance(address, str) and _PAGE.fullmatch(address) else None


class AzureService:
    """A client that sends JSON to one service. Close it after use.

    Args:
        credential: an object with `get_token`, which returns tokens for `scope`.
        user_agent: the User-Agent header of requests.
    """

    def __init__(self, credential: Any, scope: str, *, user_agent: str) -> None:  # noqa: ANN401 - duck-typed
        """Create the client, with safe retries and Entra tokens of the credential. This sends no request."""
        self.user_agent = user_agent
        self._redactor = Redactor()
        self.sign_in = SignIn(credential, self._redactor)
        self._client: PipelineClient[Any, Any] = PipelineClient(
            "",  # no base URL: each request has a whole URL
            policies=[
                policies.RequestIdPolicy(),
                policies.HeadersPolicy({"Accept": "application/json"}),
                policies.UserAgentPolicy(base_user_agent=user_agent),
                SafeRetryPolicy(retry_total=_RETRIES),
                policies.BearerTokenCredentialPolicy(self.sign_in, scope),
            ],
            transport=transport(),
        )

    def close(self) -> None:
        self._client.close()

    def json(
        self, step: UploadStep, method: str, url: str, body: JSON = None, *, kind: str = "application/json"
    ) -> ServiceReply:
        """Send JSON, or no body if `body` is None, and read the reply; `kind` is the body's content type.

        Raises:
            UploadError: the step failed, also after retries.
        """
        content: dict[str, Any] = {"content": dumps(body), "headers": {"Content-Type": kind}}
        request = HttpRequest(method, url, **({} if body is None else content))

        # azure-core repeats the listed methods only. By default it lacks POST and PATCH.
        methods = _ANY_METHOD if step.repeatable else ()

        def send() -> ServiceReply:
            response = self._client.send_request(request, retry_on_methods=methods)
            if not 200 <= response.status_code < 300:  # also a redirect, which could lead to any host
                raise HttpResponseError(response=response)

            reply = value_of(response.content)
            if reply is None and response.content.strip():  # a proxy's page must not pass for success
                raise self.step_error(step, "the service's reply is not JSON; check the project's address", unsure=True)
            return ServiceReply(step, response.status_code, reply)

        return self.attempt(step, send)

    def find(self, step: UploadStep, url: str) -> JSON:
        """Return the body of a resource, or None if it does not exist (404).

        Raises:
            UploadError: the service refused with another status, or did not reply.
        """
        reply = self.json_unless(404, step, "GET", url)
        return None if reply is None else reply.body

    def json_unless(
        self, status: int, step: UploadStep, method: str, url: str, body: JSON = None
    ) -> ServiceReply | None:
        """Send JSON and read the reply as `json` does, but return None if the service refuses with this status.

        Raises:
            UploadError: the step failed otherwise.
        """
        try:
            return self.json(step, method, url, body)
        except UploadError as error:
            if error.status != status:
                raise
            return None

    def attempt(self, step: UploadStep, action: Callable[[], T]) -> T:
        """Call an action that uses Azure's packages, and return its result.

        Raises:
            UploadError: the action failed.
        """
        try:
            return action()
        except HttpResponseError as error:
            if error.response is not None:
                raise self._status_error(step, error) from None

            # Without a response, azure-core could not read the reply, or the sign-in failed before any request.
            is_unreadable = not isinstance(error, ClientAuthenticationError)
            words = "the service's reply is unreadable: " if is_unreadable else ""
            raise self.step_error(step, f"{words}{error.message}", unsure=is_unreadable) from None
        except (AzureError, OSError, ValueError) as error:  # addresses and certificates may be wrong
            is_insecure = isinstance(getattr(error, "inner_exception", None), SSLError)
            advice = " (to trust more certificates, set SSL_CERT_FILE to their file)" if is_insecure else ""
            reason = f"no {'secure ' if is_insecure else ''}connection: {error}{advice}"

            # A ServiceRequestError means that the request never left, so the service did nothing.
            is_sent = isinstance(error, AzureError) and not isinstance(error, ServiceRequestError)
            raise self.step_error(step, reason, unsure=is_sent) from None

    def mask(self, secret: str) -> None:
        """Mask a secret in every error text."""
        self._redactor.add(Secret(secret))

    def mask_signature(self, address: str) -> None:
        """Mask a shared access signature and the whole query of its address in every error text."""
        query = address.rpartition("?")[2]

        # Such as ?sv=2024-11-04&sig=abc%2B. An error may show the whole query, or the decoded signature.
        self.mask(query)
        for name, value in parse_qsl(query):
            if name.lower() == "sig":
                self.mask(value)

    def _status_error(self, step: UploadStep, error: HttpResponseError) -> UploadError:
        """Return the error for a reply with an error status. Its text has the reason, advice and the request's id.

        `unsure` is set if the service may have carried out the request. Example of a reason:
        `403 Forbidden: (AuthorizationFailed) No permission (the identity lacks a permission …) (request id 1f3a)`.
        """
        response: Any = error.response
        status, headers = int(response.status_code), response.headers

        # The lines after the first repeat the code or give the time. Without a code, the line "Content:" has the text.
        first, *following = str(error.message).splitlines() or [""]
        text = " ".join([first, *(line for line in following if line.startswith("Content:"))])

        code = getattr(error, "error_code", None)  # the storage's code, which is not in its text
        code = f"({getattr(code, 'value', code)}) " if code and not first.startswith("(") else ""

        request_id = headers.get(_REQUEST_ID)
        request_text = f" (request id {request_id})" if request_id else ""
        reason = f"{status} {response.reason}: {code}{text}{_ADVICE.get(status, '')}{request_text}"

        unsure = status in _PERHAPS_DONE or (status == 503 and _RETRY_AFTER not in headers)
        return self.step_error(step, reason, status=status, request_id=request_id, unsure=unsure)

    def step_error(self, step: UploadStep, reason: str, **details: Any) -> UploadError:  # noqa: ANN401 - UploadError's
        """Return the error for a failed step, without secrets."""
        return UploadError(step, self._redactor.text(reason), **details)


class SignIn:
    """A wrapper of the user's credential: it hides each token, and every error is a ClientAuthenticationError."""

    def __init__(self, credential: Any, redactor: Redactor) -> None:  # noqa: ANN401 - duck-typed
        self._credential = credential
        self._redactor = redactor

    def get_token(self, *scopes: str, **options: Any) -> Any:  # noqa: ANN401 - the signature is azure-core's
        """Return a token for these scopes.

        Raises:
            ClientAuthenticationError: the credential failed, with any error.
        """
        try:
            token = self._credential.get_token(*scopes, **options)
            self._redactor.add(Secret(token.token))
            return token
        except Exception as error:  # noqa: BLE001 - the credential may be any object
            raise ClientAuthenticationError(f"the credential gave no Microsoft Entra token: {error}") from None


class SafeRetryPolicy(policies.RetryPolicy):  # type: ignore[type-arg]
    """A policy that retries requests of `retry_on_methods`, or others only if the service certainly did nothing."""

    def is_retry(self, settings: dict[str, Any], response: Any) -> bool:  # noqa: ANN401 - the signature is azure-core's
        """Return whether a request is sent again after a reply.

        Without `retry_on_methods`, only replies count that say that the service did nothing: 429, and 503 with
        Retry-After.
        """
        if (self.get_retry_after(response) or 0) > _MOST_WAIT_S:
            return False

        # azure-core's own rule: its statuses, methods and number of attempts.
        if settings["methods"]:
            return bool(super().is_retry(settings, response))

        # `methods` is empty for a step that must not be done twice.
        status, headers = response.http_response.status_code, response.http_response.headers
        undone = status == 429 or (status == 503 and _RETRY_AFTER in headers)
        return undone and settings["total"] > 0

    def get_retry_after(self, response: Any) -> float | None:  # noqa: ANN401 - the signature is azure-core's
        """Return the wait in seconds that the reply requests, or None if it requests none that can be read."""
        return retry_after_s(response.http_response.headers, time.time())

    def increment(self, settings: dict[str, Any], response: Any = None, error: Any = None) -> bool:  # noqa: ANN401
        """Return whether a request is sent again after an error. An invalid certificate stays invalid."""
        if isinstance(getattr(error, "inner_exception", None), SSLError):
            return False
        return bool(super().increment(settings, response=response, error=error))


class _BoundedAdapter(HTTPAdapter):
    """The connections of one client, which raise an error if a reply is too large or takes too long."""

    def build_response(self, req: Any, resp: Any) -> Any:  # noqa: ANN401 - requests has no types
        """Return the response, whose content is read within the limits."""
        response = super().build_response(req, resp)
        stream = response.raw.stream
        response.raw.stream = lambda *sizes, **options: _bounded(stream(*sizes, **options))
        return response


def _bounded(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the chunks of a reply, or raise ProtocolError if the reply exceeds the limits of size or time."""
    left, end = _MOST_BYTES, time.monotonic() + _MOST_REPLY_S

    for chunk in chunks:
        left -= len(chunk)
        # Counted after unpacking, so a small packed reply cannot fill the memory.
        if left < 0 or time.monotonic() > end:
            raise ProtocolError(f"Azure's reply exceeds {_MOST_BYTES >> 20} MB or takes over {_MOST_REPLY_S} seconds")
        yield chunk


def transport() -> RequestsTransport:
    """Return a transport for one of Azure's clients. It sends nothing without encryption, and bounds each reply."""
    session = Session()
    session.adapters.clear()  # requests has an adapter for http://, too
    session.mount("https://", _BoundedAdapter())

    # requests itself reads only REQUESTS_CA_BUNDLE.
    verify = os.environ.get("SSL_CERT_FILE") or True

    timeouts = {"connection_timeout": _CONNECT_S, "read_timeout": _READ_S}
    return RequestsTransport(session=session, connection_verify=verify, **timeouts)


class AzureUpload(RunUpload, Generic[ProjectT]):
    """Base of the uploads to a project, which call one Azure service."""

    def __init__(self, project: ProjectT, service: AzureService, record: UploadRecord, contents: Contents) -> None:
        super().__init__(record, contents)
        self._project = project
        self._service = service

    def close(self) -> None:
        self._service.close()


# -- files

BLOCK_BYTES = 8 << 20
"""Bytes of a block, and of the largest file that is sent in one request. A failed block is sent again alone."""

_OPEN = UploadStep("open the storage")


class BlobFolder:
    """A container of a storage account, or a folder in it, to which artifacts are uploaded.

    `container` is the container's address. It includes a shared access signature if `credential` is None. Otherwise
    `credential` is a SignIn, or a dict with `account_name` and `account_key`.

    Raises:
        UploadError: the address is wrong.
    """

    def __init__(self, service: AzureService, container: str, credential: Any = None, prefix: str = "") -> None:  # noqa: ANN401 - duck-typed
        """Create the client for the container or for the folder `prefix` in it. This sends no request.

        If `credential` is None, the address `container` includes a signature, which is masked in errors.
        """
        self._service = service
        self._prefix = prefix

        if credential is None:
            service.mask_signature(container)
        if not _HTTPS.match(container):
            raise UploadError(_OPEN, "Azure's reply has no https address for the files to upload")

        # A redirect could lead the signature or the key to another host, so redirects are refused.
        self._container = service.attempt(
            _OPEN,
            lambda: ContainerClient.from_container_url(
                container,
                credential=credential,
                transport=transport(),
                max_single_put_size=BLOCK_BYTES,
                max_block_size=BLOCK_BYTES,
                user_agent=service.user_agent,
                permit_redirects=False,
            ),
        )

    def put(self, artifact: Artifact) -> None:
        """Upload a file. Replace a file of that name, because it may come from an earlier attempt."""
        with artifact.path.open("rb") as file:
            md5 = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).digest()
            file.seek(0)

            # The service computes the MD5 itself only for a file that is sent in one request.
            settings = ContentSettings(content_type=artifact.kind, content_md5=bytearray(md5))

            self._service.attempt(
                UploadStep(f"upload {artifact.name}"),
                lambda: self._container.upload_blob(
                    self._prefix + artifact.name, file, length=artifact.size, overwrite=True, content_settings=settings
                ),
            )

    def close(self) -> None:
        self._container.close()
