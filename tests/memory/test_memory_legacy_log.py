"""The reference's log: read, written again to the byte where it was ours, and refused with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from checks.goodai_run import LogEvent, log_events, log_line, read_log
from tests.memory_core_parts import replayable_runs

from tunecheck_memory import (
    Begin,
    Consult,
    Deregister,
    Effect,
    End,
    EventType,
    Jump,
    Outcome,
    Points,
    Register,
    ResetAgent,
    Send,
    SuiteReset,
    Waiting,
)

LINE = '{"type": 6, "timestamp": 1716376553.869467, "test_id": "Colours - 0", "data": {"tokens": 285, "time": 0}}'


def read(folder: Path, text: str) -> tuple[LogEvent, ...]:
    file = folder / "master_log.jsonl"
    file.write_text(text, "utf-8")
    return read_log(file).events


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
