"""Worker processes: the same results as in threads, whatever the evaluators do to them."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.pipeline_parts import column, metrics_of, records, rows_of, run, script
from tests.platforms import posix_only

JUDGES = '''
"""Evaluators of a user, in a module that can be imported."""
import os, re, signal, subprocess, sys, threading

def length(response):
    return {"length": len(response), "pid": os.getpid()}

class Threshold:
    cpu_bound = True
    def __init__(self, least):
        self.least = least
    def __call__(self, *, response):
        return {"long": len(response) >= self.least, "nan": float("nan"), "big": 2**70, "pid": os.getpid()}

class NotSent:
    """Holds something that cannot be pickled."""
    cpu_bound = True
    def __init__(self):
        self.lock = threading.Lock()
    def __call__(self, *, response):
        with self.lock:
            return {"pid": os.getpid()}

def fails(response):
    if len(response) % 3 == 0:
        raise ValueError(f"not {response!r}")
    return 1

def dies(response):
    if response == "die":
        os._exit(7)
    return 1

def is_killed(response):
    if response == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return 1

def opaque(response, thing):
    return {"n": thing.n}

def strange(response):
    return {"text": response, "kind": type(response).__name__}

async def asynchronous(response):
    return {"pid": os.getpid()}

class LoadsOnlyHere:
    """Pickles well, and cannot be made again in another process."""
    def __call__(self, *, response):
        return {"pid": os.getpid()}
    def __reduce__(self):
        return _only_in, (os.getpid(),)

def _only_in(pid):
    if pid != os.getpid():
        raise RuntimeError("only in its own process")
    return LoadsOnlyHere()

def signals_its_group(response):
    if response == "die":
        os.killpg(0, signal.SIGTERM)
    return 1

def starts_a_process(response):
    return {"pid": subprocess.Popen(["sleep", "300"]).pid}

def keeps_the_interpreter(response):
    re.match("(a+)+$", "a" * 64 + "b")

def is_huge(response):
    return {"n": 1, "text": "x" * 300_000_000} if response == "die" else {"n": 1}

def ignores_the_end(response):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return 1
'''


@pytest.fixture
def judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "acme_judges.py").write_text(JUDGES)
    monkeypatch.syspath_prepend(tmp_path / "site")
    sys.modules.pop("acme_judges", None)
    return __import__("acme_judges")


def judging_script(folder: Path, source: str) -> subprocess.CompletedProcess[str]:
    """Run a script that knows the evaluators as `acme_judges`, in a process group of its own."""
    head = """
        import os, signal, sys, time
        sys.path.insert(0, "site")
        import acme_judges
        from tunecheck import RunInterruptedError, evaluate
    """
    return script(folder, textwrap.dedent(head) + textwrap.dedent(source), own_group=True)


DATA = [{"response": "x" * (number % 7)} for number in range(60)]


def outputs(result: Any) -> list[dict[str, Any]]:
    """The result rows without process ids."""
    return [{key: value for key, value in row.items() if not key.endswith(".pid")} for row in rows_of(result)]


def pids(result: Any, name: str) -> set[Any]:
    return set(column(result, f"outputs.{name}.pid"))


def test_evaluators_in_processes_and_in_threads_give_equal_results(tmp_path: Path, judges: ModuleType) -> None:
    evaluators = {"length": judges.length, "threshold": judges.Threshold(3), "fails": judges.fails}
    threads = run(tmp_path, DATA, evaluators=evaluators, workers=0)
    processes = run(tmp_path, DATA, evaluators=evaluators, workers=2)
    assert outputs(processes) == outputs(threads)
    assert {k: v for k, v in metrics_of(processes).items() if not k.endswith("pid")} == {
        k: v for k, v in metrics_of(threads).items() if not k.endswith("pid")
    }
    assert pids(threads, "length") == {os.getpid()}
    assert os.getpid() not in pids(processes, "length") | pids(processes, "threshold")
    assert threads.notes == processes.notes == ["threshold.nan: the number is not finite: stored as null on 60 rows"]


def test_what_cannot_be_sent_runs_in_threads_and_the_run_says_so(tmp_path: Path, judges: ModuleType) -> None:
    evaluators = {
        "sent": judges.length,
        "closure": lambda response: {"pid": os.getpid()},
        "locked": judges.NotSent(),
        "asynchronous": judges.asynchronous,
    }
    result = run(tmp_path, DATA, evaluators=evaluators, workers=1)
    assert os.getpid() not in pids(result, "sent")
    for name in ("closure", "locked", "asynchronous"):
        assert pids(result, name) == {os.getpid()}
    assert result.notes == ["these evaluators run in this process, as workers cannot import them: closure, locked"]


def test_what_a_worker_cannot_load_runs_in_threads_and_the_run_says_so(tmp_path: Path, judges: ModuleType) -> None:
    result = run(tmp_path, DATA, evaluators={"here": judges.LoadsOnlyHere(), "sent": judges.length}, workers=2)
    assert pids(result, "here") == {os.getpid()}
    assert os.getpid() not in pids(result, "sent")
    assert result.notes == ["these evaluators run in this process, as workers cannot import them: here"]


def test_where_no_evaluator_can_be_loaded_everything_runs_in_threads(tmp_path: Path, judges: ModuleType) -> None:
    result = run(tmp_path, DATA, evaluators={"here": judges.LoadsOnlyHere()}, workers=2)
    assert pids(result, "here") == {os.getpid()}


@posix_only
def test_where_no_process_can_be_started_everything_runs_in_threads(
    tmp_path: Path, judges: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tunecheck._worker_process.sys.executable", "/bin/false")
    result = run(tmp_path, DATA, evaluators={"e": judges.length}, workers=2)
    assert pids(result, "e") == {os.getpid()}
    assert len(result.notes) == 1


def test_by_default_only_evaluators_that_are_cpu_bound_leave_the_process(tmp_path: Path, judges: ModuleType) -> None:
    """Untrusted code may wait for a service: few processes would be slower than many threads."""
    evaluators = {"untrusted": judges.length, "burns": judges.Threshold(3)}
    result = run(tmp_path, DATA * 10, evaluators=evaluators, workers=None)
    assert pids(result, "untrusted") == {os.getpid()}
    assert os.getpid() not in pids(result, "burns")
    told = "a crash of untrusted would end the run"
    assert any(note.startswith(told) for note in result.notes)


def test_by_default_few_rows_start_no_process(tmp_path: Path, judges: ModuleType) -> None:
    assert pids(run(tmp_path, DATA, evaluators={"e": judges.Threshold(3)}, workers=None), "e") == {os.getpid()}


@pytest.mark.parametrize("workers", [1, 3])
def test_any_number_of_evaluators_and_workers_makes_progress(tmp_path: Path, judges: ModuleType, workers: int) -> None:
    evaluators = {f"e{number}": judges.Threshold(number) for number in range(20)}
    result = run(tmp_path, DATA, evaluators=evaluators, workers=workers)
    assert all(metrics_of(result)[f"e{number}.scored_count"] == 60 for number in range(20))


def deadly_rows(count: int, *guilty: int) -> list[dict[str, Any]]:
    return [{"response": "die" if number in guilty else "fine"} for number in range(count)]


@pytest.mark.parametrize(
    ("name", "how"), [("dies", "exit code 7"), pytest.param("is_killed", "signal 9 (SIGKILL)", marks=posix_only)]
)
@pytest.mark.parametrize("guilty", [(0,), (17,), (3, 4, 5), (0, 39)])
def test_a_row_on_which_the_worker_dies_is_one_error_row(
    tmp_path: Path, judges: ModuleType, name: str, how: str, guilty: tuple[int, ...]
) -> None:
    result = run(tmp_path, deadly_rows(40, *guilty), evaluators={"e": getattr(judges, name)}, workers=2)
    errors = column(result, "error.e")
    assert [number for number, error in enumerate(errors) if error] == list(guilty)
    died = {"type": "WorkerDied", "message": f"evaluator 'e' ended its worker process: {how}"}
    assert [errors[number] for number in guilty] == [died] * len(guilty)
    assert metrics_of(result)["e.scored_count"] == 40 - len(guilty)


def test_there_are_no_more_workers_than_cores(tmp_path: Path, judges: ModuleType) -> None:
    result = run(tmp_path, DATA * 20, evaluators={"e": judges.length}, workers=40)
    assert 1 <= len(pids(result, "e")) <= (os.cpu_count() or 1)


@posix_only
def test_an_evaluator_that_signals_its_process_group_ends_its_worker_only(tmp_path: Path, judges: ModuleType) -> None:
    source = """
        data = [{"response": "die" if n == 3 else "fine"} for n in range(6)]
        result = evaluate(data=data, evaluators={"e": acme_judges.signals_its_group}, workers=1, results_dir="runs")
        print([row.get("error.e") for row in result.rows if "error.e" in row])
    """
    done = judging_script(tmp_path, source)
    message = "evaluator 'e' ended its worker process: signal 15 (SIGTERM)"
    assert (done.stdout, done.stderr) == (f"{[{'type': 'WorkerDied', 'message': message}]}\n", "")


@pytest.mark.parametrize("workers", [0, 1])
def test_a_result_of_300_mb_is_an_error_of_its_row(tmp_path: Path, judges: ModuleType, workers: int) -> None:
    result = run(tmp_path, deadly_rows(3, 1), evaluators={"e": judges.is_huge}, workers=workers)
    too_large = {"type": "ValueError", "message": "the value of e.text is larger than 16 MB: return a smaller value"}
    assert column(result, "error.e") == [None, too_large, None]


def test_results_too_long_for_one_record_are_recorded_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tunecheck._records.MOST_IN_A_LINE", 2_000)
    result = run(tmp_path, DATA, evaluators={"e": lambda response: {"n": 1, "text": "x" * 500}})
    assert metrics_of(result)["e.scored_count"] == len(DATA)
    assert len(records(result, "verdicts")) > len(DATA) // 4


def test_a_worker_on_which_every_row_dies_ends_with_every_row_an_error(tmp_path: Path, judges: ModuleType) -> None:
    result = run(tmp_path, deadly_rows(6, *range(6)), evaluators={"e": judges.dies}, workers=1)
    assert result.failed_row_count == 6


class Opaque:
    """A value that cannot be sent to another process."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __reduce__(self) -> Any:
        raise TypeError("stays here")


def test_rows_that_cannot_be_sent_are_judged_all_the_same(tmp_path: Path, judges: ModuleType) -> None:
    data = [{"response": "x", "thing": Opaque(number)} for number in range(10)]
    result = run(tmp_path, data, evaluators={"e": judges.opaque}, workers=1)
    assert column(result, "outputs.e.n") == list(range(10))


@pytest.mark.parametrize("value", ["\ud83d", 2**70, None, [], {"a": [1.5]}, "x" * 6_000_000], ids=lambda v: str(v)[:9])
def test_values_arrive_as_they_are(tmp_path: Path, judges: ModuleType, value: Any) -> None:
    result = run(tmp_path, [{"response": value}], evaluators={"e": judges.strange}, workers=1)
    assert column(result, "outputs.e.text") == [value]
    assert column(result, "outputs.e.kind") == [type(value).__name__]


def children() -> list[str]:
    listed = subprocess.run(["ps", "--no-headers", "-o", "args", "--ppid", str(os.getpid())], capture_output=True)
    return [line for line in listed.stdout.decode().splitlines() if "tunecheck.pipeline._workers" in line]


def running() -> set[int]:
    """Return the processes of this machine that have not ended."""
    listed = subprocess.run(["ps", "-e", "-o", "pid=,stat="], capture_output=True, text=True, check=True).stdout
    return {int(line.split()[0]) for line in listed.splitlines() if "Z" not in line}


def test_no_process_is_left_behind(tmp_path: Path, judges: ModuleType) -> None:
    run(tmp_path, DATA, evaluators={"e": judges.ignores_the_end}, workers=2)
    assert children() == []


@posix_only
def test_no_process_that_an_evaluator_starts_is_left_behind(tmp_path: Path, judges: ModuleType) -> None:
    result = run(tmp_path, DATA[:2], evaluators={"e": judges.starts_a_process}, workers=1)
    started = pids(result, "e")
    assert started
    assert not started & running()


def test_no_process_is_left_behind_by_a_run_that_stops(tmp_path: Path, judges: ModuleType) -> None:
    with pytest.raises(Exception, match=r"row row-\d+: evaluator 'e'"):
        run(tmp_path, DATA, evaluators={"e": judges.fails}, workers=2, fail_on_evaluator_errors=True)
    assert children() == []


SCRIPT = """
    import os, sys
    from tunecheck import evaluate

    def mine(response):
        return {"pid": os.getpid()}

    result = evaluate(data=[{"response": "x"}] * 5, evaluators={"mine": mine, "f1": "f1_score"}, workers=1,
                      evaluator_config={"f1": {"ground_truth": "${data.response}"}}, results_dir=sys.argv[1])
    assert {row["outputs.mine.pid"] for row in result["rows"]} == {os.getpid()}
    print(result.notes, result["metrics"]["f1.f1_score"])
"""


def test_a_script_needs_no_main_guard_and_its_own_evaluators_run_in_threads(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT))
    done = subprocess.run(
        [sys.executable, "script.py", "runs"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert not done.stderr, done.stderr
    assert done.stdout.strip() == "['these evaluators run in this process, as workers cannot import them: mine'] 1.0"


def test_a_module_of_the_current_folder_called_like_pythons_does_no_harm(cwd: Path, judges: ModuleType) -> None:
    (cwd / "struct.py").write_text("raise RuntimeError('the wrong struct')")
    result = run(cwd, DATA, evaluators={"e": judges.length}, workers=1)
    assert os.getpid() not in pids(result, "e")


INTERRUPTED = """
    def answer(n):
        if n == 50:
            os.killpg(0, signal.SIGINT)  # as a terminal does: to the whole group
        return {"response": "x"}

    try:
        evaluate(data=[{"n": n} for n in range(100000)], target=answer, evaluators={"e": acme_judges.length},
                 workers=2, results_dir="runs")
    except RunInterruptedError as error:
        print(error)
"""


@posix_only
def test_ctrl_c_to_the_whole_group_stops_in_order(tmp_path: Path, judges: ModuleType) -> None:
    done = judging_script(tmp_path, INTERRUPTED)
    assert done.stdout.startswith("interrupted; go on with the same Python call and resume='rows-"), done
    assert not done.stderr, done.stderr


@posix_only
@pytest.mark.parametrize("name", ["length", "starts_a_process", "keeps_the_interpreter"])
def test_workers_do_not_outlive_a_killed_run(tmp_path: Path, judges: ModuleType, name: str) -> None:
    source = f"""
        def answer(n):
            if n == 300:
                time.sleep(1)
                os.kill(os.getpid(), signal.SIGKILL)
            return {{"response": "x"}}
        evaluate(data=[{{"n": n}} for n in range(100000)], target=answer, evaluators={{"e": acme_judges.{name}}},
                 workers=2, results_dir="runs")
    """
    # The pipe's end is reached only when the last process that holds it is gone.
    done = judging_script(tmp_path, source)
    assert done.returncode == -signal.SIGKILL
