"""The memory target in a run of the pipeline: rows of one conversation, its cost, its end, and going on with it."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.memory_session_parts import CountingJudge, some_kinds, some_settings, some_tests
from tests.pipeline_parts import only_run, rows_of, run

from tunecheck import CallContext, ConfigurationError, EndpointError, EvaluationResult, ReplyError, Row, RunError
from tunecheck.endpoints import ChatRequest, Completion, Endpoint, Price, Usage, load_endpoint
from tunecheck.plugins import JSON
from tunecheck_memory import Colours, FinishedTest, MemoryTarget, Score, Send, Test
from tunecheck_memory._benchmark import definition_data
from tunecheck_memory._events import event_log_path, read_events


class Model(Endpoint):
    """A model in the same process: how often it was asked, and what it is to do at a certain call."""

    kind: ClassVar[str] = "here"

    def __init__(
        self,
        *,
        fails_at: int | None = None,
        price: Price | None = None,
        error: Exception | None = None,
        takes_s: float = 0,
    ) -> None:
        self.name = "model"
        self.price = price
        self.asked: list[ChatRequest] = []
        self.closed = 0
        self.most_at_once = 0
        self._at_once = 0
        self._fails_at = fails_at
        self._error = error or EndpointError("no more today")
        self._takes_s = takes_s

    async def complete(self, request: ChatRequest) -> Completion:
        if len(self.asked) == self._fails_at:
            raise self._error
        self.asked.append(request)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        await asyncio.sleep(self._takes_s)
        self._at_once -= 1
        return Completion(text=f"Noted {len(str(request.messages[-1]))}.", usage=Usage(100, 10), latency_ms=2.0)

    def settings(self) -> dict[str, JSON]:
        return {"kind": self.kind}

    async def close(self) -> None:
        self.closed += 1


class Judged(MemoryTarget):
    """A target whose judge needs no model."""

    def _make_judge(self) -> CountingJudge:
        return CountingJudge()


def target_of(model: Model, tests: Sequence[Test] | None = None, **more: Any) -> MemoryTarget:
    settings = some_settings(**more.pop("settings", {}))
    return Judged(model, some_tests() if tests is None else tests, settings, **more)


def rows_for(tests: Sequence[Test]) -> list[dict[str, Any]]:
    return [{"id": test.id, "dataset": test.definition.title, **definition_data(test.definition)} for test in tests]


def counted(responses: list[str]) -> dict[str, object]:
    return {"n": len(responses)}


def had(folder: Path, target: MemoryTarget, tests: Sequence[Test] | None = None, **more: Any) -> EvaluationResult:
    rows = rows_for(some_tests() if tests is None else tests)
    return run(folder, rows, target=target, evaluators={"counted": counted}, **more)


def test_every_row_is_answered_from_the_same_conversation(tmp_path: Path) -> None:
    model = Model()
    target = target_of(model)
    found = rows_of(had(tmp_path, target))
    assert [row["row_id"] for row in found] == [test.id for test in some_tests()]
    assert {row["outputs.session"] for row in found} == {"session-1"}
    assert target.final_state(events(tmp_path)).messages == sum(
        isinstance(event.effect, Send) for event in events(tmp_path)
    )
    assert model.most_at_once == 1, "one message after the other"
    assert model.closed == 1


def events(folder: Path, trial: int = 1) -> Any:
    return read_events(event_log_path(only_run(folder).folder, trial))


def test_a_row_has_what_evaluators_need(tmp_path: Path) -> None:
    found = {row["row_id"]: row for row in rows_of(had(tmp_path, target_of(Model())))}
    colours = found["Colours - 0"]
    assert len(colours["outputs.responses"]) == len(colours["outputs.questions"]) == 1
    assert colours["outputs.response"] == colours["outputs.responses"][-1]
    assert colours["outputs.needles"] == 3
    assert colours["outputs.tokens"] == colours["outputs.ended"]["tokens"] - colours["outputs.began"]["tokens"] > 0
    assert colours["outputs.points"] is None
    assert found["Restaurant - 0"]["outputs.points"]["most"] == 5
    assert len(found["Prospective Memory - 0"]["outputs.since_question"]) > 1


def test_what_all_rows_share_comes_to_all_calls_of_the_run(tmp_path: Path) -> None:
    model = Model(price=Price(1.0, 2.0))
    result = had(tmp_path, target_of(model))
    calls = len(model.asked)
    assert result.usage["target"] == {
        "calls": calls,
        "input_tokens": 100 * calls,
        "output_tokens": 10 * calls,
        "uncounted_calls": 0,
        "cost": pytest.approx(calls * 120 / 1_000_000),
        "currency": "USD",
    }
    assert sum(row["outputs.share"]["calls"] for row in rows_of(result)) == calls
    assert 0 < sum(row["outputs.usage"]["calls"] for row in rows_of(result)) < calls, "the introduction is nobody's"


def test_repetitions_are_conversations_of_their_own_side_by_side(tmp_path: Path) -> None:
    model = Model(takes_s=0.01)
    found = rows_of(had(tmp_path, target_of(model), repeat=3))
    assert [row["row_id"] for row in found][:4] == ["Colours - 0", "Colours - 0#2", "Colours - 0#3", "Colours - 1"]
    assert [row["outputs.session"] for row in found][:3] == ["session-1", "session-2", "session-3"]
    assert model.most_at_once == 3
    streams = [[(event.effect, event.outcome.at_us) for event in events(tmp_path, trial)] for trial in (1, 2, 3)]
    assert streams[0] == streams[1] == streams[2]
    keys = [event.key for trial in (1, 2, 3) for event in events(tmp_path, trial) if event.key]
    assert len(set(keys)) == len(keys)


# -- stopping and going on


def test_a_budget_holds_in_the_middle_of_a_conversation(tmp_path: Path) -> None:
    model = Model(price=Price(1.0, 2.0))
    with pytest.raises(RunError, match="--max-cost"):
        had(tmp_path, target_of(model), max_cost=0.00125)
    assert len(model.asked) == 10, "each call costs 0.00012, and the eleventh would exceed it"


def test_a_reply_that_nobody_can_read_is_charged_and_a_resumed_run_knows_of_it(tmp_path: Path) -> None:
    price = Price(1.0, 1.0)
    with pytest.raises(RunError, match="what it said"):
        had(tmp_path, target_of(Model(price=price, fails_at=5, error=ReplyError("what it said"))))
    spent: Any = had(tmp_path, target_of(model := Model(price=price)), resume="last").usage["target"]
    assert (spent["calls"], spent["uncounted_calls"]) == (5 + 1 + len(model.asked), 1)


async def test_outside_of_a_run_there_is_nowhere_to_keep_events() -> None:
    target = target_of(Model())
    with pytest.raises(RunError, match="needs the folder of a run"):
        await target.answer(Row(0, "Colours - 0", {}, "f"), CallContext("run", "Colours - 0", "h"))


# -- what it is


def test_the_fingerprint_says_whether_the_same_would_be_said(tmp_path: Path) -> None:
    same = target_of(Model()).fingerprint()
    assert target_of(Model()).fingerprint() == same
    others = [
        target_of(Model(), some_tests(1)),
        target_of(Model(), settings={"isolated": True}),
        target_of(Model(), settings={"memory_span": 17}),
        target_of(Model(), clock="mirrored"),
    ]
    assert len({same, *(other.fingerprint() for other in others)}) == 5
    going_on = [target_of(Model(), max_prompt_size=900), target_of(Model(), judge=Model())]
    assert {other.fingerprint() for other in going_on} == {same}, "these may change; the event log says when"


def test_a_prompt_size_that_an_agent_could_not_heed_is_refused_before_anything_is_asked() -> None:
    agent: Any = load_endpoint({"kind": "memory_agent", "url": "http://127.0.0.1:9", "auth": {"type": "none"}})
    with pytest.raises(ConfigurationError, match="keeps the conversation itself; leave out max_prompt_size"):
        target_of(agent, max_prompt_size=100)


class Haiku(Colours):
    """A user-written kind with rules of its own."""

    def score(self, given: FinishedTest) -> Score | None:
        return Score(0.25, (f"{len(given.responses)} reply",), sure=False)


def test_a_kind_with_rules_of_its_own_is_scored_by_them(tmp_path: Path) -> None:
    kind = Haiku()
    tests = some_tests(1, [kind])
    (row,) = rows_of(had(tmp_path, target_of(Model(), tests), tests))
    assert (row["outputs.own_score"], row["outputs.own_sure"], row["outputs.reasons"]) == (0.25, False, ["1 reply"])
    assert {kind.title for kind in some_kinds()} > {kind.title}


def test_rules_that_fail_are_the_error_of_that_row_alone(tmp_path: Path) -> None:
    class Broken(Haiku):
        def score(self, given: FinishedTest) -> Score | None:
            raise ZeroDivisionError("no haiku")

    tests = [*some_tests(1, [Broken()]), *some_tests(1, some_kinds()[1:])]
    found = rows_of(had(tmp_path, target_of(Model(), tests), tests))
    assert [row["row_id"] for row in found if "error.target" in row] == ["Colours - 0"]
    assert found[0]["error.target"]["message"] == "no haiku"
