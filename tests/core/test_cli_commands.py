"""The smaller commands: runs, plugins, init, datasets convert, check, endpoints, serve."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli_parts import FIRST_TIME, command, environment, inside, like, replay, right_answers, write_files
from tests.conftest import ROOT
from tests.fault_server import FaultServer, answer
from tests.tables import cases

from tunecheck import Run
from tunecheck.pipeline import Journal
from tunecheck.plugins import RunFile


@cases("cli")
def test_a_command_prints_these_lines_and_ends_with_this_code(
    small: Path, files: dict[str, str], answers: dict[str, object] | None, words: str, code: int, out: list[str],
    err: str, ran: bool | None,
) -> None:  # fmt: skip
    """`out` are lines in their order, `err` is all of standard error, `answers` differ from the right ones."""
    write_files(small, files)
    if answers is not None:
        replay(small, right_answers(answers))
    said = inside(small, *words.split(), COLUMNS="300")
    told = said.err.removeprefix(FIRST_TIME.format("evaluators/mine.py"))
    assert (said.code, like(err, told)) == (code, True), said
    printed = iter(said.out.splitlines())
    assert [text for text in out if not any(like(text, line) for line in printed)] == [], said.out
    assert ran is None or (small / "eval_results").exists() == ran


def test_runs_lists_the_newest_first_with_how_they_ended(small: Path) -> None:
    inside(small, "evaluate", "--dataset", "small.jsonl", "--name", "one")
    replay(small, {"r0": "hello"})
    inside(small, "evaluate", "--dataset", "small.jsonl", "--name", "two", "--endpoint", "recorded")
    said = inside(small, "runs")
    assert said.out.index("two-") < said.out.index("one-")
    assert "6 rows · SIMULATED" in said.out
    assert "6 rows · 5 rows with an error" in said.out
    assert "match 0.0%" in said.out


def test_runs_as_json(small: Path) -> None:
    inside(small, "evaluate", "--dataset", "small.jsonl", "--response-column", "answer")
    (run,) = inside(small, "runs", "--json").json()
    assert (run["status"], run["rows"], run["failed_rows"], run["simulated"]) == ("finished", 6, 0, False)
    assert run["figures"] == {"function_call_match": "100.0%", "match": "100.0%"}


def test_a_damaged_run_hides_no_other(small: Path) -> None:
    inside(small, "evaluate", "--dataset", "small.jsonl")
    (small / "eval_results" / "broken").mkdir()
    (small / "eval_results" / "broken" / "run.json").write_text('{"evaluators": ')
    found = inside(small, "runs", "--json").json()
    assert sorted(run["status"] for run in found) == ["damaged", "finished"]
    said = inside(small, "runs")
    assert said.code == 0
    assert "run.json: cannot be read" in " ".join(said.out.split())


def test_only_as_many_of_the_last_runs_are_listed_as_asked_for(small: Path) -> None:
    for name in ("one", "two"):
        inside(small, "evaluate", "--dataset", "small.jsonl", "--name", name, "--quiet")
    assert len(inside(small, "runs", "--json", "--limit", "1").json()) == 1


def test_a_named_run_is_shown_as_at_its_end(small: Path) -> None:
    ended = inside(small, "evaluate", "--dataset", "small.jsonl").out
    shown = inside(small, "runs", "last").out
    sentence = next(line for line in ended.splitlines() if line.startswith("Main cause of failures: "))
    assert sentence in shown.splitlines()
    assert "rows with a known cause" in shown


def test_only_a_run_without_a_process_is_to_be_finished(small: Path) -> None:
    run = Run(small / "eval_results" / "mine-20260101T120000Z-aaaaaa")
    run.folder.mkdir(parents=True)
    run.write(RunFile(status="running", command={"evaluate": {}}))
    journal = Journal(run.journal)
    assert "finish the run" not in inside(small, "runs", "last").out
    journal.close()
    assert f"finish the run:  tunecheck evaluate --resume {run.id}" in inside(small, "runs", "last", COLUMNS="300").out


def test_named_runs_are_removed_and_no_others(small: Path) -> None:
    for name in ("one", "two"):
        inside(small, "evaluate", "--dataset", "small.jsonl", "--name", name, "--quiet")
    assert inside(small, "runs", "one", "--remove").out.startswith("removed  eval_results/one-")
    assert [path.name.partition("-")[0] for path in (small / "eval_results").iterdir()] == ["two"]


def test_endpoints_are_listed_with_kind_model_and_address(small: Path) -> None:
    good = "kind: openai\nurl: http://localhost:1/v1\nmodel: m\nheaders: {key: s3cr3t}\n"
    write_files(small, {"endpoints/a.yaml": good, "endpoints/b.yaml": "kind: ["})
    found = inside(small, "endpoints", "list", "--json")
    a, b, simulated = found.json()
    assert a == {"name": "a", "kind": "openai", "model": "m", "url": "http://localhost:1/v1"}
    assert b["name"] == "b"
    assert "b.yaml" in b["problem"]
    assert simulated["kind"] == "simulated"
    assert "s3cr3t" not in found.out


def test_plugins_are_listed_with_where_they_come_from(small: Path) -> None:
    write_files(small, {"evaluators/mine.py": "def mine(*, response): return 1\n"})
    found = inside(small, "plugins", "--json").json()
    brings = {each["name"]: each["brings"] for each in found["plugins"]}
    assert brings["this workspace"]["evaluators"] == [{"name": "mine", "help": "", "origin": "evaluators/mine.py"}]
    assert "simulated" in [each["name"] for each in brings["core"]["endpoints"]]
    assert "runs" in [each["name"] for each in brings["core"]["commands"]]
    assert "evaluators/mine.py" in inside(small, "plugins").out


def test_init_makes_a_workspace_in_which_the_main_job_runs(tmp_path: Path) -> None:
    made = inside(tmp_path, "init", "work")
    assert made.code == 0
    folder = tmp_path / "work"
    folders = {path.name for path in folder.iterdir() if path.is_dir()}
    assert folders == {"evaluators", "prompty", "endpoints", "datasets", "eval_results"}
    assert (folder / "datasets" / "val.jsonl").read_bytes() == (ROOT / "datasets" / "val.jsonl").read_bytes()
    said = inside(folder, "evaluate", "--dataset", "val.jsonl", "--evaluators", "asks_back,match", "--json")
    assert said.code == 0
    assert said.json()["metrics"]["asks_back.not_applicable_count"] > 0


def test_init_never_overwrites(tmp_path: Path) -> None:
    write_files(tmp_path, {"datasets/val.jsonl": '{"mine": 1}\n'})
    said = inside(tmp_path, "init", str(tmp_path))
    assert f"kept  {tmp_path / 'datasets' / 'val.jsonl'}" in said.out
    assert (tmp_path / "datasets" / "val.jsonl").read_text() == '{"mine": 1}\n'


def test_init_names_the_folder_that_it_cannot_make(tmp_path: Path) -> None:
    write_files(tmp_path, {"evaluators": "a file\n"})
    said = inside(tmp_path, "init", ".")
    assert said.code == 2
    assert "evaluators: cannot be made: File exists" in said.err


@pytest.mark.parametrize("name", ["azure_ml", "azure_openai", "openai", "simulated"])
def test_every_endpoint_of_a_new_workspace_can_be_loaded(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tunecheck import load_endpoint

    inside(tmp_path, "init", ".")
    for variable in ("ENDPOINT_KEY", "AZURE_OPENAI_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(variable, "not-a-real-key")
    assert load_endpoint(tmp_path / "endpoints" / f"{name}.yaml").kind == name


CONVERSATION = {
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}],
    "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{}"}}]},
    ],
}


def test_conversations_are_converted_and_what_cannot_be_read_is_named_by_number(small: Path) -> None:
    (small / "raw.json").write_text(json.dumps([CONVERSATION, 5, CONVERSATION]))
    convert = ("datasets", "convert", "raw.json", "--from", "openai", "--out", "datasets/x.jsonl")
    said = inside(small, *convert)
    assert said.code == 0
    assert "2 of 3 conversations: 2 rows, 2 with 2 function calls" in said.out
    assert "left out number 2:" in said.out
    assert inside(small, "evaluate", "--dataset", "x.jsonl", "--quiet").code == 0
    again = inside(small, *convert)
    assert (again.code, "exists" in again.err) == (2, True)
    assert inside(small, *convert, "--overwrite").code == 0
    recognised = inside(small, "datasets", "convert", "raw.json", "--out", "datasets/y.jsonl")
    assert recognised.out == said.out.replace("/x.", "/y.")
    (small / "rows.jsonl").write_text('{"query": "hi"}\n')
    assert "; a file of rows needs no conversion" in inside(small, "datasets", "convert", "rows.jsonl").err
    (small / "broken.json").write_text('[{"messages": [')
    broken = inside(small, "datasets", "convert", "broken.json")
    assert (broken.code, "broken.json, line 1, column 16: the file is not JSON" in broken.err) == (2, True)


def test_check_says_what_came_back(small: Path) -> None:
    function = {"name": "get_weather", "arguments": '{"city": "Lisbon\\u001b[2J"}'}
    message = {"content": "one\x1b[2Jtwo", "tool_calls": [{"id": "1", "type": "function", "function": function}]}
    reply = answer({"choices": [{"message": message, "finish_reason": "tool_calls"}]})
    with FaultServer(lambda request, attempt: reply) as server:
        definition = f"kind: openai\nurl: {server.url}/v1\nmodel: m\n"
        (small / "endpoints" / "local.yaml").write_text(definition)
        said = inside(small, "check", "local")
    assert said.err == ""
    assert "local (openai): answered" in said.out
    assert "get_weather" in said.out
    assert "\x1b" not in said.out


def test_check_takes_names_with_and_without_option_names(small: Path) -> None:
    named = inside(small, "check", "small.jsonl", "simulated")
    assert inside(small, "check", "--dataset", "small.jsonl", "--endpoint", "simulated").out == named.out


@pytest.mark.parametrize("name", ["small.ndjson", "small.JSONL"])
def test_check_knows_a_data_file_by_every_suffix_that_evaluate_reads(small: Path, name: str) -> None:
    expected = inside(small, "check", "small.jsonl")
    (small / "datasets" / name).write_bytes((small / "datasets" / "small.jsonl").read_bytes())
    checked = inside(small, "check", name)
    assert (checked.code, checked.out) == (expected.code, expected.out.replace("small.jsonl", name))


def test_check_takes_the_name_after_dataset_for_a_data_set(small: Path) -> None:
    checked = inside(small, "check", "--dataset", "simulated")
    assert checked.code == 2
    assert "there is no data file 'simulated'" in checked.err


@contextmanager
def serving(folder: Path, *arguments: str, **more: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    server = subprocess.Popen(
        command("serve", "--port", "0", *arguments), cwd=folder, env=environment(**more),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert "http://" in line, server.stderr.read() if server.stderr else ""
        yield server, next(word for word in line.split() if word.startswith("http://"))
    finally:
        server.terminate()
        server.communicate(timeout=30)


def asked(url: str, body: object, **headers: str) -> object:
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"Content-Type": "application/json", **headers}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.load(reply)


def test_serve_gives_recorded_answers_and_ends_in_order(small: Path) -> None:
    messages = [{"role": "user", "content": "hi"}]
    write_files(small, {"answers.jsonl": json.dumps({"messages": messages, "response": "hello"})})
    with serving(small, "--replay", "answers.jsonl") as (server, url):
        assert asked(f"{url}/score", {"input_data": messages, "params": {}}) == {"result": "hello"}
    assert server.returncode == 0


def test_serve_gives_recorded_answers_by_the_row_ids_of_a_data_set(small: Path) -> None:
    write_files(small, {"answers.jsonl": '{"id": "r1", "response": "hello"}'})
    with serving(small, "--replay", "answers.jsonl", "--dataset", "small.jsonl") as (_, url):
        messages = [{"role": "user", "content": "question 1"}]
        assert asked(f"{url}/score", {"input_data": messages, "params": {}}) == {"result": "hello"}


def test_a_run_against_the_served_simulated_model_asks_it_over_http(small: Path) -> None:
    with serving(small, "--simulated", "small.jsonl", "--key-env", "SERVE_KEY", SERVE_KEY="s3cret-key") as (_, url):
        (small / "endpoints" / "served.yaml").write_text(
            f'kind: azure_ml\nurl: {url}/score\nauth: {{type: key, value: "${{env:SERVE_KEY}}"}}\nresponse: result\n'
        )
        said = inside(
            small, "evaluate", "--dataset", "small.jsonl", "--endpoint", "served", "--json", SERVE_KEY="s3cret-key"
        )
    assert said.code == 0
    assert (said.json()["rows"], said.json()["failed_rows"]) == (6, 0)
    assert all("s3cret-key" not in path.read_text() for path in (small / said.json()["run_dir"]).iterdir())


def test_help_comes_quickly_because_nothing_heavy_is_loaded() -> None:
    code = (
        "import sys; from tunecheck.cli._app import main; main(['--help']); "
        "assert not {'aiohttp', 'nltk', 'numpy', 'pandas', 'asyncio', 'rouge_score', 'yaml'} & set(sys.modules); "
        "print(*(name for name in sys.modules if name.startswith('tunecheck')))"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=True)
    ours = set(done.stdout.splitlines()[-1].split())
    of_plugins = {name for name in ours if name.startswith("tunecheck_")}
    packages = {name.partition(".")[0] for name in of_plugins}
    assert "tunecheck_memory" in packages
    assert of_plugins == packages | {f"{package}.plugin" for package in packages}
    assert len(ours) <= 42
