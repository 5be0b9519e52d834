"""Blobs of a container by name, through azure-storage-blob's client."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import BinaryIO

from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential, TokenCredential
from azure.core.exceptions import (
    AzureError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.storage.blob import BlobServiceClient, ContainerClient, ExponentialRetry

from tunecheck import ConfigurationError, RunError

BLOCK_BYTES = 8 << 20
"""Size of a block, and of the largest blob that is sent whole."""

RETRIES = 5
_PLACE = re.compile(r"az://(?P<container>[a-z0-9](?:-?[a-z0-9]){2,62})(?:/(?P<prefix>[^?#]*))?")


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """A blob's content, and its ETag, which changes whenever the blob is written."""

    content: bytes
    version: str


class BlobStore:
    """Blobs below `az://container/prefix`. Each call is whole or did nothing, also when many machines call at once.

    Every method raises RunError if the storage cannot be reached or refuses. The text says why, and holds no secret.
    """

    def __init__(self, address: str) -> None:
        """Check the address; connect to nothing yet.

        Raises:
            ConfigurationError: The address is wrong, or the environment names no account.
        """
        parts = _PLACE.fullmatch(address)
        if parts is None:  # text behind a question mark may be a secret
            raise ConfigurationError(
                "storage is az://container/prefix, nothing behind it: credentials are read from AZURE_STORAGE_… "
                "variables"
            )
        self.place = address.rstrip("/")
        self._prefix = f"{prefix}/" if (prefix := (parts["prefix"] or "").strip("/")) else ""
        self._name = parts["container"]
        self._account_url = _account_url(self.place)

    @cached_property
    def _container(self) -> ContainerClient:
        retries = ExponentialRetry(initial_backoff=0, increment_base=2, random_jitter_range=1, retry_total=RETRIES)
        service = BlobServiceClient(
            self._account_url,
            credential=_credential(),
            retry_policy=retries,
            max_single_put_size=BLOCK_BYTES,
            max_block_size=BLOCK_BYTES,
        )
        return service.get_container_client(self._name)

    def create(self, name: str, content: bytes) -> bool:
        """Write a blob that does not exist yet; return whether the blob now holds this content."""
        with self._errors_of(name, "cannot be written"):
            try:
                self._container.upload_blob(self._prefix + name, content)
            except ResourceExistsError:
                stored = self.read(name)  # the reply to an earlier attempt of this call may have been lost
                return stored is not None and stored.content == content
        return True

    def put(self, name: str, content: bytes | BinaryIO) -> None:
        """Write a blob or replace it; only a few MB of a file are in memory at once."""
        with self._errors_of(name, "cannot be written"):
            self._container.upload_blob(self._prefix + name, content, overwrite=True)

    def read(self, name: str) -> StoredBlob | None:
        """Return a blob, or None if there is none of that name."""
        with self._errors_of(name, "cannot be read"):
            try:
                found = self._container.download_blob(self._prefix + name)
            except ResourceNotFoundError as error:
                if _code_of(error) == "ContainerNotFound":
                    raise RunError(f"{self.place}: there is no such container: create it first") from None
                return None
            return StoredBlob(found.readall(), _without_quotes(found.properties.etag))

    def list(self, prefix: str) -> dict[str, str]:
        """Return the names that begin with a prefix, in order, each with its version."""
        with self._errors_of(prefix, "cannot be listed"):
            found = {
                blob.name.removeprefix(self._prefix): _without_quotes(blob.etag)
                for blob in self._container.list_blobs(name_starts_with=self._prefix + prefix)
            }
        return dict(sorted(found.items()))

    def delete(self, name: str) -> None:
        """Remove a blob if it exists."""
        with self._errors_of(name, "cannot be removed"), contextlib.suppress(ResourceNotFoundError):
            self._container.delete_blob(self._prefix + name)

    @contextlib.contextmanager
    def _errors_of(self, name: str, failed: str) -> Iterator[None]:
        try:
            yield
        except (AzureError, OSError) as error:
            raise RunError(f"{self.place}/{name}: {failed}: {_reason(error)}") from None


def account_of_environment() -> tuple[str, str]:
    """Return the storage account's name and its endpoint, as the environment gives them."""
    return os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", ""), os.environ.get("AZURE_STORAGE_ENDPOINT", "")


def _account_url(place: str) -> str:
    name, endpoint = account_of_environment()
    if not name:
        raise ConfigurationError(f"{place}: set AZURE_STORAGE_ACCOUNT_NAME, and a key, SAS token or identity")
    return endpoint or f"https://{name}.blob.core.windows.net"


def _credential() -> AzureNamedKeyCredential | AzureSasCredential | TokenCredential:
    if key := os.environ.get("AZURE_STORAGE_ACCOUNT_KEY"):
        return AzureNamedKeyCredential(account_of_environment()[0], key)
    if token := os.environ.get("AZURE_STORAGE_SAS_TOKEN"):
        return AzureSasCredential(token.removeprefix("?"))
    from azure.identity import DefaultAzureCredential

    return DefaultAzureCredential()


def _without_quotes(e_tag: str) -> str:
    """Return an ETag; replies have it in quotation marks, lists do not."""
    return e_tag.strip('"')


def _code_of(error: HttpResponseError) -> str | None:
    """Return the service's code of an error; the storage client adds it to its errors."""
    return getattr(error, "error_code", None)


def _reason(error: Exception) -> str:
    """Return what went wrong, without the address, which may hold a signature."""
    if isinstance(error, HttpResponseError) and error.status_code is not None:
        code = _code_of(error)
        return f"{code} ({error.status_code})" if code else f"HTTP {error.status_code}"
    if isinstance(error, (ServiceRequestError, ServiceResponseError, OSError)):
        return "it cannot be reached"
    return str(error).partition("\n")[0]
