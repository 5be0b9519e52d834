"""A finished run in the GoodAI benchmark's own layout, for its tools and for `tunecheck memory replay`.

    <folder>/<benchmark>/definitions/config.yml, <Title>/<example>.def.json
    <folder>/<benchmark>/results/<agent>/master_log.jsonl, runstats.json, <Title>/<example>_<repetition>.json

Each repetition has a folder of its own, `<agent> #2` and so on. `full_log` of a result holds the test's own events:
what else was said meanwhile stands once, in the master log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tunecheck._json import JSON, dumps_line
from tunecheck.memory._definitions import safe_name
from tunecheck.memory._effects import Begin, Consult, Deregister, Effect, End, Register, Send, Waiting
from tunecheck.memory._event_log import Event, read_events
from tunecheck.memory._goodai.log import log_events, log_line
from tunecheck.memory._model import Definition
from tunecheck.memory._session_state import SessionState, TestState


@dataclass(frozen=True, slots=True)
class LegacyScore:
    """A test's score, and why."""

    score: float | None
    reasons: Sequence[str]


def agent_folder(benchmark: Path, agent: str, trial: int) -> Path:
    return benchmark / "results" / (safe_name(agent) if trial == 1 else f"{safe_name(agent)} #{trial}")


def write_results(
    folder: Path,
    events: Path,
    state: SessionState,
    definitions: Mapping[str, Definition],
    scores: Mapping[str, LegacyScore],
    costs: Mapping[str, JSON],
) -> None:
    """Write the files of one session: `events` is its event log, `costs` what it cost."""
    folder.mkdir(parents=True, exist_ok=True)
    recorded = read_events(events)
    logs = {test: _Logs() for test in state.tests}
    with (folder / "master_log.jsonl").open("wb") as file:
        before_us = _first_us(recorded)
        for event in recorded:
            if event.outcome is None:
                break
            for line in log_events(event.effect, before_us, event.outcome):
                file.write(log_line(line))
            _note(logs, event.effect, before_us, event)
            before_us = event.outcome.at_us
    for test, kept in logs.items():
        _write_result(folder, state.tests[test], definitions[test], scores.get(test), kept)
    _write(folder / "runstats.json", {**_statistics(state), **costs})


def _first_us(events: Sequence[Event]) -> int:
    first = events[0] if events else None
    return 0 if first is None else first.at_us or (first.outcome.at_us if first.outcome is not None else 0)


def _statistics(state: SessionState) -> dict[str, JSON]:
    return {
        "total_tokens": state.tokens,
        "agent_tokens": state.agent_tokens,
        "duration": state.generated_ms / 1000,
        "rnd_state": None,
    }


class _Logs:
    """The lines of one test's logs."""

    def __init__(self) -> None:
        self.task: list[JSON] = []
        self.full: list[JSON] = []

    def said(self, line: str) -> None:
        self.task.append(line)
        self.full.append(line)


def _note(logs: Mapping[str, _Logs], effect: Effect, before_us: int, event: Event) -> None:
    assert event.outcome is not None
    test = getattr(effect, "test", "")
    if test not in logs:
        return
    now = _local(event.outcome.at_us)
    if isinstance(effect, Send):
        logs[test].said(f"Test ({_local(before_us)}): {effect.message}")
        logs[test].said(f"Agent ({now}): {event.outcome.text or ''}")
    else:
        logs[test].full += [f"SYSTEM ({now}): {words}" for words in _system(effect)]


def _system(effect: Effect) -> Iterator[str]:
    match effect:
        case Begin(test):
            yield f"Test '{test}' BEGINS"
        case Waiting(test, tokens, seconds):
            yield f"Test '{test}' WAITING for {tokens} TOKENS, {timedelta(seconds=seconds)} TIME."
        case Consult(test):
            yield f"Test '{test}' CALLS an LLM"
        case Register(test):
            yield f"Test '{test}' REGISTERS a callback"
        case Deregister(test):
            yield f"Test '{test}' DEREGISTERS its callback"
        case End(test):
            yield f"Test '{test}' ENDS"


def _local(at_us: int) -> str:
    """A time as that benchmark writes it, without a zone; here it is always UTC."""
    return str(datetime.fromtimestamp(0, UTC).replace(tzinfo=None) + timedelta(microseconds=at_us))


def _write_result(
    folder: Path, state: TestState, definition: Definition, score: LegacyScore | None, logs: _Logs
) -> None:
    if state.ended is None:
        return
    path = folder / definition.title / f"{definition.example}_0.json"
    path.parent.mkdir(exist_ok=True)
    statements = len(definition.script) - sum(definition.is_question[: len(definition.script)])
    _write(
        path,
        {
            "task_log": logs.task,
            "actual_responses": [*state.responses],
            "score": None if score is None else score.score,
            "max_score": 1,
            "reasoning": [] if score is None else [*score.reasons],
            "tokens": state.ended.tokens - state.begun.tokens,
            "characters": state.characters,
            "full_log": logs.full,
            "expected_responses": [*definition.expected],
            "needles": statements,
        },
    )


def _write(path: Path, value: dict[str, JSON]) -> None:
    path.write_bytes(dumps_line(value))
