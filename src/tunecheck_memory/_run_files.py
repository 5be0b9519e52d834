"""Write the own files of a memory run, in `RUN/memory/`, and compute its figures.

session-1/events.jsonl                        a session's events; all other files are computed from them
<benchmark>/definitions/config.yml, <Title>/<example>.def.json
<benchmark>/results/<agent>/master_log.jsonl, runstats.json, <Title>/<example>_0.json
summary.json                                  the figures

The benchmark's folder has the layout of the GoodAI benchmark, for its tools and checks/goodai_replay.py. Each further
repetition has its own results folder: `<agent> #2` and so on. A result's `full_log` holds the test's own events; the
master log holds all messages, filler included. The figures are those of the GoodAI benchmark with two differences:
scores stay within 0 and 1, and the speed excludes suggested replies that the agent adopted.

The events of the GoodAI benchmark's logs come from one effect of ours each, or two for a message and its reply:

| effect | types in `master_log.jsonl` | line of a test's log |
|---|---|---|
| a test's message | 0, 4 | `Test (2025-01-06 09:00:01): …`, `Agent (…): …` |
| filler, the introduction | 3, 5 | |
| a test begins, ends | 1, 2 | `SYSTEM (…): Test 'Colours - 0' BEGINS`, `ENDS` |
| a wait | 6 | `… WAITING for 273 TOKENS, 2:55:00 TIME.` |
| a question to the judge | 8 | `… CALLS an LLM` |
| a callback begins, ends | 9, 10 | `… REGISTERS a callback`, `DEREGISTERS its callback` |
| the tests start | 7 | |

Jumps of the clock and resets of the agent have no event there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from tunecheck import Run, RunError
from tunecheck.plugins import FORMAT_VERSION, JSON, dumps_line, raise_as, real_number, write_file
from tunecheck.runs import dumps_readably
from tunecheck_memory import _events as effects
from tunecheck_memory._benchmark import CONFIG, Configuration, DefinitionSet, LeftOut, safe_name, write_definitions
from tunecheck_memory._events import FOLDER, Effect, Event, Outcome, event_log_path, read_events
from tunecheck_memory._kind import MemoryTest
from tunecheck_memory._session import SessionState, TestState

if TYPE_CHECKING:
    from tunecheck_memory._evaluation import MemoryTarget


class MemoryFigures(msgspec.Struct, frozen=True):
    """One data set of a memory run; `mean` and `std` are null if none of its tests has a score."""

    tests: int
    scored: int
    mean: float | None
    std: float | None


class MemorySummary(msgspec.Struct, frozen=True, kw_only=True):
    """`memory/summary.json`: the figures of a memory run, all sessions together.

    score: the sum of the data sets' mean scores; `max_score` is the number of data sets that have a score.
    std: the sum of the data sets' standard deviations.
    accuracy: score / max_score.
    tokens_per_second: generated tokens per second of the agent's latency.
    verbosity: mean number of the agent's tokens per session, adopted replies included.
    memory_span: mean number of tokens from start to end of the tests with a full score.
    tokens, messages, fillers: means per session. `longest_span` is the most tokens from start to end of a test.
    """

    format_version: int = FORMAT_VERSION
    score: float
    max_score: int
    std: float
    accuracy: float | None
    tokens_per_second: float | None
    verbosity: float
    memory_span: float | None
    longest_span: int
    tokens: float
    messages: float
    fillers: float
    sessions: int
    datasets: dict[str, MemoryFigures]
    usage: dict[str, Any] = {}
    left_out: list[LeftOut] = []
    isolated: bool = False


ISOLATED = " (isolated)"


def benchmark_folder(run: Path, configuration: Configuration, *, isolated: bool) -> Path:
    """Return the folder of a benchmark in a run's folder; isolated tests have a folder of their own."""
    return run / FOLDER / safe_name(configuration.run_name + (ISOLATED if isolated else ""))


def keep_definitions(benchmark: Path, configuration: Configuration, definitions: Iterable[MemoryTest]) -> None:
    """Write a run's definitions into its benchmark folder, unless it has them.

    The configuration is written last: without it, the folder counts as empty, because a run may have died here.

    Raises:
        DataError: a definition cannot be written, or its title or example cannot be a file name.
        RunError: the configuration cannot be written.
    """
    folder = benchmark / "definitions"
    if not (folder / CONFIG).is_file():
        write_definitions(definitions, folder)
        with raise_as(RunError, folder, "cannot be written"):
            write_file(folder / CONFIG, configuration.text())


class Scored(msgspec.Struct, frozen=True):
    """A test of a finished run: `score` is None if it has no score; `tokens` counts the tokens from start to end."""

    title: str
    trial: int
    score: float | None
    tokens: int
    id: str = ""
    reason: str | None = None


def run_figures(tests: Sequence[Scored], sessions: Iterable[SessionState]) -> MemorySummary:
    """Compute the figures of a whole run from its tests and the final states of its sessions."""
    states = [*sessions]
    datasets = {title: data_set_figures(each) for title, each in by_title(tests).items()}
    means = [each.mean for each in datasets.values() if each.mean is not None]

    milliseconds = math.fsum(state.generated_ms for state in states)
    generated = sum(state.generated_tokens for state in states)

    perfect = [test.tokens for test in tests if test.score is not None and test.score >= 1]

    return MemorySummary(
        datasets=datasets,
        score=math.fsum(means),
        accuracy=math.fsum(means) / len(means) if means else None,
        std=math.fsum(each.std or 0.0 for each in datasets.values()),
        max_score=len(means),
        tokens_per_second=1000 * generated / milliseconds if milliseconds > 0 else None,
        verbosity=_mean([state.agent_tokens for state in states]) or 0.0,
        memory_span=_mean(perfect),
        tokens=_mean([state.tokens for state in states]) or 0.0,
        messages=_mean([state.messages for state in states]) or 0.0,
        fillers=_mean([state.fillers for state in states]) or 0.0,
        longest_span=max((test.tokens for test in tests), default=0),
        sessions=len(states),
    )


def by_title(tests: Iterable[Scored]) -> dict[str, list[Scored]]:
    """Group tests by their data sets."""
    groups: dict[str, list[Scored]] = {}
    for test in tests:
        groups.setdefault(test.title, []).append(test)
    return groups


def data_set_figures(tests: Sequence[Scored]) -> MemoryFigures:
    """Return a data set's number of tests, and mean and population standard deviation of the scored ones."""
    # `fsum` rounds once, so the figures do not depend on the order of the tests.
    scores = [test.score for test in tests if test.score is not None]
    mean = _mean(scores)
    deviation = None if mean is None else math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / len(scores))
    return MemoryFigures(len(tests), len(scores), mean, deviation)


def _mean(values: Sequence[float]) -> float | None:
    """Return the mean of numbers, None if there are none."""
    return math.fsum(values) / len(values) if values else None


def read_scored(rows: Iterable[Mapping[str, JSON]]) -> Iterator[Scored]:
    """Yield the tests among a run's rows, with score and length; rows without a result are skipped."""
    for row in rows:
        tokens, trial, reason = row.get("outputs.tokens"), row.get("inputs.trial", 1), row.get(_REASON)
        if isinstance(tokens, int):
            yield Scored(
                str(row.get("inputs.dataset")),
                trial if isinstance(trial, int) else 1,
                real_number(row.get(_SCORE)),
                tokens,
                str(row.get("inputs.source_id", row.get("row_id"))),
                None if reason is None else str(reason),
            )


EVALUATOR = "memory"
_SCORE, _REASON = f"outputs.{EVALUATOR}.memory", f"outputs.{EVALUATOR}.memory_reason"


def write_run_files(
    run: Run,
    target: MemoryTarget,
    suite: DefinitionSet,
    benchmark: Path,
    repeat: int,
    usage: Mapping[str, JSON],
    *,
    isolated: bool,
) -> tuple[MemorySummary, list[Path]]:
    """Compute a finished run's figures and write them with the sessions' results; return the figures and the folders.

    `benchmark` is the folder that gets the results, `repeat` the number of sessions, `usage` the run's usage by
    endpoint.
    """
    tests = [*read_scored(run.rows())]
    events = {trial: read_events(event_log_path(run.folder, trial)) for trial in range(1, repeat + 1)}
    states = {trial: target.final_state(each) for trial, each in events.items()}

    figures = structs.replace(
        run_figures(tests, states.values()), usage=dict(usage), left_out=[*suite.left_out], isolated=isolated
    )

    by_id = {definition.id: definition for definition in suite.definitions}
    folders = []
    with run.writing(benchmark):
        for trial, state in states.items():
            scored = {test.id: test for test in tests if test.trial == trial}
            folders.append(agent_folder(benchmark, target.name, trial))
            write_results(folders[-1], events[trial], state, by_id, scored, _costs(usage, repeat))
        write_file(run.folder / FOLDER / "summary.json", dumps_readably(figures))

    return figures, folders


def _costs(usage: Mapping[str, JSON], repeat: int) -> dict[str, JSON]:
    """Return the dollars for the agent and for all else, for `runstats.json`; None if unknown.

    `repeat` is the number of conversations. With several, both are None: usage is not split by conversation.
    """
    dollars: dict[str, float] = {}
    for name, spent in usage.items():
        cost = spent.get("cost") if isinstance(spent, dict) and spent.get("currency") == "USD" else None
        if isinstance(cost, (int, float)) and repeat == 1:
            dollars[name] = float(cost)

    agent = dollars.pop("target", None)
    return {"agent_costs_usd": agent, "managing_costs_usd": sum(dollars.values()) if dollars else None}


class EventType(IntEnum):
    """The types of events in the GoodAI benchmark's logs."""

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


_MARKS: dict[type[Effect], tuple[EventType, str]] = {
    effects.End: (EventType.END, "ENDS"),
    effects.Register: (EventType.REGISTER_CALLBACK, "REGISTERS a callback"),
    effects.Deregister: (EventType.DEREGISTER_CALLBACK, "DEREGISTERS its callback"),
    effects.SuiteReset: (EventType.SUITE_RESET, ""),
}
"""The types and words of effects without further values."""


def log_lines(effect: Effect, before_us: int, outcome: Outcome) -> Iterator[tuple[dict[str, JSON], str]]:
    """Yield the log entries of an effect and its outcome, as data of the master log and as a line of the test's log.

    `before_us` is the time before the effect (µs). Jumps of the clock and resets of the agent have no entries.
    """
    at_us, text, test = outcome.at_us, outcome.text or "", getattr(effect, "test", "")

    def entry(type_: EventType, time_us: int, line: str, **data: JSON) -> tuple[dict[str, JSON], str]:
        return {"type": int(type_), "timestamp": time_us / 1_000_000, "test_id": test, "data": data}, line

    def system(type_: EventType, words: str, **data: JSON) -> tuple[dict[str, JSON], str]:
        return entry(type_, at_us, f"SYSTEM ({_local(at_us)}): Test '{test}' {words}", **data)

    match effect:
        case effects.Send(_, message, question):
            sent, answered = EventType.SEND_MESSAGE, EventType.RESPONSE_MESSAGE
            if effect.filler:
                sent, answered = EventType.SEND_FILL, EventType.RESPONSE_FILL
            exchange = ((sent, before_us, "Test", message), (answered, at_us, "Agent", text))
            for type_, time_us, speaker, words in exchange:
                line = f"{speaker} ({_local(time_us)}): {words}"
                yield entry(type_, time_us, line, message=words, is_question=question)
        case effects.Begin(_, tokens):
            yield system(EventType.BEGIN, "BEGINS", tokens=tokens)
        case effects.Waiting(_, tokens, seconds):
            words = f"WAITING for {tokens} TOKENS, {timedelta(seconds=seconds)} TIME."
            yield system(EventType.WAIT, words, tokens=tokens, time=seconds)
        case effects.Consult():
            yield system(EventType.LLM_CALL, "CALLS an LLM", response=text)
        case _ if type(effect) in _MARKS:
            yield system(*_MARKS[type(effect)])


def agent_folder(benchmark: Path, agent: str, trial: int) -> Path:
    """Return the results folder of an agent's session; further repetitions are numbered."""
    return benchmark / "results" / (safe_name(agent) if trial == 1 else f"{safe_name(agent)} #{trial}")


def write_results(
    folder: Path,
    events: Sequence[Event],
    state: SessionState,
    definitions: Mapping[str, MemoryTest],
    scores: Mapping[str, Scored],
    costs: Mapping[str, JSON],
) -> None:
    """Write a session's results in the GoodAI benchmark's layout.

    The files are the master log, the statistics with `costs`, and one file for each ended test. `definitions` and
    `scores` are those of the tests by their ids.
    """
    folder.mkdir(parents=True, exist_ok=True)
    finished = [(event.effect, event.outcome) for event in events if event.outcome is not None]
    # The lines of each test: those of its messages, and those of all its events.
    logs: dict[str, tuple[list[JSON], list[JSON]]] = {test: ([], []) for test in state.tests}

    with (folder / "master_log.jsonl").open("wb") as file:
        # A message is sent at the time of the event before it; only its reply has the time of its own event.
        before_us = (events[0].at_us or finished[0][1].at_us) if finished else 0
        for effect, outcome in finished:
            entries = [*log_lines(effect, before_us, outcome)]
            file.writelines(dumps_line(data) for data, _ in entries)
            # The test's two lists, which grow in place; effects without a test are in no test's log.
            messages, all_events = logs.get(getattr(effect, "test", ""), ([], []))
            lines = [line for _, line in entries]
            messages += lines if isinstance(effect, effects.Send) else []
            all_events += lines
            before_us = outcome.at_us

    for test, log in logs.items():
        _write_result(folder, state.tests[test], definitions[test], scores.get(test), log)

    statistics: dict[str, JSON] = {
        "total_tokens": state.tokens,
        "agent_tokens": state.agent_tokens,
        "duration": state.generated_ms / 1000,
        "rnd_state": None,  # the state of the filler's random numbers there, to resume a run; ours resumes from events
    }
    (folder / "runstats.json").write_bytes(dumps_line({**statistics, **costs}))


_EPOCH = datetime.fromtimestamp(0, UTC).replace(tzinfo=None)


def _local(at_us: int) -> str:
    """Return a time in the benchmark's format: UTC, without a zone, "2025-01-06 09:00:01"."""
    return str(_EPOCH + timedelta(microseconds=at_us))


def _write_result(
    folder: Path, state: TestState, definition: MemoryTest, score: Scored | None, logs: tuple[list[JSON], list[JSON]]
) -> None:
    """Write the result of a test if it has ended; `logs` holds the lines of its messages, and of all its events."""
    if state.ended is None:
        return

    path = folder / definition.title / f"{definition.example}_0.json"
    path.parent.mkdir(exist_ok=True)
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
        "needles": definition.statements,
    }
    path.write_bytes(dumps_line(result))
