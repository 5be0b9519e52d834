"""A finished run in the GoodAI benchmark's own layout, for its tools and for `tunecheck memory replay`.

    <folder>/<benchmark>/definitions/config.yml, <Title>/<example>.def.json
    <folder>/<benchmark>/results/<agent>/master_log.jsonl, runstats.json, <Title>/<example>_<repetition>.json

Each repetition has a folder of its own, `<agent> #2` and so on. `full_log` of a result holds the test's own events:
what else was said meanwhile stands once, in the master log.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tunecheck._json import JSON, dumps_line
from tunecheck_memory._definitions import safe_name
from tunecheck_memory._effects import Begin, Consult, Deregister, Effect, End, Outcome, Register, Send, Waiting
from tunecheck_memory._event_log import Event
from tunecheck_memory._goodai.log import log_events, log_line
from tunecheck_memory._model import Definition
from tunecheck_memory._session_state import SessionState, TestState


@dataclass(frozen=True, slots=True)
class LegacyScore:
    score: float | None
    reasons: Sequence[str]


def agent_folder(benchmark: Path, agent: str, trial: int) -> Path:
    return benchmark / "results" / (safe_name(agent) if trial == 1 else f"{safe_name(agent)} #{trial}")


def write_results(
    folder: Path,
    events: Sequence[Event],
    state: SessionState,
    definitions: Mapping[str, Definition],
    scores: Mapping[str, LegacyScore],
    costs: Mapping[str, JSON],
) -> None:
    """Write the files of one session from its event log."""
    folder.mkdir(parents=True, exist_ok=True)
    finished = [(event.effect, event.outcome) for event in events if event.outcome is not None]
    logs = {test: _Logs() for test in state.tests}
    with (folder / "master_log.jsonl").open("wb") as file:
        before_us = events[0].at_us or finished[0][1].at_us if finished else 0
        for effect, outcome in finished:
            for line in log_events(effect, before_us, outcome):
                file.write(log_line(line))
            _note(logs, effect, before_us, outcome)
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


@dataclass
class _Logs:
    task: list[JSON] = field(default_factory=list)
    full: list[JSON] = field(default_factory=list)


def _note(logs: Mapping[str, _Logs], effect: Effect, before_us: int, outcome: Outcome) -> None:
    test = getattr(effect, "test", "")
    if test not in logs:
        return
    now = _local(outcome.at_us)
    if isinstance(effect, Send):
        said = [f"Test ({_local(before_us)}): {effect.message}", f"Agent ({now}): {outcome.text or ''}"]
        logs[test].task += said
        logs[test].full += said
    elif isinstance(effect, Waiting):
        words = f"WAITING for {effect.tokens} TOKENS, {timedelta(seconds=effect.seconds)} TIME."
        logs[test].full.append(f"SYSTEM ({now}): Test '{test}' {words}")
    elif type(effect) in _SYSTEM:
        logs[test].full.append(f"SYSTEM ({now}): Test '{test}' {_SYSTEM[type(effect)]}")


_SYSTEM: Mapping[type[Effect], str] = {
    Begin: "BEGINS",
    Consult: "CALLS an LLM",
    Register: "REGISTERS a callback",
    Deregister: "DEREGISTERS its callback",
    End: "ENDS",
}


def _local(at_us: int) -> str:
    """As the benchmark writes a time, without a zone; always UTC."""
    return str(datetime.fromtimestamp(0, UTC).replace(tzinfo=None) + timedelta(microseconds=at_us))


def _write_result(
    folder: Path, state: TestState, definition: Definition, score: LegacyScore | None, logs: _Logs
) -> None:
    if state.ended is None:
        return
    path = folder / definition.title / f"{definition.example}_0.json"
    path.parent.mkdir(exist_ok=True)
    statements = len(definition.script) - sum(definition.is_question[: len(definition.script)])
    result: dict[str, JSON] = {
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
    }
    path.write_bytes(dumps_line(result))
