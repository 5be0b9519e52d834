"""The whole circle: our own endpoint kinds ask `tunecheck serve`, which answers as the simulated model would."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tunecheck._targets import CallContext, Row, TargetOutput
from tunecheck.conversations._served import RowSource
from tunecheck.endpoints._definition import load_endpoint
from tunecheck.endpoints._serving.middleware import ServerOptions
from tunecheck.endpoints._serving.server import make_app, running
from tunecheck.endpoints._simulated.endpoint import SimulatedEndpoint
from tunecheck.endpoints._target import EndpointTarget
from tunecheck.formats._reading import read_calls
from tunecheck.simulators._backend import Backends

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """The shipped sample, each conversation once."""
    lines = (ROOT / "datasets" / "val.jsonl").read_text("utf-8").splitlines()
    values = [json.loads(line) for line in lines]
    unique = {json.dumps(each["query"]): each for each in values}
    return [Row(index, each["id"], each, "") for index, each in enumerate(unique.values())]


@pytest.fixture
async def simulated_server(rows: list[Row]) -> AsyncIterator[str]:
    source = RowSource(SimulatedEndpoint(seed=4), rows, Backends())
    async with running(make_app(source, ServerOptions(faults={500: 0.1}, seed=2))) as url:
        yield url


async def answers(definition: Any, rows: list[Row]) -> list[TargetOutput]:
    target = EndpointTarget(load_endpoint(definition))
    try:
        return await asyncio.gather(*(target.answer(row, CallContext("run", row.id, "")) for row in rows))
    finally:
        await target.close()


async def direct(rows: list[Row]) -> list[TargetOutput]:
    target = EndpointTarget(SimulatedEndpoint(seed=4))
    return [await target.answer(row, CallContext("run", row.id, "")) for row in rows]


KINDS: dict[str, Any] = {
    "openai": {"url": "{url}/v1", "model": "m"},
    "azure_openai": {"url": "{url}", "deployment": "d", "api_version": "2024-10-21"},
    "azure_ml": {
        "url": "{url}/score",
        "response": "result",
        "request": {"input_data": "${messages}", "tools": "${tools}"},
    },
}


@pytest.mark.parametrize("kind", KINDS)
async def test_over_http_a_row_gets_the_answer_that_the_simulated_model_gives_it(
    kind: str, rows: list[Row], simulated_server: str
) -> None:
    definition = {**KINDS[kind], "kind": kind, "url": KINDS[kind]["url"].format(url=simulated_server)}
    over_http, expected = await answers(definition, rows), await direct(rows)
    for row, found, right in zip(rows, over_http, expected, strict=True):
        assert (row.id, found["response"], found["request_id"]) == (row.id, right["response"], right["request_id"])
    assert any(read_calls(found["response"]).calls for found in over_http)
    async with aiohttp.ClientSession() as session, session.get(f"{simulated_server}/health") as reply:
        counts = await reply.json()
    assert counts["answers"] == len(rows)
    assert counts["requests"] == len(rows) + counts["faults"]
    assert counts["faults"] > 0
