"""Shared parts of the tests of memory sessions: a few tests, an agent in the same process, a session."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.agent_parts import Words
from tests.memory_restaurant_parts import friendly

from tunecheck.plugins import CallsMade
from tunecheck_memory import (
    AskJudge,
    Colours,
    FillerPool,
    GenerationContext,
    Jokes,
    Kind,
    MemoryTest,
    Outcome,
    ProspectiveMemory,
    Restaurant,
    Settings,
    Shopping,
    Test,
    Wait,
    load_wording,
    schedule,
)
from tunecheck_memory._events import EventLog, read_events
from tunecheck_memory._session import Session, SessionClock, SessionState

SPAN = 900
POOL = FillerPool([(f"What is the square of {number}?", str(number * number)) for number in range(200)])


def some_kinds() -> list[Kind]:
    """A scripted, a temporal, a dynamic kind, one with a callback, and one with an order to forget."""
    return [Colours(), Jokes(), ProspectiveMemory(), Restaurant(), Shopping()]


def some_tests(examples: int = 2, kinds: Sequence[Kind] | None = None) -> list[Test]:
    making = GenerationContext(seed=3, memory_span=SPAN)
    found = some_kinds() if kinds is None else kinds
    return [Test(definition, kind) for kind in found for definition in kind.definitions(examples, making)]


def some_settings(**changes: Any) -> Settings:
    known: dict[str, Any] = {"wording": load_wording(), "filler": POOL, "tokenizer": Words(), "memory_span": SPAN}
    return Settings(**(known | changes))


def said_to(message: str) -> str:
    """The agent's reply: depends on the message alone."""
    if "to look over" in message or "menu" in message.lower():
        return "I would like a glass of water, please."
    return f"Noted, {len(message)} characters."


@dataclass
class Scripted:
    """An agent in the same process: what it was told, under which key, and what it was shown of before."""

    answer: Callable[[str], str] = said_to
    name: str = "scripted"
    simulated: bool = False
    asked: list[tuple[str, str]] = field(default_factory=list)
    observed: list[tuple[str, str]] = field(default_factory=list)
    resets: list[str] = field(default_factory=list)
    advanced: list[tuple[int, int]] = field(default_factory=list)
    dies_at: int | None = None
    """The message, counted from 0, at which it fails."""

    async def reply(self, message: str, *, key: str, at_us: int, suggested: str | None = None) -> Outcome:
        if self.dies_at is not None and len(self.asked) == self.dies_at:
            raise KeyboardInterrupt
        self.asked.append((key, message))
        if suggested is not None:
            return Outcome(at_us, suggested, adopted=True)
        return Outcome(at_us, self.answer(message), 10.0, len(message.split()), 3)

    async def reset(self, key: str, at_us: int) -> None:
        self.resets.append(key)

    async def advance(self, from_us: int, to_us: int, key: str) -> None:
        self.advanced.append((from_us, to_us))

    def observe(self, message: str, reply: str, *, declined: bool = False) -> None:
        self.observed.append((message, reply))

    def observe_reset(self) -> None:
        self.observed.append(("reset", ""))


class CountingJudge:
    """A judge without a model, and how often it was asked."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    async def ask(self, request: AskJudge, *, key: str) -> Outcome:
        self.keys.append(key)
        return Outcome(0, friendly(request), calls=0)


@asynccontextmanager
async def uncounted(key: str) -> AsyncIterator[Callable[[CallsMade], None]]:
    """A call outside of any budget."""

    def count(made: CallsMade) -> None:
        """Count nothing."""

    yield count


@dataclass
class Had:
    """A session that was had: its state, its log's file, and who took part."""

    path: Path
    state: SessionState
    agent: Any
    judge: CountingJudge
    session: Session
    ended: list[str]

    @property
    def stream(self) -> list[Any]:
        """Every event with what it came to."""
        return [(event.effect, event.outcome) for event in read_events(self.path)]


def session_in(
    folder: Path,
    tests: Sequence[Test] | None = None,
    settings: Settings | None = None,
    *,
    agent: Any = None,
    clock: SessionClock | None = None,
) -> Had:
    """A session with its log in the folder; it is taken up where it stands."""
    tests = some_tests() if tests is None else tests
    clock = clock or SessionClock()
    log = EventLog(folder / "session-1" / "events.jsonl", clock.now(), {"tests": "t"})
    chosen = some_settings(start_us=log.start_us) if settings is None else settings
    state = SessionState(chosen.tokenizer.count)
    agent, judge, ended = agent or Scripted(), CountingJudge(), list[str]()
    session = Session(
        schedule=lambda: schedule(tests, chosen),
        agent=agent,
        make_judge=lambda: judge,
        clock=clock,
        log=log,
        key=lambda number: f"key-{number}",
        state=state,
        costs=uncounted,
        judge_costs=uncounted,
        ended=lambda test: ended.append(test.id),
    )
    return Had(folder / "session-1" / "events.jsonl", state, agent, judge, session, ended)


def have(folder: Path, tests: Sequence[Test] | None = None, settings: Settings | None = None, **more: Any) -> Had:
    """A session, had to its end."""
    had = session_in(folder, tests, settings, **more)
    try:
        asyncio.run(had.session.run())
    finally:
        had.session.log.close()
    return had


def joined_tests(waits_s: int) -> list[Test]:
    """One test of a statement and a question, with so many seconds between."""
    waits = (Wait(seconds=waits_s), Wait())
    return [Test(MemoryTest("Colours", "0", ("Red.", "Which?"), (False, True), waits, ["red"]), Colours())]
