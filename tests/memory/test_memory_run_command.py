"""`tunecheck memory run`: from a configuration and an endpoint to scores, and on from where it was cut off."""

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli_parts import Said, command, environment, here, process
from tests.memory_heard import Agent, serving
from tests.platforms import posix_only
from tests.tables import cases

from tunecheck import Run
from tunecheck.runs import list_runs

CONFIG = """\
config: {run_name: Small}
datasets:
  args: {memory_span: 900, dataset_examples: 2}
  datasets: [{name: colours}, {name: jokes}, {name: prospective_memory}, {name: spy_meeting}]
"""


@pytest.fixture
def agent() -> Iterator[Agent]:
    with serving() as agent:
        yield agent


@pytest.fixture
def workspace(cwd: Path, agent: Agent) -> Path:
    (cwd / "small.yml").write_text(CONFIG, "utf-8")
    (cwd / "endpoints").mkdir()
    definition = {"kind": "memory_agent", "url": f"http://127.0.0.1:{agent.port}/agent", "auth": {"type": "none"}}
    (cwd / "endpoints" / "agent.yaml").write_text(json.dumps(definition), "utf-8")
    return cwd


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> Said:
    return here(capsys, "memory", "run", *arguments)


BEGIN = ("-c", "small.yml", "--endpoint", "agent")


def only() -> Run:
    (found,) = list_runs(Path("eval_results"))
    return found


def test_the_command_shows_scores_figures_notes_and_files(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = run(capsys, *BEGIN)
    assert said.code == 0, said.err
    for words in ("8 tests", "Spy Meeting", "of 4 (±", "accuracy", "messages", "verbosity"):
        assert words in said.out, words
    assert "memory/Small/results/agent" in said.out
    assert (only().folder / "memory" / "Small" / "results" / "agent" / "master_log.jsonl").is_file()


def test_the_result_comes_as_json(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, *BEGIN, "--json", "--repeat", "2").json()
    assert (found["rows"], found["failed_rows"], found["sessions"], found["max_score"]) == (16, 0, 2, 4)
    assert set(found["datasets"]) == {"Colours", "Jokes", "Prospective Memory", "Spy Meeting"}
    assert all(Path(folder).is_dir() for folder in found["results"])
    assert Path(found["run_dir"]).name == found["run"]


def test_a_quiet_run_prints_its_folder(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = run(capsys, *BEGIN, "--quiet")
    assert Path(said.out.strip()) == only().folder


def test_an_agent_is_told_the_time_that_passes_if_the_clock_is_mirrored(
    workspace: Path, agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, *BEGIN, "--clock", "mirrored").code == 0
    assert ("/agent/advance" in {message for _, message in agent.heard}) is True
    assert run(capsys, *BEGIN, "--isolated", "--name", "alone").code == 0
    assert sum(message == "/agent/reset" for _, message in agent.heard) == 8


def test_a_simulated_agent_says_so(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = run(capsys, "-c", "small.yml", "--endpoint", "simulated")
    assert (said.code, "SIMULATED" in said.out) == (0, True)


@cases("memory")
def test_wrong_use_is_one_line_and_exit_code_2_and_leaves_nothing(
    workspace: Path, arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = run(capsys, *arguments)
    assert said.code == 2
    assert complaint in said.err
    assert said.err.count("\n") == 1
    assert not (workspace / "eval_results").exists()


# -- cut off, and gone on with


def cut_off(workspace: Path, agent: Agent, number: signal.Signals | None = None) -> str:
    """The output of a run that gets this signal in the middle, or is killed."""
    with subprocess.Popen(
        command("memory", "run", *BEGIN), cwd=workspace, env=environment(), stderr=subprocess.PIPE, text=True
    ) as started:
        while len(agent.heard) < 20:
            assert started.poll() is None
            time.sleep(0.002)
        started.kill() if number is None else started.send_signal(number)
        _, errors = started.communicate(timeout=60)
    return errors


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=posix_only), None])
def test_a_run_that_is_cut_off_goes_on_where_it_stopped(
    workspace: Path, agent: Agent, number: signal.Signals | None, capsys: pytest.CaptureFixture[str]
) -> None:
    said = cut_off(workspace, agent, number)
    name = only().id
    assert only().status() == ("killed" if number is None else "interrupted")
    if number is not None:
        assert f"tunecheck memory run --resume {name}" in said
    asked = {key for key, _ in agent.heard}
    again = run(capsys, "--resume", "last")
    assert again.code == 0, again.err
    assert only().status() == "finished"
    assert len(agent.heard) - len({key for key, _ in agent.heard}) <= (1 if number is None else 0)
    assert asked < {key for key, _ in agent.heard}


@pytest.mark.parametrize("where", [("--resume", *BEGIN), (*BEGIN, "--resume", "--quiet")])
def test_resume_without_a_run_goes_on_with_the_last_one(
    workspace: Path, agent: Agent, where: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    cut_off(workspace, agent)
    asked = {key for key, _ in agent.heard}
    other = run(capsys, *BEGIN, "--resume", "--seed", "4")
    assert (other.code, "--seed cannot change when run" in other.err, "--fresh" in other.err) == (2, True, True)
    said = run(capsys, *where)
    assert (said.code, said.err) == (0, "")
    assert only().status() == "finished"
    assert asked < {key for key, _ in agent.heard}


def test_a_failing_agent_ends_the_run_in_order_and_says_how_to_go_on(
    workspace: Path, agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    definition = {"kind": "memory_agent", "url": "http://127.0.0.1:9/agent", "auth": {"type": "none"}, "retries": 0}
    (workspace / "endpoints" / "gone.yaml").write_text(json.dumps(definition), "utf-8")
    said = run(capsys, "-c", "small.yml", "--endpoint", "gone")
    assert said.code == 1
    assert "cannot connect to 127.0.0.1:9" in said.err
    assert f"go on with tunecheck memory run --resume {only().id}" in said.err
    assert said.err.count("\n") == 1


def test_files_that_cannot_be_written_are_written_by_resuming_the_finished_run(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, *BEGIN).code == 0
    results = only().folder / "memory" / "Small" / "results"
    shutil.rmtree(results)
    results.touch()

    said = run(capsys, "--resume", "last")
    remedy = f"correct the cause, then write it with tunecheck memory run --resume {only().id}"
    assert (said.code, said.err.strip().rpartition("; ")[2]) == (1, remedy)

    results.unlink()
    assert run(capsys, "--resume", "last").code == 0
    assert (results / "agent" / "master_log.jsonl").is_file()


def test_a_run_goes_on_as_begun_and_only_by_this_command(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, *BEGIN, "--quiet")
    changed = run(capsys, "--resume", "last", "--seed", "3")
    assert (changed.code, "--seed cannot change when run" in changed.err, "--fresh" in changed.err) == (2, True, True)
    other = here(capsys, "evaluate", "--resume", "last")
    assert (other.code, "tunecheck memory run --resume" in other.err) == (2, True)


PAID = """\
from tunecheck.endpoints import Completion, Usage

def answer(messages):
    return Completion(text="Noted.", usage=Usage(100_000, 10), latency_ms=1.0)
"""


def test_a_run_whose_money_is_spent_goes_on_with_more(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (workspace / "endpoints" / "paid.py").write_text(PAID, "utf-8")
    (workspace / "endpoints" / "paid.yaml").write_text("{kind: python, function: paid.py:answer}", "utf-8")
    (workspace / "prices.yaml").write_text("models: {paid: {input_per_million: 1, output_per_million: 1}}", "utf-8")
    begun = run(capsys, "-c", "small.yml", "--endpoint", "paid", "--prices", "prices.yaml", "--max-cost", "1")
    assert (begun.code, "stopped: --max-cost 1:" in begun.err) == (1, True), begun.err
    more = run(capsys, "--resume", "last", "--max-cost", "2")
    assert (more.code, "stopped: --max-cost 2:" in more.err) == (1, True)
    assert run(capsys, "--resume", "last", "--max-cost", "1000", "--concurrency", "2").code == 0
    other = run(capsys, "--resume", "last", "--max-cost", "3", "--prices", "other.yaml")
    assert (other.code, "error: --prices cannot change when" in other.err) == (2, True), "it names what may not change"


def test_it_starts_without_a_terminal_and_asks_nothing(workspace: Path) -> None:
    said = process(workspace, "memory", "run", *BEGIN, "--quiet")
    assert said.code == 0, said.err
    assert process(workspace, "memory", "run", *BEGIN, "--quiet").code == 0
