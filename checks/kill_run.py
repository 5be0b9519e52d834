"""A run that is made to be killed: an asynchronous HTTP target, and evaluators of each kind.

python kill_run.py DATA RESULTS PORT [resume]
"""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from pathlib import Path

import aiohttp

from tunecheck import CallContext, Row, Target, evaluate


class Service(Target):
    """Asks the service with the row's number; tries once more where it is busy."""

    concurrency = 12

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/answer"
        self._session: aiohttp.ClientSession | None = None

    async def answer(self, row: Row, context: CallContext) -> dict[str, object]:
        if self._session is None:
            self._session = aiohttp.ClientSession()
        headers = {"Idempotency-Key": context.idempotency_key()}
        while True:
            async with self._session.post(self._url, json={"n": row.values["n"]}, headers=headers) as reply:
                if reply.status == 200:
                    found = await reply.json()
                    return {"response": found["text"], "square": found["square"]}
            await asyncio.sleep(0.001)

    def group_key(self, row: Row) -> str | None:
        number = row.values["n"]
        assert isinstance(number, int)
        return f"g{number % 3}" if number % 10 == 0 else None

    def fingerprint(self) -> str | None:
        return "the service"

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def length(response: str) -> dict[str, object]:
    """In a thread, as it lives in a script; fails on some rows."""
    if len(response) % 13 == 0:
        raise ValueError(f"of length {len(response)}")
    return {"n": len(response), "length_result": "pass" if len(response) > 25 else "fail"}


async def later(response: str, square: int) -> dict[str, object]:
    """In the event loop."""
    await asyncio.sleep(0.001)
    return {"half": square / 2}


if __name__ == "__main__":
    evaluate(
        data=sys.argv[1],
        target=Service(int(sys.argv[3])),
        evaluators={"length": length, "later": later, "overlap": import_module("kill_judges").Overlap()},
        results_dir=sys.argv[2],
        resume="last" if len(sys.argv) > 4 and any(Path(sys.argv[2]).glob("*/run.json")) else None,
        workers=1,
        group_by="kind",
    )
