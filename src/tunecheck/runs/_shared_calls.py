"""Answers of judges that the workers of a run have bought, for each other: `calls/<key>`, made by who buys it first."""

from __future__ import annotations

import asyncio
import contextlib
import time

from tunecheck._errors import RunError
from tunecheck._json import JSON, dumps, loads
from tunecheck.runs._store import Run
from tunecheck.storage._address import open_store
from tunecheck.storage._store import Store

_LOOKED_EVERY_S = 0.3
_PATIENCE_S = 30.0
"""So long an answer is waited for that somebody is buying, who may be dead; then it is bought once more."""


class SharedCalls:
    """What one worker sees of them; where the storage cannot be reached, it buys for itself."""

    def __init__(self, store: Store, owner: str) -> None:
        self._store = store
        self._claim = dumps(owner)

    @classmethod
    def of(cls, run: Run, owner: str) -> SharedCalls:
        """Those of a run."""
        return cls(open_store(run.shared), owner)

    async def answer(self, key: str) -> dict[str, JSON] | None:
        """The answer that another worker has bought, or is buying; None: it is for this one to buy."""
        begun = time.monotonic()
        with contextlib.suppress(RunError, ValueError):
            while not await asyncio.to_thread(self._store.create, _name(key), self._claim):
                stored = await asyncio.to_thread(self._store.read, _name(key))
                found = None if stored is None else loads(stored.content)
                if isinstance(found, dict):
                    return found
                if time.monotonic() - begun > _PATIENCE_S:
                    return None
                await asyncio.sleep(_LOOKED_EVERY_S)
        return None

    async def settle(self, key: str, answer: dict[str, JSON] | None) -> None:
        """Leave to others what was bought; None: it could not be."""
        with contextlib.suppress(RunError):
            if answer is None:
                await asyncio.to_thread(self._store.delete, _name(key))
            else:
                await asyncio.to_thread(self._store.put, _name(key), dumps(answer))


def _name(key: str) -> str:
    return f"calls/{key}"
