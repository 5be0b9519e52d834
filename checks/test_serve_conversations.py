"""`bfcl run` against `tunecheck serve`: a model without mistakes has every row right, a replayed run its verdicts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from tests.bfcl_copy import bfcl_copy
from tests.serve_parts import serving

from tunecheck._targets import CallContext, Row, TargetOutput
from tunecheck.datasets._reading import open_dataset
from tunecheck.endpoints._definition import load_endpoint
from tunecheck.endpoints._target import EndpointTarget
from tunecheck.episodes._target import ConversationTarget
from tunecheck.formats._reading import read_calls
from tunecheck.report import running
from tunecheck.simulators._backend import Backends
from tunecheck_bfcl._data.files import CATEGORIES as BFCL
from tunecheck_bfcl._evaluation import run_bfcl
from tunecheck_bfcl._scoring import score_results
from tunecheck_serve._conversations import RowAnswers
from tunecheck_serve._server import make_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tunecheck.endpoints._base import Endpoint

CATEGORIES = (
    *("simple_python", "simple_javascript", "multiple", "parallel", "parallel_multiple", "irrelevance"),
    *("live_simple", "live_parallel", "multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param"),
)
UNANSWERABLE = ("live_simple_106-63-0", "live_simple_112-68-0")
"""Entries with a required argument for which BFCL accepts no value, nor that it is left out."""

OF_SOURCE = ("simple_javascript",)
"""Values in JavaScript that stand in a text would need its quotes."""


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNECHECK_BFCL", str(bfcl_copy()))
    monkeypatch.chdir(tmp_path)


def verdicts_of(endpoint: Endpoint, category: str, mode: Any = "tools") -> dict[str, bool]:
    """By row, whether it is valid, of `bfcl run` against a server with this endpoint behind it."""
    source = RowAnswers(endpoint, open_dataset(f"bfcl:{category}").rows(), Backends())
    with serving(source) as url:
        asked = load_endpoint({"kind": "openai", "url": f"{url}/v1", "model": "m", "retries": 0})
        outcome = run_bfcl(ConversationTarget(asked, mode=mode), categories=category)
    (model,) = score_results(outcome.folder).models.values()
    return {row: bool(verdict.valid) for row, verdict in model.categories[category].verdicts}


@pytest.mark.parametrize(
    ("category", "mode"),
    [(each, mode) for each in CATEGORIES for mode in ("tools", "text") if mode == "tools" or each not in OF_SOURCE],
)
def test_a_served_model_without_mistakes_has_every_row_right(category: str, mode: str) -> None:
    found = verdicts_of(load_endpoint({"kind": "simulated", "rates": {}}), category, mode)
    assert len(found) == BFCL[category].rows
    assert [row for row, valid in found.items() if not valid and row not in UNANSWERABLE] == []


def test_served_result_files_have_the_verdicts_of_their_run(shared_data: Path) -> None:
    results = shared_data / "bfcl_runs" / "v0.11.0" / "result"
    (recorded,) = score_results(results).models.values()
    for category in ("multi_turn_base", "multi_turn_miss_param"):
        theirs = dict(recorded.categories[category].verdicts)
        found = verdicts_of(load_endpoint({"kind": "replay", "path": str(results)}), category)
        assert {row: bool(theirs[row].valid) for row in found} == found, category


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
    source = RowAnswers(load_endpoint({"kind": "simulated", "seed": 4}), rows, Backends())
    async with running(make_app(source)) as url:
        yield url


async def answers(definition: Any, rows: list[Row]) -> list[TargetOutput]:
    target = EndpointTarget(load_endpoint(definition))
    try:
        return await asyncio.gather(*(target.answer(row, CallContext("run", row.id, "")) for row in rows))
    finally:
        await target.close()


async def direct(rows: list[Row]) -> list[TargetOutput]:
    target = EndpointTarget(load_endpoint({"kind": "simulated", "seed": 4}))
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
    assert counts["requests"] == len(rows)
