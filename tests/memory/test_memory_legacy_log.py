"""The reference's log: read, written again to the byte where it was ours, and refused with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from checks.goodai_run import LogEvent, log_events, log_line, read_log
from hypothesis import HealthCheck, given, settings, strategies as st
from tests.memory_core_parts import replayable_runs

from tunecheck_memory import Points
from tunecheck_memory._effects import (
    Begin,
    Consult,
    Deregister,
    Effect,
    End,
    Jump,
    Outcome,
    Register,
    ResetAgent,
    Send,
    SuiteReset,
    Waiting,
)
from tunecheck_memory._run_files import EventType

LINE = '{"type": 6, "timestamp": 1716376553.869467, "test_id": "Colours - 0", "data": {"tokens": 285, "time": 0}}'


def read(folder: Path, text: str) -> tuple[LogEvent, ...]:
    file = folder / "master_log.jsonl"
    file.write_text(text, "utf-8")
    return read_log(file).events


def test_an_event_has_its_type_time_test_and_what_it_says(tmp_path: Path) -> None:
    assert read(tmp_path, LINE) == (
        LogEvent(EventType.WAIT, 1_716_376_553_869_467, "Colours - 0", tokens=285, seconds=0, line=1),
    )


def test_a_last_line_that_broke_off_is_passed_over_and_told(tmp_path: Path) -> None:
    file = tmp_path / "master_log.jsonl"
    file.write_text(f"{LINE}\n{LINE[:50]}", "utf-8")
    log = read_log(file)
    assert (len(log.events), log.torn) == (1, True)


@pytest.mark.parametrize("number", range(7))
def test_a_published_log_says_the_same_when_it_is_written_again(shared_data: Path, number: int) -> None:
    file = replayable_runs(shared_data)[number] / "master_log.jsonl"
    again = [json.loads(log_line(event)) for event in read_log(file).events]
    assert again == [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip()]


texts = st.text(st.characters(blacklist_categories=["Cs"]), max_size=30)
times = st.integers(0, 8_500_000_000_000_000)  # µs, to the year 2239


@st.composite
def log_event(draw: st.DrawFn) -> LogEvent:
    kind = draw(st.sampled_from(EventType))
    message = kind in (0, 3, 4, 5)
    return LogEvent(
        kind,
        draw(times),
        draw(texts),
        draw(texts) if message or kind is EventType.LLM_CALL else None,
        draw(st.booleans()) if message else False,
        draw(st.integers(0, 10**9)) if kind in (EventType.BEGIN, EventType.WAIT) else 0,
        draw(st.integers(0, 10**9)) if kind is EventType.WAIT else 0,
    )


@given(st.lists(log_event(), max_size=6))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read_again(tmp_path: Path, events: list[LogEvent]) -> None:
    from dataclasses import replace

    file = tmp_path / "master_log.jsonl"
    file.write_bytes(b"".join(map(log_line, events)))
    assert [replace(event, line=0) for event in read_log(file).events] == events


EFFECTS: list[tuple[Effect, list[EventType]]] = [
    (Send("", "hello"), [EventType.SEND_FILL, EventType.RESPONSE_FILL]),
    (Send("A - 0", "hello", question=True), [EventType.SEND_MESSAGE, EventType.RESPONSE_MESSAGE]),
    (Consult("A - 0", "notice", {}), [EventType.LLM_CALL]),
    (Begin("A - 0", 5), [EventType.BEGIN]),
    (End("A - 0", Points(1, 2, ())), [EventType.END]),
    (Waiting("A - 0", 5, 90_000), [EventType.WAIT]),
    (Register("A - 0"), [EventType.REGISTER_CALLBACK]),
    (Deregister("A - 0"), [EventType.DEREGISTER_CALLBACK]),
    (SuiteReset(), [EventType.SUITE_RESET]),
    (Jump(9), []),
    (ResetAgent("A - 0"), []),
]


@pytest.mark.parametrize(("effect", "kinds"), EFFECTS)
def test_each_effect_has_its_events(effect: Effect, kinds: list[EventType]) -> None:
    events = list(log_events(effect, 100, Outcome(200, "yes")))
    assert [event.type for event in events] == kinds
    assert all(event.at_us in (100, 200) for event in events)
    if isinstance(effect, Send):
        assert [event.at_us for event in events] == [100, 200]
        assert [event.text for event in events] == ["hello", "yes"]
