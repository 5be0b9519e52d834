"""Write a finished run in the GoodAI benchmark's layout, for its tools and checks/goodai_replay.py.

    <folder>/<benchmark>/definitions/config.yml, <Title>/<example>.def.json
    <folder>/<benchmark>/results/<agent>/master_log.jsonl, runstats.json, <Title>/<example>_<repetition>.json

Each repetition has its own folder: `<agent> #2` and so on. A result's `full_log` holds the test's own events; the
master log holds all messages, filler included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck.plugins import JSON, dumps_line
from tunecheck_memory._effects import (
    Begin,
    Consult,
    Deregister,
    Effect,
    End,
    Outcome,
    Register,
    Send,
    SuiteReset,
    Waiting,
)
from tunecheck_memory._event_log import Event
from tunecheck_memory._kind import Definition
from tunecheck_memory._making import safe_name
from tunecheck_memory._session_state import SessionState, TestState

if TYPE_CHECKING:
    from tunecheck_memory._run_files import Scored

_MICROSECONDS = 1_000_000


class EventType(IntEnum):
    SEND_MESSAGE = 0
    BEGIN = 1
    END = 2
    SEND_FILL = 3
    RESPONSE_MESSAGE = 4
    RESPONSE_FILL = 5
    WAIT = 6
    SUITE_RESET = 7
    LLM_CALL = 8
    REGISTER_CALLBACK = 9
    DEREGISTER_CALLBACK = 10


_OF_TESTS: Mapping[type[Effect], EventType] = {
    Begin: EventType.BEGIN,
    Waiting: EventType.WAIT,
    Consult: EventType.LLM_CALL,
    End: EventType.END,
    Register: EventType.REGISTER_CALLBACK,
    Deregister: EventType.DEREGISTER_CALLBACK,
    SuiteReset: EventType.SUITE_RESET,
}


def log_lines(effect: Effect, before_us: int, outcome: Outcome) -> Iterator[dict[str, JSON]]:
    """Yield the master log's lines of an effect and its outcome; `before_us` is the time before it."""
    test: str = getattr(effect, "test", "")
    text, data = outcome.text or "", dict[str, JSON]()
    match effect:
        case Send(_, message, question):
            sent, answered = (
                (EventType.SEND_FILL, EventType.RESPONSE_FILL)
                if effect.filler
                else (EventType.SEND_MESSAGE, EventType.RESPONSE_MESSAGE)
            )
            yield _line(sent, before_us, test, {"message": message, "is_question": question})
            yield _line(answered, outcome.at_us, test, {"message": text, "is_question": question})
        case Begin(_, tokens):
            data = {"tokens": tokens}
        case Waiting(_, tokens, seconds):
            data = {"tokens": tokens, "time": seconds}
        case Consult():
            data = {"response": text}
    if (kind := _OF_TESTS.get(type(effect))) is not None:
        yield _line(kind, outcome.at_us, test, data)


def _line(kind: EventType, at_us: int, test: str, data: dict[str, JSON]) -> dict[str, JSON]:
    return {"type": int(kind), "timestamp": at_us / _MICROSECONDS, "test_id": test, "data": data}


def agent_folder(benchmark: Path, agent: str, trial: int) -> Path:
    return benchmark / "results" / (safe_name(agent) if trial == 1 else f"{safe_name(agent)} #{trial}")


def write_results(
    folder: Path,
    events: Sequence[Event],
    state: SessionState,
    definitions: Mapping[str, Definition],
    scores: Mapping[str, Scored],
    costs: Mapping[str, JSON],
) -> None:
    """Write the files of one session from its event log."""
    folder.mkdir(parents=True, exist_ok=True)
    finished = [(event.effect, event.outcome) for event in events if event.outcome is not None]
    logs: dict[str, tuple[list[JSON], list[JSON]]] = {test: ([], []) for test in state.tests}
    with (folder / "master_log.jsonl").open("wb") as file:
        before_us = events[0].at_us or finished[0][1].at_us if finished else 0
        for effect, outcome in finished:
            file.writelines(map(dumps_line, log_lines(effect, before_us, outcome)))
            said, noted = logs.get(getattr(effect, "test", ""), ([], []))
            lines = _task_lines(effect, before_us, outcome)
            said += lines if isinstance(effect, Send) else []
            noted += lines
            before_us = outcome.at_us
    for test, kept in logs.items():
        _write_result(folder, state.tests[test], definitions[test], scores.get(test), kept)
    statistics: dict[str, JSON] = {
        "total_tokens": state.tokens,
        "agent_tokens": state.agent_tokens,
        "duration": state.generated_ms / 1000,
        "rnd_state": None,
    }
    (folder / "runstats.json").write_bytes(dumps_line({**statistics, **costs}))


_SYSTEM: Mapping[type[Effect], str] = {
    Begin: "BEGINS",
    Consult: "CALLS an LLM",
    Register: "REGISTERS a callback",
    Deregister: "DEREGISTERS its callback",
    End: "ENDS",
}


def _task_lines(effect: Effect, before_us: int, outcome: Outcome) -> list[str]:
    """Return the lines of a test's own log for one of its effects."""
    now = _local(outcome.at_us)
    if isinstance(effect, Send):
        return [f"Test ({_local(before_us)}): {effect.message}", f"Agent ({now}): {outcome.text or ''}"]
    words = _SYSTEM.get(type(effect))
    if isinstance(effect, Waiting):
        words = f"WAITING for {effect.tokens} TOKENS, {timedelta(seconds=effect.seconds)} TIME."
    return [] if words is None else [f"SYSTEM ({now}): Test '{getattr(effect, 'test', '')}' {words}"]


def _local(at_us: int) -> str:
    """Return a time in the benchmark's format: UTC, without a zone."""
    return str(datetime.fromtimestamp(0, UTC).replace(tzinfo=None) + timedelta(microseconds=at_us))


def _write_result(
    folder: Path, state: TestState, definition: Definition, score: Scored | None, logs: tuple[list[JSON], list[JSON]]
) -> None:
    if state.ended is None:
        return
    path = folder / definition.title / f"{definition.example}_0.json"
    path.parent.mkdir(exist_ok=True)
    statements = len(definition.script) - sum(definition.is_question[: len(definition.script)])
    result: dict[str, JSON] = {
        "task_log": logs[0],
        "actual_responses": [*state.responses],
        "score": None if score is None else score.score,
        "max_score": 1,
        "reasoning": [] if score is None or score.reason is None else [score.reason],
        "tokens": state.ended.tokens - state.begun.tokens,
        "characters": state.characters,
        "full_log": logs[1],
        "expected_responses": [*definition.expected],
        "needles": statements,
    }
    path.write_bytes(dumps_line(result))
