"""`tunecheck serve` answers conversations: the messages identify the row, turn and step."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.bfcl_copy import bfcl_copy
from tests.serve_parts import asking, serving

from tunecheck import NoAnswerError, Row
from tunecheck.datasets import open_dataset
from tunecheck.endpoints import ChatRequest, Endpoint, load_endpoint
from tunecheck.episodes import ConversationTarget
from tunecheck.simulators import Backends
from tunecheck_bfcl import run_bfcl, score_results
from tunecheck_serve import RowAnswers


@pytest.fixture(autouse=True)
def workspace(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNECHECK_BFCL", str(bfcl_copy()))


def result_files(endpoint: Endpoint, category: str, mode: Any = "tools") -> Path:
    """The result files of `bfcl run` with two rows, asked of a server with this endpoint behind it."""
    source = RowAnswers(endpoint, open_dataset(f"bfcl:{category}", limit=2).rows(), Backends())
    with serving(source) as url:
        asked = load_endpoint({"kind": "openai", "url": f"{url}/v1", "model": "m", "retries": 0})
        outcome = run_bfcl(ConversationTarget(asked, mode=mode), categories=category, limit=2)
    assert outcome.result.failed_row_count == 0
    return outcome.folder


@pytest.mark.parametrize("mode", ["tools", "text"])
def test_a_served_model_without_mistakes_has_every_turn_right(mode: str) -> None:
    folder = result_files(load_endpoint({"kind": "simulated", "rates": {}}), "multi_turn_miss_func", mode)
    (model,) = score_results(folder).models.values()
    assert [verdict.valid for _, verdict in model.categories["multi_turn_miss_func"].verdicts] == [True, True]


def test_served_result_files_have_the_steps_that_were_recorded(shared_data: Path) -> None:
    results = shared_data / "bfcl_runs" / "v0.11.0" / "result"
    (written,) = result_files(load_endpoint({"kind": "replay", "path": str(results)}), "multi_turn_miss_param").rglob(
        "*_result.json"
    )
    (recorded,) = results.rglob("*miss_param_result.json")
    served, given = steps_of(written), steps_of(recorded)
    assert served == {name: given[name] for name in ("multi_turn_miss_param_0", "multi_turn_miss_param_1")}


def steps_of(file: Path) -> dict[str, Any]:
    """The steps of each row by turn; an answer without anything is an empty text, however it is written."""
    lines = map(json.loads, file.read_text().splitlines())
    return {line["id"]: [[step or "" for step in turn] for turn in line["result"]] for line in lines}


def row_of(name: str, turns: list[Any], tools: list[str], truth: list[list[str]]) -> Row:
    offered = [{"type": "function", "function": {"name": tool, "parameters": {}}} for tool in tools]
    values = {"turns": turns, "tools": offered, "ground_truth": truth}
    return Row(0, name, values, "")


async def test_rows_with_the_same_words_are_told_by_their_tools() -> None:
    rows = [row_of(name, [asking("go")], [name], [[f"{name}()"]]) for name in ("left", "right")]
    source = RowAnswers(load_endpoint({"kind": "simulated", "rates": {}}), rows, Backends())
    tools: Any = rows[1].values["tools"]
    answer = await source.complete(ChatRequest(asking("go"), tools))
    assert [call["function"]["name"] for call in answer.tool_calls] == ["right"]  # type: ignore[index,call-overload]


async def test_what_no_row_says_is_named() -> None:
    source = RowAnswers(
        load_endpoint({"kind": "simulated"}), [row_of("a", [asking("go"), asking("on")], ["f"], [[], []])], Backends()
    )
    said = [*asking("go"), {"role": "assistant", "content": "Done."}, *asking("stop")]
    with pytest.raises(NoAnswerError, match="no row of the served data set has this request's messages"):
        await source.complete(ChatRequest(said, [{"type": "function", "function": {"name": "f"}}]))
