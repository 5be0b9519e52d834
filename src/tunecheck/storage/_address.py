"""Which storage an address stands for."""

import re

from tunecheck import plugins
from tunecheck._errors import ConfigurationError
from tunecheck.storage._store import Store

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+)://(?P<rest>.*)", re.DOTALL | re.IGNORECASE)


def is_remote(place: str) -> bool:
    """Whether an address is that of a storage service, not of a folder."""
    return _URL.fullmatch(place) is not None


def open_store(place: str) -> Store:
    """Open the storage at an address such as `az://container/prefix`.

    Raises:
        ConfigurationError: No plug-in knows the address's scheme, or the address is wrong.
        MissingExtraError: The package for this storage is not installed.
    """
    url = _URL.fullmatch(place)
    assert url is not None
    scheme = url["scheme"].lower()
    known = [each.name for each in plugins.discover("mirrors")]
    if scheme not in known:
        offered = ", ".join(f"{name}://" for name in known)
        raise ConfigurationError(f"{scheme}://… was never tried as storage: give a folder, or an address of {offered}")
    store: Store = plugins.mirror(scheme)(url["rest"])
    return store
