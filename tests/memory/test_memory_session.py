"""A session: a request is journaled before it is sent, and a cut-off session goes on as if never interrupted."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.memory_session_parts import Had, Scripted, have, session_in, some_settings, some_tests

from tunecheck import ConfigurationError, RunError, StopRunError
from tunecheck.plugins import CallsMade, RecordFile
from tunecheck_memory import (
    Colours,
    Consult,
    Jokes,
    Jump,
    MemoryTest,
    Outcome,
    ProspectiveMemory,
    Register,
    Send,
    Test,
    Wait,
)
from tunecheck_memory._events import read_events
from tunecheck_memory._session import START_US, SessionClock


class DiedError(Exception):
    """Stands for the death of the process."""


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Had:
    return have(tmp_path_factory.mktemp("unbroken"))


def test_an_unbroken_session_has_everything_that_the_other_tests_cut(unbroken: Had) -> None:
    kinds = Counter(type(effect).__name__ for effect, _ in unbroken.stream)
    assert {"Send", "Consult", "Begin", "End", "Waiting", "Register", "Deregister", "Jump", "SuiteReset"} == set(kinds)
    assert unbroken.state.fillers > 1
    assert sorted(unbroken.ended) == sorted(test.id for test in some_tests())


def test_each_message_has_a_key_of_its_own(unbroken: Had) -> None:
    keys = [key for key, _ in unbroken.agent.asked] + unbroken.judge.keys
    assert len(set(keys)) == len(keys) == unbroken.state.messages + len(unbroken.judge.keys)


def test_every_exchange_takes_a_second_of_virtual_time(unbroken: Had) -> None:
    before = START_US
    for effect, outcome in unbroken.stream:
        if isinstance(effect, Send):
            assert outcome.at_us == before + 1_000_000
        elif isinstance(effect, Jump):
            assert outcome.at_us == effect.until_us
        else:
            assert outcome.at_us == before
        before = outcome.at_us


# -- cut off and taken up again


def die_at(record: int, torn: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process dies when it writes this record: nothing of it is there, or its beginning, or all of it."""
    real, count = RecordFile.append, [1]  # the header is the first record

    def append(self: RecordFile, value: Any) -> int:
        count[0] += 1
        if count[0] < record:
            return real(self, value)
        if count[0] == record and torn is not None:
            begin = real(self, value)
            if torn:
                with self.path.open("r+b") as file:
                    file.truncate(begin + torn)
        raise DiedError

    monkeypatch.setattr(RecordFile, "append", append)


def check_taken_up(first: Scripted, second: Scripted, before: list[Any], where: str) -> None:
    """No journaled request is sent again; of what was not, one message, in flight, under its key."""
    journaled = {event.key for event in before if event.outcome is not None and event.key is not None}
    assert not journaled & {key for key, _ in second.asked}, where
    again = set(first.asked) & set(second.asked)
    assert len(again) <= 1, where
    in_flight = [event for event in before if event.outcome is None]
    if in_flight and isinstance(in_flight[0].effect, Send):
        assert second.asked[0] == (in_flight[0].key, in_flight[0].effect.message), where


@pytest.mark.parametrize("torn", [None, 0, 7], ids=["before the record", "after it", "within it"])
@pytest.mark.parametrize("isolated", [False, True], ids=["interleaved", "isolated"])
def test_a_session_that_dies_at_any_record_ends_as_others_do(tmp_path: Path, torn: int | None, isolated: bool) -> None:
    settings = some_settings(isolated=isolated, start_us=START_US)
    whole = have(tmp_path / "whole", settings=settings)
    records = whole.path.read_bytes().count(b"\n")
    for record in range(2, records + 1, 9 if torn is None else 21):
        folder = tmp_path / f"{record}"
        first, second = Scripted(), Scripted()
        with pytest.MonkeyPatch.context() as patch:
            die_at(record, torn, patch)
            with pytest.raises(DiedError):
                have(folder, settings=settings, agent=first)
        before = read_events(folder / "session-1" / "events.jsonl")
        had = have(folder, settings=settings, agent=second)
        assert had.path.read_bytes() == whole.path.read_bytes(), record
        assert had.state.tests == whole.state.tests, record
        check_taken_up(first, second, before, f"record {record}")


def test_what_was_said_before_is_observed_by_the_agent_in_order(unbroken: Had, tmp_path: Path) -> None:
    first, second = Scripted(dies_at=20), Scripted()
    with pytest.raises(KeyboardInterrupt):
        have(tmp_path, agent=first)
    have(tmp_path, agent=second)
    messages = [message for message, _ in second.observed] + [message for _, message in second.asked]
    assert messages == [message for _, message in unbroken.agent.asked]
    assert second.observed[3] == (unbroken.agent.asked[3][1], unbroken.stream[unbroken_send(unbroken, 3)][1].text)


def unbroken_send(had: Had, number: int) -> int:
    """The place in the stream of the n-th message."""
    return [at for at, (effect, _) in enumerate(had.stream) if isinstance(effect, Send)][number]


def test_resets_are_observed_and_not_made_again(tmp_path: Path) -> None:
    settings = some_settings(isolated=True, start_us=START_US)
    have(tmp_path, settings=settings)
    again = have(tmp_path, settings=settings)
    assert again.agent.resets == []
    assert sum(message == "reset" for message, _ in again.agent.observed) == len(some_tests())


# -- refused


def test_other_tests_than_those_that_were_recorded_are_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        have(tmp_path, agent=Scripted(dies_at=12))
    changed = [*some_tests()]
    old = changed[0].definition
    changed[0] = Test(MemoryTest(old.title, old.example, ("Red.",) * 4, old.is_question, old.waits), changed[0].kind)
    again = Scripted()
    with pytest.raises(ConfigurationError, match=r"event \d+ was a message of Colours - 0: .*, but would now be .*Red"):
        have(tmp_path, changed, agent=again)
    assert again.asked == []


def test_another_seed_is_refused_at_the_first_filler_that_differs(tmp_path: Path) -> None:
    have(tmp_path)
    with pytest.raises(ConfigurationError, match=r"was a message of filler: .* would now be a message of filler"):
        have(tmp_path, settings=some_settings(seed=9, start_us=START_US))


def test_a_log_that_goes_on_where_the_tests_end_is_refused(tmp_path: Path) -> None:
    have(tmp_path)
    with pytest.raises(ConfigurationError, match=r'event \d+ was begin {"test":"\S.*,"tokens":\d+}, but would now be '):
        have(tmp_path, some_tests()[:1])


# -- failures


class Failing(Scripted):
    def __init__(self, error: Exception, at: int) -> None:
        super().__init__()
        self.error, self.at = error, at

    async def reply(self, message: str, *, key: str, at_us: int, suggested: str | None = None) -> Any:
        if len(self.asked) == self.at:
            raise self.error
        return await super().reply(message, key=key, at_us=at_us, suggested=suggested)


def test_what_must_stop_the_run_is_passed_on_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(StopRunError, match="the key is wrong"):
        have(tmp_path, agent=Failing(StopRunError("the key is wrong"), 2))


async def test_a_stopped_session_finishes_its_exchange_and_begins_no_other(unbroken: Had, tmp_path: Path) -> None:
    class Slow(Scripted):
        async def reply(self, message: str, **more: Any) -> Any:
            if len(self.asked) == 5:
                had.session.stop()
                await asyncio.sleep(0.01)
            return await super().reply(message, **more)

    had = session_in(tmp_path, agent=Slow())
    with pytest.raises(RunError, match="stopped"):
        await had.session.run()
    had.session.log.close()
    assert len(had.agent.asked) == 6
    assert all(event.outcome is not None for event in read_events(had.path))


# -- time


def test_a_mirrored_clock_tells_the_agent_of_time_that_passes(tmp_path: Path) -> None:
    had = have(tmp_path, clock=SessionClock("mirrored"))
    jumps = [(effect, outcome) for effect, outcome in had.stream if isinstance(effect, Jump)]
    assert [until for _, until in had.agent.advanced] == [outcome.at_us for _, outcome in jumps]
    assert all(start < until for start, until in had.agent.advanced)


def test_time_that_passes_is_told_again_under_its_key_when_that_was_in_flight(tmp_path: Path) -> None:
    class Lost(Scripted):
        async def advance(self, from_us: int, to_us: int, key: str) -> None:
            await super().advance(from_us, to_us, key)
            raise KeyboardInterrupt

    first, second = Lost(), Scripted()
    with pytest.raises(KeyboardInterrupt):
        have(tmp_path, agent=first, clock=SessionClock("mirrored"))
    have(tmp_path, agent=second, clock=SessionClock("mirrored"))
    assert second.advanced[0] == first.advanced[0]


class Machine:
    """A machine's clock, and what was slept by it."""

    def __init__(self) -> None:
        self.us = 1_700_000_000_000_000
        self.slept: list[float] = []

    def now(self) -> int:
        self.us += 15
        return self.us

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.us += round(seconds * 1_000_000)

    def clock(self) -> SessionClock:
        return SessionClock("real", self.now, self.sleep)


def joke_test() -> list[Test]:
    kind = Jokes()
    script = ("A joke.", "Another joke.")
    waits = (Wait(seconds=7_200), Wait(seconds=3_600), Wait())
    definition = MemoryTest("Jokes", "0", script, (False, False, True), waits, ["A joke."], is_temporal=True)
    return [Test(definition, kind)]


def test_a_real_clock_waits_for_the_time_that_has_to_pass(tmp_path: Path) -> None:
    machine = Machine()
    had = have(tmp_path, joke_test(), clock=machine.clock())
    assert len(had.ended) == 1
    assert sum(machine.slept) == pytest.approx(10_800, abs=10)
    assert (
        "1 hour" in had.state.tests["Jokes - 0"].questions[0] or "3 hours" in had.state.tests["Jokes - 0"].questions[0]
    )


async def test_a_session_that_is_stopped_while_it_waits_ends_at_once(tmp_path: Path) -> None:
    async def forever(seconds: float) -> None:
        had.session.stop()
        await asyncio.sleep(seconds)

    had = session_in(tmp_path, joke_test(), clock=SessionClock("real", sleep=forever))
    with pytest.raises(RunError, match="stopped"):
        await asyncio.wait_for(had.session.run(), 20)
    had.session.log.close()


def test_time_that_passed_while_nobody_was_there_is_not_waited_for_again(tmp_path: Path) -> None:
    machine = Machine()

    async def die(seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        have(tmp_path, joke_test(), clock=SessionClock("real", machine.now, die))
    machine.us += 7_000 * 1_000_000
    had = have(tmp_path, joke_test(), clock=machine.clock())
    assert had.ended == ["Jokes - 0"]
    assert sum(machine.slept) == pytest.approx(200 + 3_600, abs=10)


# -- its state


def test_the_state_of_a_test_is_those_of_a_calculation_by_hand(tmp_path: Path) -> None:
    script = ("one two three", "what was it")
    definition = MemoryTest("Colours", "0", script, (False, True), (Wait(tokens=10), Wait()), ["three"])
    agent = Scripted(answer=lambda message: "yes" if "one" in message else "a b")
    settings = some_settings(introduce=False, start_us=START_US)
    had = have(tmp_path, [Test(definition, Colours())], settings, agent=agent)
    state = had.state.tests["Colours - 0"]
    filler = [
        (effect.message, outcome.text) for effect, outcome in had.stream if isinstance(effect, Send) and effect.filler
    ]
    words = sum(len(text.split()) for pair in filler for text in pair)
    assert (state.begun.tokens, state.begun.message) == (0, 0)
    assert state.ended is not None
    assert state.ended.tokens == 3 + 1 + words + 3 + 2 == had.state.tokens
    assert state.ended.message == 2 + len(filler) == had.state.messages
    assert state.characters == sum(map(len, script)) + len("yesa b") + sum(
        len(text) for pair in filler for text in pair
    )
    assert (state.questions, state.responses) == (["what was it"], ["a b"])
    assert state.spent == CallsMade(2, 6, 6)
    assert state.share == state.spent, "adopted filler takes nothing"
    assert [entry["what"] for entry in state.log] == ["begin", "statement", "wait", "question", "end"]  # type: ignore[index,call-overload]
    assert (had.state.generated_tokens, had.state.generated_ms) == (3, 20.0)
    assert had.state.agent_tokens == 3 + sum(len(reply.split()) for _, reply in filler)


def test_the_replies_since_a_question_are_all_of_the_conversation_up_to_the_callback_s_end(tmp_path: Path) -> None:
    had = have(tmp_path, some_tests(1, [ProspectiveMemory(), Colours()]))
    sends = [outcome.text for effect, outcome in had.stream if isinstance(effect, Send)]
    kinds = [type(effect) for effect, _ in had.stream]
    question = sum(kind is Send for kind in kinds[: kinds.index(Register)]) - 1
    expected = had.state.tests["Prospective Memory - 0"]
    last = some_tests(1, [ProspectiveMemory()])[0].definition.expected[0][-1]
    assert expected.since_question == sends[question : question + int(last)]
    assert had.state.tests["Colours - 0"].since_question == []


def test_a_judge_s_calls_stand_in_the_test_s_own_log(unbroken: Had) -> None:
    judged = [effect for effect, _ in unbroken.stream if isinstance(effect, Consult)]
    entries = [entry for state in unbroken.state.tests.values() for entry in state.log if entry["what"] == "judge"]  # type: ignore[index,call-overload]
    assert len(entries) == len(judged) == len(unbroken.judge.keys) > 0


def test_a_declined_reply_is_observed_as_such(tmp_path: Path) -> None:

    class Declining(Scripted):
        declined: list[str] = []  # noqa: RUF012 - of the one instance

        async def reply(self, message: str, **more: Any) -> Outcome:
            await super().reply(message, **more)
            return Outcome(more["at_us"], "", declined=len(self.asked) == 3)

        def observe(self, message: str, reply: str, *, declined: bool = False) -> None:
            if declined:
                self.declined.append(message)

    agent = have(tmp_path, agent=Declining()).agent
    again = have(tmp_path, agent=Declining()).agent
    assert again.declined == [agent.asked[2][1]]
