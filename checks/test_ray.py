"""Runs on Ray: workers, nodes and the driver die, rows kill their process; the results are those of one process.

A cluster has several nodes on this machine. Calls are logged by the server that answers them.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from checks.served_runs import EVALUATED, Workspace, finished
from tests.conftest import ROOT, ReferenceEnvironment
from tests.fault_server import FaultServer, Step

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROWS, SECONDS, CALLS, KILLS = 3_000, 0.05, 8, 25


@pytest.fixture(scope="module")
def python(reference_env: ReferenceEnvironment) -> str:
    return str(reference_env("ray", "ray==2.60.0", "-e", str(ROOT)))


@pytest.fixture
def workspace(tmp_path: Path, python: str) -> Iterator[Workspace]:
    made = Workspace(tmp_path / "workspace", ROWS)
    with made.serving(SECONDS, CALLS):
        finished(made.evaluate("--name", "alone"), 300)
        made.log.write_text("")
        made.python = python
        yield made


class Nodes:
    """A cluster; `address` joins it."""

    def __init__(self, python: str, count: int, cpus: float) -> None:
        command = [python, str(ROOT / "checks" / "ray_cluster.py"), str(count), str(cpus)]
        env = os.environ | {"RAY_USAGE_STATS_ENABLED": "0"}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self.address = next(line for line in self._said if ":" in line and line[0].isdigit()).strip()

    @property
    def _said(self) -> Iterator[str]:
        assert self.process.stdout is not None
        return iter(self.process.stdout)

    def tell(self, word: str) -> None:
        """`add` a node, or `remove` one."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        next(line for line in self._said if line.strip() == "done")


@contextmanager
def cluster(python: str, count: int = 2, cpus: float = 1) -> Iterator[Nodes]:
    nodes = Nodes(python, count, cpus)
    try:
        yield nodes
    finally:
        assert nodes.process.stdin is not None
        nodes.process.stdin.close()
        nodes.process.wait(60)


def tasks() -> list[psutil.Process]:
    """The Ray workers that run chunks now; Ray writes it into their title."""
    found = []
    for process in psutil.process_iter():
        try:
            title = " ".join(process.cmdline())
        except psutil.Error:
            continue
        if "ray::chunk-" in title or "ray::run_chunk" in title:
            found.append(process)
    return found


def wait_for_requests(workspace: Workspace, count: int) -> None:
    until = time.monotonic() + 120
    while sum(workspace.requests().values()) < count and time.monotonic() < until:
        time.sleep(0.05)


def same_as_alone(workspace: Workspace, name: str) -> int:
    """Check a run against that of one process; return how many calls were made again."""
    assert workspace.results(name)[0] == workspace.results("alone")[0]
    assert workspace.results(name)[1]["metrics"] == workspace.results("alone")[1]["metrics"]
    return sum(workspace.requests().values()) - ROWS


def test_workers_that_are_killed_cost_the_calls_in_flight(workspace: Workspace, python: str) -> None:
    rng, killed = random.Random(1), 0
    with cluster(python) as nodes:
        run = workspace.evaluate("--name", "killed", "--on", f"ray:{nodes.address}")
        wait_for_requests(workspace, 100)
        while run.poll() is None and killed < KILLS:
            if running := tasks():
                rng.choice(running).kill()
                killed += 1
            time.sleep(rng.uniform(0.1, 0.4))
        finished(run, 300)
    again = same_as_alone(workspace, "killed")
    print(f"{killed} workers killed: {again} calls again")
    assert killed >= KILLS // 2  # a run on idle cores may end before all of them
    assert again <= killed * CALLS


def test_the_driver_is_killed_and_the_run_resumed(workspace: Workspace, python: str) -> None:
    run = workspace.evaluate("--name", "driver", "--on", "ray")
    wait_for_requests(workspace, ROWS // 3)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    deadline = time.monotonic() + 60
    while tasks() and time.monotonic() < deadline:
        time.sleep(0.2)
    made = sum(workspace.requests().values())
    finished(workspace.begin("evaluate", "--resume", "last", "--on", "ray", "--quiet"), 300)
    again = same_as_alone(workspace, "driver")
    in_flight = 2 * CALLS * 4 * (os.cpu_count() or 1)  # sent, or answered and on the way to the driver
    print(f"driver killed after {made} calls: {again} calls again, at most {in_flight} in flight")
    assert again <= in_flight


def test_the_process_with_the_limits_is_killed_and_the_run_resumed(workspace: Workspace, python: str) -> None:
    run = workspace.evaluate("--name", "limits", "--on", "ray")
    wait_for_requests(workspace, 100)
    below = psutil.Process(run.pid).children(recursive=True)
    next(each for each in below if "ray::TaskServer" in " ".join(each.cmdline())).kill()
    _, said = run.communicate(timeout=120)
    assert (run.returncode, said.decode().count("\n")) == (1, 1)
    assert "Ray lost the process that counts requests and costs" in said.decode()
    finished(workspace.begin("evaluate", "--resume", "last", "--on", "ray", "--quiet"), 300)
    assert same_as_alone(workspace, "limits") <= 2 * CALLS * 4 * (os.cpu_count() or 1)


def test_a_node_that_is_lost_costs_the_calls_in_flight(workspace: Workspace, python: str) -> None:
    with cluster(python, 3) as nodes:
        run = workspace.evaluate("--name", "lost", "--on", f"ray:{nodes.address}")
        wait_for_requests(workspace, ROWS // 4)
        nodes.tell("remove")
        finished(run, 300)
    assert same_as_alone(workspace, "lost") <= 2 * CALLS * 4


def test_a_node_that_joins_raises_the_rate_within_ten_seconds(tmp_path: Path, python: str) -> None:
    if os.getloadavg()[0] > os.cpu_count():  # type: ignore[operator]
        pytest.skip("the machine is busy: starting a node's processes takes longer than the rate is measured")
    workspace = Workspace(tmp_path, 100_000)
    workspace.python = python
    with workspace.serving(1.0, 4), cluster(python, 1) as nodes:
        run = workspace.evaluate("--on", f"ray:{nodes.address}")
        wait_for_requests(workspace, 64)
        nodes.tell("add")
        joined = time.monotonic()
        time.sleep(15)
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=60)
        times = workspace.times()
    before = sum(joined - 4 <= each < joined for each in times) / 4
    after = sum(joined + 10 <= each < joined + 14 for each in times) / 4
    print(f"{before:.1f} requests a second with one node, {after:.1f} with two, of {before * 2:.1f} possible")
    assert after >= 1.8 * before


@pytest.mark.parametrize("limit", [300])
def test_a_limit_a_minute_holds_for_all_tasks_together(tmp_path: Path, python: str, limit: int) -> None:
    workspace = Workspace(tmp_path, 420)
    workspace.python = python
    with workspace.serving(0.01, 8, f"requests_per_minute: {limit}"), cluster(python, 2) as nodes:
        finished(workspace.evaluate("--on", f"ray:{nodes.address}"), 300)
        times = sorted(workspace.times())
    most = max(sum(begin <= each < begin + 60 for each in times) for begin in times)
    print(f"at most {most} requests in any 60 seconds, of {limit}")
    assert most <= limit


def test_a_budget_holds_for_all_tasks_together(tmp_path: Path, python: str) -> None:
    workspace = Workspace(tmp_path, 500)
    workspace.python = python
    price = "input_per_million: 1000, output_per_million: 1000, currency: USD"  # 15 tokens: 0.015 a call
    with workspace.serving(0.01, 8, price=price):
        run = workspace.evaluate("--on", "ray", "--max-cost", "1.5")
        _, said = run.communicate(timeout=120)
    assert run.returncode == 1
    assert "--max-cost 1.5" in said.decode()
    assert 80 <= sum(workspace.requests().values()) <= 101


def test_a_budget_ends_the_attempts_of_a_call_that_gets_no_answer(tmp_path: Path, python: str) -> None:
    """Each failed attempt costs 2.0: the first fits into 3, the second does not, and the call has four more."""
    workspace = Workspace(tmp_path, 20)
    workspace.python = python
    usage = b'{"error": {"message": "overloaded"}, "usage": {"prompt_tokens": 1000, "completion_tokens": 1000}}'
    with FaultServer(lambda request, attempt: Step(500, {"Content-Type": "application/json"}, usage)) as server:
        (tmp_path / "echo.yaml").write_text(
            f"kind: openai\nurl: {server.url}/v1\nmodel: m\nauth: {{type: none}}\nretries: 5\n"
            "price: {input_per_million: 1000, output_per_million: 1000, currency: USD}\n"
        )
        run = workspace.evaluate("--on", "ray", "--max-cost", "3")
        _, said = run.communicate(timeout=120)
    assert run.returncode == 1
    assert "--max-cost 3" in said.decode()
    assert len(server.requests) == 2


POISON = {
    "segfault": "import ctypes\nctypes.string_at(0)",
    "exit": "import os\nos._exit(3)",
    "memory": "import resource\nresource.setrlimit(resource.RLIMIT_DATA, (1, 1))\n"
    "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "loop": "import re\nre.match(r'(a+)+$', 'a' * 64 + 'b')",  # holds the interpreter
}


@pytest.mark.parametrize("kind", POISON)
def test_an_endpoint_that_kills_its_process_costs_one_row(tmp_path: Path, python: str, kind: str) -> None:
    workspace = Workspace(tmp_path, 60)
    workspace.python = python
    (tmp_path / "endpoints").mkdir()
    body = POISON[kind].replace("\n", "\n            ")
    (tmp_path / "endpoints" / "poison.py").write_text(
        "from tunecheck.endpoints import ChatRequest, Completion, Endpoint, EndpointConfig, Definition\n"
        "class PoisonEndpoint(Endpoint):\n"
        "    kind = 'poison'\n    config_type = EndpointConfig\n    tracks_each_call = True\n"
        "    def __init__(self, definition: Definition) -> None:\n        self.name = definition.name\n"
        "    async def complete(self, request: ChatRequest) -> Completion:\n"
        "        question = request.messages[-1]['content']\n"
        "        if question == '17':\n"
        f"            {body}\n"
        "        return Completion(f'answer {question}')\n"
        "    def settings(self):\n        return {'kind': 'poison'}\n"
    )
    (tmp_path / "poison.yaml").write_text("kind: poison\n")
    command = ("evaluate", "--dataset", "rows.jsonl", "--endpoint", "poison.yaml", "--evaluators", "f1_score")
    finished(workspace.begin(*command, "--name", "poison", "--on", "ray", "--quiet"), 400)
    rows = workspace.results("poison")[0]
    failed = {row["row_id"]: row["error.target"] for row in rows if "error.target" in row}
    print(failed)
    assert [*failed] == ["r17"]
    assert failed["r17"]["type"] == "WorkerDied"
    assert all(row["outputs.f1_score.f1_score"] == 1 for row in rows if row["row_id"] != "r17")


@pytest.mark.parametrize("kind", POISON)
def test_an_evaluator_that_kills_its_process_costs_one_row(tmp_path: Path, python: str, kind: str) -> None:
    workspace = Workspace(tmp_path, 60)
    workspace.python = python
    body = POISON[kind].replace("\n", "\n        ")
    (tmp_path / "evaluators").mkdir()
    (tmp_path / "evaluators" / "poison.py").write_text(
        "def poison(response, ground_truth):\n"
        f"    if ground_truth == 'answer 17':\n        {body}\n"
        "    return {'right': float(response == ground_truth)}\n"
    )
    with workspace.serving(0.01, 8):
        command = ("evaluate", "--dataset", "rows.jsonl", "--endpoint", "echo.yaml", "--evaluators", "poison")
        more = ("--name", "poison", "--on", "ray", "--quiet", "--evaluator-timeout", "10")
        finished(workspace.begin(*command, *more), 400)
    rows = workspace.results("poison")[0]
    failed = {row["row_id"]: row["error.poison"] for row in rows if "error.poison" in row}
    print(failed)
    assert [*failed] == ["r17"]
    assert failed["r17"]["type"] == ("EvaluatorTimeoutError" if kind == "loop" else "WorkerDied")
    assert all(row["outputs.poison.right"] == 1 for row in rows if row["row_id"] != "r17")


def test_ray_on_this_machine_joins_no_cluster(
    workspace: Workspace, python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.255.255.1:6379")
    finished(workspace.evaluate("--name", "private", "--on", "ray"), 120)
    assert same_as_alone(workspace, "private") == 0


STORES_AT_THE_END = """\
import sys, time
import ray
from tunecheck.cli import main

end = ray.shutdown
ray.shutdown = lambda: (time.sleep(1), ray.put(bytes(1 << 20)), end())
sys.exit(main(sys.argv[1:]))
"""


def test_ray_still_works_when_the_driver_shuts_it_down(workspace: Workspace, python: str) -> None:
    command = (*EVALUATED, "--name", "slow", "--on", "ray")
    done = subprocess.run(
        [python, "-c", STORES_AT_THE_END, *command], cwd=workspace.folder, capture_output=True, timeout=300
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")
    assert same_as_alone(workspace, "slow") == 0


@pytest.mark.parametrize("after_s", [0.3, 5.0])
def test_ctrl_c_while_ray_starts_is_one_line_with_the_command_that_goes_on(
    workspace: Workspace, after_s: float
) -> None:
    run = workspace.evaluate("--name", "early", "--on", "ray")
    until = time.monotonic() + 60
    while not any((workspace.folder / "eval_results").glob("early-*/journal.jsonl")) and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(after_s)
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=120)
    assert (run.returncode, said.decode().count("\n")) == (1, 1)
    assert f"--resume {workspace.run('early').name}" in said.decode()


def test_a_cluster_that_is_not_there_is_one_line(workspace: Workspace) -> None:
    run = workspace.evaluate("--on", "ray:127.0.0.1:1")
    _, said = run.communicate(timeout=120)
    assert (run.returncode, said.decode().count("\n")) == (1, 1)
    assert "Ray at 127.0.0.1:1" in said.decode()
