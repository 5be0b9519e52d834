"""Replay a logged run of the GoodAI LTM Benchmark: the same replies must give the same events.

    python checks/goodai_replay.py RUN_DIR --filler trivia.json --wording theirs.yml

The script feeds the logged replies to the scheduler and compares type, test, words, question mark, tokens and seconds
of each event, filler included. It takes replies, judgements and times from the log. A log that was interrupted and
resumed is replayed by the reference's rules for resuming. Exits with 0 if all events are equal, with 3 after the first
difference, and with 2 for wrong use.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias, cast

import msgspec

if __name__ == "__main__":  # a script's folder is on the path, the repository is not
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from checks.goodai_run import LegacyRun, LogEvent, describe, log_events, read_legacy_run

from tunecheck._errors import TunecheckError
from tunecheck._json import JSON, dumps_line
from tunecheck._messages import clean, plural
from tunecheck._trust import Trust
from tunecheck_memory import Jokes, MemoryTest, Say, Scene, Step, Wait, load_filler, load_tokenizer, load_wording
from tunecheck_memory._events import (
    Consult,
    Effect,
    Jump,
    Outcome,
    Register,
    ResetAgent,
    Schedule,
    Send,
    SuiteReset,
    Waiting,
)
from tunecheck_memory._run_files import EventType
from tunecheck_memory._scheduler import MAX_MESSAGE_TOKENS, Scheduler, Settings, Task, Test
from tunecheck_memory._wording import fill

_DAY = 86_400
_DAY_US = _DAY * 1_000_000

_MOST_STATES = 40

_LONGEST_SAVING_US = 60_000_000
"""A longer gap in a log is a wait for time."""

_RandomState: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first event that differs; None where the log, or ours, has ended."""

    logged: LogEvent | None
    ours: LogEvent | None


@dataclass(frozen=True, slots=True)
class Saved:
    """What the reference saves beside its log, as far as a replay needs it."""

    tokens: int
    draws: _RandomState


class Walk:
    """Drives a scheduler along the events from `place` on; afterwards `place` is that of the first that differs.

    `difference` is None where both came to their end together.
    """

    def __init__(self, scheduler: Scheduler, stream: Schedule, events: Sequence[LogEvent], place: int) -> None:
        self.place = place
        self.difference: Difference | None = None
        self._scheduler = scheduler
        self._events = events
        self._states = deque([(Saved(scheduler.tokens, scheduler.draws.getstate()), True)], maxlen=_MOST_STATES)
        self._drive(stream)

    def may_be_saved(self) -> Iterator[Saved]:
        """What may have been saved when the log was interrupted at `place`, the most likely first.

        The reference saves after each message and wait of a test, not between filler, and may die just before it saves.
        """
        states = list(self._states)[::-1]
        likely = [saved for saved, written in states if written][:1] + [saved for saved, _ in states]
        seen: set[tuple[int, _RandomState]] = set()
        for saved in likely:
            if (saved.tokens, saved.draws) not in seen:
                seen.add((saved.tokens, saved.draws))
                yield saved

    def _drive(self, stream: Schedule) -> None:
        effect = next(stream, None)
        while effect is not None:
            outcome = self._outcome(effect)
            if outcome is None:
                return
            draws = self._scheduler.draws.getstate()  # before those of filler that may come next
            try:
                following = stream.send(outcome)
            except StopIteration:
                following = None
            if isinstance(effect, (Send, Waiting)):
                filler = isinstance(effect, Send) and effect.filler
                self._states.append((Saved(self._scheduler.tokens, draws), not filler))
            effect = following
        if self.place < len(self._events):
            self.difference = Difference(self._events[self.place], None)

    def _outcome(self, effect: Effect) -> Outcome | None:
        """What the log says an effect came to; None where it says something else."""
        now_us = self._scheduler.now_us
        if isinstance(effect, Jump):
            return self._in_time(Outcome(effect.until_us))
        if isinstance(effect, ResetAgent):
            return self._in_time(Outcome(now_us))
        outcome = Outcome(now_us)
        if (replied := self._event(1 if isinstance(effect, Send) else 0)) is not None:
            outcome = Outcome(replied.at_us, replied.text if isinstance(effect, (Send, Consult)) else None)
        for ours in log_events(effect, now_us, outcome):
            logged = self._event(0)
            if logged is None or not _same(logged, ours):
                self.difference = Difference(logged, ours)
                return None
            self.place += 1
        # A wait for time is counted from the wait.
        return outcome if isinstance(effect, Waiting) and effect.seconds else self._in_time(outcome)

    def _in_time(self, outcome: Outcome) -> Outcome:
        """The outcome, as late as the message that follows it.

        The reference's clock runs on while it saves its agent, for seconds where that has much to save; a question that
        says how long ago something was is worded after that, just before it is sent.
        """
        following = self._event(0)
        if following is not None and following.sent and 0 < following.at_us - outcome.at_us < _LONGEST_SAVING_US:
            outcome = msgspec.structs.replace(outcome, at_us=following.at_us)
        return outcome

    def _event(self, further: int) -> LogEvent | None:
        place = self.place + further
        return self._events[place] if place < len(self._events) else None


def _same(logged: LogEvent, ours: LogEvent) -> bool:
    """Whether events agree. The reference's log leaves whole days out of a wait's seconds."""
    if ours.seconds >= _DAY and logged.seconds == ours.seconds % _DAY:
        ours = replace(ours, seconds=logged.seconds)
    text = logged.text if ours.answered else ours.text  # replies are given, not compared
    return logged == replace(ours, text=text, at_us=logged.at_us, line=logged.line)


def resume(
    events: Sequence[LogEvent], tests: Sequence[Test], settings: Settings, saved: Saved, now_us: int
) -> Scheduler:
    """The scheduler of a run that died after these events, with what it had saved by then."""
    # A process that takes a run up has read its definitions: each test's random numbers come from its id.
    scheduler = Scheduler([replace(test, seed=None) for test in tests], settings)
    scheduler.tokens = saved.tokens
    scheduler.draws.setstate(cast("tuple[int, tuple[int, ...], float | None]", saved.draws))
    for event in events:
        if event.type is EventType.END and event.test in scheduler.tasks:
            scheduler.end(scheduler.tasks[event.test])
    past = _Past(scheduler, events)
    for place, event in enumerate(events):
        if (task := scheduler.tasks.get(event.test)) is not None:
            past.again(task, place)
    for id_ in scheduler.waiting:
        scheduler.start(scheduler.tasks[id_])
    scheduler.now_us = now_us
    return scheduler


def registered_again(events: Sequence[LogEvent], tests: Sequence[Test]) -> list[str]:
    """The ids of tests whose callbacks are registered again, in the order of their questions."""
    ended = {event.test for event in events if event.type is EventType.END}
    looking_on = {test.id for test in tests if test.definition.uses_callback} - ended
    return [event.test for event in events if event.test in looking_on and event.sent and event.question]


class _Past:
    def __init__(self, scheduler: Scheduler, events: Sequence[LogEvent]) -> None:
        self._scheduler = scheduler
        self._events = events
        self._sent_us: dict[str, int] = {}

    def again(self, task: Task, place: int) -> None:
        scheduler, event = self._scheduler, self._events[place]
        scheduler.now_us = event.at_us
        scheduler.waiting.pop(task.id, None)
        match event.type:
            case EventType.BEGIN:
                task.begun_at = event.tokens
            case EventType.SEND_MESSAGE:
                self._sent(task, place)
            case EventType.RESPONSE_MESSAGE:
                task.reply_tokens = scheduler.settings.tokenizer.count(event.text or "")
                task.record_reply(event.text or "", self._sent_us.get(task.id, event.at_us))
            case EventType.LLM_CALL:
                self._next(task)
                task.record_reply(event.text or "", event.at_us)
            case EventType.WAIT:
                step = self._next(task)
                wait = step if isinstance(step, Wait) else Wait(tokens=1)  # a callback's test, after its script
                scheduler.set_waiting(task, scheduler.to_wait(task, wait), wait.seconds)

    def _sent(self, task: Task, place: int) -> None:
        self._sent_us[task.id] = self._events[place].at_us
        step = self._next(task)
        if isinstance(step, Say) and step.register:
            task.replies = [event.text or "" for event in self._events[place:] if event.answered]
            self._scheduler.callbacks[task.id] = task

    def _next(self, task: Task) -> Step | None:
        """The next step that a log knows of: isolated tests do not log their waits."""
        step = task.next()
        while isinstance(step, Wait) and self._scheduler.settings.isolated:
            step = task.next()
        return step


@dataclass(frozen=True, slots=True)
class Replayed:
    """How far a replay came: events that are the same, messages among them, and how often the run was resumed."""

    events: int
    messages: int
    resumed: int
    difference: Difference | None = None


def replay(
    events: Sequence[LogEvent], tests: Sequence[Test], settings: Settings, *, assume_seeds: bool = True
) -> Replayed:
    """Compare a log with what the scheduler makes of its replies.

    With `assume_seeds`, a test whose words differ is tried once more, by what else the reference may have said: a
    dynamic test with the random numbers that it gets in the process that made the definitions, where the example's
    number was not yet known (those of "Restaurant - " instead of "Restaurant - 0"); jokes without the whole days since
    one was told.
    """
    best = replayed = _Replay(events, tests, settings).run()
    tried: set[str] = set()
    while assume_seeds and (again := _otherwise(replayed.difference, tests)) is not None and again.id not in tried:
        tried.add(again.id)
        tests = [again if test.id == again.id else test for test in tests]
        replayed = _Replay(events, tests, settings).run()
        best = max(best, replayed, key=lambda each: each.events)
    return best


def _otherwise(difference: Difference | None, tests: Sequence[Test]) -> Test | None:
    """The test whose words differ, with the other seed or the other way to count days; None where there is none."""
    logged = difference.logged if difference else None
    test = next((test for test in tests if logged is not None and logged.sent and test.id == logged.test), None)
    if test is None:
        return None
    if test.kind.consults:
        return replace(test, seed=f"{test.definition.title} - ")
    return replace(test, kind=_JokesOfADay()) if isinstance(test.kind, Jokes) else None


class _JokesOfADay(Jokes):
    """Leaves out the whole days since a joke was told, as the reference does."""

    def temporal_question(self, definition: MemoryTest, statements_us: Sequence[int], scene: Scene) -> str:
        now_us = scene.now_us()
        return super().temporal_question(definition, [now_us - (now_us - at) % _DAY_US for at in statements_us], scene)


@dataclass(frozen=True)
class _Replay:
    _events: Sequence[LogEvent]
    _tests: Sequence[Test]
    _settings: Settings

    def run(self) -> Replayed:
        scheduler = Scheduler(self._tests, self._settings)
        walk = Walk(scheduler, scheduler.run(), self._events, 0)
        resumed = 0
        while (reset := self._interrupted_by(walk)) is not None:
            following = self._resumed(walk, reset)
            if following.place <= reset:
                break
            walk = following
            resumed += 1
        messages = sum(event.sent for event in self._events[: walk.place])
        return Replayed(walk.place, messages, resumed, walk.difference)

    def _interrupted_by(self, walk: Walk) -> int | None:
        """The place of the reset that explains why a walk ended: only callbacks registered again come before."""
        if walk.difference is None:
            return None
        following = range(walk.place, len(self._events))
        place = next((at for at in following if self._events[at].type is not EventType.REGISTER_CALLBACK), None)
        return place if place is not None and self._events[place].type is EventType.SUITE_RESET else None

    def _resumed(self, before: Walk, reset: int) -> Walk:
        """Go on from the saved state that explains most of what follows."""
        best: Walk | None = None
        past = self._events[: before.place]
        registered = registered_again(past, self._tests)
        for saved in before.may_be_saved():
            scheduler = resume(past, self._tests, self._settings, saved, self._events[reset].at_us)
            walk = Walk(scheduler, _resumed_schedule(scheduler, registered), self._events, before.place)
            if best is None or walk.place > best.place:
                best = walk
            if walk.difference is None or (self._interrupted_by(walk) or 0) > reset:
                return walk
        assert best is not None
        return best


def _resumed_schedule(scheduler: Scheduler, registered: Sequence[str]) -> Schedule:
    for id_ in registered:
        yield Register(id_)
    yield SuiteReset()
    yield from scheduler.go_on()


_MOST_TRIES = 12

_STEPS = (4096, 1024, 1000, 512, 500, 256, 100, 64, 50, 10, 1)
"""Sizes that people choose are multiples of these; the first that fits is taken."""


def replay_run(run: LegacyRun, settings: Settings, *, other_sizes: bool = True) -> tuple[Replayed, int]:
    """Replay a run; with `other_sizes`, also by other sizes of the largest filler message, as the log suggests them.

    Gives also the size that the result was reached with: that of the settings, where none explains the whole log.
    """
    first = replayed = replay(run.log.events, run.tests, settings)
    sizes = _Sizes(settings)
    for _ in range(_MOST_TRIES if other_sizes else 0):
        if replayed.difference is None or (size := sizes.after(replayed.difference)) is None:
            break
        replayed = replay(run.log.events, run.tests, replace(settings, max_message_tokens=size))
        if replayed.difference is None:
            return replayed, size
    return first, settings.max_message_tokens


@dataclass
class _Sizes:
    """The size lies above `low` and not above `high`, by all messages seen so far."""

    settings: Settings
    low: int = 0
    high: float = math.inf

    def after(self, difference: Difference) -> int | None:
        """The size to try next; None where the difference is not one of size."""
        logged, ours = difference.logged, difference.ours
        if logged is None or ours is None or not logged.type == ours.type == EventType.SEND_FILL:
            return None
        text, other = logged.text or "", ours.text or ""
        measured = self._measure(text)
        if measured is None or not (text.startswith(other) or other.startswith(text)):
            return None
        before = self.low, self.high
        self.low = max(self.low, measured[0])
        if len(text) < len(other):
            self.high = min(self.high, measured[1])
        if (self.low, self.high) == before or self.low >= self.high:
            return None
        if self.high == math.inf:
            return (self.low // _STEPS[0] + 1) * _STEPS[0]
        return next(size for step in _STEPS if (size := int(self.high) // step * step) > self.low)

    def _measure(self, message: str) -> tuple[int, int] | None:
        """The tokens of a filler message without and with its last entry; None if it is not of this pool."""
        preface, pairs = self.settings.wording.filler.preface, self.settings.filler.pairs
        form = self.settings.wording.filler.line
        places = {fill(form, {"question": pair[0], "answer": pair[1]}): place for place, pair in enumerate(pairs)}
        lines = re.findall(r"[^\n]*\n|[^\n]+\Z", message.removeprefix(preface))
        if not lines or not places.keys() >= set(lines):
            return None
        return self._size(lines[:-1], places), self._size(lines, places)

    def _size(self, lines: list[str], places: dict[str, int]) -> int:
        count, answers = self.settings.tokenizer.count, [self.settings.filler.pairs[places[line]][1] for line in lines]
        return sum(map(count, [self.settings.wording.filler.preface, *lines, str(answers)]))


_SHOWN, _BEFORE = 400, 80  # characters of an event, and of the text before the first difference


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script; gives its exit code."""
    options = _parser().parse_args(arguments)
    try:
        return _replay_and_print(options)
    except TunecheckError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Replay a logged run: the same replies must give the same events.")
    parser.add_argument(
        "run", type=Path, metavar="RUN_DIR", help="A run's folder, <benchmark>/results/<agent>, with master_log.jsonl."
    )
    files = {
        "filler": "The pool of its filler, e.g. trivia.json; by default the one that ships.",
        "wording": "The wording of the run; by default the one that ships.",
        "definitions": "The run's definitions; by default <benchmark>/definitions.",
        "configuration": "Memory span and incompatibilities; by default config.yml in the definitions' folder, without "
        "one the span in the benchmark's name ('Benchmark 3 - 32k': 32,000) and the kinds' topics.",
    }
    for name, text in files.items():
        parser.add_argument(f"--{name}", type=Path, metavar="PATH", help=text)
    numbers = {
        "memory-span": "The memory span; wins over a configuration.",
        "seed": "The seed of the filler; by default the one that a run of ours records, else 0.",
        "max-message-tokens": "The largest filler message; by default 4,096, else the size that the log shows.",
    }
    for name, text in numbers.items():
        parser.add_argument(f"--{name}", type=int, metavar="N", help=text)
    parser.add_argument("--tokenizer", default="cl100k_base", help="The tokenizer: cl100k_base or o200k_base.")
    parser.add_argument("--unfinished", action="store_true", help="Accept a log that ends too early.")
    parser.add_argument("--json", action="store_true", help="Print one JSON object.")
    parser.add_argument("--trust", action="append", default=[], help="Let this configuration load kinds from files.")
    return parser


def _replay_and_print(options: argparse.Namespace) -> int:
    configuration, trust = options.configuration, Trust.of_command(options.trust)
    legacy = read_legacy_run(
        options.run,
        definitions=options.definitions,
        configuration=configuration,
        memory_span=options.memory_span,
        trust=None if configuration is None else trust.of_options(configuration),
    )
    settings = legacy.settings(
        load_wording(options.wording),
        load_filler(options.filler),
        load_tokenizer(options.tokenizer),
        seed=options.seed,
        max_message_tokens=options.max_message_tokens or MAX_MESSAGE_TOKENS,
    )
    replayed, size = replay_run(legacy, settings, other_sizes=options.max_message_tokens is None)
    same = replayed.difference is None or (options.unfinished and replayed.difference.logged is None)
    if options.json:
        sys.stdout.write(dumps_line(_report(legacy, replayed, same, size)).decode())
    else:
        _print(legacy, replayed, same, given=bool(options.wording and options.filler))
    return 0 if same else 3


def _report(legacy: LegacyRun, replayed: Replayed, same: bool, size: int) -> dict[str, JSON]:
    difference = replayed.difference
    return {
        "identical": same,
        "events": replayed.events,
        "logged_events": len(legacy.log.events),
        "messages": replayed.messages,
        "taken_up": replayed.resumed,
        "memory_span": legacy.memory_span,
        "isolated": legacy.isolated,
        "max_message_tokens": size,
        "torn": legacy.log.torn,
        "difference": None
        if difference is None
        else {
            "event": replayed.events + 1,
            "line": difference.logged.line if difference.logged else None,
            "logged": describe(difference.logged) if difference.logged else None,
            "ours": describe(difference.ours) if difference.ours else None,
        },
    }


def _print(legacy: LegacyRun, replayed: Replayed, same: bool, *, given: bool) -> None:
    print(
        f"{'identical' if same else 'not identical'}: {plural(replayed.events, 'event')}, "
        f"{plural(replayed.messages, 'message')}{_notes(legacy, replayed)}"
    )
    if replayed.difference is None:
        return
    _print_difference(legacy, replayed, same)
    if not same and not given:
        print(
            "note: a run needs the texts that it was run with; the reference's are not those that ship: "
            "give --wording and --filler, and --configuration where it names kinds of tests of your own",
            file=sys.stderr,
        )


def _notes(legacy: LegacyRun, replayed: Replayed) -> str:
    notes = ["" if legacy.isolated else f"memory span {legacy.memory_span:,} from {legacy.span_from}"]
    if replayed.resumed:
        notes.append(f"interrupted and resumed {plural(replayed.resumed, 'time')}")
    if legacy.log.torn:
        notes.append("the last line of the log broke off")
    said = "; ".join(filter(None, notes))
    return f" ({said})" if said else ""


def _print_difference(legacy: LegacyRun, replayed: Replayed, same: bool) -> None:
    assert replayed.difference is not None
    logged, ours = replayed.difference.logged, replayed.difference.ours
    where = f"line {logged.line}" if logged else "the end"
    what = "the same so far" if same else "first difference"
    print(f"{what}: event {replayed.events + 1:,}, {where} of {legacy.log.name}")
    theirs, own = _from_where_they_differ(describe(logged) if logged else "", describe(ours) if ours else "")
    print(f"  the log: {clean(theirs, _SHOWN) if logged else 'ends here'}")
    print(f"  ours:    {clean(own, _SHOWN) if ours else 'all tests are over'}")


def _from_where_they_differ(one: str, other: str) -> tuple[str, str]:
    """Both, without what is the same in the middle of long ones."""
    shorter = min(len(one), len(other))
    same = next((place for place in range(shorter) if one[place] != other[place]), shorter)
    if same < 2 * _BEFORE:
        return one, other
    start = f"{one[:_BEFORE]} … "
    return start + one[same - _BEFORE // 2 :], start + other[same - _BEFORE // 2 :]


if __name__ == "__main__":
    sys.exit(main())
