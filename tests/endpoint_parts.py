"""Shared parts of the tests of endpoints: definitions in a line, a clock turned by hand, rows."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.fault_server import FaultServer, Plan

from tunecheck import EndpointError, Row
from tunecheck.endpoints import AzureMLEndpoint, ChatRequest, Clock, Completion, Definition, Endpoint, read_definition
from tunecheck.plugins import JSON

HELLO = ChatRequest(messages=[{"role": "user", "content": "hello"}])


class HandClock(Clock):
    """A clock that moves only when a caller waits on it, and remembers the waits."""

    def __init__(self, wall: float = 1_700_000_000.0) -> None:
        self.time = 0.0
        self.start = wall
        self.waits: list[float] = []

    def now(self) -> float:
        return self.time

    def wall(self) -> float:
        return self.start + self.time

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


class EagerClock(Clock):
    """The real time, with waits left out."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


class LoopClock(Clock):
    """The event loop's clock."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()


def definition(**values: Any) -> Definition:
    return read_definition({"kind": "azure_ml", "url": "http://127.0.0.1:1/score", **values})


def azure_ml(url: str, *, clock: Clock | None = None, seed: int = 0, **values: Any) -> AzureMLEndpoint:
    """An azure_ml endpoint that waits on a clock of its own, unless another one is given."""
    return AzureMLEndpoint(definition(url=url, **values), clock=clock or HandClock(), rng=random.Random(seed))


@asynccontextmanager
async def serving(plan: Plan, **settings: Any) -> AsyncIterator[tuple[AzureMLEndpoint, FaultServer]]:
    """An azure_ml endpoint and the server that answers it; both are closed in the end."""
    with FaultServer(plan) as server:
        endpoint = azure_ml(server.url, **settings)
        try:
            yield endpoint, server
        finally:
            await endpoint.close()


async def ask_once(endpoint: Endpoint, request: ChatRequest = HELLO) -> Completion:
    """Return the endpoint's answer to a request and close it."""
    try:
        return await endpoint.complete(request)
    finally:
        await endpoint.close()


async def failure(plan: Plan, **settings: Any) -> tuple[EndpointError, FaultServer]:
    """Return the error of a call, whose answer would stand under `result`, and the server that it was sent to."""
    with FaultServer(plan) as server:
        with pytest.raises(EndpointError) as caught:
            await ask_once(azure_ml(server.url, **{"response": "result", **settings}))
        return caught.value, server


def row(values: Mapping[str, JSON], index: int = 0) -> Row:
    return Row(index, str(values.get("id", f"row-{index + 1}")), values, "f")


def user(text: str, key: str | None = None) -> ChatRequest:
    messages: Sequence[Mapping[str, JSON]] = [{"role": "user", "content": text}]
    return ChatRequest(messages=messages, idempotency_key=key)
