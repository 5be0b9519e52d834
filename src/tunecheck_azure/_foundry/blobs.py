"""Files into Azure Blob Storage: small ones whole, large ones in blocks, each tried until it is there."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import parse_qsl, quote, urlsplit

import aiohttp

from tunecheck._errors import EndpointError
from tunecheck.endpoints._auth import AccessToken, Auth
from tunecheck.endpoints._masking import Redactor, Secret
from tunecheck.endpoints._urls import proxy_for
from tunecheck_upload._calls import Calls, FailedAttempt, Step
from tunecheck_upload._contents import Artifact

if TYPE_CHECKING:
    from azure.storage.blob import ContentSettings
    from azure.storage.blob.aio import BlobClient, ContainerClient

BLOCK_BYTES = 8 << 20
"""Size of a block, and of the largest file that goes whole: what an upload holds in memory."""

_MOST_BLOCKS = 50_000

_NEVER_EXPIRES = 1 << 40
"""The expiry that the storage client is told: the sign-in itself renews its token."""

T = TypeVar("T")


class _Put(Protocol):
    async def __call__(self, *, replace: bool) -> None: ...


class StorageToken:
    """The project's sign-in as the credential that the storage client asks for."""

    def __init__(self, auth: Auth) -> None:
        self._auth = auth

    async def get_token(self, *scopes: str, **options: object) -> AccessToken:
        """The bearer token; scopes and options are those that the sign-in was made for."""
        from azure.core.credentials import AccessToken as Token

        headers = await self._auth.headers()
        token: AccessToken = Token(headers["Authorization"].removeprefix("Bearer "), _NEVER_EXPIRES)
        return token

    async def close(self) -> None:
        """There is nothing to close."""


def hide_sas(address: str, redactor: Redactor) -> None:
    """Mask a shared access signature, and the address's whole query, wherever they would be shown."""
    query = urlsplit(address).query if "://" in address else address.lstrip("?")
    redactor.add(Secret(query))
    for name, value in parse_qsl(query):
        if name.lower() == "sig":
            redactor.add(Secret(value))


class BlobFolder:
    """A container of the storage account, or a folder in it, that artifacts are put into.

    `container` is its address, with its signature where that is the credential; else `credential` is the sign-in, or
    `account_name` and `account_key`.
    """

    def __init__(
        self, calls: Calls, container: str, credential: Mapping[str, str] | StorageToken | None, prefix: str = ""
    ) -> None:
        self._calls = calls
        self._prefix = prefix
        self._container = _open_container(calls, container, credential)

    async def put(self, artifact: Artifact, *, create_only: bool) -> Step:
        """Upload a file, and give the step that this was.

        With `create_only` an existing one is replaced only where creating it was refused.
        """
        step = Step(f"upload {artifact.name}")
        blob = self._container.get_blob_client(self._prefix + artifact.name)
        if artifact.size <= BLOCK_BYTES:
            await self._put_whole(step, blob, artifact, create_only)
        else:
            await self._put_blocks(step, blob, artifact, create_only)
        return step

    async def _put_whole(self, step: Step, blob: BlobClient, artifact: Artifact, create_only: bool) -> None:
        content = artifact.path.read_bytes()
        settings = _settings(artifact.kind)

        async def send(*, replace: bool) -> None:
            await blob.upload_blob(content, length=len(content), overwrite=replace, content_settings=settings)

        await self._create(step, create_only, send)

    async def _put_blocks(self, step: Step, blob: BlobClient, artifact: Artifact, create_only: bool) -> None:
        from azure.core import MatchConditions
        from azure.storage.blob import BlobBlock

        digest = hashlib.md5(usedforsecurity=False)  # what the service itself keeps of a file that comes whole
        blocks: list[BlobBlock] = []
        size = max(BLOCK_BYTES, -(-artifact.size // _MOST_BLOCKS))
        with artifact.path.open("rb") as file:
            while block := file.read(size):
                digest.update(block)
                id_ = f"{len(blocks):08d}"
                blocks.append(BlobBlock(block_id=id_))
                await self._persist(step, partial(blob.stage_block, id_, block, length=len(block)))
        settings = _settings(artifact.kind, digest.digest())

        async def commit(*, replace: bool) -> None:
            condition = None if replace else MatchConditions.IfMissing
            await blob.commit_block_list(blocks, content_settings=settings, match_condition=condition)

        await self._create(step, create_only, commit)

    async def _create(self, step: Step, create_only: bool, put: _Put) -> None:
        """Create a file; where it is there already (an attempt before got through unanswered), replace it."""
        from azure.core.exceptions import ResourceExistsError, ResourceModifiedError

        async def attempt() -> None:
            try:
                await put(replace=not create_only)
            except (ResourceExistsError, ResourceModifiedError):
                await put(replace=True)

        await self._persist(step, attempt)

    async def _persist(self, step: Step, action: Callable[[], Awaitable[T]]) -> T:
        from azure.core.exceptions import AzureError

        async def attempt() -> T:
            try:
                return await action()
            except EndpointError as error:  # no token
                raise FailedAttempt("fatal", str(error)) from None
            except AzureError as error:
                raise _failed(error, self._calls) from None

        return await self._calls.persist(step, attempt)


def _open_container(calls: Calls, container: str, credential: Any) -> ContainerClient:  # noqa: ANN401 - duck-typed
    from azure.core.pipeline.transport import AioHttpTransport
    from azure.storage.blob.aio import ContainerClient

    return ContainerClient.from_container_url(
        container,
        credential=credential,
        transport=AioHttpTransport(session=calls.session, session_owner=False),
        retry_total=0,  # attempts and waits are ours
        max_single_put_size=BLOCK_BYTES,
        max_block_size=BLOCK_BYTES,
        user_agent=calls.user_agent,
        proxies=_proxies(container),
        logging_enable=False,
    )


def _proxies(address: str) -> dict[str, str] | None:
    proxy = proxy_for(address)
    if proxy is None or proxy.authorization is None:
        return {"https": proxy.url} if proxy else None
    name, _, word = base64.b64decode(proxy.authorization.reveal().removeprefix("Basic ")).decode().partition(":")
    return {"https": proxy.url.replace("://", f"://{quote(name, safe='')}:{quote(word, safe='')}@", 1)}


def _settings(kind: str, md5: bytes | None = None) -> ContentSettings:
    from azure.storage.blob import ContentSettings

    return ContentSettings(content_type=kind, content_md5=bytearray(md5) if md5 else None)


def _failed(error: Exception, calls: Calls) -> FailedAttempt:
    """What the storage client raised, as one failed attempt."""
    from azure.core.exceptions import HttpResponseError, ServiceRequestError

    response = getattr(error, "response", None)
    if isinstance(error, HttpResponseError) and response is not None:
        code = getattr(error, "error_code", None)
        code = getattr(code, "value", code)
        # The message has more lines: request id, time, code.
        text = str(error.message).partition("\n")[0]
        return calls.refusal(
            int(response.status_code),
            response.headers,
            f"({code}) {text}" if code and not text.startswith("(") else text,
        )
    if isinstance(getattr(error, "inner_exception", None), aiohttp.ClientConnectorCertificateError):
        return FailedAttempt("fatal", f"no secure connection to the storage: {error}")
    if isinstance(error, ServiceRequestError):
        return FailedAttempt("unsent", f"no connection to the storage: {error.message}")
    return FailedAttempt("lost", f"the connection to the storage failed: {getattr(error, 'message', error)}")
