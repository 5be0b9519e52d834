"""Calls to an Azure service through azure-core: signed in, and repeated only if the service cannot do a thing twice."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from azure.core import PipelineClient
from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError, ServiceRequestError
from azure.core.pipeline import policies
from azure.core.pipeline.transport import RequestsTransport
from azure.core.rest import HttpRequest
from azure.storage.blob import ContainerClient, ContentSettings
from requests.exceptions import SSLError

from tunecheck.endpoints import Redactor, Secret
from tunecheck.plugins import JSON, clean, dumps, value_of
from tunecheck_upload import Artifact, UploadError, UploadStep, value_at

_CONNECT_S, _READ_S = 30, 100
_RETRIES = 6
"""About a minute of waiting, if a service names no time of its own."""

_ANY_METHOD = ("GET", "POST", "PATCH", "PUT", "DELETE")
_RETRY_AFTER, _REQUEST_ID = "Retry-After", "x-ms-request-id"
_PERHAPS_DONE = (408, 500, 502, 504)
"""Statuses after which the service may have done what it was asked."""

_ADVICE = {
    401: " (sign in with `az login`, or check the credential's tenant)",
    403: " (the identity lacks a right to do this in the project or its storage)",
}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ServiceReply:
    """A service's reply to a step: `body` is None if it is not JSON."""

    step: UploadStep
    status: int
    body: JSON

    def text(self, *path: str | int) -> str:
        text = value_at(self.body, *path)
        if not isinstance(text, str) or not text:
            reason = f"the service's answer has no {'.'.join(map(str, path))}"
            raise self.step.failed(reason, status=self.status, unsure=True)
        return text


class AzureService:
    """Sends JSON to one service. Close it after use.

    Args:
        credential: an object with `get_token`; it gives tokens for `scope`.
        user_agent: how requests introduce themselves.
    """

    def __init__(self, credential: Any, scope: str, *, user_agent: str) -> None:  # noqa: ANN401 - duck-typed
        self.user_agent = user_agent
        self._redactor = Redactor()
        self._client: PipelineClient[Any, Any] = PipelineClient(
            "",
            policies=[
                policies.RequestIdPolicy(),
                policies.HeadersPolicy({"Accept": "application/json"}),
                policies.UserAgentPolicy(base_user_agent=user_agent),
                SafeRetryPolicy(retry_total=_RETRIES),
                policies.BearerTokenCredentialPolicy(SignIn(credential), scope),
            ],
            transport=self.transport(),
        )

    def close(self) -> None:
        self._client.close()

    def transport(self) -> RequestsTransport:
        """Connections for one of Azure's clients."""
        # requests itself knows only REQUESTS_CA_BUNDLE.
        verify = os.environ.get("SSL_CERT_FILE") or True
        return RequestsTransport(connection_timeout=_CONNECT_S, read_timeout=_READ_S, connection_verify=verify)

    def json(
        self, step: UploadStep, method: str, url: str, body: JSON = None, *, kind: str = "application/json"
    ) -> ServiceReply:
        """Send JSON (nothing, if it is None) and read the reply.

        Raises:
            UploadError: the step failed for good.
        """
        content: dict[str, Any] = {"content": dumps(body), "headers": {"Content-Type": kind}}
        request = HttpRequest(method, url, **({} if body is None else content))
        methods = _ANY_METHOD if step.repeatable else ()

        def send() -> ServiceReply:
            response = self._client.send_request(request, retry_on_methods=methods)
            response.raise_for_status()
            return ServiceReply(step, response.status_code, value_of(response.content))

        return self.attempt(step, send)

    def found(self, step: UploadStep, url: str) -> JSON:
        """Read a resource; None if it does not exist."""
        try:
            return self.json(step, "GET", url).body
        except UploadError as error:
            if error.status != 404:
                raise
            return None

    def attempt(self, step: UploadStep, action: Callable[[], T]) -> T:
        """Do something with Azure's packages.

        Raises:
            UploadError: it failed.
        """
        try:
            return action()
        except HttpResponseError as error:
            if error.response is not None:
                raise self._refusal(step, error) from None
            unread = not isinstance(error, ClientAuthenticationError)
            words = "the service's answer is unreadable: " if unread else ""
            raise self._failure(step, f"{words}{error.message}", unsure=unread) from None
        except AzureError as error:
            insecure = isinstance(error.inner_exception, SSLError)
            advice = " (SSL_CERT_FILE may name more certificates to trust)" if insecure else ""
            reason = f"no {'secure ' if insecure else ''}connection: {error.message}{advice}"
            raise self._failure(step, reason, unsure=not isinstance(error, ServiceRequestError)) from None

    def hide(self, secret: str) -> None:
        """Mask a secret wherever an error would show it."""
        self._redactor.add(Secret(secret))

    def hide_signature(self, address: str) -> None:
        """Mask a shared access signature, and the address's whole query."""
        query = urlsplit(address).query if "://" in address else address.lstrip("?")
        self.hide(query)
        for name, value in parse_qsl(query):
            if name.lower() == "sig":
                self.hide(value)

    def _refusal(self, step: UploadStep, error: HttpResponseError) -> UploadError:
        response: Any = error.response
        self.hide(response.request.headers.get("Authorization", "").removeprefix("Bearer "))
        status, headers = int(response.status_code), response.headers
        # The lines after the first repeat the code, or name the time; without a code, one has the service's text.
        first, *others = str(error.message).splitlines()
        text = " ".join([first, *(line for line in others if line.startswith("Content:"))])
        code = getattr(error, "error_code", None)  # the storage's, which its text leaves out
        code = f"({getattr(code, 'value', code)}) " if code and not first.startswith("(") else ""
        request_id = headers.get(_REQUEST_ID)
        told = f" (request id {request_id})" if request_id else ""
        reason = f"{status} {response.reason}: {code}{text}{_ADVICE.get(status, '')}{told}"
        unsure = status in _PERHAPS_DONE or (status == 503 and _RETRY_AFTER not in headers)
        return self._failure(step, reason, status=status, request_id=request_id, unsure=unsure)

    def _failure(self, step: UploadStep, reason: str, **details: Any) -> UploadError:  # noqa: ANN401 - those of UploadError
        return step.failed(clean(self._redactor.text(reason), 600), **details)


class SignIn:
    """The user's credential; what it raises becomes an error of Azure's packages."""

    def __init__(self, credential: Any) -> None:  # noqa: ANN401 - duck-typed
        self._credential = credential

    def get_token(self, *scopes: str, **options: Any) -> Any:  # noqa: ANN401 - the signature is azure-core's
        """A token for these scopes."""
        try:
            return self._credential.get_token(*scopes, **options)
        except Exception as error:  # noqa: BLE001 - whatever the credential is
            raise ClientAuthenticationError(f"no Microsoft Entra token: {error}") from None


class SafeRetryPolicy(policies.RetryPolicy):  # type: ignore[type-arg]
    """Repeats a request of any of `retry_on_methods`. Without any, only if the service certainly did not do it."""

    def is_retry(self, settings: dict[str, Any], response: Any) -> bool:  # noqa: ANN401 - the signature is azure-core's
        if settings["methods"]:
            return bool(super().is_retry(settings, response))
        status, headers = response.http_response.status_code, response.http_response.headers
        undone = status == 429 or (status == 503 and _RETRY_AFTER in headers)
        return undone and settings["total"] > 0

    def increment(self, settings: dict[str, Any], response: Any = None, error: Any = None) -> bool:  # noqa: ANN401
        # Waiting makes no certificate valid.
        if isinstance(getattr(error, "inner_exception", None), SSLError):
            return False
        return bool(super().increment(settings, response=response, error=error))


# -- files

BLOCK_BYTES = 8 << 20
"""Size of a block, and of the largest file that goes whole."""


class BlobFolder:
    """A container of the storage account, or a folder in it, that artifacts are put into.

    `container` is its address, with its signature if that is the credential. Else `credential` is the sign-in, or
    `account_name` and `account_key`.
    """

    def __init__(self, service: AzureService, container: str, credential: Any = None, prefix: str = "") -> None:  # noqa: ANN401 - duck-typed
        self._service = service
        self._prefix = prefix
        self._container = ContainerClient.from_container_url(
            container,
            credential=credential,
            transport=service.transport(),
            max_single_put_size=BLOCK_BYTES,
            max_block_size=BLOCK_BYTES,
            user_agent=service.user_agent,
        )

    def put(self, artifact: Artifact) -> None:
        """Upload a file. One of that name is replaced: an attempt before may have got through unanswered."""
        with artifact.path.open("rb") as file:
            md5 = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).digest()
            file.seek(0)
            # The service itself computes the MD5 only of a file that comes whole.
            settings = ContentSettings(content_type=artifact.kind, content_md5=bytearray(md5))
            self._service.attempt(
                UploadStep(f"upload {artifact.name}"),
                lambda: self._container.upload_blob(
                    self._prefix + artifact.name, file, length=artifact.size, overwrite=True, content_settings=settings
                ),
            )

    def close(self) -> None:
        self._container.close()
