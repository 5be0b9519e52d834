"""A model server that takes 100 ms an answer, or as many seconds as said: `python slow_model.py [SECONDS] [judge]`.

It prints its address and serves until it is killed. In each turn it calls twice and then stops, as it can tell from
the messages without reading them as JSON; as a judge it always gives the same judgement.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import subprocess
import sys
from collections.abc import Iterator

LATENCY_S = 0.1

CALLS_A_TURN = 2


def _reply(message: dict[str, object]) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 5000, "completion_tokens": 20}
    body = json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _call(name: str, arguments: dict[str, object]) -> dict[str, object]:
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


_DONE = _reply({"content": "Done."})
_CALLING = _reply({"tool_calls": [_call("ls", {"a": True}), _call("echo", {"content": "hello", "file_name": "a.txt"})]})


_JUDGED = _reply(
    {
        "content": json.dumps(
            {
                "reason": "The date is written in another way, which the tool does not read.",
                "differences": [{"where": "day", "expected": "a", "actual": "b", "kind": "date format"}],
                "score": 0.5,
            }
        )
    }
)


def _answer(body: bytes) -> bytes:
    """What comes next: the answers since the user last spoke are counted."""
    answered = body.count(b'"role":"assistant"', body.rfind(b'"role":"user"'))
    return _DONE if answered >= CALLS_A_TURN else _CALLING


_REFUSED = {
    status: f"HTTP/1.1 {status} Busy\r\nretry-after: 0.1\r\ncontent-length: 0\r\n\r\n".encode() for status in (429, 503)
}


@contextlib.contextmanager
def served(*arguments: str) -> Iterator[str]:
    """The address of such a server, in a process of its own."""
    server = subprocess.Popen([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.kill()
        server.wait()


class _Model:
    """Answers after a while; refuses what comes beyond its `capacity`, and a `share` of requests at random (seeded)."""

    def __init__(self, latency_s: float, judges: bool, share: float, capacity: int | None) -> None:
        self._latency_s = latency_s
        self._judges = judges
        self._share = share
        self._capacity = capacity
        self._random = random.Random(7)
        self._under_way = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
                writer.write(await self._reply(await reader.readexactly(length)))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _reply(self, body: bytes) -> bytes:
        if self._random.random() < self._share:
            return _REFUSED[self._random.choice((429, 503))]
        if self._capacity is not None and self._under_way >= self._capacity:
            return _REFUSED[429]
        self._under_way += 1
        try:
            await asyncio.sleep(self._latency_s)
        finally:
            self._under_way -= 1
        return _JUDGED if self._judges else _answer(body)


async def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", nargs="?", type=float, default=LATENCY_S)
    parser.add_argument("role", nargs="?", choices=("judge",))
    parser.add_argument("--refused", type=float, default=0.0, help="share of requests refused at random, 429 and 503")
    parser.add_argument("--capacity", type=int, help="how many requests at once are not refused")
    options = parser.parse_args()
    model = _Model(options.seconds, options.role == "judge", options.refused, options.capacity)
    server = await asyncio.start_server(model.serve, "127.0.0.1", 0, limit=1 << 24)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main())
