"""Stopping in order, from every place it may come from, and never hanging."""

import asyncio
import errno
import gc
import os
import signal
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tests.pipeline_parts import Answering, fail, metrics_of, only_run, records, run, script
from tests.platforms import posix_only

from tunecheck import CallContext, Row, RunError, RunInterruptedError, StopRunError, Target
from tunecheck.pipeline import ResultsWriter

TOO_LONG = 30
"""Seconds after which a run that does nothing is taken to hang; nothing here takes one."""

ROWS = [{"q": number} for number in range(600)]


@pytest.mark.parametrize("concurrency", [1, 7])
@pytest.mark.parametrize("at", [0, 5, 30])
@pytest.mark.parametrize("groups", [1, 2, 40])
def test_a_stop_among_groups_waits_for_no_other_group(tmp_path: Path, concurrency: int, at: int, groups: int) -> None:
    class Grouped(Target):
        def group_key(self, row: Row) -> str | None:
            return f"g{row.index % groups}"

        async def answer(self, row: Row, context: CallContext) -> dict[str, Any]:
            await asyncio.sleep(0)
            if row.index == at:
                raise StopRunError("stop")
            return {"response": 1}

    with pytest.raises(RunError, match="stopped: stop; go on with the same Python call and resume="):
        run(tmp_path, ROWS[:60], target=Grouped(), evaluators={"e": lambda q: 1}, concurrency=concurrency)


def test_a_run_that_was_begun_wrong_is_not_told_to_resume(tmp_path: Path) -> None:
    unknown_model = Answering(lambda row: fail(StopRunError("no such model", resumable=False)))
    with pytest.raises(RunError, match=r"stopped: no such model; correct the cause and start a new run$"):
        run(tmp_path, ROWS[:3], target=unknown_model, evaluators={"e": lambda q: 1})


def test_a_target_whose_groups_raise_stops_the_run(tmp_path: Path) -> None:
    class Ungrouped(Answering):
        def group_key(self, row: Row) -> str | None:
            raise ZeroDivisionError("no")

    with pytest.raises(RunError, match="stopped: ZeroDivisionError: no; go on with the same Python call and resume="):
        run(tmp_path, ROWS, target=Ungrouped(), evaluators={"e": lambda q: 1})


def test_an_input_hash_that_raises_is_an_error_of_its_row(tmp_path: Path) -> None:
    class Broken(Answering):
        def input_hash(self, row: Row) -> str | None:
            raise ZeroDivisionError("no")

    result = run(tmp_path, ROWS[:5], target=Broken(), evaluators={"e": lambda q: 1})
    assert (result.row_count, result.failed_row_count) == (5, 5)


def test_a_full_disk_under_the_results_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = ResultsWriter.write

    def write(self: ResultsWriter, index: int, row: Any) -> Any:
        if index == 300:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, index, row)

    monkeypatch.setattr(ResultsWriter, "write", write)
    with pytest.raises(Exception, match="No space left on device"):
        run(tmp_path, ROWS, target=Answering(), evaluators={"e": lambda q: 1})


@pytest.mark.parametrize("kind", ["answer", "verdicts", "error"])
def test_a_full_disk_under_a_journal_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    real = os.write

    def write(descriptor: int, data: Any) -> int:
        if bytes(data).startswith(f'{{"k":"{kind}"'.encode()):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr("tunecheck._records.os.write", write)
    with pytest.raises(RunError, match=r"No space left on device \(its earlier records are kept"):
        run(tmp_path, ROWS, target=Answering(), evaluators={"e": lambda q: 1 // (q % 5)})


class BrokenExecutor:
    """An executor that cannot go on."""

    slots = 2
    largest = 4
    shares_memory = True

    def under_way(self) -> list[tuple[str, float]]:
        return []

    async def close(self) -> None: ...

    async def run(self, batch: Any) -> NoReturn:
        raise RunError("a worker process cannot be replaced")


def test_an_executor_that_cannot_go_on_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tunecheck.pipeline._worker_queues.ThreadExecutor", lambda *_: BrokenExecutor())
    with pytest.raises(RunError, match="a worker process cannot be replaced"):
        run(tmp_path, ROWS, target=Answering(), evaluators={"e": lambda q: 1})


def test_a_run_that_is_stopped_says_why_and_keeps_its_answers(tmp_path: Path) -> None:
    refusal = StopRunError("10 refusals (401) in a row")
    target = Answering(lambda row: fail(refusal) if row.index == 37 else {"response": f"answer {row.index}"})
    with pytest.raises(
        RunError,
        match=r"run rows-.* stopped: 10 refusals \(401\) in a row; go on with the same Python call and resume='rows-",
    ):
        run(tmp_path, ROWS[:100], target=target, evaluators={"e": lambda response: {"n": len(response)}})
    unfinished = only_run(tmp_path)
    assert unfinished.status() == "stopped"
    assert unfinished.manifest().reason == "10 refusals (401) in a row"
    assert not list(unfinished.folder.glob("*.partial"))
    assert len(records(unfinished, "answer")) == len(target.asked) - 1


def test_an_interrupted_run_says_how_to_go_on(tmp_path: Path) -> None:
    def answer(row: Row) -> dict[str, Any]:
        if row.index == 5:
            signal.raise_signal(signal.SIGINT)
        return {"response": 1}

    target = Answering(answer)
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with pytest.raises(
        RunInterruptedError, match="interrupted; go on with the same Python call and resume='rows-"
    ) as interruption:
        run(tmp_path, [{"q": n} for n in range(5000)], target=target, evaluators={"e": lambda q: 1})
    assert interruption.value.folder == only_run(tmp_path).folder
    assert only_run(tmp_path).status() == "interrupted"
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert 5 < len(target.asked) < 5000


def test_a_second_sigterm_hastens_nothing(tmp_path: Path) -> None:
    def answer(row: Row) -> dict[str, Any]:
        if row.index == 5:
            for _ in range(2):
                signal.raise_signal(signal.SIGTERM)
                time.sleep(0.05)  # two at once would be one
        return {"response": 1}

    target = Answering(answer)
    rows = [{"q": n} for n in range(5000)]
    with pytest.raises(RunInterruptedError):
        run(tmp_path, rows, target=target, evaluators={"e": lambda q: 1})
    run(tmp_path, rows, target=target, evaluators={"e": lambda q: 1}, resume="last")
    assert len(target.asked) == 5000


def test_two_interruptions_leave_what_blocks_the_loop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def blocks(q: int) -> None:
        signal.raise_signal(signal.SIGINT)
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)  # raises: the first one still waits for its turn
        raise AssertionError("still here")

    with pytest.raises(RunInterruptedError):
        run(tmp_path, [{"q": 1}], target=blocks, evaluators={"e": lambda q: 1})
    gc.collect()
    assert only_run(tmp_path).status() == "interrupted"
    assert caplog.records == [], "asyncio complains"


def test_a_second_interruption_leaves_calls_that_do_not_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Hanging(Answering):
        async def answer(self, row: Row, context: CallContext) -> Any:
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(0.2)  # two at once would be one
            signal.raise_signal(signal.SIGINT)
            await asyncio.Event().wait()

    with pytest.raises(RunInterruptedError):
        run(tmp_path, [{"q": 1}], target=Hanging(), evaluators={"e": lambda q: 1})
    gc.collect()
    assert only_run(tmp_path).status() == "interrupted"
    assert caplog.records == [], "asyncio complains"


HANGING = """
    import os, signal, sys, threading, time
    from tunecheck import evaluate
    from tunecheck._errors import RunInterruptedError

    begun = []

    def hangs(q):
        if not begun:
            begun.append(q)
            for delay in (0.1, 0.3):
                threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT)).start()
        time.sleep(100_000)

    target, evaluator = (hangs, lambda q: 1) if sys.argv[2] == "target" else (None, hangs)
    try:
        evaluate(data=[{"q": 1}, {"q": 2}], target=target, evaluators={"e": evaluator}, results_dir=sys.argv[1])
    except RunInterruptedError as error:
        print(error)
"""


@posix_only
@pytest.mark.parametrize("what", ["target", "evaluator"])
def test_a_function_that_never_returns_does_not_keep_python_from_ending(tmp_path: Path, what: str) -> None:
    """Two interruptions: one stops in order, one abandons calls in flight."""
    done = script(tmp_path, HANGING, tmp_path / "runs", what)
    assert done.stdout.startswith("interrupted; go on with the same Python call and resume='rows-"), done
    assert not done.stderr, done.stderr


async def test_in_a_notebook_a_run_has_a_loop_of_its_own(tmp_path: Path) -> None:
    loops = {id(asyncio.get_running_loop())}

    async def answer(q: int) -> int:
        loops.add(id(asyncio.get_running_loop()))
        return q

    result = run(tmp_path, [{"q": 1}, {"q": 2}], target=answer, evaluators={"e": lambda response: response})
    assert metrics_of(result)["e.e"] == 1.5
    assert len(loops) == 2


@posix_only
async def test_a_notebook_s_stop_button_stops_in_order(tmp_path: Path) -> None:
    def answer(row: Row) -> dict[str, Any]:
        if row.index == 3:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return {"response": 1}

    target = Answering(answer)
    with pytest.raises(RunInterruptedError):
        run(tmp_path, [{"q": n} for n in range(200_000)], target=target, evaluators={"e": lambda q: 1})
    assert only_run(tmp_path).status() == "interrupted"
    assert len(target.asked) < 200_000
    assert len(records(only_run(tmp_path), "answer")) == len(target.asked)


def test_runs_side_by_side_in_threads_do_not_disturb_each_other(tmp_path: Path) -> None:
    results: dict[int, Any] = {}

    def work(number: int) -> None:
        data = [{"q": number * 1000 + n} for n in range(300)]
        results[number] = run(tmp_path, data, evaluators={"e": lambda response: response}, target=lambda q: q)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TOO_LONG)
    means = {number: metrics_of(result)["e.e"] for number, result in results.items()}
    assert means == {number: number * 1000 + 149.5 for number in range(4)}


def test_progress_is_shown_and_says_the_end(tmp_path: Path) -> None:
    moments: list[Any] = []
    run(tmp_path, [{"q": n} for n in range(50)], evaluators={"e": lambda q: 1 // (q % 10)}, progress=moments.append)
    last = moments[-1]
    assert (last.rows, last.finished, last.failed) == (50, 50, 5)


def test_progress_that_fails_does_not_end_the_run(tmp_path: Path) -> None:
    error = ValueError("no terminal")
    result = run(tmp_path, [{"q": 1}], evaluators={"e": lambda q: 1}, progress=lambda moment: fail(error))
    assert metrics_of(result)["e.e"] == 1
    assert result.notes == ["progress could not be shown: ValueError: no terminal"]


def test_fail_on_evaluator_errors_stops_the_run_and_keeps_what_it_has(tmp_path: Path) -> None:
    data = [{"q": n} for n in range(2000)]
    with pytest.raises(
        RunError, match=r"row row-4: evaluator 'e' failed: .*division.*; go on with the same Python call and resume="
    ):
        run(tmp_path, data, evaluators={"e": lambda q: 1 // (q - 3)}, fail_on_evaluator_errors=True, target=lambda q: q)
    assert only_run(tmp_path).status() == "stopped"


def test_fail_on_evaluator_errors_counts_a_row_that_lacks_its_column(tmp_path: Path) -> None:
    data: Iterable[dict[str, Any]] = [{"q": 1}, {"p": 1}]
    with pytest.raises(RunError, match=r"row row-2: evaluator 'e' failed: .*parameter 'q', which has no mapping"):
        run(tmp_path, data, evaluators={"e": lambda q: 1}, fail_on_evaluator_errors=True)


def test_fail_on_evaluator_errors_leaves_the_target_s_errors_alone(tmp_path: Path) -> None:
    evaluators = {"e": lambda response: 1}
    data = [{"q": 0}, {"q": 1}]
    result = run(tmp_path, data, target=lambda q: 1 // q, evaluators=evaluators, fail_on_evaluator_errors=True)
    assert (result.row_count, result.failed_row_count) == (2, 1)
