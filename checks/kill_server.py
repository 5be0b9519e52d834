"""A service on loopback that counts its requests by idempotency key, for the test that kills its clients.

    python kill_server.py LOG      prints its port, then serves until its standard input ends

Each request is a line `<key> <row>` of LOG, written when it arrives. The answer depends on the row alone; how long it
takes, on the row and on how often it was asked for.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path
from typing import BinaryIO

from aiohttp import web


class Service:
    """Answers `POST /answer {"n": …}`."""

    def __init__(self, log: BinaryIO) -> None:
        self._log = log
        self._asked: Counter[int] = Counter()

    async def answer(self, request: web.Request) -> web.Response:
        number = int((await request.json())["n"])
        self._log.write(f"{request.headers['Idempotency-Key']} {number}\n".encode())
        self._asked[number] += 1
        await asyncio.sleep(((number * 7919 + self._asked[number] * 31) % 23) / 1000)
        if number % 17 == 3 and self._asked[number] == 1:
            return web.json_response({"error": "not now"}, status=503)
        return web.json_response({"text": f"answer {number} " + "word " * (number % 9), "square": number * number})


async def main() -> None:
    """Serve until standard input ends."""
    with Path(sys.argv[1]).open("ab", buffering=0) as log:
        app = web.Application()
        app.router.add_post("/answer", Service(log).answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
