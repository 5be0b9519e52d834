"""`tunecheck serve` answers conversations: which row, turn and step is asked is seen from the messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.bfcl_copy import bfcl_copy
from tests.serve_parts import asking, serving

from tunecheck._targets import Row
from tunecheck.bfcl._scoring import score_results
from tunecheck.conversations._served import RowSource
from tunecheck.conversations._target import ConversationTarget
from tunecheck.datasets._reading import open_dataset
from tunecheck.endpoints._base import ChatRequest, Endpoint
from tunecheck.endpoints._definition import load_endpoint
from tunecheck.endpoints._recorded import NoAnswerError
from tunecheck.endpoints._replay import ReplayEndpoint
from tunecheck.endpoints._simulated.endpoint import SimulatedEndpoint
from tunecheck.evaluation._bfcl import run_bfcl
from tunecheck.simulators._backend import Backends


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNECHECK_BFCL", str(bfcl_copy()))
    monkeypatch.chdir(tmp_path)


def verdicts_of(endpoint: Endpoint, categories: str, limit: int, mode: Any = "tools") -> dict[str, dict[str, bool]]:
    """By category and row, whether it is valid, of `bfcl run` against a server with this endpoint behind it."""
    source = RowSource(endpoint, open_dataset(f"bfcl:{categories}").rows(), Backends())
    with serving(source) as url:
        asked = load_endpoint({"kind": "openai", "url": f"{url}/v1", "model": "m", "retries": 0})
        outcome = run_bfcl(ConversationTarget(asked, mode=mode), categories=categories, limit=limit)
    assert outcome.result.failed_row_count == 0
    (model,) = score_results(outcome.folder).models.values()
    return {
        name: {row: bool(verdict.valid) for row, verdict in score.verdicts} for name, score in model.categories.items()
    }


@pytest.mark.parametrize("mode", ["tools", "text"])
def test_a_served_model_without_mistakes_has_every_row_right(mode: str) -> None:
    categories = "multi_turn_base,multi_turn_miss_func,multi_turn_miss_param,parallel,live_simple,irrelevance"
    found = verdicts_of(SimulatedEndpoint(rates={}), categories, 5, mode)
    assert {name: list(rows.values()) for name, rows in found.items()} == {
        name: [True] * 5 for name in categories.split(",")
    }


def test_served_result_files_have_the_verdicts_of_their_run(shared_data: Path) -> None:
    results = shared_data / "bfcl_runs" / "v0.11.0" / "result"
    found = verdicts_of(ReplayEndpoint(results), "multi_turn_miss_param,multiple", 8)
    (recorded,) = score_results(results).models.values()
    for name, rows in found.items():
        theirs = {row: bool(verdict.valid) for row, verdict in recorded.categories[name].verdicts}
        assert rows == {each: theirs[each] for each in rows}


def row_of(name: str, turns: list[Any], tools: list[str], truth: list[list[str]]) -> Row:
    offered = [{"type": "function", "function": {"name": tool, "parameters": {}}} for tool in tools]
    values = {"turns": turns, "tools": offered, "ground_truth": truth}
    return Row(0, name, values, "")


async def test_rows_with_the_same_words_are_told_by_their_tools() -> None:
    rows = [row_of(name, [asking("go")], [name], [[f"{name}()"]]) for name in ("left", "right")]
    source = RowSource(SimulatedEndpoint(rates={}), rows, Backends())
    tools: Any = rows[1].values["tools"]
    answer = await source.answer(ChatRequest(asking("go"), tools))
    assert [call["function"]["name"] for call in answer.tool_calls] == ["right"]  # type: ignore[index,call-overload]


async def test_what_no_row_says_is_named() -> None:
    source = RowSource(SimulatedEndpoint(), [row_of("a", [asking("go"), asking("on")], ["f"], [[], []])], Backends())
    said = [*asking("go"), {"role": "assistant", "content": "Done."}, *asking("stop")]
    with pytest.raises(NoAnswerError, match="no row of the data set has these messages"):
        await source.answer(ChatRequest(said, [{"type": "function", "function": {"name": "f"}}]))
