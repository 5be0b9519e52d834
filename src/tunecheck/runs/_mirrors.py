"""Addresses of `--results-dir` that plug-ins mirror, such as `az://container/prefix`: the folders that mirror them."""

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck import plugins
from tunecheck._disk import cache_folder
from tunecheck._errors import ConfigurationError
from tunecheck._files import read_object

if TYPE_CHECKING:
    from tunecheck.plugins import MirrorLike

MIRROR_STATE = ".mirror.json"
"""File of a mirror: a JSON object whose `address` is what the folder mirrors."""

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+)://.*", re.DOTALL | re.IGNORECASE)


def is_remote(place: str) -> bool:
    """Return whether a place is the address of a storage service, not a folder."""
    return _URL.fullmatch(place) is not None


def open_mirror(address: str) -> "MirrorLike":
    """Open the mirror of the runs at an address.

    Raises:
        ConfigurationError: No plug-in knows the address's scheme, or the address is wrong.
        MissingExtraError: The package for this storage is not installed.
    """
    scheme = address.partition("://")[0].lower()
    known = [each.name for each in plugins.discover("mirrors")]
    if scheme not in known:
        offered = ", ".join(f"{name}://" for name in known)
        raise ConfigurationError(f"{scheme}://… was never tried as storage: give a folder, or an address of {offered}")
    return plugins.mirror(scheme)(address)


def mirror_folder(address: str, *account: str) -> Path:
    """Return the folder in the user's cache that mirrors an address; each account has its own."""
    digest = hashlib.sha256("\n".join([address.rstrip("/"), *account]).encode())
    return _mirrors() / digest.hexdigest()[:16]


def mirror_at(folder: Path) -> "MirrorLike | None":
    """Return the mirror that a folder is, if it stands where mirrors do and its file names an address."""
    if folder.parent != _mirrors():
        return None
    try:
        address = read_object(folder / MIRROR_STATE).get("address")
    except ConfigurationError:
        return None
    return open_mirror(address) if isinstance(address, str) else None


def _mirrors() -> Path:
    return cache_folder() / "results"
