"""Row identity: which ids are usable and unique, and the fingerprint of a row's content."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Mapping

from tunecheck._json import canonical

MAX_ID_LENGTH = 1_000
"""Longest text taken as an id: one that is longer is content, not a name."""

_WORD = 0xFFFF_FFFF_FFFF_FFFF


def usable_id(value: object) -> str | None:
    """The value as an id: non-blank text, or a whole number as text; None for anything else."""
    if isinstance(value, str):
        return value if len(value) <= MAX_ID_LENGTH and not value.isspace() and value else None
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < MAX_ID_LENGTH:
        return str(value)
    return None


def fingerprint(values: Mapping[str, object]) -> str:
    """16 hex digits that are equal for equal content; empty where the content has no JSON form."""
    try:
        text = canonical(values)
    except TypeError:
        return ""
    return hashlib.blake2b(text, digest_size=8).hexdigest()


class IdCheck:
    """Remembers which texts were seen, in 16 to 32 bytes each: an open-addressing table of 64-bit hashes.

    Two different texts are taken for the same with a chance of one in 40 million among a million of them.
    """

    def __init__(self) -> None:
        self._slots = array("Q", bytes(8 * 1024))
        self._used = 0

    def add(self, text: str) -> bool:
        """Remember a text; False when it was there already."""
        if not _insert(self._slots, hash(text) & _WORD or 1):
            return False
        self._used += 1
        if self._used * 2 > len(self._slots):
            self._grow()
        return True

    def _grow(self) -> None:
        old, self._slots = self._slots, array("Q", bytes(16 * len(self._slots)))
        for value in old:
            if value:
                _insert(self._slots, value)


def _insert(slots: array[int], value: int) -> bool:
    mask = len(slots) - 1
    at = value & mask
    while held := slots[at]:
        if held == value:
            return False
        at = (at + 1) & mask
    slots[at] = value
    return True
