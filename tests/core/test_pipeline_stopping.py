"""Stopping in order, from every place it may come from, and never hanging: the engine under a time limit."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tests.pipeline_parts import Answering, column, metrics_of, only_run, records, run, strict_lines
from tests.platforms import posix_only

from tunecheck import (
    CallContext,
    ConfigurationError,
    DataError,
    Row,
    RunError,
    RunInterruptedError,
    StopRunError,
    Target,
)
from tunecheck.pipeline import (
    Aggregator,
    Budget,
    CachedResults,
    Engine,
    Journal,
    Plan,
    ResultsWriter,
    RowState,
    RunCalls,
    Work,
    bind_evaluator,
)
from tunecheck.pipeline._engine import AnswerQueue
from tunecheck.pipeline._worker_queues import Job, QueueReply, WorkerQueue

TOO_LONG = 30
"""Seconds after which a run that does nothing is taken to hang; nothing here takes one."""


def some_rows(count: int) -> list[Row]:
    return [Row(index, f"r{index}", {"q": index, "g": f"g{index % 3}"}, "f") for index in range(count)]


class Bench:
    """An engine on its own, with what it writes to."""

    def __init__(
        self, folder: Path, rows: Callable[[], Iterator[Row]], evaluators: dict[str, Any], **plan: Any
    ) -> None:
        self.folder = folder
        bound = [bind_evaluator(name, evaluator, {}) for name, evaluator in evaluators.items()]
        self.journal = Journal(folder / "journal.jsonl")
        self.results = ResultsWriter(folder / "eval_results.jsonl")
        self.aggregator = Aggregator(bound, plan.pop("group_columns", []))
        settings: dict[str, Any] = {
            "run_id": "run",
            "target": None,
            "concurrency": 4,
            "workers": 0,
            "row_kind": lambda data, target: None,
        }
        cached = CachedResults()
        self.engine = Engine(
            Plan(rows=rows, evaluators=bound, **(settings | plan)),
            self.journal,
            self.results,
            self.aggregator,
            cached,
            RunCalls("run", self.journal, cached, Budget(None)),
        )

    async def run(self) -> None:
        try:
            async with asyncio.timeout(TOO_LONG):
                await self.engine.run()
        finally:
            self.journal.close()


async def stopped(bench: Bench) -> BaseException:
    """What a run that must stop raises; a run that hangs fails by its time limit."""
    with pytest.raises(BaseException) as found:
        await bench.run()
    assert not isinstance(found.value, (TimeoutError, BaseExceptionGroup)), found.value
    return found.value


def one(q: int) -> int:
    return 1


async def one_later(q: int) -> int:
    await asyncio.sleep(0)
    return 1


EVALUATORS: list[dict[str, Any]] = [{"e": one}, {"e": one_later}, {"a": one, "b": one_later, "c": one}]
KINDS = ["synchronous", "asynchronous", "both"]


@pytest.mark.parametrize("evaluators", EVALUATORS, ids=KINDS)
@pytest.mark.parametrize("target", [None, Answering()], ids=["no target", "target"])
@pytest.mark.parametrize("broken_at", [0, 1, 255, 256, 257, 1500])
async def test_data_that_breaks_off_stops_the_run(
    tmp_path: Path, evaluators: dict[str, Any], target: Target | None, broken_at: int
) -> None:
    def rows() -> Iterator[Row]:
        yield from some_rows(broken_at)
        raise DataError("line 17: broken")

    bench = Bench(tmp_path, rows, evaluators, target=target)
    assert str(await stopped(bench)) == "line 17: broken"
    assert bench.engine.tally.read == broken_at


async def test_data_that_cannot_even_begin_stops_the_run(tmp_path: Path) -> None:
    def rows() -> NoReturn:
        raise DataError("gone")

    assert isinstance(await stopped(Bench(tmp_path, rows, {"e": one}, target=Answering())), DataError)


@pytest.mark.parametrize("concurrency", [1, 2, 50])
@pytest.mark.parametrize("at", [0, 3, 700, 2999])
async def test_a_target_that_says_stop_stops_the_run(tmp_path: Path, concurrency: int, at: int) -> None:
    def answer(row: Row) -> dict[str, Any]:
        if row.index == at:
            raise StopRunError("10 refusals in a row")
        return {"response": 1}

    target = Answering(answer)
    bench = Bench(tmp_path, lambda: iter(some_rows(3000)), EVALUATORS[2], target=target, concurrency=concurrency)
    assert isinstance(await stopped(bench), StopRunError)
    assert len(target.asked) <= at + concurrency
    answered = [record for record in strict_lines(tmp_path / "journal.jsonl") if record["k"] == "answer"]
    assert len(answered) == len(target.asked) - 1, "an answer that was given is not in the journal"


@pytest.mark.parametrize("concurrency", [1, 2, 7])
@pytest.mark.parametrize("at", [0, 5, 30])
@pytest.mark.parametrize("groups", [1, 2, 40])
async def test_a_stop_among_groups_waits_for_nobody_who_does_not_come(
    tmp_path: Path, concurrency: int, at: int, groups: int
) -> None:
    class Grouped(Target):
        def group_key(self, row: Row) -> str | None:
            return f"g{row.index % groups}"

        async def answer(self, row: Row, context: CallContext) -> dict[str, Any]:
            await asyncio.sleep(0)
            if row.index == at:
                raise StopRunError("stop")
            return {"response": 1}

    target = Grouped()
    bench = Bench(tmp_path, lambda: iter(some_rows(60)), {"e": one}, target=target, concurrency=concurrency)
    assert isinstance(await stopped(bench), StopRunError)


def broken(*_: object) -> NoReturn:
    raise ZeroDivisionError("no")


async def test_a_row_kind_that_raises_stops_the_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path, lambda: iter(some_rows(600)), {"e": one}, target=Answering(), row_kind=broken)
    assert isinstance(await stopped(bench), ZeroDivisionError)


async def test_a_target_whose_groups_raise_stops_the_run(tmp_path: Path) -> None:
    class Ungrouped(Answering):
        def group_key(self, row: Row) -> str | None:
            broken()

    bench = Bench(tmp_path, lambda: iter(some_rows(600)), {"e": one}, target=Ungrouped())
    assert isinstance(await stopped(bench), ZeroDivisionError)


async def test_an_input_hash_that_raises_is_an_error_of_its_row(tmp_path: Path) -> None:
    class Broken(Answering):
        def input_hash(self, row: Row) -> str | None:
            raise ZeroDivisionError("no")

    bench = Bench(tmp_path, lambda: iter(some_rows(5)), {"e": one}, target=Broken())
    await bench.run()
    assert (bench.aggregator.rows, bench.aggregator.failed_rows) == (5, 5)


async def test_the_first_evaluator_error_stops_a_run_that_is_to_stop_there(tmp_path: Path) -> None:
    def fails(q: int) -> int:
        if q == 7:
            raise ValueError("seven")
        return 1

    bench = Bench(tmp_path, lambda: iter(some_rows(5000)), {"e": fails, "o": one_later}, fail_on_evaluator_errors=True)
    assert str(await stopped(bench)) == "row r7: evaluator 'e': seven"
    assert bench.engine.tally.read < 5000


async def test_a_full_disk_under_the_results_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, lambda: iter(some_rows(600)), EVALUATORS[2], target=Answering())
    real = bench.results.write

    def write(index: int, row: Any) -> Any:
        if index == 300:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(index, row)

    monkeypatch.setattr(bench.results, "write", write)
    assert isinstance(await stopped(bench), OSError)


@pytest.mark.parametrize("kind", ["answer", "verdicts", "error"])
async def test_a_full_disk_under_the_journal_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    real = os.write

    def write(descriptor: int, data: Any) -> int:
        if bytes(data).startswith(f'{{"k":"{kind}"'.encode()):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data)

    def fails(q: int) -> int:
        return 1 // (q % 5)

    bench = Bench(tmp_path, lambda: iter(some_rows(900)), {"e": fails, "o": one_later}, target=Answering())
    monkeypatch.setattr("tunecheck._records.os.write", write)
    error = await stopped(bench)
    assert isinstance(error, RunError)
    assert "No space left on device; nothing recorded before is lost" in str(error)


async def test_an_aggregator_that_refuses_stops_the_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path, lambda: iter(some_rows(3000)), {"e": one, "f": one_later}, group_columns=["q"])
    assert isinstance(await stopped(bench), ConfigurationError)


@pytest.mark.parametrize("target", [None, Answering()], ids=["no target", "target"])
@pytest.mark.parametrize("after", [0, 1, 40, 400])
async def test_a_stop_from_outside_at_any_turn_of_the_loop(tmp_path: Path, target: Target | None, after: int) -> None:
    bench = Bench(tmp_path, lambda: iter(some_rows(100_000)), EVALUATORS[2], target=target)

    async def stop() -> None:
        for _ in range(after):
            await asyncio.sleep(0)
        bench.engine.stop(RunInterruptedError(None))

    stopping = asyncio.create_task(stop())
    assert isinstance(await stopped(bench), RunInterruptedError)
    await stopping
    assert bench.engine.tally.read < 100_000


async def test_a_stop_before_the_first_row_stops_the_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path, lambda: iter(some_rows(10)), {"e": one}, target=Answering())
    bench.engine.stop(RunInterruptedError(None))
    assert isinstance(await stopped(bench), RunInterruptedError)
    assert bench.aggregator.rows == 0


async def test_the_first_reason_to_stop_is_the_one_that_counts(tmp_path: Path) -> None:
    bench = Bench(tmp_path, lambda: iter(some_rows(10)), {"e": one})
    bench.engine.stop(StopRunError("first"))
    bench.engine.stop(StopRunError("second"))
    assert str(await stopped(bench)) == "first"


async def test_a_cancelled_run_leaves_at_once_whatever_is_under_way(tmp_path: Path) -> None:
    never = asyncio.Event()
    begun = asyncio.Event()
    here = asyncio.get_running_loop()  # a target is called in an event loop of its own

    class Hanging(Answering):
        async def answer(self, row: Row, context: CallContext) -> Any:
            here.call_soon_threadsafe(begun.set)
            await never.wait()

    bench = Bench(tmp_path, lambda: iter(some_rows(100)), {"e": one}, target=Hanging())
    running = asyncio.create_task(bench.run())
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_calls_under_way_at_a_stop_may_finish_and_are_recorded(tmp_path: Path) -> None:
    release = asyncio.Event()

    class Slow(Answering):
        async def answer(self, row: Row, context: CallContext) -> Any:
            self.asked.append(row.id)
            if len(self.asked) == 4:
                bench.engine.stop(RunInterruptedError(None))
                release.set()
            await release.wait()
            return {"response": 1}

    target = Slow()
    bench = Bench(tmp_path, lambda: iter(some_rows(100)), {"e": one}, target=target)
    await stopped(bench)
    assert {record["id"] for record in strict_lines(tmp_path / "journal.jsonl")[1:]} == {"r0", "r1", "r2", "r3"}


# -- worker queues


class Broken:
    """An executor that cannot go on."""

    slots = 2
    largest = 4
    shares_memory = True

    def under_way(self) -> list[tuple[str, float]]:
        return []

    async def close(self) -> None: ...

    async def run(self, batch: Any) -> QueueReply:
        raise RunError("a worker process cannot be replaced")


async def test_an_executor_that_cannot_go_on_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tunecheck.pipeline._workers.ThreadExecutor", lambda *_: Broken())
    bench = Bench(tmp_path, lambda: iter(some_rows(3000)), {"e": one, "f": one_later}, target=Answering())
    assert str(await stopped(bench)) == "a worker process cannot be replaced"


class Counting(Broken):
    """An executor that notes its batches."""

    shares_memory = False

    def __init__(self, slots: int, largest: int) -> None:
        self.slots = slots
        self.largest = largest
        self.batches: list[int] = []

    async def run(self, batch: Any) -> QueueReply:
        self.batches.append(len(batch))
        await asyncio.sleep(0)
        return QueueReply([[{"n": 1}] for _ in batch])


def jobs(count: int) -> list[Job]:
    return [Job(RowState(row), Work([{"q": 1}], None)) for row in some_rows(count)]


@pytest.mark.parametrize("slots", [1, 3])
async def test_a_lane_does_all_that_was_fed_before_it_was_closed(slots: int) -> None:
    done: list[Job] = []
    executor = Counting(slots, 8)
    queue = WorkerQueue([], executor, lambda _, batch: done.extend(batch), lambda batch, error: None)
    given = jobs(100)
    for job in given:
        queue.feed(job)
    queue.close()
    async with asyncio.timeout(TOO_LONG):
        await queue.serve()
    assert {id(job) for job in done} == {id(job) for job in given}
    assert max(executor.batches) <= 8


async def test_a_lane_whose_queue_is_emptied_after_it_was_closed_still_ends() -> None:
    queue = WorkerQueue([], Counting(3, 8), lambda _, batch: None, lambda batch, error: None)
    serving = asyncio.create_task(queue.serve())
    await asyncio.sleep(0)
    for job in jobs(5):
        queue.feed(job)
    queue.close()
    assert len(queue.take_all()) == 5
    async with asyncio.timeout(TOO_LONG):
        await serving


# -- the queue of rows to be answered


def states(*groups: str | None) -> list[RowState]:
    return [RowState(Row(index, f"r{index}", {}, ""), group=group) for index, group in enumerate(groups)]


async def drained(queue: AnswerQueue, takers: int) -> list[int]:
    order: list[int] = []

    async def take() -> None:
        while (state := await queue.next()) is not None:
            while state is not None:
                order.append(state.row.index)
                await asyncio.sleep(0)
                state = queue.next_of_group(state)

    async with asyncio.timeout(TOO_LONG):
        await asyncio.gather(*(take() for _ in range(takers)))
    return order


@pytest.mark.parametrize("takers", [1, 2, 10])
async def test_every_row_of_the_queue_comes_out_once_and_then_the_end(takers: int) -> None:
    queue = AnswerQueue()
    for state in states(None, "a", "a", None, "b", "a", "b", None):
        queue.put(state)
    queue.close()
    assert sorted(await drained(queue, takers)) == list(range(8))


async def test_a_group_that_has_begun_goes_on_before_other_rows_begin() -> None:
    queue = AnswerQueue()
    for state in states("a", None, None, "a", "a", None):
        queue.put(state)
    queue.close()
    assert await drained(queue, 1) == [0, 3, 4, 1, 2, 5]


async def test_a_cleared_queue_says_how_many_it_forgot_and_ends() -> None:
    queue = AnswerQueue()
    given = states("a", "a", None, "b", "a")
    for state in given:
        queue.put(state)
    first = await queue.next()
    assert first is given[0]
    assert queue.clear() == 4
    assert queue.next_of_group(first) is None
    assert await drained(queue, 3) == []
    assert queue.clear() == 0


# -- whole runs


def test_stop_in_order_and_resume_comes_to_the_same_result(tmp_path: Path) -> None:
    refuse = True

    def answer(row: Row) -> dict[str, Any]:
        if refuse and row.index == 37:
            raise StopRunError("10 refusals (401) in a row")
        return {"response": f"answer {row.index}"}

    data = [{"id": f"r{n}", "q": n} for n in range(100)]
    target = Answering(answer)
    evaluators = {"e": lambda response: {"n": len(response)}}
    with pytest.raises(RunError, match=r"run rows-.* stopped: 10 refusals \(401\) in a row; go on with --resume rows-"):
        run(tmp_path, data, target=target, evaluators=evaluators)
    unfinished = only_run(tmp_path)
    assert unfinished.status() == "stopped"
    assert unfinished.manifest().reason == "10 refusals (401) in a row"
    assert not list(unfinished.folder.glob("*.partial"))
    answered = {record["id"] for record in records(unfinished, "answer")}
    refuse = False
    target.asked.clear()
    result = run(tmp_path, data, target=target, evaluators=evaluators, resume="last")
    assert not answered & set(target.asked)
    assert len(target.asked) == 100 - len(answered)
    assert column(result, "outputs.response") == [f"answer {n}" for n in range(100)]
    assert metrics_of(result)["e.scored_count"] == 100


def test_an_interrupted_run_says_how_to_go_on(tmp_path: Path) -> None:
    def answer(row: Row) -> dict[str, Any]:
        if row.index == 5:
            signal.raise_signal(signal.SIGINT)
        return {"response": 1}

    target = Answering(answer)
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with pytest.raises(RunInterruptedError, match="interrupted; go on with --resume rows-") as interruption:
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


def test_two_interruptions_leave_a_function_that_blocks_the_loop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
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
            await asyncio.sleep(0)
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
    """Two interruptions: one to stop in order, one that leaves what is under way."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(HANGING), str(tmp_path / "runs"), what],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.startswith("interrupted; go on with --resume rows-"), done
    assert not done.stderr, done.stderr


async def test_in_a_notebook_a_run_has_a_loop_of_its_own(tmp_path: Path) -> None:
    loops = {id(asyncio.get_running_loop())}

    async def answer(q: int) -> int:
        loops.add(id(asyncio.get_running_loop()))
        return q

    result = run(tmp_path, [{"q": 1}, {"q": 2}], target=answer, evaluators={"e": lambda response: response})
    assert metrics_of(result)["e.e"] == 1.5
    assert len(loops) == 2


async def test_in_a_notebook_an_error_comes_out_as_anywhere_else(tmp_path: Path) -> None:
    def answer(row: Row) -> NoReturn:
        raise StopRunError("no")

    with pytest.raises(RunError, match="stopped: no"):
        run(tmp_path, [{"q": 1}], target=Answering(answer), evaluators={"e": lambda q: 1})


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


def test_a_run_in_another_thread_works_and_leaves_signals_alone(tmp_path: Path) -> None:
    results: list[Any] = []
    thread = threading.Thread(
        target=lambda: results.append(run(tmp_path, [{"q": 1}], evaluators={"e": lambda q: 1}, target=lambda q: 2))
    )
    thread.start()
    thread.join(TOO_LONG)
    assert metrics_of(results[0])["e.e"] == 1


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
    assert {number: metrics_of(result)["e.e"] for number, result in results.items()} == {
        number: number * 1000 + 149.5 for number in range(4)
    }


def test_progress_is_shown_and_says_the_end(tmp_path: Path) -> None:
    moments: list[Any] = []
    run(tmp_path, [{"q": n} for n in range(50)], evaluators={"e": lambda q: 1 // (q % 10)}, progress=moments.append)
    last = moments[-1]
    assert (last.rows, last.finished, last.failed) == (50, 50, 5)


def test_progress_that_fails_does_not_end_the_run(tmp_path: Path) -> None:
    def broken(moment: object) -> NoReturn:
        raise ValueError("no terminal")

    result = run(tmp_path, [{"q": 1}], evaluators={"e": lambda q: 1}, progress=broken)
    assert metrics_of(result)["e.e"] == 1
    assert result.notes == ["progress could not be shown: ValueError: no terminal"]


def test_fail_on_evaluator_errors_stops_the_run_and_keeps_what_it_has(tmp_path: Path) -> None:
    data = [{"q": n} for n in range(2000)]
    with pytest.raises(RunError, match=r"row row-4: evaluator 'e': .*division.*; go on with --resume"):
        run(tmp_path, data, evaluators={"e": lambda q: 1 // (q - 3)}, fail_on_evaluator_errors=True, target=lambda q: q)
    assert only_run(tmp_path).status() == "stopped"


def test_fail_on_evaluator_errors_counts_a_row_that_lacks_its_column(tmp_path: Path) -> None:
    data: Iterable[dict[str, Any]] = [{"q": 1}, {"p": 1}]
    with pytest.raises(RunError, match=r"row row-2: evaluator 'e': .*no column of that name"):
        run(tmp_path, data, evaluators={"e": lambda q: 1}, fail_on_evaluator_errors=True)


def test_fail_on_evaluator_errors_leaves_the_target_s_errors_alone(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        [{"q": 0}, {"q": 1}],
        target=lambda q: 1 // q,
        evaluators={"e": lambda response: 1},
        fail_on_evaluator_errors=True,
    )
    assert (result.row_count, result.failed_row_count) == (2, 1)
