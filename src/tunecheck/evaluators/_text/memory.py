"""A small memory of what was worked out from texts, bounded by their length."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class TextMemory(Generic[Key, Value]):
    """Remembers results up to a number of characters of text in all, and forgets the oldest first.

    Threads may share it: two that ask for the same new text at once may both work it out.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._free = capacity
        self._entries: dict[Key, tuple[Value, int]] = {}
        self._lock = threading.Lock()

    def get(self, key: Key, length: int, make: Callable[[Key], Value]) -> Value:
        """The result for a key that stands for so many characters; worked out by `make` where it is not known."""
        entry = self._entries.get(key)
        if entry is not None:
            return entry[0]
        value = make(key)
        if length <= self._capacity:
            self._keep(key, value, length)
        return value

    def _keep(self, key: Key, value: Value, length: int) -> None:
        with self._lock:
            if key in self._entries:
                return
            self._entries[key] = (value, length)
            self._free -= length
            while self._free < 0:
                _, forgotten = self._entries.pop(next(iter(self._entries)))
                self._free += forgotten
