"""A chat service on loopback that logs whom it answers, for the tests that kill its clients.

    python chat_server.py LOG SECONDS      prints its port, then serves until its standard input ends

Each request is a line `<key> <question> <time>` of LOG, written when it arrives, the time in seconds by the machine's
monotonic clock; the answer, SECONDS later, repeats the question.
"""

import asyncio
import sys
import time
from pathlib import Path

from aiohttp import web


async def main() -> None:
    """Serve until standard input ends."""
    seconds = float(sys.argv[2])
    with Path(sys.argv[1]).open("ab", buffering=0) as log:

        async def answer(request: web.Request) -> web.Response:
            question = (await request.json())["messages"][-1]["content"]
            log.write(f"{request.headers['Idempotency-Key']} {question} {time.monotonic()}\n".encode())
            await asyncio.sleep(seconds)
            message = {"role": "assistant", "content": f"answer {question}"}
            usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
            choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
            return web.json_response({"id": "x", "object": "chat.completion", "choices": choices, "usage": usage})

        app = web.Application()
        app.router.add_post("/v1/chat/completions", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
