"""A container of Azure blob storage, through obstore, which finds account and credentials in the environment."""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from tunecheck._errors import ConfigurationError, MissingExtraError, RunError
from tunecheck.storage._store import Stored

if TYPE_CHECKING:
    from obstore.store import AzureStore as Container

_MOST_RETRIES = 5
_MOST_BLOCKS = 2
"""Of 5 MiB, of a large file, under way at once; the last call makes one blob of all of them."""
_LONGEST = datetime.timedelta(seconds=30)
_STATUS = re.compile(r"status code: (?P<status>\d{3})")
_CODE = re.compile(r"<Code>(?P<code>\w+)</Code>")
_PLACE = re.compile(r"(?P<container>[a-z0-9](?:-?[a-z0-9]){2,62})(?:/(?P<prefix>[^?#]*))?")


def open_container(address: str) -> AzureStore:
    """Open `container/prefix`, the part of an address behind `az://`.

    Raises:
        ConfigurationError: The address is wrong, or the environment names no account.
        MissingExtraError: obstore is not installed.
    """
    parts = _PLACE.fullmatch(address)
    if parts is None:  # what stands behind a question mark may be a secret
        raise ConfigurationError(
            "storage is az://container/prefix, nothing behind it: credentials are read from AZURE_STORAGE_… variables"
        )
    return AzureStore(parts["container"], (parts["prefix"] or "").strip("/"))


class AzureStore:
    """Objects as blobs below `az://container/prefix`."""

    def __init__(self, container: str, prefix: str) -> None:
        """Needs nobody yet.

        Raises:
            ConfigurationError: the environment names no account.
            MissingExtraError: obstore is not installed.
        """
        try:
            import obstore
            import obstore.exceptions
            import obstore.store
        except ImportError:
            raise MissingExtraError("az:// storage", "azure-storage") from None
        self.place = f"az://{container}/{prefix}".rstrip("/")
        self._obstore, self._errors = obstore, obstore.exceptions
        try:
            self._container: Container = obstore.store.AzureStore(
                container, prefix=prefix or None, retry_config={"max_retries": _MOST_RETRIES, "retry_timeout": _LONGEST}
            )
        except obstore.exceptions.BaseError as error:
            raise ConfigurationError(
                f"{self.place}: {_told(error)}: set AZURE_STORAGE_ACCOUNT_NAME, and a key, SAS token or identity"
            ) from None

    def create(self, name: str, content: bytes) -> bool:
        """As `Store.create`."""
        with self._told(name, "cannot be written"):
            try:
                self._obstore.put(self._container, name, content, mode="create", use_multipart=False)
            except self._errors.AlreadyExistsError:
                stored = self.read(name)  # perhaps by an earlier try of this very call, whose reply was lost
                return stored is not None and stored.content == content
        return True

    def put(self, name: str, content: bytes | BinaryIO) -> None:
        """As `Store.put`."""
        with self._told(name, "cannot be written"):
            self._obstore.put(self._container, name, content, max_concurrency=_MOST_BLOCKS)

    def read(self, name: str) -> Stored | None:
        """As `Store.read`."""
        with self._told(name):
            try:
                found = self._obstore.get(self._container, name)
                return Stored(bytes(found.bytes()), _version(found.meta["e_tag"]))
            except FileNotFoundError as error:
                if "ContainerNotFound" in str(error):
                    raise RunError(f"{self.place}: there is no such container: create it first") from None
                return None

    def list(self, prefix: str) -> dict[str, str]:
        """As `Store.list`."""
        above, _, _ = prefix.rpartition("/")  # the service lists what stands below a name
        with self._told(prefix, "cannot be listed"):
            found = {
                each["path"]: _version(each["e_tag"])
                for page in self._obstore.list(self._container, above or None)
                for each in page
                if each["path"].startswith(prefix)
            }
        return dict(sorted(found.items()))

    def delete(self, name: str) -> None:
        """As `Store.delete`."""
        with self._told(name, "cannot be removed"), contextlib.suppress(FileNotFoundError):
            self._obstore.delete(self._container, name)

    @contextlib.contextmanager
    def _told(self, name: str, failed: str = "cannot be read") -> Iterator[None]:
        try:
            yield
        except (self._errors.BaseError, OSError) as error:
            raise RunError(f"{self.place}/{name}: {failed}: {_told(error)}") from None


def _version(e_tag: str | None) -> str:
    """An ETag; the service gives it in quotation marks, but not in lists."""
    return (e_tag or "").strip('"')


def _told(error: BaseException) -> str:
    """What went wrong, without the address, which may hold a signature."""
    text = str(error)
    status, code = _STATUS.search(text), _CODE.search(text)
    if status is not None:
        return f"{code['code']} ({status['status']})" if code is not None else f"HTTP {status['status']}"
    first = text.partition("\n")[0]
    return "it cannot be reached" if "HTTP error" in first else first.rpartition(": ")[2]
