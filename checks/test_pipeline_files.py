"""Evaluators that are files of the workspace, on the command line: each in a process of its own, whatever it does."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.platforms import posix_only

FILES = """
# good.py
def good(n):
    return n

# where.py
import os, threading
def where(n):
    return {"pid": os.getpid(), "main": threading.current_thread() is threading.main_thread()}

# eats_memory.py
import resource
def eats_memory(n):
    if n == 3:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        bytearray(4 << 30)
    return n

# kills_its_loader.py
import os, sys
if 'tunecheck.pipeline._workers' in ' '.join(sys.orig_argv):
    os._exit(9)
def kills_its_loader(n):
    return n

# loads_only_here.py
import sys
if 'tunecheck.pipeline._workers' in ' '.join(sys.orig_argv):
    raise RuntimeError('not here')
def loads_only_here(n):
    return n

# forks.py
import atexit, os, sys
atexit.register(lambda: print('at exit of', os.getpid(), file=sys.stderr))
def forks(n):
    child = os.fork()
    if child == 0:
        return -1
    os.waitpid(child, 0)
    return n

# leaves_children.py
import os, time
def leaves_children(n):
    if os.fork() == 0:
        time.sleep(5)
        os._exit(0)
    return n

# prints.py
import os, sys
def prints(n):
    print('a line', n)
    os.write(1, b'raw output')
    return {'raw': len(os.read(0, 10)), 'read': len(sys.stdin.read()), 'n': n}

# writes_everywhere.py
import os
def writes_everywhere(n):
    if n == 3:
        for descriptor in range(3, 20):
            try:
                os.write(descriptor, b'x' * 64)
            except OSError:
                pass
    return n

# exits_in_the_end.py
import os
class Ends:
    def __call__(self, n):
        return n
    def __aggregate__(self, rows):
        if sum(row['exits_in_the_end'] for row in rows) == 36:
            os._exit(7)
        return {'rows': len(rows)}
exits_in_the_end = Ends()

# waits_for_others.py
import threading, time
barrier, first = threading.Barrier(4, timeout=60), []
def waits_for_others(n):
    if not first:
        first.append(n)
        return n
    time.sleep(0.1)
    barrier.wait()
    return n

# sets_an_alarm.py
import signal
def sets_an_alarm(n):
    before = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, before)
    return n
"""

DEEDS = {
    "segfaults": "ctypes.string_at(0)",
    "exits": "os._exit(7)",
    "is_killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "spins": "while True: pass",
    "holds_the_interpreter": "re.fullmatch('(a+)+', 'a' * 60 + 'b')",
    "sleeps": "time.sleep(100_000)",
    "closes_everything": "os.closerange(3, 100)",
    "stops": "raise KeyboardInterrupt('mine')",
    "exits_in_a_coroutine": "os._exit(7)",
    "blocks_its_loop": "time.sleep(100_000)",
}
"""Evaluators that do this on the row of number 3, and score the others."""

HARMFUL = """
import ctypes, os, re, signal, time
{define} {name}(n):
    if n == 3:
        {deed}
    return n
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "evaluators").mkdir()
    sources = dict(re.findall(r"^# (\w+)\.py\n(.*?)(?=^# |\Z)", FILES, re.MULTILINE | re.DOTALL))
    for name, deed in DEEDS.items():
        define = "async def" if name in ("exits_in_a_coroutine", "blocks_its_loop") else "def"
        sources[name] = HARMFUL.format(define=define, name=name, deed=deed)
    for name, source in sources.items():
        (tmp_path / "evaluators" / f"{name}.py").write_text(source)
    rows = "".join(json.dumps({"n": number}) + "\n" for number in range(9))
    (tmp_path / "rows.jsonl").write_text(rows)
    return tmp_path


class Ran:
    """The files that a command left."""

    def __init__(self, workspace: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "tunecheck", "evaluate", "--dataset", "rows.jsonl", "--json", *arguments]
        if "--response-column" not in arguments:
            command += ["--response-column", "n"]
        self.done = subprocess.run(
            command, cwd=workspace, capture_output=True, text=True, timeout=180, check=False, env=dict(os.environ)
        )
        assert self.done.stdout.startswith("{"), self.done.stderr
        self.said = json.loads(self.done.stdout)
        folder = Path(workspace / self.said["run_dir"])
        self.rows = [json.loads(line) for line in (folder / "eval_results.jsonl").read_text().splitlines()]

    def scored(self, name: str, key: str | None = None) -> list[Any]:
        return [row.get(f"outputs.{name}.{key or name}") for row in self.rows]

    def errors(self, name: str) -> dict[int, tuple[str, str]]:
        found = {number: row.get(f"error.{name}") for number, row in enumerate(self.rows)}
        return {number: (error["type"], error["message"]) for number, error in found.items() if error}


OTHERS = [0, 1, 2, None, 4, 5, 6, 7, 8]
CRASHES = [
    ("segfaults", "WorkerDied", "signal 11 (SIGSEGV)"),
    ("exits", "WorkerDied", "exit code 7"),
    ("is_killed", "WorkerDied", "signal 9 (SIGKILL)"),
    ("exits_in_a_coroutine", "WorkerDied", "exit code 7"),
    ("closes_everything", "WorkerDied", "exit code 1"),
    ("writes_everywhere", "WorkerDied", "signal 9 (SIGKILL)"),
    ("eats_memory", "MemoryError", "no message"),
    ("stops", "KeyboardInterrupt", "mine"),
]
ANYWHERE = ("exits", "exits_in_a_coroutine", "stops")


@pytest.mark.parametrize(
    ("name", "kind", "how"),
    [pytest.param(*each, id=each[0], marks=() if each[0] in ANYWHERE else posix_only) for each in CRASHES],
)
def test_a_crash_is_charged_to_its_evaluator_and_row(workspace: Path, name: str, kind: str, how: str) -> None:
    ran = Ran(workspace, "--evaluators", f"{name},good")
    said = how if kind != "WorkerDied" else f"evaluator {name!r} ended its worker process: {how}"
    assert ran.errors(name) == {3: (kind, said)}
    assert ran.scored(name) == OTHERS
    assert ran.scored("good") == list(range(9))
    assert ran.done.returncode == 0
    assert "Traceback" not in ran.done.stderr


@pytest.mark.parametrize("name", ["spins", "holds_the_interpreter", "sleeps", "blocks_its_loop"])
def test_an_evaluator_that_hangs_is_killed_and_its_row_an_error(workspace: Path, name: str) -> None:
    ran = Ran(workspace, "--evaluators", f"{name},good", "--evaluator-timeout", "1")
    late = f"evaluator {name!r}: the call took longer than its time limit of 1 s: make it faster, or raise the limit"
    assert ran.errors(name) == {3: ("EvaluatorTimeoutError", late)}
    assert ran.scored(name) == OTHERS
    assert ran.scored("good") == list(range(9))
    assert f"evaluator {name!r} took longer than 1 s (--evaluator-timeout) on 1 row" in ran.said["notes"]


@posix_only
def test_with_workers_for_all_the_guilty_one_is_found_among_them(workspace: Path) -> None:
    ran = Ran(workspace, "--evaluators", "good,exits,is_killed,spins", "--workers", "1", "--evaluator-timeout", "1")
    assert ran.scored("good") == list(range(9))
    for name in ("exits", "is_killed", "spins"):
        assert list(ran.errors(name)) == [3]
        assert ran.scored(name) == OTHERS


def test_an_aggregation_that_crashes_costs_its_own_metrics_only(workspace: Path) -> None:
    ran = Ran(workspace, "--evaluators", "exits_in_the_end,good")
    written = json.loads((workspace / ran.said["run_dir"] / "metrics.json").read_text())
    metrics, told = written["metrics"], "evaluator 'exits_in_the_end' ended its worker process: exit code 7"
    assert written["aggregate_errors"] == {"exits_in_the_end": {"type": "WorkerDied", "message": told}}
    assert metrics["exits_in_the_end.exits_in_the_end"] == metrics["good.good"] == 4


def test_an_evaluator_that_ends_the_process_which_loads_it_is_an_error_of_each_row(workspace: Path) -> None:
    ran = Ran(workspace, "--evaluators", "kills_its_loader,good", "--workers", "2")
    said = "evaluator 'kills_its_loader' ended its worker process while it was loaded: exit code 9"
    assert set(ran.errors("kills_its_loader").values()) == {("WorkerDied", said)}
    assert ran.scored("good") == list(range(9))


def test_an_evaluator_that_loads_nowhere_else_runs_in_threads_and_the_run_says_so(workspace: Path) -> None:
    ran = Ran(workspace, "--evaluators", "loads_only_here,good")
    assert ran.scored("loads_only_here") == list(range(9))
    assert "these evaluators run in this process, as workers cannot import them: loads_only_here" in ran.said["notes"]


@posix_only
def test_a_file_runs_in_a_process_of_its_own_and_on_its_main_thread(workspace: Path) -> None:
    ran = Ran(workspace, "--evaluators", "where,sets_an_alarm")
    (pid,) = set(ran.scored("where", "pid"))
    assert pid != os.getpid()
    assert ran.scored("where", "main") == [True] * 9
    assert ran.scored("sets_an_alarm") == list(range(9))


def test_without_workers_a_file_runs_in_threads(workspace: Path) -> None:
    assert Ran(workspace, "--evaluators", "where", "--workers", "0").scored("where", "main") == [False] * 9


def test_a_file_that_waits_is_called_for_as_many_rows_at_once_as_asked_for(workspace: Path) -> None:
    ran = Ran(workspace, "--evaluators", "waits_for_others", "--concurrency", "4")
    assert ran.scored("waits_for_others") == list(range(9))


@posix_only
def test_a_child_that_an_evaluator_forks_does_not_come_near_the_pipe(workspace: Path) -> None:
    ran = Ran(workspace, "--evaluators", "forks,leaves_children")
    assert ran.scored("forks") == ran.scored("leaves_children") == list(range(9))
    assert ran.done.stderr.count("at exit of") <= 2, "a child ran what belongs to the end of its parent"


def test_what_is_printed_goes_to_standard_error_and_standard_input_is_empty(workspace: Path) -> None:
    ran = Ran(workspace, "--evaluators", "prints")
    assert ran.scored("prints", "n") == list(range(9))
    assert ran.scored("prints", "read") == ran.scored("prints", "raw") == [0] * 9
    assert ran.done.stderr.count("a line") == ran.done.stderr.count("raw output") == 9
