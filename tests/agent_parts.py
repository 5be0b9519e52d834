"""Shared parts of the tests of memory agents: tokens that are words, a time, and an agent over any server."""

import random
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import aiohttp
from tests.cli_parts import command, environment
from tests.endpoint_parts import HandClock

from tunecheck.endpoints import load_endpoint
from tunecheck_memory import MemoryAgentEndpoint

NOON_US = 1_772_712_000_000_000
NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)


class Words:
    """A tokenizer that splits a text into words."""

    name = "words"

    def __init__(self) -> None:
        self.counted: list[str] = []

    def count(self, text: str) -> int:
        self.counted.append(text)
        return len(text.split())


def memory_agent(url: str, **values: Any) -> MemoryAgentEndpoint:
    """An endpoint of the kind; its retries wait on a clock of their own."""
    endpoint = load_endpoint({"kind": "memory_agent", "url": url, **values})
    assert isinstance(endpoint, MemoryAgentEndpoint)
    endpoint._client.clock, endpoint._client.rng = HandClock(), random.Random(0)
    return endpoint


@contextmanager
def serving(*options: str, log: list[str] | None = None) -> Iterator[str]:
    """`tunecheck serve --service memory-agent` as a process of its own; gives its address."""
    argv = command("serve", "--service", "memory-agent", "--port", "0", "--quiet", *options)
    with subprocess.Popen(
        argv, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        try:
            yield address(server, log)
        finally:
            server.terminate()


def address(server: subprocess.Popen[str], log: list[str] | None = None) -> str:
    """Return the address that a server prints."""
    assert server.stdout is not None
    said = ""
    while (found := re.search(r"http://127\.0\.0\.1:\d+", said)) is None:
        line = server.stdout.readline()
        assert line, said
        said += line
    if log is not None:
        log.append(said)
    return found[0]


async def told(url: str, path: str, key: str | None = None, **body: Any) -> tuple[int, Any, Any]:
    """Status, JSON and headers of what a server answers."""
    headers = {} if key is None else {"Idempotency-Key": key}
    async with aiohttp.ClientSession() as session, session.post(url + path, json=body, headers=headers) as response:
        return response.status, await response.json(), response.headers


def contents(messages: Sequence[Any]) -> list[str]:
    return [message["content"] for message in messages]
