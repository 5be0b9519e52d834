"""The versions of the files that Tunecheck writes: every reader passes here before it believes a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, loads

FORMAT_VERSION = 1
"""Of every file that this version writes, under the key `format_version`."""

_KEYS = ("format_version", "format")
"""Where the version stands; `format` in files written before it was called `format_version`."""


class NewerFileError(ConfigurationError):
    """A file that a later version of Tunecheck wrote."""


def check_version(content: Mapping[str, JSON], path: Path | str) -> None:
    """Refuse what this version cannot read. Content without a version was written before there were versions.

    Raises:
        NewerFileError: a later version wrote it.
        ConfigurationError: its version is none.
    """
    for key in _KEYS:
        version = content.get(key, FORMAT_VERSION)
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise ConfigurationError(f"{path}: cannot be read: {key} must be a whole number of at least 1")
        if version > FORMAT_VERSION:
            raise NewerFileError(
                f"{path}: written by a newer Tunecheck ({key} {version}; this one reads {FORMAT_VERSION}): "
                "update tunecheck"
            )


def versioned(content: Mapping[str, JSON]) -> dict[str, JSON]:
    """The content of a file as it is written: its version first, under its present name."""
    return {"format_version": FORMAT_VERSION, **{key: value for key, value in content.items() if key not in _KEYS}}


def read_object(path: Path, missing: str | None = None) -> dict[str, JSON]:
    """The JSON object that a file of ours holds.

    Raises:
        ConfigurationError: it cannot be read, is no object, or a later version wrote it; with the text `missing` where
            there is no such file.
    """
    try:
        content = loads(path.read_bytes())
    except FileNotFoundError:
        raise ConfigurationError(missing or f"{path}: cannot be read: no such file") from None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path}: cannot be read: {error}") from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path}: expected a JSON object")
    check_version(content, path)
    return content


def check_first_record(path: Path) -> None:
    """Refuse an append-only file whose first record is of a later version; one that is not there yet is fine.

    Raises:
        NewerFileError: a later version wrote it.
    """
    try:
        with path.open("rb") as file:
            first = loads(file.readline(1 << 20))
    except (OSError, ValueError):  # not there, empty or torn: for its reader to say
        return
    if isinstance(first, dict) and isinstance(first.get("k"), str):
        check_version(first, path)
