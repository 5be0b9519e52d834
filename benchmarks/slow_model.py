"""A model server that takes 100 ms an answer, or as many seconds as said: `python slow_model.py [SECONDS] [judge]`.

It prints its address and serves until it is killed. In each turn it calls twice and then stops, as it can tell from
the messages without reading them as JSON; as a judge it always gives the same judgement.
"""

from __future__ import annotations

import asyncio
import functools
import json
import sys

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


async def _serve(latency_s: float, judges: bool, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            body = await reader.readexactly(length)
            await asyncio.sleep(latency_s)
            writer.write(_JUDGED if judges else _answer(body))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def _main() -> None:
    latency_s = float(sys.argv[1]) if len(sys.argv) > 1 else LATENCY_S
    serve = functools.partial(_serve, latency_s, "judge" in sys.argv)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 24)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main())
