"""Records packed into compressed blocks, of which a page unpacks only those that it shows."""

import base64
import zlib
from collections.abc import Callable
from hashlib import blake2b

from tunecheck._json import JSON, dumps

BLOCK_BYTES = 1 << 18
"""About how much JSON goes into one block: unpacked in a few milliseconds, and compressed nearly as well as a whole."""

_LEVEL = 6


def packed(text: bytes) -> str:
    """Raw deflate in base64, which is safe anywhere in HTML."""
    squeezer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -15)
    return base64.b64encode(squeezer.compress(text) + squeezer.flush()).decode("ascii")


class Blocks:
    """Packs records in the order they come; `write` is given each block with its name as it is full."""

    def __init__(self, name: str, write: Callable[[str, str], None]) -> None:
        self._name = name
        self._write = write
        self._waiting: list[bytes] = []
        self._size = 0
        self.starts: list[int] = []
        """The number of each block's first record."""
        self.count = 0

    def add(self, record: JSON) -> int:
        """Take one more record; gives its number."""
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
        """Write out what is waiting."""
        if self._waiting:
            block = b"[" + b",".join(self._waiting) + b"]"
            self._write(f"{self._name}-{len(self.starts) - 1}", packed(block))
            self._waiting.clear()
            self._size = 0


class Shared:
    """Long texts that many rows have, such as tool definitions: each is kept once and named by its number."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._known: dict[bytes, int] = {}

    def number(self, key: bytes, text: Callable[[], str]) -> int:
        """The number of the text that belongs to a key; `text` is asked for once."""
        digest = blake2b(key, digest_size=16).digest()
        known = self._known.get(digest)
        if known is None:
            known = self._known[digest] = self._blocks.add(text())
        return known
