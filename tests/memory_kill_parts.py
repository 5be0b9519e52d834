"""What the kill matrix of memory runs is made of: an agent over HTTP, runs in processes of their own, their files."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from tests.pipeline_parts import strict_lines

HERE = Path(__file__).parent

KINDS = (
    "colours",
    "names",
    "name_list",
    "shopping",
    "locations_directions",
    "jokes",
    "sallyanne",
    "prospective_memory",
    "trigger_response",
    "spy_meeting",
    "restaurant",
    "locations",
)

CONFIG = f"""
config:
  run_name: Kill matrix
datasets:
  args: {{memory_span: 900, dataset_examples: 3, seed: 5}}
  datasets: [{", ".join(f"{{name: {kind}}}" for kind in KINDS)}]
"""


@dataclass
class Agent:
    """An agent over HTTP, twice: with a memory of its own, and as a model that is sent the conversation.

    Its replies depend on everything that it knows, so that an agent that was told something twice, or not at all,
    answers differently. Under a key that it has heard before it answers as it did then.
    """

    port: int = 0
    heard: list[tuple[str, str]] = field(default_factory=list)
    """Key and message of each request, resets and times included."""
    remembered: dict[str, list[str]] = field(default_factory=dict)
    answered: dict[str, str] = field(default_factory=dict)
    pid: int | None = None
    dies_at: int | None = None
    """The request, counted from now on, at which the client is killed."""
    remembers_first: bool = False
    """Whether it takes note of that request before it kills who made it."""

    def kill_at(self, request: int, pid: int, *, remembers_first: bool) -> None:
        self.dies_at, self.pid, self.remembers_first = len(self.heard) + request, pid, remembers_first

    def _hear(self, key: str, message: str) -> bool:
        """Whether the client was killed by this request."""
        self.heard.append((key, message))
        if self.dies_at is None or len(self.heard) - 1 != self.dies_at:
            return False
        assert self.pid is not None
        os.kill(self.pid, signal.SIGKILL)
        self.dies_at = None
        return True

    async def reply(self, request: web.Request) -> web.Response:
        told, key = await request.json(), request.headers["Idempotency-Key"]
        killed = self._hear(key, told["message"])
        if killed and not self.remembers_first:
            return web.Response(status=503)
        if key not in self.answered:
            memory = self.remembered.setdefault(told["conversation"], [])
            memory.append(f"{told['time']} {told['message']}")
            suggested = told.get("suggested_reply") if len(memory) % 2 else None
            self.answered[key] = suggested or answer(told["message"], memory)
        return web.json_response(
            {"reply": self.answered[key], "adopted": self.answered[key] == told.get("suggested_reply")}
        )

    async def tell(self, request: web.Request) -> web.Response:
        told, key = await request.json(), request.headers["Idempotency-Key"]
        killed = self._hear(key, request.path)
        if not (killed and not self.remembers_first) and key not in self.answered:
            self.answered[key] = ""
            memory = self.remembered.setdefault(told["conversation"], [])
            if request.path.endswith("/reset"):
                memory.clear()
            else:
                memory.append(f"{told['time']} {told['seconds']}")
        return web.Response(status=204)

    async def complete(self, request: web.Request) -> web.Response:
        asked, key = await request.json(), request.headers["Idempotency-Key"]
        message = asked["messages"][-1]["content"]
        if not self._hear(key, message) or self.remembers_first:
            self.answered.setdefault(key, answer(message, [json.dumps(asked["messages"])]))
        text = self.answered.get(key, "")
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        return web.json_response({"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 3}})


def answer(message: str, memory: Sequence[str]) -> str:
    """Words that depend on all that is remembered; to a waiter, an order."""
    said = hashlib.blake2b("\n".join(memory).encode(), digest_size=4).hexdigest()
    if message.startswith("Waiter:") and "drink" in message:
        return f"A coffee, please. ({said})"
    if message.startswith("Waiter:"):
        return f"I would like the Rice Pudding with Cherries, please. ({said})"
    return f"Noted as {said}."


@contextmanager
def serving() -> Iterator[Agent]:
    """The agent, in a thread of its own."""
    agent, ready, loop = Agent(), threading.Event(), asyncio.new_event_loop()

    async def start() -> web.AppRunner:
        app = web.Application()
        app.router.add_post("/agent/reply", agent.reply)
        app.router.add_post("/agent/reset", agent.tell)
        app.router.add_post("/agent/advance", agent.tell)
        app.router.add_post("/v1/chat/completions", agent.complete)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        agent.port = runner.addresses[0][1]
        return runner

    def serve() -> None:
        asyncio.set_event_loop(loop)
        runner = loop.run_until_complete(start())
        loop.call_soon(ready.set)  # not earlier: a stop that comes before it runs is lost
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert ready.wait(20)
    try:
        yield agent
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)


class Runner:
    """Runs in processes that are forked off a warm one."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "memory_kill_process.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(self, **order: Any) -> int:
        """Start a run; its pid."""
        assert self._process.stdin is not None
        print(json.dumps(order), file=self._process.stdin, flush=True)
        return int(self._line("pid"))

    def ended(self) -> int:
        """How it ended: an exit code, or minus the signal."""
        return int(self._line("ended"))

    def _line(self, word: str) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith(f"{word} "), line
        return line.split()[1]

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


@dataclass(frozen=True)
class Manner:
    """How the runs of a matrix are had."""

    name: str
    agent: str
    isolated: bool = False
    max_prompt_size: int | None = None
    clock: str = "virtual"

    def endpoint(self, port: int) -> dict[str, Any]:
        if self.agent == "memory_agent":
            return {"kind": "memory_agent", "url": f"http://127.0.0.1:{port}/agent", "auth": {"type": "none"}}
        url = f"http://127.0.0.1:{port}/v1"
        return {"kind": "openai", "url": url, "model": "m", "auth": {"type": "none"}}


def run_folder(folder: Path) -> Path:
    (manifest,) = (folder / "eval_results").glob("*/run.json")
    return manifest.parent


def records(folder: Path) -> list[Any]:
    """The records of a run's event log, a torn last line left out."""
    raw = (run_folder(folder) / "memory" / "session-1" / "events.jsonl").read_bytes()
    return [json.loads(line) for line in raw.split(b"\n")[:-1]]


def stream(folder: Path) -> list[Any]:
    """Every event with what it came to; keys are each run's own, and how long a reply took is measured."""
    found: list[Any] = []
    for record in records(folder)[1:]:
        if record["k"] != "done":
            found.append(record["effect"])
        if record["k"] != "do":
            found.append({name: value for name, value in record["outcome"].items() if name != "ms"})
    return found


def scores(folder: Path) -> list[Any]:
    """What the rows say, but for how long replies took, which is measured."""
    rows = strict_lines(run_folder(folder) / "eval_results.jsonl")
    for row in rows:
        del row["outputs.latency_ms"]
        for entry in row["outputs.log"]:
            entry.pop("ms", None)
    return rows


def master_log(folder: Path) -> bytes:
    (path,) = (run_folder(folder) / "memory").glob("*/results/*/master_log.jsonl")
    return path.read_bytes()


def journaled(before: Sequence[Mapping[str, Any]]) -> tuple[set[str], str | None]:
    """The keys of what was answered, and the key of what was in flight."""
    asked = {record["n"]: record["key"] for record in before if record["k"] == "do"}
    done = {record["n"] for record in before if record["k"] == "done"}
    in_flight = [key for number, key in asked.items() if number not in done]
    return {key for number, key in asked.items() if number in done}, in_flight[0] if in_flight else None
