"""Functions and Targets that answer rows: their inputs, their answers and their errors."""

import asyncio
import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from tests.pipeline_parts import Answering, column, fail, metrics_of, records, rows_of, run

from tunecheck import CallContext, ConfigurationError, EndpointError, Row, Target, UnansweredError, evaluate
from tunecheck.endpoints import Completion, Usage

DATA = [{"id": f"r{n}", "q": f"question {n}", "temperature": 0.9} for n in range(4)]


def many(times: int) -> list[dict[str, Any]]:
    """The rows again and again, each with an id of its own."""
    return [{**row, "id": f"{row['id']}-{time}"} for time in range(times) for row in DATA]


@dataclass
class Answer:
    response: str
    tokens: int = 3


class Client:
    def ask(self, q: str) -> str:
        return f"to {q}"

    async def ask_later(self, q: str) -> str:
        await asyncio.sleep(0)
        return f"to {q}"

    def __call__(self, q: str) -> str:
        return f"to {q}"


async def later(q: str) -> str:
    await asyncio.sleep(0)
    return f"to {q}"


@pytest.mark.parametrize(
    "target",
    [
        lambda q: f"to {q}",
        lambda q: {"response": f"to {q}"},
        lambda q: MappingProxyType({"response": f"to {q}"}),
        lambda q: Answer(f"to {q}"),
        lambda q, missing=None: f"to {q}",
        lambda **row: f"to {row['q']}",
        lambda q: later(q),
        later,
        Client(),
        Client().ask,
        Client().ask_later,
        functools.partial(lambda q, prefix: f"{prefix} {q}", prefix="to"),
    ],
    ids=[
        *("a text", "a dict", "a mapping", "a dataclass", "an optional parameter that is not a column"),
        *("keywords of any name", "gives a coroutine", "async", "an instance", "a method"),
        *("an async method", "a partial"),
    ],
)
def test_a_callable_of_any_kind_answers(tmp_path: Path, target: Any) -> None:
    result = run(tmp_path, DATA, target=target, evaluators={"e": lambda response: {"got": response}})
    assert column(result, "outputs.response") == [f"to question {n}" for n in range(4)]
    assert column(result, "outputs.e.got") == column(result, "outputs.response")


def test_an_optional_parameter_is_given_its_column(tmp_path: Path) -> None:
    """Azure never passes them."""
    result = run(tmp_path, DATA, target=lambda q, temperature=0.5: {"t": temperature}, evaluators={"e": lambda t: t})
    assert set(column(result, "outputs.t")) == {0.9}


def test_keywords_of_any_name_get_all_columns(tmp_path: Path) -> None:
    result = run(tmp_path, DATA, target=lambda **row: {"seen": sorted(row)}, evaluators={"e": lambda q: 1})
    assert column(result, "outputs.seen")[0] == ["id", "q", "temperature"]


@pytest.mark.parametrize("value", [None, 3, 0.5, True, ["a", 1], "", "text", (1, 2)])
def test_a_plain_value_becomes_the_response(tmp_path: Path, value: Any) -> None:
    result = run(tmp_path, DATA[:1], target=lambda q: value, evaluators={"e": lambda q: 1})
    expected = list(value) if isinstance(value, tuple) else value
    assert column(result, "outputs.response") == [expected]


def test_the_fields_of_a_completion_are_columns(tmp_path: Path) -> None:
    completion = Completion("the cat", usage=Usage(10, 5))
    result = run(tmp_path, DATA[:1], target=lambda q: completion, evaluators={"e": lambda text: {"text": text}})
    (row,) = rows_of(result)
    assert (row["outputs.text"], row["outputs.simulated"], row["outputs.e.text"]) == ("the cat", False, "the cat")
    assert row["outputs.usage"]["input_tokens"] == 10


def test_every_column_of_the_answer_stands_in_the_row_and_is_free_to_be_mapped(tmp_path: Path) -> None:
    answer = {"response": "r", "usage": {"input_tokens": 4}, "a.b": 1, "line_number": 7}
    evaluators = {"e": lambda tokens, n: {"tokens": tokens, "n": n}}
    config = {"e": {"tokens": "${target.usage.input_tokens}", "n": "${target['a.b']}"}}
    result = run(tmp_path, DATA[:1], target=lambda q: answer, evaluators=evaluators, evaluator_config=config)
    (row,) = rows_of(result)
    assert (row["outputs.response"], row["outputs.usage"], row["outputs.a.b"]) == ("r", {"input_tokens": 4}, 1)
    assert (row["outputs.line_number"], row["outputs.e.tokens"], row["outputs.e.n"]) == (7, 4, 1)


def picky(q: str) -> str:
    if q.endswith(("1", "3")):
        raise ValueError(f"endpoint 500 for {q}")
    return f"to {q}"


def test_one_bad_row_is_one_error(tmp_path: Path) -> None:
    """With Azure it kills the run."""
    result = run(tmp_path, DATA, target=picky, evaluators={"e": lambda response: 1})
    assert column(result, "outputs.e.e") == [1, None, 1, None]
    place = f"test_pipeline_targets.py:{picky.__code__.co_firstlineno + 2}"
    error = {"type": "ValueError", "message": "endpoint 500 for question 1", "place": place}
    assert column(result, "error.target")[1] == error
    assert (result.row_count, result.failed_row_count) == (4, 2)
    assert len(records(result, "answer")) == 2


def test_all_rows_failing_is_still_a_result(tmp_path: Path) -> None:
    error = ConnectionError("nobody there")
    result = run(tmp_path, DATA, target=lambda q: fail(error), evaluators={"e": lambda response: 1})
    assert (result.row_count, result.failed_row_count) == (4, 4)
    counts = {"e.scored_count": 0, "e.not_applicable_count": 0, "e.error_count": 4}
    assert metrics_of(result) == {**counts, "cause.server_fault": 1.0}


def test_a_target_that_fails_on_every_row_is_told_aloud_and_its_run_kept(tmp_path: Path) -> None:
    down = threading.Event()
    down.set()

    def answer(q: str) -> str:
        if down.is_set():
            raise ConnectionError("nobody there")
        return q

    evaluators = {"e": lambda response: 1}
    with pytest.raises(UnansweredError) as raised:
        evaluate(data=DATA, target=answer, evaluators=evaluators, results_dir=tmp_path)
    run_id = raised.value.result.run_dir.name
    assert str(raised.value) == (
        "the target failed on every row, first with ConnectionError: nobody there: "
        f"correct this, then go on with the same Python call and resume='{run_id}'"
    )
    down.clear()
    answered = evaluate(data=DATA, target=answer, evaluators=evaluators, results_dir=tmp_path, resume=run_id)
    assert answered.failed_row_count == 0


RAISED = [
    SystemExit(2),
    StopIteration("over"),
    asyncio.CancelledError(),
    RecursionError("deep"),
    KeyError("k"),
    KeyboardInterrupt(),
    GeneratorExit(),
    BaseException("base"),
    TimeoutError("its own"),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["synchronous", "asynchronous"])
def test_what_a_target_raises_is_its_rows_error_alone(tmp_path: Path, error: BaseException, asynchronous: bool) -> None:
    def answer(q: str) -> str:
        if q == "question 2":
            raise error
        return "fine"

    async def answer_later(q: str) -> str:
        return answer(q)

    target: Any = answer_later if asynchronous else answer
    result = run(tmp_path, DATA, target=target, evaluators={"e": lambda response: 1})
    assert column(result, "outputs.e.e") == [1, 1, None, 1]
    assert column(result, "error.target")[2]["type"] in (type(error).__name__, "RuntimeError")


def test_the_service_s_request_id_stands_with_the_error(tmp_path: Path) -> None:
    error = EndpointError("no", status=500, request_id="req-7")
    result = run(tmp_path, DATA[:1], target=lambda q: fail(error), evaluators={"e": lambda response: 1})
    told = {"type": "EndpointError", "message": "no", "request_id": "req-7", "cause": "server_fault"}
    assert column(result, "error.target") == [told]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            {"response": object()},
            "answer.response: a value of type object has no JSON form: convert it to a text, number, list or dict",
        ),
        (
            {"response": {1, 2}},
            "answer.response: a value of type set has no JSON form: convert it to a text, number, list or dict",
        ),
        ({None: 1}, "answer: a key of type NoneType has no JSON form: use a text"),
        ({"n": 10**5000}, "answer.n: a value of type int is too large: use a text"),
    ],
)
def test_an_answer_that_cannot_be_recorded_is_an_error_of_its_row(tmp_path: Path, answer: Any, said: str) -> None:
    result = run(tmp_path, DATA[:2], target=lambda q: answer, evaluators={"e": lambda q: 1})
    assert [error["message"] for error in column(result, "error.target")] == [said, said]


def test_a_target_that_answers_nothing_is_an_error_of_its_row(tmp_path: Path) -> None:
    result = run(tmp_path, DATA[:1], target=Answering(lambda row: None), evaluators={"e": lambda q: 1})  # type: ignore[arg-type,return-value]
    assert column(result, "error.target")[0]["type"] == "TypeError"


def test_evaluators_that_do_not_need_the_target_score_its_failed_rows_too(tmp_path: Path) -> None:
    mapped = {"needs": {"response": "${target.response}"}, "independent": {"q": "${data.q}"}}
    evaluators = {"needs": lambda response: 1, "independent": lambda q: 1}
    result = run(tmp_path, DATA, target=picky, evaluators=evaluators, evaluator_config=mapped)
    assert column(result, "outputs.independent.independent") == [1, 1, 1, 1]
    assert column(result, "outputs.needs.needs") == [1, None, 1, None]
    assert metrics_of(result)["independent.error_count"] == 0


def test_with_a_target_of_known_columns_a_plain_column_needs_no_mapping_for_that(tmp_path: Path) -> None:
    target = Answering(lambda row: fail(ValueError("no")), columns=frozenset({"response"}))
    evaluators: Any = {"independent": lambda q: 1, "needs": lambda response="": 1}
    result = run(tmp_path, DATA, target=target, evaluators=evaluators)
    assert column(result, "outputs.independent.independent") == [1, 1, 1, 1]
    assert column(result, "outputs.needs.needs") == [None] * 4


def test_an_evaluator_that_needs_the_target_is_not_called_without_it(tmp_path: Path) -> None:
    called: list[str] = []

    def note(q: str, response: object = None) -> int:
        called.append(q)
        return 1

    run(tmp_path, DATA, target=picky, evaluators={"e": note})
    assert sorted(called) == ["question 0", "question 2"]


def grow(messages: Any) -> dict[str, Any]:
    messages.append({"role": "assistant"})
    return {"response": len(messages)}


@pytest.mark.parametrize("target", [Answering(lambda row: grow(row.values["messages"])), grow], ids=["rows", "columns"])
def test_a_target_that_changes_its_inputs_changes_nobody_s(tmp_path: Path, target: Any) -> None:
    data = [{"messages": [{"role": "user"}]} for _ in range(3)]
    result = run(tmp_path, data, target=target, evaluators={"e": lambda messages: len(messages)})
    assert column(result, "outputs.response") == [2, 2, 2]
    assert column(result, "outputs.e.e") == [1, 1, 1]
    assert column(result, "inputs.messages") == [[{"role": "user"}]] * 3


def test_an_answer_s_column_cannot_pass_for_an_evaluator_s_output(tmp_path: Path) -> None:
    result = run(tmp_path, DATA[:1], target=lambda q: {"e.n": 1, "ex.n": 2}, evaluators={"e": lambda q: {"n": 3}})
    (error,) = column(result, "error.target")
    assert error["message"] == "the answer's column 'e.n' clashes with evaluator 'e': rename the column"
    assert metrics_of(result)["e.error_count"] == 1


def test_an_answer_is_the_pipeline_s_own_and_not_the_target_s_to_change(tmp_path: Path) -> None:
    kept: dict[str, Any] = {"response": [0]}

    async def grow(q: str) -> dict[str, Any]:
        kept["response"].append(len(kept["response"]))
        return kept

    result = run(tmp_path, DATA, target=grow, evaluators={"e": lambda response: 1}, concurrency=1)
    assert column(result, "outputs.response") == [[0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4]]


@pytest.mark.parametrize("concurrency", [1, 3])
def test_no_more_calls_are_under_way_than_asked_for(tmp_path: Path, concurrency: int) -> None:
    most = now = 0

    async def answer(q: str) -> str:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.001)
        now -= 1
        return "x"

    run(tmp_path, many(5), target=answer, evaluators={"e": lambda response: 1}, concurrency=concurrency)
    assert most == concurrency


def test_a_synchronous_function_runs_in_as_many_threads_as_asked_for(tmp_path: Path) -> None:
    together = threading.Barrier(4, timeout=30)

    def answer(q: str) -> str:
        together.wait()  # passes only if four calls are in flight at once
        return "x"

    result = run(tmp_path, DATA, target=answer, evaluators={"e": lambda response: 1}, concurrency=4)
    assert result.failed_row_count == 0


def test_a_call_that_hangs_after_many_short_ones_fails_alone(tmp_path: Path) -> None:
    released = threading.Event()
    called: list[int] = []

    def answer(n: int) -> int:
        called.append(n)
        if n == 150:
            released.wait(60)
        return n

    data = [{"n": n} for n in range(300)]
    try:
        result = run(tmp_path, data, target=answer, evaluators={"e": lambda response: 1}, target_timeout=2.0)
    finally:
        released.set()
    assert column(result, "outputs.response") == [None if n == 150 else n for n in range(300)]
    assert column(result, "error.target")[150]["type"] == "TimedOutError"
    assert sorted(called) == [*range(300)]


@pytest.mark.parametrize("concurrency", [4, None])
@pytest.mark.parametrize("waiting", range(150, 158))
def test_a_call_that_waits_after_many_short_ones_holds_no_other(
    tmp_path: Path, waiting: int, concurrency: int | None
) -> None:
    all_called = threading.Event()
    called: list[int] = []

    def answer(n: int) -> bool:
        called.append(n)
        if len(called) == 300:
            all_called.set()
        return all_called.wait(60) if n == waiting else True

    data = [{"n": n} for n in range(300)]
    result = run(tmp_path, data, target=answer, evaluators={"e": lambda response: 1}, concurrency=concurrency)
    assert column(result, "outputs.response") == [True] * 300


def test_a_target_s_own_concurrency_counts_where_none_is_given(tmp_path: Path) -> None:
    class Narrow(Answering):
        concurrency = 1
        now = most = 0

        async def answer(self, row: Row, context: CallContext) -> Any:
            self.now += 1
            self.most = max(self.most, self.now)
            await asyncio.sleep(0)
            self.now -= 1
            return {"response": 1}

    target = Narrow()
    run(tmp_path, many(3), target=target, evaluators={"e": lambda response: 1})
    assert target.most == 1


def test_a_target_is_closed_once_at_the_end(tmp_path: Path) -> None:
    target = Answering()
    run(tmp_path, DATA, target=target, evaluators={"e": lambda response: 1})
    assert target.closed == 1


def test_a_target_that_does_not_close_costs_no_answer(tmp_path: Path) -> None:
    class Stuck(Answering):
        async def close(self) -> None:
            raise OSError("still open")

    result = run(tmp_path, DATA, target=Stuck(), evaluators={"e": lambda response: 1})
    assert metrics_of(result)["e.e"] == 1
    assert result.notes == ["closing the target failed: OSError: still open"]


def test_an_input_hash_of_any_text_will_do(tmp_path: Path) -> None:
    class Named(Answering):
        def input_hash(self, row: Row) -> str | None:
            return f"asks {row.values['q']}"

    first = run(tmp_path, DATA, target=Named(), evaluators={"e": lambda response: 1})
    again = Named()
    run(tmp_path, DATA, target=again, evaluators={"e": lambda response: 1}, reuse=first.run_dir)
    assert again.asked == []


def grouped(count: int, groups: int) -> list[dict[str, Any]]:
    return [{"id": f"r{n}", "g": f"g{n % groups}", "n": n} for n in range(count)]


class Watching(Target):
    """Notes when each row's answer begins and ends."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, int]] = []
        self.most = 0
        self._now: set[str] = set()

    def group_key(self, row: Row) -> str | None:
        group = row.values["g"]
        return str(group) if group is not None else None

    async def answer(self, row: Row, context: CallContext) -> dict[str, Any]:
        group, number = str(row.values["g"]), row.values["n"]
        assert isinstance(number, int)
        assert group not in self._now or group == "None", "two rows of one group at once"
        self._now.add(group)
        self.most = max(self.most, len(self._now))
        self.events.append(("begin", group, number))
        await asyncio.sleep(0.001 * (number % 3))
        self.events.append(("end", group, number))
        self._now.discard(group)
        if number % 7 == 5:
            raise ValueError("no")
        return {"response": number}


def test_rows_of_a_group_are_answered_one_after_another_in_order(tmp_path: Path) -> None:
    target = Watching()
    result = run(tmp_path, grouped(60, 4), target=target, evaluators={"e": lambda response: 1}, concurrency=8)
    for group in range(4):
        begun = [number for what, of, number in target.events if what == "begin" and of == f"g{group}"]
        assert begun == sorted(begun)
        assert len(begun) == 15
    assert target.most == 4, "the groups did not run side by side"
    assert result.row_count == 60


def test_rows_without_a_group_go_side_by_side_with_those_that_have_one(tmp_path: Path) -> None:
    data = [{**row, "g": None if row["n"] % 2 else row["g"]} for row in grouped(40, 2)]
    target = Watching()
    result = run(tmp_path, data, target=target, evaluators={"e": lambda response: 1}, concurrency=6)
    assert result.row_count == 40
    assert len([event for event in target.events if event[0] == "end"]) == 40


@pytest.mark.parametrize("concurrency", [1, 2, 9])
def test_one_group_of_all_rows_comes_to_its_end(tmp_path: Path, concurrency: int) -> None:
    target = Watching()
    run(tmp_path, grouped(30, 1), target=target, evaluators={"e": lambda response: 1}, concurrency=concurrency)
    assert [number for what, _, number in target.events if what == "begin"] == list(range(30))


def test_the_data_set_s_group_key_orders_rows_where_the_target_has_none(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text("".join(f'{{"s": "s{n % 2}", "n": {n}}}\n' for n in range(20)))
    (tmp_path / "d.yaml").write_text("group_key: s\n")
    begun: list[tuple[str, int]] = []

    async def answer(s: str, n: int) -> int:
        begun.append((s, n))
        await asyncio.sleep(0.001 * (n % 3))
        return n

    run(tmp_path, tmp_path / "d.jsonl", target=answer, evaluators={"e": lambda response: 1}, concurrency=9)
    for session in ("s0", "s1"):
        numbers = [n for s, n in begun if s == session]
        assert numbers == sorted(numbers)


@pytest.mark.parametrize("key", ["group_key", "cluster"])
def test_a_column_of_the_data_s_defaults_that_is_none_is_refused(key: str, tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text('{"session": "a"}\n')
    (tmp_path / "d.yaml").write_text(f"{key}: sesion\n")
    with pytest.raises(ConfigurationError, match=f"{key}: the data has no column 'sesion'; did you mean 'session'"):
        run(tmp_path, tmp_path / "d.jsonl", target=lambda session: 1, evaluators={"e": lambda response: 1})


@pytest.mark.parametrize("target", [3, {"a": 1}, [1], Answering], ids=["int", "dict", "list", "a Target's class"])
def test_what_is_no_target_is_said(tmp_path: Path, target: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"target (must be a function|is the class Answering)"):
        run(tmp_path, DATA, target=target, evaluators={"e": lambda q: 1})


def test_a_user_agent_without_an_endpoint_is_refused(tmp_path: Path) -> None:
    asked: Callable[..., Any] = lambda q: 1  # noqa: E731
    with pytest.raises(ConfigurationError, match="user_agent is only for targets that are endpoints"):
        run(tmp_path, DATA, target=asked, evaluators={"e": lambda q: 1}, user_agent="x/1")
