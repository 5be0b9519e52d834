"""Pack records into compressed blocks; a page unpacks only the blocks that it shows."""

import base64
import zlib
from collections.abc import Callable
from hashlib import blake2b

from tunecheck._json import JSON, dumps

BLOCK_BYTES = 1 << 18
"""Approximate JSON per block: unpacked in a few milliseconds, and compressed nearly as well as one whole."""

_LEVEL = 6


def compress_text(text: bytes) -> str:
    """Compress text with raw deflate and encode it in base64, which is safe anywhere in HTML."""
    squeezer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -15)
    return base64.b64encode(squeezer.compress(text) + squeezer.flush()).decode("ascii")


class Blocks:
    """Packs records in their order; each full block is passed to `write` with its name."""

    def __init__(self, name: str, write: Callable[[str, str], None]) -> None:
        self._name = name
        self._write = write
        self._waiting: list[bytes] = []
        self._size = 0
        self.starts: list[int] = []
        """The number of each block's first record."""
        self.count = 0

    def add(self, record: JSON) -> int:
        """Add a record and return its number."""
        text = dumps(record)
        if not self._waiting:
            self.starts.append(self.count)
        self._waiting.append(text)
        self._size += len(text)
        self.count += 1
        if self._size >= BLOCK_BYTES:
            self.flush()
        return self.count - 1

    def flush(self) -> None:
        """Write the records that are not written yet."""
        if self._waiting:
            block = b"[" + b",".join(self._waiting) + b"]"
            self._write(f"{self._name}-{len(self.starts) - 1}", compress_text(block))
            self._waiting.clear()
            self._size = 0


class Shared:
    """Long texts that many rows have, such as tool definitions. Each text is stored once, under a number."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._known: dict[bytes, int] = {}

    def number(self, key: bytes, text: Callable[[], str]) -> int:
        """Return the number of the text for a key; `text` is called once a key."""
        digest = blake2b(key, digest_size=16).digest()
        known = self._known.get(digest)
        if known is None:
            known = self._known[digest] = self._blocks.add(text())
        return known
