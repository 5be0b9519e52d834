"""Evaluators that ask models: each call is bought once, journaled before it counts, and kept within a budget."""

import asyncio
import os
import random
import signal
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from tests.fault_server import HANG, FaultServer, Step, answer
from tests.pipeline_parts import column, journal_of, metrics_of, only_run, records, run, strict_json, strict_lines
from tests.tables import cases

from tunecheck import ConfigurationError, EndpointError, ReplyError, RunError, RunInterruptedError, StopRunError
from tunecheck.endpoints import (
    ChatRequest,
    Completion,
    Endpoint,
    EndpointTarget,
    ModelCalls,
    Price,
    Usage,
    load_endpoint,
)
from tunecheck.pipeline import Budget, CachedResults, Journal, JournalReader, RunCalls, Spending, cost_of, cost_text
from tunecheck.pipeline._costs import cost_with_estimates, expected_usage, usage_with_estimates
from tunecheck.pipeline._model_calls import call_key
from tunecheck.plugins import JSON, CallsMade

CHEAP = Price(1.0, 10.0)
"""A call of `Model` comes to 100 × 1 + 10 × 10 = 200 millionths."""


class Model(Endpoint):
    """Answers with the length of the question; remembers what it was asked, and how much at once."""

    kind = "model"
    name = "model"

    def __init__(self, *, price: Price | None = None, failing: Mapping[str, Exception] = {}, wait: float = 0) -> None:
        self.price = price
        self.failing = failing
        self.wait = wait
        self.asked: list[str] = []
        self.keys: list[str | None] = []
        self.under_way = self.most = self.closed = 0

    async def complete(self, request: ChatRequest) -> Completion:
        question = str(request.messages[-1]["content"])
        self.asked.append(question)
        self.keys.append(request.idempotency_key)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(self.wait)
        self.under_way -= 1
        if question in self.failing:
            raise self.failing[question]
        return Completion(text=str(len(question)), usage=Usage(100, 10))

    def settings(self) -> dict[str, Any]:
        return {"kind": self.kind, "parameters": {"max_tokens": 10}}

    async def close(self) -> None:
        self.closed += 1


class Judge:
    """Asks the model with the response."""

    def __init__(self, model: Model, *, concurrency: int | None = None, samples: int = 1, version: int = 1) -> None:
        self.endpoint = model
        self.concurrency = concurrency
        self.samples = samples
        self.arguments = {"samples": samples, "version": version}

    def __call__(self, *, response: str) -> dict[str, Any]:
        raise AssertionError("in a run, models are asked through it")

    async def call_with(self, calls: ModelCalls, *, response: str) -> dict[str, Any]:
        request = ChatRequest([{"role": "user", "content": response}])
        answers = [await calls.complete(self.endpoint, request, sample=n) for n in range(self.samples)]
        return {"n": sum(int(answer.text or 0) for answer in answers)}

    async def close(self) -> None:
        await self.endpoint.close()


def judged(folder: Path, judge: Judge, rows: list[dict[str, Any]], **arguments: Any) -> Any:
    return run(folder, rows, evaluators={"judge": judge}, **arguments)


def rows(*responses: str) -> list[dict[str, Any]]:
    return [{"id": f"r{n}", "response": text} for n, text in enumerate(responses)]


def served(server: FaultServer, **values: Any) -> Endpoint:
    price = {"input_per_million": 100.0, "output_per_million": 100.0}
    definition = {"kind": "openai", "url": f"{server.url}/v1", "model": "m", "price": price, **values}
    return load_endpoint({"parameters": {"max_tokens": 500}, "retries": 1, **definition})


QUESTIONS = [f"question {number}" for number in range(60)]


def asked(folder: Path, endpoint: Endpoint, questions: Sequence[str] = QUESTIONS, **arguments: Any) -> Any:
    """Run with the endpoint as the target, which gets a row for each question."""
    data = [{"id": str(number), "messages": question} for number, question in enumerate(questions)]
    return run(folder, data, target=EndpointTarget(endpoint), evaluators={"n": lambda response: 1}, **arguments)


def test_an_evaluator_with_call_with_is_awaited_and_closed(tmp_path: Path) -> None:
    model = Model()
    result = judged(tmp_path, Judge(model), rows("a", "bb", "ccc"))
    assert column(result, "outputs.judge.n") == [1, 2, 3]
    assert model.closed == 1


def test_equal_calls_are_one_even_while_the_first_is_under_way(tmp_path: Path) -> None:
    model = Model(wait=0.01)
    result = judged(tmp_path, Judge(model), rows("same", "same", "other", "same"), concurrency=4)
    assert column(result, "outputs.judge.n") == [4, 4, 5, 4]
    assert sorted(model.asked) == ["other", "same"]


def test_samples_of_one_question_are_calls_of_their_own(tmp_path: Path) -> None:
    model = Model()
    result = judged(tmp_path, Judge(model, samples=3), rows("a", "a"))
    assert column(result, "outputs.judge.n") == [3, 3]
    assert model.asked == ["a"] * 3


def test_a_call_is_in_the_journal_before_the_verdict(tmp_path: Path) -> None:
    result = judged(tmp_path, Judge(Model(price=CHEAP)), rows("a"))
    assert [record["k"] for record in journal_of(result)] == ["journal", "call", "verdicts"]
    out = {
        "response": "1", "text": "1", "tool_calls": None, "usage": {"input_tokens": 100, "output_tokens": 10},
        "latency_ms": None, "finish_reason": None, "request_id": None, "simulated": False,
    }  # fmt: skip
    own = {"k": "call", "e": "judge", "h": ANY, "cost": 0.0002, "cur": "USD", "out": out, "i": 0, "c": ANY}
    assert records(result, "call") == [own]
    second = judged(tmp_path, Judge(Model(price=CHEAP), version=2), rows("a"), reuse=result.run_dir)
    assert records(second, "call") == [own | {"e": None, "cost": None, "cur": None}], "the first run paid for it"


def test_calls_are_counted_by_evaluator(tmp_path: Path) -> None:
    result = judged(tmp_path, Judge(Model(price=CHEAP)), rows("a", "a", "bb"))
    expected = {"calls": 2, "input_tokens": 200, "output_tokens": 20, "uncounted_calls": 0}
    assert result.usage == {"judge": {**expected, "cost": pytest.approx(0.0004), "currency": "USD"}}
    written = strict_json((result.run_dir / "metrics.json").read_bytes())
    assert written["usage"] == result.usage


def test_without_a_price_tokens_are_counted_and_the_cost_is_unknown(tmp_path: Path) -> None:
    result = judged(tmp_path, Judge(Model()), rows("a"))
    assert (result.usage["judge"]["input_tokens"], result.usage["judge"]["cost"]) == (100, None)


def test_what_the_target_spends_is_counted_too(tmp_path: Path) -> None:
    spent = asked(tmp_path, Model(price=CHEAP), ["hello", "hello"]).usage["target"]
    assert (spent["calls"], spent["cost"]) == (2, pytest.approx(0.0004))


def test_a_call_that_fails_is_the_rows_error_and_asked_again_when_the_run_is_reused(tmp_path: Path) -> None:
    busy = EndpointError("busy", request_id="id-7")
    busy.code = "content_filter"
    model = Model(failing={"bb": busy})
    first = judged(tmp_path, Judge(model), rows("a", "bb"))
    error = {"type": "EndpointError", "message": "busy", "request_id": "id-7", "cause": "filtered"}
    assert column(first, "error.judge") == [None, error]
    again = Model()
    second = judged(tmp_path, Judge(again), rows("a", "bb"), reuse=first.run_dir)
    assert column(second, "outputs.judge.n") == [1, 2]
    assert again.asked == ["bb"]


def test_all_who_wait_for_a_call_that_fails_have_its_error(tmp_path: Path) -> None:
    model = Model(failing={"x": EndpointError("busy")}, wait=0.01)
    result = judged(tmp_path, Judge(model), rows("x", "x", "x"), concurrency=3)
    assert [error["message"] for error in column(result, "error.judge")] == ["busy"] * 3
    assert metrics_of(result)["judge.error_count"] == 3


def test_a_changed_evaluator_takes_over_the_calls_that_it_would_make_again(tmp_path: Path) -> None:
    first = judged(tmp_path, Judge(Model()), rows("a", "bb"))
    model = Model(price=CHEAP)
    second = judged(tmp_path, Judge(model, version=2), rows("a", "bb", "ccc"), reuse=first.run_dir)
    assert column(second, "outputs.judge.n") == [1, 2, 3]
    assert model.asked == ["ccc"]
    assert second.usage["judge"]["calls"] == 1, "the others were paid for by the first run"
    third = judged(tmp_path, Judge(model, version=3), rows("a", "bb", "ccc"), reuse=second.run_dir)
    assert model.asked == ["ccc"], "what was reused is in the second run's own journal"
    assert third.usage == {}


def test_a_lane_is_as_wide_as_the_evaluator_says(tmp_path: Path) -> None:
    model = Model(wait=0.02)
    judged(tmp_path, Judge(model, concurrency=7), rows(*(f"{n:09}" for n in range(40))), concurrency=2)
    assert model.most == 7


def test_a_run_stops_before_it_spends_more_than_its_budget_and_goes_on_with_a_larger_one(tmp_path: Path) -> None:
    responses = [f"{n:03}" for n in range(20)]
    model = Model(price=CHEAP, wait=0.001)
    with pytest.raises(RunError, match=r"max-cost 0\.001: .* is spent.*resume="):
        judged(tmp_path, Judge(model, concurrency=8), rows(*responses), max_cost=0.001)
    assert len(model.asked) == 5, "five calls at 0.0002 are the budget"
    more = Model(price=CHEAP)
    result = judged(tmp_path, Judge(more), rows(*responses), max_cost=1, resume="last")
    assert sorted(model.asked + more.asked) == responses, "nothing is bought twice"
    assert result.usage["judge"]["calls"] == 20
    assert result.usage["judge"]["cost"] == pytest.approx(20 * 0.0002)


def test_the_budget_holds_for_the_target_as_well(tmp_path: Path) -> None:
    model = Model(price=CHEAP)
    with pytest.raises(RunError, match="max-cost"):
        asked(tmp_path, model, max_cost=0.002, concurrency=1)
    assert 9 <= len(model.asked) <= 10


class Uncounting(Model):
    """Says nothing of tokens."""

    async def complete(self, request: ChatRequest) -> Completion:
        return replace(await super().complete(request), usage=Usage())


def test_calls_that_nobody_counted_are_charged_by_estimate_and_shown_as_unknown(tmp_path: Path) -> None:
    responses = [f"{n:0400}" for n in range(300)]
    model = Uncounting(price=CHEAP)
    with pytest.raises(RunError, match="max-cost"):
        judged(tmp_path, Judge(model), rows(*responses), max_cost=0.01, concurrency=1)
    # 400 characters and what is around them are about 110 tokens, at 1 a million; an answer of some letters is a few.
    assert 20 <= len(model.asked) <= 90
    more = Uncounting(price=CHEAP)
    with pytest.raises(RunError, match="max-cost"):  # what was spent before the run stopped is still spent
        judged(tmp_path, Judge(more), rows(*responses), max_cost=0.01, concurrency=1, resume="last")
    assert len(more.asked) <= 1
    result = judged(tmp_path, Judge(Uncounting(price=CHEAP)), rows(*responses), max_cost=1, resume="last")
    spent = result.usage["judge"]
    assert (spent["calls"], spent["uncounted_calls"], spent["cost"], spent["counted_cost"]) == (300, 300, None, 0)
    assert 0.01 < spent["estimated_cost"] < 0.1


def test_so_are_the_answers_of_a_target(tmp_path: Path) -> None:
    model = Uncounting(price=CHEAP)
    with pytest.raises(RunError, match="max-cost"):
        asked(tmp_path, model, ["x" * 4_000] * 100, max_cost=0.02)
    assert 8 <= len(model.asked) <= 30  # about 1,000 tokens each, at 1 a million


def test_a_reply_that_stays_unreadable_is_charged_by_estimate_and_shown_as_unknown(tmp_path: Path) -> None:
    broken = Step(200, {"Content-Type": "application/json"}, b'{"choices": [{"message"')
    with FaultServer(lambda *_: broken) as server:
        price = {"input_per_million": 1.0, "output_per_million": 10.0}
        endpoint = served(server, price=price, parameters={"max_tokens": 10})
        judge: Any = Judge(endpoint)  # type: ignore[arg-type]
        arguments: Any = {"max_cost": 0.001, "concurrency": 1}
        with pytest.raises(RunError, match="max-cost"):
            judged(tmp_path, judge, rows(*(f"{n:0800}" for n in range(50))), **arguments)
        # 800 characters are about 210 tokens, at 1 a million, and an answer has ten at most, at 10: 0.0003 an attempt.
        assert 2 <= len(server.requests) <= 6
        before = len(server.requests)
        with pytest.raises(RunError, match="max-cost"):  # what was spent before the run stopped is still spent
            judged(tmp_path, judge, rows(*(f"{n:0800}" for n in range(50))), **arguments, resume="last")
        assert len(server.requests) - before <= 2


def test_so_is_one_of_a_target(tmp_path: Path) -> None:
    model = Model(price=CHEAP, failing={"bb": ReplyError("not JSON", status=200)})
    spent = asked(tmp_path, model, ["a", "bb", "ccc"], max_cost=1).usage["target"]
    assert (spent["calls"], spent["uncounted_calls"], spent["cost"]) == (3, 1, None)


def test_a_call_that_failed_otherwise_costs_nothing(tmp_path: Path) -> None:
    model = Model(price=CHEAP, failing={"bb": EndpointError("busy", status=503)})
    result = judged(tmp_path, Judge(model), rows("a", "bb"))
    assert (result.usage["judge"]["calls"], result.usage["judge"]["cost"]) == (1, pytest.approx(0.0002))


def reply_with(tokens: int, text: str = "x" * 4_000, status: int = 200) -> Step:
    usage = {"prompt_tokens": tokens, "completion_tokens": tokens}
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    body = {"choices": [choice]} if status == 200 else {"error": {"message": "it did not work"}}
    return replace(answer({**body, "usage": usage}), status=status)


# An attempt is estimated at 500 tokens of output, at 100 a million: 0.05.
@pytest.mark.parametrize(
    ("step", "most"),
    [(HANG, 21), (reply_with(0), 21), (reply_with(100_000, status=500), 1)],
    ids=["no reply in time", "a text of 0 tokens", "an error that used 200,000 tokens"],
)
def test_a_budget_stops_a_run_whose_attempts_seem_free(tmp_path: Path, step: Step, most: int) -> None:
    with FaultServer(lambda *_: step) as server:
        endpoint = served(server, timeout_s=0.3)
        with pytest.raises(RunError, match="max-cost"):
            asked(tmp_path, endpoint, max_cost=1, concurrency=4)
        assert len(server.requests) <= most


def test_attempts_before_an_answer_are_charged_with_it(tmp_path: Path) -> None:
    with FaultServer(lambda seen, before: reply_with(10) if before else HANG) as server:
        result = asked(tmp_path, served(server, timeout_s=0.3), limit=1)
    spent = result.usage["target"]
    assert (spent["calls"], spent["uncounted_calls"]) == (2, 1)
    assert spent["counted_cost"] == pytest.approx(0.002)
    assert spent["estimated_cost"] == pytest.approx(0.05, rel=0.05)


def test_a_call_in_flight_when_the_run_is_interrupted_is_charged(tmp_path: Path) -> None:
    def interrupt(*_: object) -> Step:
        os.kill(os.getpid(), signal.SIGINT)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()  # ends the call before its grace is over
        return HANG

    with FaultServer(interrupt) as server, pytest.raises(RunInterruptedError):
        asked(tmp_path, served(server, timeout_s=60), limit=1)
    assert [record["cost"] for record in records(only_run(tmp_path), "call")] == [pytest.approx(0.05, rel=0.05)]


def test_a_dear_limit_of_tokens_does_not_keep_a_cheap_call_from_being_made(tmp_path: Path) -> None:
    class Wordy(Model):
        def settings(self) -> dict[str, Any]:
            return {"kind": self.kind, "parameters": {"max_tokens": 32_000}}

    model = Wordy(price=CHEAP)
    with pytest.raises(RunError, match=r"0\.01 is spent|0\.00\d+ is spent"):
        judged(tmp_path, Judge(model), rows(*(f"{n:03}" for n in range(100))), max_cost=0.01, concurrency=1)
    assert 45 <= len(model.asked) <= 50


def test_a_budget_without_a_price_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    model = Model()
    with pytest.raises(ConfigurationError, match=r"but the price of 'model' \(called by 'judge'\) is unknown"):
        judged(tmp_path, Judge(model), rows("a"), max_cost=1)
    with pytest.raises(ConfigurationError, match="but this run has no endpoint: leave the limit out"):
        run(tmp_path, rows("a"), evaluators={"e": lambda response: 1}, max_cost=1)
    assert model.asked == []


@pytest.mark.parametrize(
    ("most", "problem"),
    [
        (-1, " of at least 0"),
        (float("nan"), " of at least 0"),
        (float("inf"), " that is finite"),
        ("a", ""),
        (True, ""),
    ],
)
def test_a_budget_is_a_finite_number(tmp_path: Path, most: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=f"max_cost: must be a number{problem}"):
        judged(tmp_path, Judge(Model(price=CHEAP)), rows("a"), max_cost=most)


def test_a_judge_that_must_stop_the_run_does(tmp_path: Path) -> None:
    model = Model(failing={"bb": StopRunError("the key is wrong")})
    with pytest.raises(RunError, match="the key is wrong"):
        judged(tmp_path, Judge(model, concurrency=1), rows("a", "bb", "ccc"))
    assert model.asked[:2] == ["a", "bb"]
    again = Model()
    result = judged(tmp_path, Judge(again, concurrency=1), rows("a", "bb", "ccc"), resume="last")
    assert column(result, "outputs.judge.n") == [1, 2, 3]
    assert "a" not in again.asked


def test_a_call_has_the_same_key_each_time_a_run_asks_for_it(tmp_path: Path) -> None:
    model = Model(failing={"a": StopRunError("stop")})
    with pytest.raises(RunError):
        judged(tmp_path, Judge(model), rows("a"))
    again = Model()
    judged(tmp_path, Judge(again), rows("a"), resume="last")
    other = Model()
    judged(tmp_path, Judge(other), rows("a"))
    assert model.keys == again.keys
    assert again.keys != other.keys


def test_a_simulated_judges_run_is_simulated(tmp_path: Path) -> None:
    class Pretending(Model):
        async def complete(self, request: ChatRequest) -> Completion:
            return Completion(text="1", simulated=True)

    assert judged(tmp_path, Judge(Pretending()), rows("a")).simulated
    result = asked(tmp_path, Pretending(price=CHEAP), ["a"])
    assert (result.simulated, result.usage) == (True, {}), "no model was asked"


def test_calls_are_the_same_where_all_that_is_sent_is() -> None:
    tools: list[dict[str, Any]] = [{"type": "function", "function": {"name": "f"}}]
    messages = [{"role": "user", "content": "x"}]
    requests = [
        ChatRequest(messages),
        ChatRequest([*messages, *messages]),
        ChatRequest(messages, tools=tools),
        ChatRequest(messages, tools=[]),
        ChatRequest(messages, parameters={"temperature": 1}),
    ]
    keys = [call_key(Model(), request, 0) for request in requests]
    assert len({*keys, call_key(Model(), requests[0], 1)}) == 6
    assert keys == [call_key(Model(), replace(request), 0) for request in requests]


async def test_a_call_waits_for_the_budget_and_then_refuses(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    calls = RunCalls("run", journal, CachedResults(), Budget(0.001))
    model = Model(price=Price(1.0, 1.0))
    for key in ("first", "second"):
        async with calls.one_call("target", model, key) as told:
            told(CallsMade(1, 300, 100))
    with pytest.raises(StopRunError, match="--max-cost"):
        async with calls.one_call("target", model, "third"):
            pass
    journal.close()
    used: dict[str, JSON] = calls.usage()["target"]  # type: ignore[assignment]
    assert (used["calls"], used["input_tokens"], used["output_tokens"]) == (2, 600, 200)


async def test_a_call_that_is_made_again_after_an_interruption_counts_once(tmp_path: Path) -> None:
    path, model = tmp_path / "journal.jsonl", Model(price=Price(1.0, 1.0))
    for keys in (["first", "second"], ["second", "third"]):
        with closing(Journal(path)) as journal:
            recorded = JournalReader(path, by_row=True, evaluators=frozenset(), answers=True)
            calls = RunCalls("run", journal, CachedResults(recorded), Budget(1))
            for key in keys:
                async with calls.one_call("target", model, key) as told:
                    told(CallsMade(2, 300, 100, masked=1))
    used: dict[str, JSON] = calls.usage()["target"]  # type: ignore[assignment]
    assert (used["calls"], used["input_tokens"], used["output_tokens"], calls.masked) == (6, 900, 300, 3)


async def test_tasks_share_their_answers_and_each_call_is_paid_for_once(tmp_path: Path) -> None:
    class Tasks:
        def __init__(self) -> None:
            self.answers: dict[str, dict[str, JSON]] = {}
            self.settled: list[tuple[str, Any]] = []

        async def answer(self, key: str) -> dict[str, JSON] | None:
            return self.answers.get(key)

        async def settle(self, key: str, answer: dict[str, JSON] | None) -> None:
            self.settled.append((key, answer and answer["text"]))

    model, tasks = Uncounting(price=CHEAP, failing={"bb": EndpointError("busy")}), Tasks()
    requests = [ChatRequest([{"role": "user", "content": text}]) for text in ("a", "bb", "ccc")]
    keys = [call_key(model, request, 0) for request in requests]
    tasks.answers[keys[2]] = {"text": "7", "masked": True, "simulated": True}
    with closing(Journal(tmp_path / "journal.jsonl")) as journal:
        calls = RunCalls("run", journal, CachedResults(), Budget(None), tasks)
        assert [(await calls.complete("judge", model, requests[0], 0)).text for _ in range(2)] == ["1", "1"]
        with pytest.raises(EndpointError, match="busy"):
            await calls.complete("judge", model, requests[1], 0)
        assert (calls.simulated, (await calls.complete("judge", model, requests[2], 0)).text) == (False, "7")
    assert (model.asked, tasks.settled) == (["a", "bb"], [(keys[0], "1"), (keys[1], None)])
    assert (calls.simulated, calls.masked) == (True, 1)
    assert calls.budget.spent == pytest.approx(39e-6)
    # 36 characters of JSON are 9 tokens at 1 a million, the answer `["1",null]` is 3 at 10 a million.
    entry = {"calls": 1, "input_tokens": 0, "output_tokens": 0, "uncounted_calls": 1, "cost": None, "currency": "USD"}
    assert calls.usage() == {"judge": {**entry, "counted_cost": 0.0, "estimated_cost": pytest.approx(39e-6)}}
    paid = [(record["h"], record.get("e")) for record in strict_lines(tmp_path / "journal.jsonl")[1:]]
    assert paid == [(keys[0], "judge"), (keys[2], None)]


@pytest.mark.parametrize("seed", range(10))
async def test_calls_side_by_side_exceed_a_budget_by_less_than_they_cost(seed: int) -> None:
    rng, budget, side_by_side = random.Random(seed), Budget(0.05), asyncio.Semaphore(8)
    costs = [rng.lognormvariate(-7, 1) for _ in range(500)]

    async def call(cost: float) -> None:
        async with side_by_side, budget.reserve("target", 0.01) as reservation:
            await asyncio.sleep(rng.random() / 1000)
            budget.add_cost(cost)
            reservation.cost = cost

    results = await asyncio.gather(*map(call, costs), return_exceptions=True)
    assert any(isinstance(result, StopRunError) for result in results)
    assert 0.04 <= budget.spent <= 0.05 + sum(sorted(costs)[-8:]) / 2


@cases("pipeline")
def test_calls_have_this_entry_and_this_text_of_their_cost(
    calls: list[Any], entry: dict[str, JSON], text: str | None
) -> None:
    spending = Spending()
    for tokens, cost, currency, *number in calls:
        spending.count_calls(Usage(*tokens), cost, currency, *number)
    assert (spending.summary(), cost_text(entry)) == (entry, text)


@cases("pipeline")
def test_a_call_costs_what_its_tokens_and_its_price_say(usage: list[int], price: list[Any], cost: float) -> None:
    assert cost_of(Usage(*usage), Price(*price)) == pytest.approx(cost)


def test_what_is_not_counted_costs_by_the_characters_else_as_a_usual_call() -> None:
    price = Price(1e6, 1e9, cached_input_per_million=0.0)
    assert cost_with_estimates(Usage(), price) == 1_000 + 500_000
    assert cost_with_estimates(Usage(None, 3, 400), price) == 600 + 3_000
    assert cost_with_estimates(Usage(5), price, Usage(7, 2)) == 5 + 2_000
    assert [expected_usage(401, *more) for more in ((None,), (600,), (90,), (None, 9), (2, 9))] == [
        Usage(101, 500), Usage(101, 500), Usage(101, 90), Usage(101, 3), Usage(101, 2)
    ]  # fmt: skip
    assert usage_with_estimates(CallsMade(1, asked=5, answered=9)) == Usage(2, 3)
    assert usage_with_estimates(CallsMade(3, 100, 20, 90, asked=401, answered=8)) == Usage(201, 22, 90)


def test_attempts_beyond_the_budget_stop_the_run() -> None:
    budget = Budget(0.001)
    for cost in (0.0004, None, 0.0006):
        budget.add_cost(cost)
        budget.check()
    budget.add_cost(0.0005)
    said = "--max-cost 0.001: 0.0015 is spent, and retries of unanswered calls may exceed the limit: raise --max-cost"
    with pytest.raises(StopRunError, match=f"^{said}$"):
        budget.check()


async def test_earlier_calls_correct_what_the_next_one_reserves() -> None:
    budget = Budget(10.0)
    found = []
    for name, expected, cost in (("a", 1.0, 2.0), ("a", 1.0, 0.5), ("a", 2.0, None), ("b", 1.0, 0.1), ("b", 0.0, None)):
        async with budget.reserve(name, expected) as reservation:
            found.append(reservation.amount)
            reservation.add_cost(cost)
    # a: (1, 2), then (1.9, 3.8), then (2.71, 3.92); b: (1, 1), then (1.9, 1.0)
    assert found == pytest.approx([1, 2, 2 * 3.92 / 2.71, 1, 1 / 1.9])
    with pytest.raises(StopRunError, match=r"^--max-cost 10: 0 is spent, and the next call may cost 20: raise --max"):
        async with budget.reserve("c", 20.0):
            pass
