"""Which storage an address stands for."""

import re

from tunecheck._errors import ConfigurationError
from tunecheck.storage._store import Store

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+)://(?P<rest>.*)", re.DOTALL | re.IGNORECASE)
_PLACE = re.compile(r"(?P<container>[a-z0-9](?:-?[a-z0-9]){2,62})(?:/(?P<prefix>[^?#]*))?")


def is_remote(place: str) -> bool:
    """Whether an address is that of a storage service, not of a folder."""
    return _URL.fullmatch(place) is not None


def open_store(place: str) -> Store:
    """Open the storage at an address, `az://container/prefix`.

    Raises:
        ConfigurationError: the address is that of no storage that was tried.
        MissingExtraError: what speaks to it is not installed.
    """
    url = _URL.fullmatch(place)
    assert url is not None
    if url["scheme"].lower() != "az":
        raise ConfigurationError(
            f"{url['scheme']}://… was never tried as storage: give a folder, or az://container/prefix"
        )
    parts = _PLACE.fullmatch(url["rest"])
    if parts is None:  # what stands behind a question mark may be a secret
        raise ConfigurationError(
            "storage is az://container/prefix, nothing behind it: credentials are read from AZURE_STORAGE_… variables"
        )
    from tunecheck.storage._azure import AzureStore

    return AzureStore(parts["container"], (parts["prefix"] or "").strip("/"))
