"""BFCL through `evaluate.py`: a recorded run as an endpoint has the verdicts that scoring its result files gives."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.bfcl_copy import bfcl_copy
from tests.cli_parts import inside, script, write_lines
from tests.conversation_parts import SHELF

CATEGORIES = ("multi_turn_base", "multi_turn_miss_func", "multiple", "simple_java", "irrelevance")

EVALUATOR = {name: "multi_turn_state" if name.startswith("multi_turn") else "call_check" for name in CATEGORIES}

Verdicts = dict[str, tuple[bool | None, str | None]]


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TUNECHECK_BFCL", str(bfcl_copy()))
    (tmp_path / "endpoints").mkdir()
    return tmp_path


def recorded(folder: Path, path: Path, **more: str) -> None:
    """The endpoint `recorded`, which gives what a file holds."""
    (folder / "endpoints" / "recorded.yaml").write_text(json.dumps({"kind": "replay", "path": str(path), **more}))


def scored(folder: Path, path: Path, mode: str) -> tuple[Mapping[str, Any], dict[str, Verdicts]]:
    """The output of `tunecheck bfcl score` for a file or a tree: each category's summary, and its rows' verdicts."""
    said = inside(folder, "bfcl", "score", str(path), "--compat", mode, "--out", "scores", "--json")
    assert said.code == 0, said.err
    categories = said.json()["categories"]
    return categories, {name: read_verdicts(folder / "scores" / f"{name}.verdicts.jsonl") for name in categories}


def read_verdicts(path: Path) -> Verdicts:
    lines = map(json.loads, path.read_text("utf-8").splitlines())
    return {line["id"]: (line["valid"], line["error_type"]) for line in lines}


def judged(run_folder: Path, category: str) -> Verdicts:
    """The verdicts in the rows of a run."""
    verdicts: Verdicts = {}
    metric = f"outputs.{EVALUATOR[category]}.{EVALUATOR[category]}"
    for row in map(json.loads, (run_folder / "eval_results.jsonl").read_text("utf-8").splitlines()):
        if row["inputs.category"] == category:
            properties = row[f"{metric}_properties"] or {}
            verdicts[row["row_id"]] = row[f"{metric}_passed"], properties.get("error_type")
    return verdicts


@pytest.mark.parametrize("category", ["multi_turn_base", "multiple"])
def test_one_category_equals_the_leaderboard_without_settings(
    category: str, workspace: Path, shared_data: Path
) -> None:
    file = next(shared_data.glob(f"bfcl_runs/v0.11.0/result/*/*/BFCL_v4_{category}_result.json"))
    recorded(workspace, file)
    said = script(workspace, "evaluate.py", "--dataset", f"bfcl:{category}", "--endpoint", "recorded", "--json")
    summaries, _ = scored(workspace, file, "bfcl")
    assert said.json()["metrics"][f"{EVALUATOR[category]}.binary_aggregate"] == summaries[category]["accuracy"]


def force_quit(row_id: str, turns: int) -> dict[str, Any]:
    """A result line with the leaderboard's words for a last turn that was ended by force."""
    result = [[[{"pwd": "{}"}]]] * turns
    note = {"role": "handler_log", "content": "Model has been forced to quit after 20 steps."}
    return {"id": row_id, "result": result, "inference_log": [{"begin_of_turn_query": [], "step_0": [note]}]}


def test_a_conversation_that_was_recorded_as_ended_by_force_is_so_in_a_replay_too(workspace: Path) -> None:
    name = "BFCL_v4_multi_turn_base_result.json"
    file = write_lines(workspace / name, [force_quit("multi_turn_base_0", 4)])
    recorded(workspace, file)
    arguments = ("--dataset", "bfcl:multi_turn_base", "--limit", "1", "--set", "multi_turn_state.compat=strict")
    said = script(workspace, "evaluate.py", *arguments, "--endpoint", "recorded", "--json")
    _, verdicts = scored(workspace, file, "strict")
    assert verdicts["multi_turn_base"] == {"multi_turn_base_0": (False, "multi_turn:force_terminated")}
    assert judged(workspace / said.json()["run_dir"], "multi_turn_base") == verdicts["multi_turn_base"]


def test_rows_of_several_turns_are_conversations_without_a_file_that_says_so(workspace: Path) -> None:
    (workspace / "simulators").mkdir()
    (workspace / "simulators" / "Shelf.py").write_text(SHELF)
    turns = [[{"role": "user", "content": "Put two cups on the shelf."}]]
    row = {"id": "a", "turns": turns, "involved_classes": ["Shelf"], "ground_truth": [["put(name='cup', count=2)"]]}
    write_lines(workspace / "datasets" / "mine.jsonl", [row, {**row, "id": "b"}])
    right, wrong = ({"put": json.dumps({"name": "cup", "count": count})} for count in (2, 3))
    answers = [{"id": "a", "result": [[[right], "Done."]]}, {"id": "b", "result": [[[wrong], "Done."]]}]
    recorded(workspace, write_lines(workspace / "answers.jsonl", answers), response="result")
    said = script(workspace, "evaluate.py", "--dataset", "mine.jsonl", "--endpoint", "recorded")
    assert said.code == 0, said.err
    assert "1 of 2 rows passed (50.0%)" in said.out
    assert "an argument with another value" in said.out
    (written,) = (workspace / "eval_results").glob("*/eval_results.jsonl")
    reasons = [json.loads(line)["outputs.multi_turn_state.multi_turn_state_reason"] for line in written.open()]
    assert reasons[0] is None
    assert "Shelf.things.cup is 3; expected 2" in reasons[1]


@pytest.mark.parametrize("category", ["multi_turn_base", "irrelevance"])
def test_a_server_that_is_not_there_is_named_where_every_row_failed(workspace: Path, category: str) -> None:
    dead = {"kind": "openai", "url": "http://127.0.0.1:9/v1", "model": "m", "auth": {"type": "none"}, "retries": 0}
    (workspace / "endpoints" / "dead.yaml").write_text(json.dumps(dead))
    said = inside(workspace, "bfcl", "run", "--endpoint", "dead", "--categories", category, "--limit", "2")
    assert said.code == 1
    assert "cannot connect to 127.0.0.1:9" in said.out + said.err
    assert said.err.count("\n") == 1


def test_a_ground_truth_is_shown_with_the_names_of_its_arguments(workspace: Path) -> None:
    said = inside(workspace, "bfcl", "show", "multi_turn_miss_func_0")  # one of its calls is by position
    assert said.code == 0
    assert "sort(file_name=" in said.out
    assert "0=" not in said.out
