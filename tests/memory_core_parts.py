"""Shared parts of the tests of the scheduler: small kinds, a tokenizer that counts words, and complete courses."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import msgspec
from checks.goodai_run import LogEvent, log_events
from tests.agent_parts import Words

from tunecheck_memory import (
    Begin,
    Consult,
    Effect,
    FillerPool,
    FillerWording,
    GenerationContext,
    Jump,
    Kind,
    MemoryTest,
    Outcome,
    Scene,
    Send,
    SessionWording,
    Settings,
    Test,
    Wait,
    load_wording,
    schedule,
)

START_US = 1_700_000_000_000_000
SECOND = 1_000_000


class Small(Kind):
    """A kind for tests; `callback` looks on until it has seen so many replies."""

    title: ClassVar[str] = "Small"
    name: ClassVar[str] = "small"
    looks: ClassVar[int] = 0

    def definitions(self, count: int, making: GenerationContext) -> list[MemoryTest]:
        raise NotImplementedError

    def is_over(self, definition: MemoryTest, replies: Sequence[str]) -> bool:
        return len(replies) >= self.looks

    def temporal_question(self, definition: MemoryTest, statements_us: Sequence[int], scene: Scene) -> str:
        return f"which {(scene.now_us() - statements_us[0]) // SECOND} seconds ago?"


def kind(title: str, *, topics: Iterable[str] = (), looks: int = 0, resets: bool = False) -> Small:
    """A kind of this title."""
    attributes = {"title": title, "name": title.lower(), "topics": frozenset(topics), "looks": looks, "resets": resets}
    made: type[Small] = type("Small", (Small,), attributes)
    return made()


def made_test(of: Kind | str, *lines: str | Wait, example: str = "0", **more: bool) -> Test:
    """A test that says these lines, with a wait after those that have one; a question mark ends a question."""
    made = kind(of) if isinstance(of, str) else of
    said: list[str] = []
    waits: list[Wait] = []
    for line in lines:
        if isinstance(line, Wait):
            waits[-1] = line
        else:
            said.append(line)
            waits.append(Wait())
    questions = [line.endswith("?") for line in said]
    if more.get("is_temporal"):
        questions.append(True)
        waits.append(Wait())
    return Test(MemoryTest(made.title, example, tuple(said), tuple(questions), tuple(waits), **more), made)  # type: ignore[arg-type]


def wording(**texts: str) -> SessionWording:
    """A wording of few words."""
    plain = msgspec.structs.replace(
        load_wording(),
        introduction="hello there",
        filler=FillerWording(preface="p p p ", line="Q {question} A {answer}\n"),
        reset={"*": "forget it"},
    )
    return msgspec.structs.replace(plain, **texts)


POOL = FillerPool([(f"q{number}", f"a{number}") for number in range(50)])


def settings(memory_span: int = 100, **more: object) -> Settings:
    """Settings that count words."""
    base = Settings(memory_span, wording(), POOL, Words(), START_US)
    return replace(base, **more)  # type: ignore[arg-type]


Reply = Callable[[Effect], str]


def obliging(effect: Effect) -> str:
    """Takes every reply that is suggested, else says "ok"."""
    return (effect.suggested if isinstance(effect, Send) else None) or "ok"


def run(
    tests: Iterable[Test], settings: Settings, reply: Reply = obliging, seconds: int = 1, most: int = 100_000
) -> list[tuple[Effect, Outcome]]:
    """All effects of a course with their outcomes; each exchange takes so many seconds."""
    stream = schedule(tests, settings)
    now_us = settings.start_us
    done: list[tuple[Effect, Outcome]] = []
    effect = next(stream, None)
    while effect is not None:
        now_us = effect.until_us if isinstance(effect, Jump) else now_us
        text = None
        if isinstance(effect, (Send, Consult)):
            now_us += seconds * SECOND
            text = reply(effect)
        done.append((effect, Outcome(now_us, text)))
        assert len(done) < most, "it does not end"
        try:
            effect = stream.send(done[-1][1])
        except StopIteration:
            effect = None
    return done


def logged(done: Iterable[tuple[Effect, Outcome]], start_us: int = START_US) -> list[LogEvent]:
    """The log of such a course."""
    events: list[LogEvent] = []
    before_us = start_us
    for effect, outcome in done:
        events.extend(log_events(effect, before_us, outcome))
        before_us = outcome.at_us
    return events


def begun(done: Iterable[tuple[Effect, Outcome]]) -> list[tuple[str, int]]:
    """The tests in the order in which they began, with the count of tokens."""
    return [(effect.test, effect.tokens) for effect, _ in done if isinstance(effect, Begin)]


def said(done: Iterable[tuple[Effect, Outcome]]) -> list[str]:
    """All messages but filler."""
    return [effect.message for effect, _ in done if isinstance(effect, Send) and effect.test]


def replayable_runs(shared: Path) -> list[Path]:
    """The folders of the published runs."""
    runs = json.loads((shared / "ltm" / "replayable_runs.json").read_text("utf-8"))
    return [shared / "ltm" / "tests" / run["bench"] / "results" / run["agent"] for run in runs]
