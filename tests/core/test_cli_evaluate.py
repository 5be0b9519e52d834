"""`tunecheck evaluate` as a process: what it prints, what it leaves, and how it ends."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli_parts import (
    TOOLS,
    call,
    environment,
    inside,
    process,
    replay,
    right_answers,
    rows,
    workspace,
    write_lines,
)
from tests.conftest import ROOT

from tunecheck.report._serving import runs_page

HOSTILE = "\x1b]0;owned\x07\x1b[2J[bold red]\u202eBOOM[/bold red]"


def only_run(folder: Path) -> Path:
    (run,) = (folder / "eval_results").iterdir()
    return run


def test_the_main_job_needs_nothing_but_data(small: Path) -> None:
    said = inside(small, "evaluate", "--dataset", "small.jsonl")
    assert (said.code, said.err) == (0, "")
    assert "\x1b" not in said.out, "no colour reaches a pipe"
    assert "SIMULATED answers: no model was asked" in said.out
    assert "the embedded simulated endpoint" in " ".join(said.out.split())
    assert "datasets/small.jsonl · 6 rows" in said.out
    assert {path.name for path in only_run(small).iterdir()} == {
        "run.json", "journal.jsonl", "journal.synced", "eval_results.jsonl", "eval_results.csv", "metrics.json",
    }  # fmt: skip


def test_evaluate_py_is_the_same_command(small: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "evaluate.py"), "--dataset", "small.jsonl", "--quiet"],
        cwd=small, env=environment(), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0
    assert Path(small, done.stdout.strip()) == only_run(small)
    assert done.stderr == "SIMULATED answers: no model was asked\n"


def test_model_output_reaches_the_terminal_as_harmless_text(small: Path) -> None:
    data = rows()
    data[0]["id"] = HOSTILE
    data[0]["city"] = HOSTILE
    workspace(small, data)
    answers = {str(row["id"]): row["answer"] for row in data} | {
        HOSTILE: call(name=HOSTILE),
        "r2": call(people=HOSTILE),
    }
    replay(small, answers)
    said = inside(
        small, "evaluate", "--dataset", "small.jsonl", "--endpoint", "recorded", "--name", HOSTILE,
        "--group-by", "city", "--details",
    )  # fmt: skip
    assert said.code == 0
    assert not any(letter in said.out for letter in "\x1b\x07\u202e")
    assert "[bold red]BOOM[/bold red]" in said.out


def test_json_is_one_object_and_nothing_else_on_standard_output(small: Path) -> None:
    said = inside(
        small, "evaluate", "--dataset", "small.jsonl", "--json", "--fail-under", "match>=0.1", "--allow-simulated"
    )
    found = said.json()
    assert set(found) - {"uploads"} == {  # the key of a plug-in
        "run", "run_dir", "metrics", "by", "rows", "failed_rows", "gates", "usage", "simulated", "notes", "reused",
        "judges", "decision",
    }  # fmt: skip
    assert Path(small, found["run_dir"]) == only_run(small)
    assert found["run"] == only_run(small).name
    assert (found["rows"], found["failed_rows"], found["simulated"]) == (6, 0, True)
    assert found["metrics"]["match.scored_count"] == 6
    assert [gate["gate"] for gate in found["gates"]] == ["match >= 0.1", "error rate <= 0"]


def test_a_response_column_asks_nobody(small: Path) -> None:
    said = inside(small, "evaluate", "--dataset", "small.jsonl", "--response-column", "answer", "--json").json()
    assert said["metrics"]["match.binary_aggregate"] == 1.0
    assert said["simulated"] is False
    manifest = json.loads((small / said["run_dir"] / "run.json").read_text())
    assert manifest["target"] is None


def test_the_seed_decides_what_the_simulated_endpoint_answers(small: Path) -> None:
    def responses(seed: str) -> list[object]:
        found = inside(small, "evaluate", "--dataset", "small.jsonl", "--seed", seed, "--json").json()
        lines = (small / found["run_dir"] / "eval_results.jsonl").read_text().splitlines()
        return [json.loads(line)["outputs.request_id"] for line in lines]

    assert responses("1") == responses("1") != responses("2")


def test_settings_and_mappings_reach_the_evaluators(small: Path) -> None:
    found = inside(
        small, "evaluate", "--dataset", "small.jsonl", "--evaluators", "bleu,match", "--set", "match.threshold=0.99",
        "--mapping", "bleu.response=${data.answer}", "--json",
    ).json()  # fmt: skip
    manifest = json.loads((small / found["run_dir"] / "run.json").read_text())
    assert manifest["evaluators"]["match"]["arguments"]["threshold"] == 0.99
    assert manifest["mapping"]["bleu"]["response"] == "${data.answer}"
    assert manifest["mapping"]["match"]["response"] == "${target.response}"
    assert found["metrics"]["bleu.binary_aggregate"] == 1.0


def test_a_file_in_the_workspace_is_an_evaluator(small: Path) -> None:
    (small / "evaluators").mkdir()
    (small / "evaluators" / "length.py").write_text(
        "def length(*, response):\n    return {'letters': len(str(response))}\n", "utf-8"
    )
    found = inside(small, "evaluate", "--dataset", "small.jsonl", "--evaluators", "length", "--json")
    assert found.json()["metrics"]["length.letters"] > 0


@pytest.mark.parametrize("declared", [False, True], ids=["by an option", "by the data set's file"])
def test_the_messages_can_be_mapped_to_another_column(small: Path, declared: bool) -> None:
    asked = [{**row, "query": None, "asked": "hello"} for row in rows()]
    write_lines(small / "datasets" / "small.jsonl", [{key: row[key] for key in row if key != "query"} for row in asked])
    (small / "echo.py").write_text("def echo(messages):\n    return messages[0]['content']\n", "utf-8")
    (small / "endpoints" / "echo.yaml").write_text("kind: python\nfunction: ../echo.py:echo\n", "utf-8")
    options = ["--mapping", "target.messages=${data.asked}"]
    if declared:
        options = []
        sidecar = small / "datasets" / "small.yaml"
        mapped = "column_mapping:\n  target.messages: ${data.asked}"
        sidecar.write_text(sidecar.read_text("utf-8").replace("column_mapping:", mapped), "utf-8")
        assert "no messages" not in inside(small, "check", "datasets/small.jsonl").out
    found = inside(small, "evaluate", "--dataset", "small.jsonl", "--endpoint", "echo", *options, "--json").json()
    line = (small / found["run_dir"] / "eval_results.jsonl").read_text().splitlines()[0]
    assert json.loads(line)["outputs.response"] == "hello"


def test_columns_with_other_names_are_sent_as_the_evaluators_read_them(small: Path) -> None:
    renamed = [{**row, "asked": row["query"], "offered": row["tools"]} for row in rows()]
    for row in renamed:
        del row["query"], row["tools"]
    write_lines(small / "datasets" / "small.jsonl", renamed)
    mapped = "query: ${data.asked}\n  tool_definitions: ${data.offered}\n  ground_truth: ${data.answer}"
    (small / "datasets" / "small.yaml").write_text(f"column_mapping:\n  {mapped}\nevaluators: [match]\n", "utf-8")
    code = "def echo(messages, tools):\n    return f\"{messages[0]['content']} {len(tools)}\"\n"
    (small / "echo.py").write_text(code, "utf-8")
    (small / "endpoints" / "echo.yaml").write_text("kind: python\nfunction: ../echo.py:echo\n", "utf-8")
    assert "no messages" not in inside(small, "check", "small.jsonl").out
    found = inside(small, "evaluate", "--dataset", "small.jsonl", "--endpoint", "echo", "--json").json()
    line = (small / found["run_dir"] / "eval_results.jsonl").read_text().splitlines()[0]
    assert json.loads(line)["outputs.response"] == f"question 0 {len(TOOLS)}"


def test_check_names_the_column_with_chats_that_the_request_lacks(small: Path) -> None:
    chats = [{"id": str(n), "chat": [{"role": "user", "content": "Hi"}], "answer": "Hello"} for n in range(3)]
    write_lines(small / "datasets" / "small.jsonl", chats)
    assert 'YAML file: target.messages: "${data.chat}"' in inside(small, "check", "small.jsonl", COLUMNS="300").out


def test_a_configuration_file_gives_options_and_the_command_line_wins(small: Path) -> None:
    (small / "eval.yaml").write_text("dataset: small.jsonl\nlimit: 5\nevaluators: [bleu]\nset: {bleu.threshold: 0.1}\n")
    found = inside(small, "evaluate", "--config", "eval.yaml", "--limit", "2", "--json").json()
    assert found["rows"] == 2
    manifest = json.loads((small / found["run_dir"] / "run.json").read_text())
    assert manifest["evaluators"]["bleu"]["arguments"]["threshold"] == 0.1
    assert manifest["command"] == {
        "dataset": "small.jsonl", "limit": 2, "evaluators": ["bleu"], "set": {"bleu.threshold": 0.1},
    }  # fmt: skip


def test_a_run_of_which_some_answers_say_they_are_simulated_is_a_simulated_one_everywhere(small: Path) -> None:
    replay(small, {})
    lines = [
        {"id": key, "response": answer, "simulated": n < 4} for n, (key, answer) in enumerate(right_answers().items())
    ]
    write_lines(small / "endpoints" / "recorded.jsonl", lines)
    gated = ("evaluate", "--dataset", "small.jsonl", "--endpoint", "recorded", "--fail-under", "match>=0.1")
    assert inside(small, *gated).code == 2
    allowed = inside(small, *gated, "--allow-simulated")
    assert allowed.code == 0
    assert "SIMULATED answers in 4 rows" in allowed.out
    assert "SIMULATED" in inside(small, "runs").out
    assert '"simulated":true' in runs_page(small / "eval_results")


def test_a_dry_run_counts_calls_and_tokens_and_writes_nothing(small: Path) -> None:
    said = inside(small, "evaluate", "--dataset", "small.jsonl", "--dry-run", "--json")
    found = said.json()
    messages, tools = rows()[0]["query"], rows()[0]["tools"]
    least = 6 * len(json.dumps([messages, tools], separators=(",", ":"))) // 4
    assert (said.code, found["rows"], found["calls"], found["simulated"]) == (0, 6, 6, True)
    assert least <= found["input_tokens"] <= least + 6
    assert found["output_tokens"] > 0
    assert found["cost"] is None
    # Connor (1987) with all discordant rows on one side: sqrt(n d) = z(0.975) + z(0.8) sqrt(1 - d).
    difference = found["smallest_difference"]
    assert math.sqrt(6 * difference) == pytest.approx(1.959964 + 0.841621 * math.sqrt(1 - difference), abs=1e-4)
    assert found["primary"] == "match"
    assert not (small / "eval_results").exists()


def test_a_dry_run_says_its_cost_by_the_endpoints_price(small: Path) -> None:
    estimates = {}
    for limit in (5, 500_000, 1_000_000):
        (small / "endpoints" / "priced.yaml").write_text(
            f"kind: openai\nurl: http://127.0.0.1:9/v1\nmodel: m\nparameters: {{max_tokens: {limit}}}\n"
            "price: {input_per_million: 0, output_per_million: 2000000, currency: EUR}\n"
        )
        said = inside(small, "evaluate", "--dataset", "small.jsonl", "--endpoint", "priced", "--dry-run", "--json")
        estimates[limit] = said.json()["output_tokens"], said.json()["cost"]
    assert estimates[5] == (30, 60.0)  # six answers of five tokens, at two euros each
    assert estimates[500_000] == estimates[1_000_000]  # as long as the ground truth, not as the limit
    assert estimates[500_000][0] < 500


def test_a_reader_that_leaves_early_changes_no_exit_code(small: Path) -> None:
    gate = "--fail-under 'match.scored_count>=1000' --allow-simulated"
    line = f"{sys.executable} -m tunecheck evaluate --dataset small.jsonl {gate}"
    done = subprocess.run(
        ["bash", "-c", f"{line} | true; exit ${{PIPESTATUS[0]}}"],
        cwd=small, env=environment(), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (3, "")


def test_a_terminal_that_knows_only_ascii_ends_no_run(small: Path) -> None:
    said = process(small, "evaluate", "--dataset", "small.jsonl", PYTHONIOENCODING="ascii")
    assert (said.code, said.err) == (0, "")
