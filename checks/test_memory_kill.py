"""`kill -9` at 100 points of a run of 36 tests, then resume: every event as if nothing had been, nothing asked twice.

The runs are real processes that talk to a real agent over HTTP, whose every reply depends on all that it was told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from checks.memory_kill_parts import CONFIG, Manner, Runner, journaled, master_log, records, run_folder, scores, stream
from tests.memory_heard import Agent, serving

from tunecheck_memory import load_wording

REMEMBERING = Manner("interleaved, an agent with a memory", "memory_agent")
WINDOWED = Manner("interleaved, a model with a window", "openai", max_prompt_size=1_500)
ISOLATED = Manner("isolated", "memory_agent", isolated=True)
MIRRORED = Manner("the agent is told the time", "memory_agent", clock="mirrored")


@dataclass(frozen=True)
class Point:
    """Where a run is killed: at a request, by the agent, or at a record of its event log, so much of it written."""

    what: str
    request: int | None = None
    remembers_first: bool = False
    record: int | None = None
    written: int = 0


@dataclass(frozen=True)
class Unbroken:
    """A run that nothing happened to."""

    folder: Path
    records: Sequence[Any]
    heard: Sequence[tuple[str, str]]


class Matrix:
    """Runs of one manner: one that nothing happens to, and others that are killed."""

    def __init__(self, folder: Path, manner: Manner, agent: Agent, runner: Runner) -> None:
        self.folder, self.manner, self.agent, self.runner = folder, manner, agent, runner
        self.unbroken = self._unbroken()
        self.stream, self.scores = stream(self.unbroken.folder), scores(self.unbroken.folder)
        self.master_log = master_log(self.unbroken.folder)

    def begin(self, name: str, *, resume: bool = False, die: tuple[int, int] | None = None) -> int:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        (folder / "config.yml").write_text(CONFIG, "utf-8")
        return self.runner.begin(
            folder=str(folder),
            config="config.yml",
            endpoint=self.manner.endpoint(self.agent.port),
            isolated=self.manner.isolated,
            max_prompt_size=self.manner.max_prompt_size,
            clock=self.manner.clock,
            resume=resume,
            die=die,
        )

    def _unbroken(self) -> Unbroken:
        before = len(self.agent.heard)
        self.begin("unbroken")
        assert self.runner.ended() == 0
        folder = self.folder / "unbroken"
        return Unbroken(folder, records(folder), self.agent.heard[before:])

    def kill(self, point: Point, name: str) -> None:
        """Kill a run there, take it up again, and hold it against the one that nothing happened to."""
        begun = len(self.agent.heard)
        pid = self.begin(name, die=(point.record, point.written) if point.record is not None else None)
        if point.request is not None:
            self.agent.kill_at(point.request, pid, remembers_first=point.remembers_first)
        assert self.runner.ended() == -9, f"{point}: it was not killed"
        answered, in_flight = journaled(records(self.folder / name))
        asked = [key for key, _ in self.agent.heard[begun:]]
        killed = len(self.agent.heard)
        self.begin(name, resume=True)
        assert self.runner.ended() == 0, point
        self._check(point, name, answered, in_flight, asked, [key for key, _ in self.agent.heard[killed:]])

    def _check(
        self, point: Point, name: str, answered: set[str], in_flight: str | None, before: list[str], after: list[str]
    ) -> None:
        folder = self.folder / name
        assert stream(folder) == self.stream, point
        assert scores(folder) == self.scores, point
        assert master_log(folder) == self.master_log, point
        assert not answered & set(after), f"{point}: what was journaled was asked for again"
        again = set(before) & set(after)
        assert again <= {in_flight}, f"{point}: something else than what was in flight was asked for again"
        if point.request is not None:
            assert after[0] == before[-1] == in_flight, f"{point}: in flight, and not asked again under its key"
        assert len(set(before) | set(after)) == len(self.unbroken.heard), (
            f"{point}: something was asked twice, or never"
        )

    # -- where

    def requests(self, *, filler: bool) -> list[int]:
        """The requests that are filler, or that are not."""
        preface = load_wording().filler.preface
        return [at for at, (_, message) in enumerate(self.unbroken.heard) if message.startswith(preface) is filler]

    def records_of(self, *kinds: str, done: bool = False) -> list[int]:
        """The records of effects of these kinds, or those of what they came to."""
        numbers = {
            record["n"]
            for record in self.unbroken.records[1:]
            if "effect" in record and record["effect"]["do"] in kinds
        }
        wanted = ("done",) if done else ("do", "did")
        return [
            at for at, record in enumerate(self.unbroken.records) if record["k"] in wanted and record["n"] in numbers
        ]

    def while_a_callback_looks_on(self) -> list[int]:
        begin = self.records_of("register")
        end = self.records_of("deregister")
        return [at for first, last in zip(begin, end, strict=True) for at in range(first, last + 1)]


def some(values: Sequence[int], count: int) -> list[int]:
    """So many of them, evenly spread."""
    assert values
    return [values[at * len(values) // count] for at in range(count)]


def by_agent(what: str, requests: Sequence[int], count: int) -> Iterator[Point]:
    for number, request in enumerate(some(requests, count)):
        yield Point(what, request=request, remembers_first=number % 2 == 0)


def at_records(what: str, found: Sequence[int], count: int) -> Iterator[Point]:
    """Before the record, within it and after it, in turn."""
    for number, record in enumerate(some(found, count)):
        yield Point(what, record=record, written=(0, 9, -1)[number % 3])


def points(matrix: Matrix) -> Iterator[Point]:
    """Where the runs of each manner are killed; 100 in all."""
    match matrix.manner.name:
        case REMEMBERING.name:
            yield from by_agent("within a reply", matrix.requests(filler=False), 12)
            yield from by_agent("within filler", matrix.requests(filler=True), 8)
            yield from at_records("a callback looks on", matrix.while_a_callback_looks_on(), 8)
            yield from at_records("before END", matrix.records_of("end"), 8)
            yield from at_records("a reply is recorded", matrix.records_of("send", done=True), 4)
        case WINDOWED.name:
            yield from by_agent("within a reply", matrix.requests(filler=False), 8)
            yield from at_records("filler is recorded", matrix.records_of("send"), 4)
            yield from at_records("a callback looks on", matrix.while_a_callback_looks_on(), 4)
            yield from at_records("before END", matrix.records_of("end"), 4)
            yield from at_records("the judge is asked", matrix.records_of("consult"), 3)
            yield from at_records("the judge has answered", matrix.records_of("consult", done=True), 3)
            yield from at_records("a test waits or begins", matrix.records_of("wait", "begin"), 3)
            yield from at_records("the log begins", [0], 1)
        case ISOLATED.name:
            yield from by_agent("within a reply", matrix.requests(filler=False), 8)
            yield from by_agent("within filler", matrix.requests(filler=True), 2)
            yield from at_records("before END", matrix.records_of("end"), 3)
            yield from at_records("the agent is reset", matrix.records_of("reset_agent"), 4)
            yield from at_records("the agent was reset", matrix.records_of("reset_agent", done=True), 3)
        case MIRRORED.name:
            yield from by_agent("within a reply", matrix.requests(filler=False), 4)
            yield from at_records("time passes", matrix.records_of("jump"), 3)
            yield from at_records("time has passed", matrix.records_of("jump", done=True), 3)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("manner", "count"),
    [(REMEMBERING, 40), (WINDOWED, 30), (ISOLATED, 20), (MIRRORED, 10)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_run_killed_anywhere_goes_on_as_if_nothing_had_happened(manner: Manner, count: int, tmp_path: Path) -> None:
    runner = Runner()
    try:
        with serving() as agent:
            matrix = Matrix(tmp_path, manner, agent, runner)
            chosen = [*points(matrix)]
            assert len(chosen) == count
            for number, point in enumerate(chosen):
                matrix.kill(point, f"killed-{number}")
    finally:
        runner.close()


@pytest.mark.slow
def test_a_run_that_is_killed_again_and_again_ends_as_one_that_was_not(tmp_path: Path) -> None:
    runner = Runner()
    try:
        with serving() as agent:
            matrix = Matrix(tmp_path, REMEMBERING, agent, runner)
            for kill in range(6):
                matrix.begin("often", resume=kill > 0, die=(60, (0, 9, -1)[kill % 3]))
                assert runner.ended() == -9
            matrix.begin("often", resume=True)
            assert runner.ended() == 0
            assert stream(tmp_path / "often") == matrix.stream
            assert scores(tmp_path / "often") == matrix.scores
    finally:
        runner.close()


@pytest.mark.slow
def test_the_unbroken_run_has_everything_that_the_others_are_killed_in(tmp_path: Path) -> None:
    """Else the other tests would compare nothing with nothing."""
    runner = Runner()
    try:
        with serving() as agent:
            matrix = Matrix(tmp_path, REMEMBERING, agent, runner)
            ended = [record for record in matrix.unbroken.records[1:] if record.get("effect", {}).get("do") == "end"]
            assert len(ended) == 36
            assert len(matrix.requests(filler=True)) > 5
            assert len(matrix.while_a_callback_looks_on()) > 6
            assert len(matrix.records_of("consult")) > 5
            assert len(run_folder(tmp_path / "unbroken").name) > 0
    finally:
        runner.close()
