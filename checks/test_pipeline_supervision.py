"""Evaluators and targets that hang, crash, fork or get in each other's way: what each costs, and that others go on."""

import asyncio
import contextlib
import gc
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.judge_parts import JudgeServer
from tests.pipeline_parts import column, metrics_of, run, script
from tests.platforms import posix_only

from tunecheck import CallContext, Row, Target, _loops
from tunecheck.endpoints import ChatRequest, Completion, Endpoint, ModelCalls
from tunecheck.plugins import JSON, TargetOutput

DATA = [{"n": number} for number in range(30)]


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """An event that hanging functions wait for, so that none outlives its test."""
    event = threading.Event()
    yield event
    event.set()


def errors(result: Any, stage: str) -> dict[int, Any]:
    return {number: error for number, error in enumerate(column(result, f"error.{stage}")) if error}


def test_a_call_that_hangs_is_an_error_of_its_row_alone(tmp_path: Path, released: threading.Event) -> None:
    def hangs(n: int) -> int:
        return n if n not in (3, 4, 17) else released.wait(60)

    result = run(tmp_path, DATA, evaluators={"stuck": hangs, "other": lambda n: n}, evaluator_timeout=0.3)
    late = {
        "type": "EvaluatorTimeoutError",
        "message": (
            "evaluator 'stuck': the call took longer than its time limit of 0.3 s: make it faster, or raise the limit"
        ),
    }
    assert errors(result, "stuck") == {3: late, 4: late, 17: late}
    assert metrics_of(result)["stuck.scored_count"] == 27
    assert metrics_of(result)["other.scored_count"] == 30
    assert result.notes == ["evaluator 'stuck' took longer than 0.3 s (--evaluator-timeout) on 3 rows"]


def test_of_evaluators_in_a_batch_the_one_that_hangs_is_charged(tmp_path: Path, released: threading.Event) -> None:
    class Pure:
        pure = True

        def __init__(self, stuck: int | None = None) -> None:
            self.stuck = stuck

        def __call__(self, *, n: int) -> int:
            return n if n != self.stuck else released.wait(60)

    evaluators = {"a": Pure(), "b": Pure(stuck=7), "c": Pure()}
    result = run(tmp_path, DATA, evaluators=evaluators, evaluator_timeout=0.3)
    assert list(errors(result, "b")) == [7]
    for name in ("a", "c"):
        assert column(result, f"outputs.{name}.{name}") == list(range(30))


def test_a_coroutine_that_blocks_for_good_costs_its_own_row_only(tmp_path: Path, released: threading.Event) -> None:
    loops = set()

    async def other(n: int) -> int:
        loops.add(asyncio.get_running_loop())
        await asyncio.sleep(0.01)
        return n

    async def blocks(n: int) -> int:
        await other(n)
        return n if n != 3 else released.wait(60)

    result = run(tmp_path, DATA, target=other, evaluators={"stuck": blocks, "other": other}, evaluator_timeout=0.3)
    message = "evaluator 'stuck': the call took longer than its time limit of 0.3 s: make it faster, or raise the limit"
    assert errors(result, "stuck") == {3: {"type": "EvaluatorTimeoutError", "message": message}}
    assert column(result, "outputs.other.other") == list(range(30))
    assert not errors(result, "target")
    assert len(loops) >= 2, "the loop that was blocked was left behind"


def test_an_asynchronous_target_that_blocks_is_its_rows_error(tmp_path: Path, released: threading.Event) -> None:
    async def blocks(n: int) -> int:
        await asyncio.sleep(0.01)
        return n if n != 3 else released.wait(60)

    for target in (blocks, lambda n: blocks(n)):  # the second is no coroutine function, and returns a coroutine
        result = run(tmp_path, DATA, target=target, evaluators={"e": lambda response: response}, target_timeout=0.1)
        assert list(errors(result, "target")) == [3]
        assert errors(result, "target")[3]["message"].endswith(
            "took longer than its time limit of 0.1 s: make it faster, or raise the limit"
        )
        assert metrics_of(result)["e.scored_count"] == 29


def test_coroutines_that_block_again_and_again_are_no_longer_called(tmp_path: Path, released: threading.Event) -> None:
    async def blocks(n: int) -> int:
        return released.wait(60)

    result = run(tmp_path, DATA, evaluators={"e": blocks, "f": lambda n: 1}, evaluator_timeout=0.05, concurrency=1)
    assert (
        errors(result, "e")[4]["message"]
        == "evaluator 'e': the call took longer than its time limit of 0.05 s: make it faster, or raise the limit"
    )
    told = "evaluator 'e': no further call is made, because 5 earlier calls blocked the event loop: "
    assert errors(result, "e")[5]["message"] == told + "use await for blocking work"
    assert metrics_of(result)["f.scored_count"] == 30


@pytest.mark.parametrize("seconds", [60, 0.01], ids=["a coroutine that hangs", "a callback that holds the loop"])
def test_a_late_coroutine_is_an_error_of_its_row(tmp_path: Path, released: threading.Event, seconds: float) -> None:
    async def hangs(n: int) -> int:
        if n == 3:
            if seconds < 1:
                asyncio.get_running_loop().call_soon(released.wait, 60)
            await asyncio.sleep(seconds)
        return n

    result = run(tmp_path, DATA, evaluators={"e": hangs}, evaluator_timeout=0.1, concurrency=4)
    message = "evaluator 'e': the call took longer than its time limit of 0.1 s: make it faster, or raise the limit"
    assert errors(result, "e") == {3: {"type": "EvaluatorTimeoutError", "message": message}}


@pytest.mark.filterwarnings("default::ResourceWarning")
def test_a_coroutine_may_ask_the_endpoint_that_answers_a_run(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    async def asks(response: str) -> int:
        return len((await endpoint.complete(ChatRequest([{"role": "user", "content": response}]))).text or "")

    with JudgeServer(lambda asked: "four") as server:
        endpoint = server.endpoint()
        result = run(tmp_path, [{"query": str(n)} for n in range(8)], target=endpoint, evaluators={"e": asks})
        gc.collect()
    assert column(result, "outputs.e.e") == [4] * 8
    assert not [warning for warning in recwarn if "Unclosed" in str(warning.message)], "none is left for each row"


def test_a_coroutine_that_is_not_cancelled_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_loops, "_CLOSING_S", 0.05)

    async def goes_on(n: int) -> int:
        while n == 3:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.2)
        return n

    result = run(tmp_path, DATA, evaluators={"e": goes_on}, evaluator_timeout=0.1)
    assert list(errors(result, "e")) == [3]


def test_a_coroutine_that_cancels_all_tasks_it_finds_costs_the_rows_of_these(tmp_path: Path) -> None:
    async def cancels(n: int) -> int:
        if n == 3:
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
        await asyncio.sleep(0)
        return n

    result = run(tmp_path, DATA, target=cancels, evaluators={"e": cancels}, concurrency=8)
    for stage in ("target", "e"):
        found = errors(result, stage)
        assert {error["type"] for error in found.values()} <= {"CancelledError"}
        assert 3 not in found
    assert metrics_of(result)["e.scored_count"] >= 30 - 2 * 2 * 8


def test_a_task_that_asks_python_to_exit_ends_nothing_but_its_row(tmp_path: Path) -> None:
    async def leaves() -> int:
        sys.exit(7)

    async def answers(n: int) -> int:
        return n if n != 3 else await asyncio.create_task(leaves())

    async def evaluates(n: int) -> int:
        return n if n != 5 else await asyncio.create_task(leaves())

    result = run(tmp_path, DATA, target=answers, evaluators={"e": evaluates})
    assert {n: error["type"] for n, error in errors(result, "target").items()} == {3: "SystemExit"}
    assert {n: error["type"] for n, error in errors(result, "e").items()} == {5: "SystemExit"}


def test_calls_of_coroutines_that_have_ended_hold_no_memory(tmp_path: Path) -> None:
    """A call that stays in a table of its loop's tasks holds its row: gigabytes, at a million rows."""

    def tasks() -> int:
        gc.collect()
        return sum(type(kept) is asyncio.Task for kept in gc.get_objects())

    held, others = [], tasks()  # those of other tests, with loops that never ended

    async def answer(q: str) -> str:
        if q == "200":
            held.append(tasks() - others)
        return q

    rows = [{"q": str(n)} for n in range(201)]
    run(tmp_path, data=rows, target=answer, evaluators={"e": lambda response: 1.0}, concurrency=4)
    assert held[0] < 100


def test_an_evaluator_whose_calls_all_hang_is_no_longer_called(tmp_path: Path, released: threading.Event) -> None:
    called = []

    def hangs(n: int) -> int:
        called.append(n)
        return released.wait(60)

    data = [{"n": number} for number in range(200)]
    result = run(tmp_path, data, evaluators={"e": hangs, "f": lambda n: 1}, evaluator_timeout=0.05)
    assert len(called) < 60
    assert Counter(error["type"] for error in errors(result, "e").values()) == {"EvaluatorTimeoutError": 200}
    assert "no further call is made, because 32 earlier calls still run" in str(errors(result, "e")[199])
    assert metrics_of(result)["f.scored_count"] == 200


HANGS = """
    import asyncio, sys, time
    from tunecheck import UnansweredError, evaluate

    def hangs(q):
        time.sleep(100_000)

    async def blocks(q):
        time.sleep(100_000)

    async def hangs_elsewhere(q):
        await asyncio.to_thread(time.sleep, 100_000)

    which = {"evaluators": {"evaluators": {"hangs": hangs, "blocks": blocks, "hangs_elsewhere": hangs_elsewhere}},
             "target": {"target": hangs, "evaluators": {"e": lambda q: 1}}}
    try:
        result = evaluate(data=[{"q": 1}, {"q": 2}], results_dir=sys.argv[1], evaluator_timeout=0.5, target_timeout=0.5,
                          **which[sys.argv[2]])
    except UnansweredError as error:
        result = error.result
    print(result.failed_row_count)
"""


@pytest.mark.parametrize("what", ["evaluators", "target"])
def test_threads_that_never_come_back_do_not_keep_python_from_ending(tmp_path: Path, what: str) -> None:
    done = script(tmp_path, HANGS, tmp_path / "runs", what)
    assert (done.stdout.strip(), done.stderr) == ("2", "")


def test_a_synchronous_target_that_hangs_is_an_error_of_its_row(tmp_path: Path, released: threading.Event) -> None:
    def hangs(n: int) -> int:
        return n if n != 3 else released.wait(60)

    result = run(tmp_path, DATA, target=hangs, evaluators={"e": lambda response: 1}, target_timeout=0.3)
    message = "target 'hangs': the call took longer than its time limit of 0.3 s: make it faster, or raise the limit"
    assert errors(result, "target") == {3: {"type": "TimedOutError", "message": message, "cause": "timed_out"}}
    assert metrics_of(result)["e.scored_count"] == 29


def test_the_progress_names_what_is_slow(tmp_path: Path, released: threading.Event) -> None:
    remarks: list[str] = []

    def shown(progress: Any) -> None:
        if progress.remark:
            remarks.append(progress.remark)
            released.set()

    evaluators = {"quick": lambda n: 1, "slow": lambda n: released.wait(60)}
    result = run(tmp_path, DATA[:1], evaluators=evaluators, progress=shown)
    assert metrics_of(result)["slow.scored_count"] == 1
    assert remarks[0] == "waiting for evaluator 'slow' for 3 s"


class LoadsLazily:
    """Loads as nltk's WordNet does: the first call builds the state of later ones, and every call in between fails."""

    def __init__(self) -> None:
        self._state = "new"

    def __call__(self, *, n: int) -> int:
        if self._state == "new":
            self._state = "loading"
            time.sleep(0.4)
            self._state = "loaded"
        elif self._state == "loading":
            raise AttributeError("'LazyCorpusLoader' object has no attribute '_LazyCorpusLoader__args'")
        time.sleep(0.01)
        return n


def test_what_an_evaluator_loads_when_it_is_first_called_is_loaded_by_one_row_alone(tmp_path: Path) -> None:
    result = run(tmp_path, DATA * 4, evaluators={"e": LoadsLazily()}, concurrency=50)
    assert column(result, "outputs.e.e") == [row["n"] for row in DATA] * 4
    assert result.notes == []


class OneAtATime:
    """Waits as for a service, and cannot bear two calls at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.refused = 0

    def __call__(self, *, n: int) -> int:
        if not self._lock.acquire(blocking=False):
            self.refused += 1
            raise RuntimeError("somebody else is here")
        time.sleep(0.25 if n < 3 else 0.01)
        self._lock.release()
        return n


def test_an_evaluator_that_fails_among_threads_runs_one_row_at_a_time_and_the_run_says_so(tmp_path: Path) -> None:
    evaluator = OneAtATime()
    result = run(tmp_path, DATA * 4, evaluators={"e": evaluator, "other": lambda n: 1}, concurrency=10)
    assert evaluator.refused
    assert column(result, "outputs.e.e") == [row["n"] for row in DATA] * 4
    assert result.notes == ["evaluator 'e' fails in several threads at once, so it scored one row at a time"]


def test_errors_that_have_nothing_to_do_with_threads_stay_errors_and_are_not_tried_for_ever(tmp_path: Path) -> None:
    called: Counter[int] = Counter()

    def fails(n: int) -> int:
        called[n] += 1
        time.sleep(0.25 if n < 3 else 0.01)
        if n % 2:
            raise ValueError(n)
        return n

    result = run(tmp_path, [{"n": n} for n in range(100)], evaluators={"e": fails}, concurrency=10)
    assert list(errors(result, "e")) == list(range(1, 100, 2))
    assert sum(called.values()) <= 100 + 3 + 10, "an error of one type is tried again three times, and no more"
    assert result.notes == []


FORKS = """
    import asyncio, os, sys
    from tunecheck import evaluate

    def forks(n):
        child = os.fork()
        if child == 0:
            return -1  # forgets that it is a child
        os.waitpid(child, 0)
        return n

    async def forks_later(n):
        return forks(n)

    parent = os.getpid()
    which = {"evaluator": {"evaluators": {"e": forks}}, "asynchronous": {"evaluators": {"e": forks_later}},
             "target": {"target": forks, "evaluators": {"e": lambda response: response}},
             "asynchronous target": {"target": forks_later, "evaluators": {"e": lambda response: response}}}
    result = evaluate(data=[{"n": n} for n in range(20)], results_dir=sys.argv[1], **which[sys.argv[2]])
    assert os.getpid() == parent, "a child got this far"
    print([row["outputs.e.e"] for row in result["rows"]] == list(range(20)), result.failed_row_count)
"""


@posix_only
@pytest.mark.parametrize("what", ["evaluator", "asynchronous", "target", "asynchronous target"])
def test_a_child_that_comes_back_to_us_has_no_part_in_the_run(tmp_path: Path, what: str) -> None:
    done = script(tmp_path, FORKS, tmp_path / "runs", what)
    assert (done.stdout.strip(), done.stderr) == ("True 0", "")


class Blocking(Endpoint):
    """An endpoint with an `async def` that blocks its loop: at the third row until it is released."""

    kind = "blocking"
    name = "mine"

    def __init__(self, released: threading.Event) -> None:
        self._released = released
        self.threads: list[str] = []

    async def complete(self, request: ChatRequest) -> Completion:
        await self._note("complete")
        if request.messages[0]["content"] == "3":
            self._released.wait(60)
        return Completion(f"answer {request.messages[0]['content']}")

    async def _note(self, what: str) -> None:
        self.threads.append(f"{what}: {threading.current_thread().name}")

    def settings(self) -> dict[str, JSON]:
        return {}

    async def close(self) -> None:
        await self._note("close")


class BlockingTarget(Target):
    """A target of the same kind."""

    def __init__(self, endpoint: Blocking) -> None:
        self._mine = endpoint

    async def answer(self, row: Row, context: CallContext) -> TargetOutput:
        answer = await self._mine.complete(ChatRequest([{"role": "user", "content": str(row.values["query"])}]))
        context.record("answered", answer.text)
        return answer.columns()

    async def close(self) -> None:
        await self._mine.close()


@pytest.mark.parametrize("wrapped", [False, True], ids=["an endpoint", "a target"])
def test_a_users_blocking_class_is_held_to_its_limit(tmp_path: Path, released: threading.Event, wrapped: bool) -> None:
    mine = Blocking(released)
    target = BlockingTarget(mine) if wrapped else mine
    data = [{"query": str(number)} for number in range(8)]
    result = run(tmp_path, data, target=target, evaluators={"e": lambda response: 1}, target_timeout=0.2)
    name = "BlockingTarget 'target'" if wrapped else "Blocking 'mine'"
    ((row, error),) = errors(result, "target").items()
    assert (row, error["type"]) == (3, "TimedOutError")
    assert (
        error["message"]
        == f"{name}: the call took longer than its time limit of 0.2 s: make it faster, or raise the limit"
    )
    assert column(result, "outputs.response")[4:] == [f"answer {number}" for number in range(4, 8)]
    assert "close: tunecheck-async" in mine.threads, "closed where its connections were made"
    assert {each.rpartition(" ")[2] for each in mine.threads} == {"tunecheck-async"}


def test_a_judges_own_endpoint_that_blocks_is_its_rows_error(tmp_path: Path, released: threading.Event) -> None:
    mine = Blocking(released)
    mine.limit_s = 0.2

    class Judge:
        async def call_with(self, calls: ModelCalls, query: str) -> dict[str, object]:
            return {"said": (await calls.complete(mine, ChatRequest([{"role": "user", "content": query}]))).text}

        def __call__(self, query: str) -> None: ...

    result = run(tmp_path, [{"query": str(number)} for number in range(5)], evaluators={"e": Judge()})
    messages = {row: error["message"] for row, error in errors(result, "e").items()}
    assert messages == {
        3: "Blocking 'mine': the call took longer than its time limit of 0.2 s: make it faster, or raise the limit"
    }
    assert column(result, "outputs.e.said")[4] == "answer 4"


async def test_an_endpoint_of_ones_own_may_ask_its_parent_class(released: threading.Event) -> None:
    class Shouting(Blocking):
        async def complete(self, request: ChatRequest) -> Completion:
            return Completion(str((await super().complete(request)).text).upper())

    before = {*threading.enumerate()}
    endpoint = Shouting(released)
    assert (await endpoint.complete(ChatRequest([{"role": "user", "content": "1"}]))).text == "ANSWER 1"
    (apart,) = {*threading.enumerate()} - before
    await endpoint.close()
    apart.join(60)
    assert not apart.is_alive(), "its loop is closed with it"
