"""`tunecheck bfcl run`: a run of the pipeline that leaves the leaderboard's files and shows its table."""

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.bfcl_copy import bfcl_copy
from tests.cli_parts import command, environment, inside
from tests.conversation_parts import Server, Values, serving
from tests.platforms import posix_only
from tests.tables import cases

from tunecheck import Run, compare
from tunecheck.endpoints import load_endpoint
from tunecheck.episodes import CallMode, ConversationTarget
from tunecheck_bfcl import run_bfcl, score_results


@pytest.fixture(autouse=True)
def workspace(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TUNECHECK_BFCL", str(bfcl_copy()))
    (cwd / "endpoints").mkdir()
    (cwd / "endpoints" / "right.yaml").write_text("kind: simulated\nrates: {}\n", "utf-8")
    return cwd


def run(folder: Path, *arguments: str) -> Any:
    return inside(folder, "bfcl", "run", *arguments)


def result_lines(folder: Path, model: str, category: str) -> list[Values]:
    (path,) = folder.glob(f"bfcl/{model}/*/BFCL_v4_{category}_result.json")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_replayed_run_has_the_verdicts_that_scoring_its_files_gives(shared_data: Path) -> None:
    """Replays a few rows; `checks/` replays two whole runs."""
    results = shared_data / "bfcl_runs" / "v0.11.0" / "result"
    target = ConversationTarget(load_endpoint({"kind": "replay", "path": str(results)}, name="recorded"))
    outcome = run_bfcl(target, categories="multiple,simple_java,multi_turn_miss_param", limit=20)
    (theirs,), (ours,) = (score_results(path).models.values() for path in (results, outcome.folder))
    for name, score in ours.categories.items():
        assert len(score.verdicts) == 20
        assert set(score.verdicts) <= set(theirs.categories[name].verdicts), name


def test_a_replayed_conversation_in_text_is_scored_in_the_mode_of_its_model(workspace: Path) -> None:
    lines = []
    asked: list[tuple[CallMode, str]] = [("tools", "multi_turn_base_3"), ("text", "multi_turn_base_1")]
    for mode, row_id in asked:
        outcome = run_bfcl(ConversationTarget(load_endpoint("right"), mode=mode), ids=[row_id])
        lines += result_lines(outcome.result.run_dir, "right", "multi_turn_base")
    path = workspace / "result" / "m" / "BFCL_v4_multi_turn_base_result.json"
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    target = ConversationTarget(load_endpoint({"kind": "replay", "path": str(workspace / "result")}, name="recorded"))
    scores = run_bfcl(target, ids=["multi_turn_base_1", "multi_turn_base_3"]).scores
    assert scores is not None
    (theirs,), (ours,) = (each.models.values() for each in (score_results(path), scores))
    verdicts = [dict(each.categories["multi_turn_base"].verdicts) for each in (theirs, ours)]
    assert verdicts[0] == verdicts[1]
    assert [verdicts[1][f"multi_turn_base_{number}"].valid for number in (1, 3)] == [False, True]


@pytest.mark.parametrize("mode", ["tools", "text"])
def test_a_model_that_answers_as_the_ground_truth_has_every_row_right(mode: Any) -> None:
    categories = "multi_turn,multiple,parallel,irrelevance,live_relevance"
    outcome = run_bfcl(ConversationTarget(load_endpoint("right"), mode=mode), categories=categories, limit=12)
    assert outcome.result.failed_row_count == 0
    (model,) = score_results(outcome.folder).models.values()
    assert {name: score.accuracy for name, score in model.categories.items()} == dict.fromkeys(model.categories, 1.0)
    assert {score.total for score in model.categories.values()} == {12}


def test_the_command_shows_a_table_and_leaves_result_files_and_verdicts(workspace: Path) -> None:
    said = run(workspace, "--endpoint", "right", "--categories", "multi_turn_miss_func,live_simple", "--limit", "2")
    assert said.code == 0, said.err
    assert "SIMULATED" in said.out
    assert "multi_turn_miss_func" in said.out
    assert "2 of 2" in said.out
    (folder,) = (workspace / "eval_results").iterdir()
    lines = result_lines(folder, "right", "multi_turn_miss_func")
    assert [line["id"] for line in lines] == ["multi_turn_miss_func_0", "multi_turn_miss_func_1"]
    counts = ["input_token_count", "output_token_count", "latency"]
    assert list(lines[0]) == ["id", "result", *counts, "inference_log", "finish_reason"]
    verdicts = (folder / "bfcl_score" / "live_simple.verdicts.jsonl").read_text().splitlines()
    assert [json.loads(line)["valid"] for line in verdicts] == [True, True]
    assert json.loads((folder / "bfcl_score" / "summary.json").read_bytes())["model"] == "right"


def test_result_files_that_cannot_be_written_are_written_by_resuming_the_finished_run(workspace: Path) -> None:
    assert run(workspace, "--endpoint", "right", "--ids", "simple_python_3").code == 0
    (folder,) = (workspace / "eval_results").iterdir()
    shutil.rmtree(folder / "bfcl")
    (folder / "bfcl").touch()

    said = run(workspace, "--resume", folder.name)
    remedy = f"correct the cause, then write it with tunecheck bfcl run --resume {folder.name}"
    assert (said.code, said.err.strip().rpartition("; ")[2]) == (1, remedy)
    assert said.err.startswith(f"error: run {folder.name} is finished, but ")

    (folder / "bfcl").unlink()
    assert run(workspace, "--resume", folder.name).code == 0
    assert [line["id"] for line in result_lines(folder, "right", "simple_python")] == ["simple_python_3"]


def test_two_models_are_judged_alike_and_two_readings_of_the_rules_are_not(workspace: Path) -> None:
    def judged(name: str, compat: str | None = None) -> Run:
        target = ConversationTarget(load_endpoint({"kind": "simulated", "rates": {}}, name=name), compat=compat)
        return Run(run_bfcl(target, ids=["multi_turn_base_0", "simple_python_3"], name=name).result.run_dir)

    base, new, exact = judged("model-1"), judged("model-2"), judged("model-3", "bfcl")
    found = compare(base, new, exact, allow_simulated=True)
    changes = [
        {(each.code, each.effect) for each in decision.objections if each.code.startswith("evaluator")}
        for decision in (pair.decision for pair in found.against)
    ]
    assert changes == [set(), {("evaluator_changed", "invalid")}]


def test_the_log_s_options_reach_the_result_file(workspace: Path) -> None:
    options = "--categories multi_turn_base --limit 1 --include-input-log --exclude-state-log --quiet"
    said = run(workspace, "--endpoint", "right", *options.split())
    assert said.code == 0, said.err
    (line,) = result_lines(workspace / said.out.strip(), "right", "multi_turn_base")
    assert {type(entry) for entry in line["inference_log"]} == {dict}
    assert line["inference_log"][0]["step_0"][0]["role"] == "inference_input"


def test_rows_are_picked_by_id_and_the_scores_come_as_json(workspace: Path) -> None:
    said = run(workspace, "--endpoint", "right", "--ids", "multi_turn_base_7, live_simple_3-2-1", "--json")
    assert said.code == 0, said.err
    found = said.json()
    assert (found["rows"], found["failed_rows"], found["simulated"]) == (2, 0, True)
    assert found["scores"]["categories"]["multi_turn_base"]["accuracy"] == 1
    assert Path(found["run_dir"]).name == found["run"]


@cases("bfcl")
def test_wrong_use_is_one_line_and_exit_code_2(workspace: Path, arguments: list[str], complaint: str) -> None:
    said = run(workspace, *arguments)
    assert said.code == 2
    assert complaint in said.err
    assert said.err.count("\n") == 1
    assert not (workspace / "eval_results").exists()


def test_a_copy_elsewhere_is_named_with_data(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNECHECK_BFCL", str(workspace))
    arguments = ("--endpoint", "right", "--categories", "multi_turn_long_context", "--limit", "1", "--mode", "text")
    missing = run(workspace, *arguments)
    assert missing.code == 2
    assert "tunecheck bfcl get" in missing.err
    assert run(workspace, *arguments, "--data", str(bfcl_copy())).code == 0


def test_a_server_that_refuses_every_row_is_exit_code_1_and_no_row_is_right(workspace: Path) -> None:
    with serving(lambda _: b"no") as server:
        endpoint(workspace, server)
        said = run(workspace, "--endpoint", "served", "--categories", "irrelevance,multiple", "--limit", "2")
        assert said.code == 1
        assert "every row ended in an error" in said.err
        assert "0 of 2" in said.out
        assert not any(line.startswith("irrelevance ") for line in said.out.splitlines())
        nothing = run(workspace, "--endpoint", "served", "--categories", "irrelevance", "--limit", "2")
    assert nothing.code == 1
    assert "every row ended in an error" in nothing.err


def endpoint(folder: Path, server: Server, **more: Any) -> None:
    definition = {"kind": "openai", "url": server.url, "model": "m", "auth": {"type": "none"}, "retries": 0, **more}
    (folder / "endpoints" / "served.yaml").write_text(json.dumps(definition), "utf-8")


def slowly(body: Values) -> Any:
    time.sleep(0.05)
    last = body["messages"][-1]
    return "Done." if last["role"] == "tool" else [("pwd", {}), ("get_current_time", {})]


@pytest.mark.parametrize("how", [pytest.param("interrupted", marks=posix_only), "killed"])
def test_a_run_that_is_cut_off_goes_on_without_asking_a_finished_step_again(workspace: Path, how: str) -> None:
    arguments = ["bfcl", "run", "--endpoint", "served", "--categories", "multi_turn_base", "--limit", "4"]
    with serving(slowly) as server:
        endpoint(workspace, server, limits={"concurrency": 2})
        process = subprocess.Popen(
            command(*arguments), cwd=workspace, env=environment(), stderr=subprocess.PIPE, text=True
        )
        while len(server.requests) < 12:
            assert process.poll() is None
            time.sleep(0.01)
        process.kill() if how == "killed" else process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        (folder,) = (workspace / "eval_results").iterdir()
        if how == "interrupted":
            assert f"tunecheck bfcl run --resume {folder.name}" in err
        asked = set(server.keys)
        again = run(workspace, "--resume", "last", "--quiet")
        assert again.code == 0, again.err
        assert len(server.requests) - len(set(server.keys)) <= 2  # calls in flight when it ended
        assert asked < set(server.keys)
    rows = list(Run(folder).rows())
    assert [row["row_id"] for row in rows] == [f"multi_turn_base_{index}" for index in range(4)]
    assert sum(int(str(row["outputs.steps"])) for row in rows) == len(set(server.keys))


def test_a_run_goes_on_as_begun_and_only_by_this_command(workspace: Path) -> None:
    begun = run(workspace, "--endpoint", "right", "--categories", "irrelevance", "--limit", "1", "--quiet")
    assert begun.code == 0
    changed = run(workspace, "--resume", "last", "--limit", "2")
    assert (changed.code, "--limit cannot change when run" in changed.err) == (2, True)
    other = inside(workspace, "evaluate", "--resume", "last")
    assert (other.code, "tunecheck bfcl run --resume" in other.err) == (2, True)
    assert run(workspace, "--resume", "last", "--quiet").out == begun.out


def test_a_run_of_another_command_is_not_finished_by_this_one(workspace: Path) -> None:
    (workspace / "data.jsonl").write_text('{"query": "hi", "answer": "hello"}\n')
    evaluate = "evaluate --dataset data.jsonl --evaluators f1_score --mapping ground_truth=${data.answer}"
    assert inside(workspace, *evaluate.split()).code == 0
    said = run(workspace, "--resume", "last")
    assert said.code == 2
    assert "was not started by `tunecheck bfcl run`" in said.err
