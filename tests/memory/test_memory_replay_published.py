"""The published runs, replayed: our events are theirs, to the letter; and what is not the same is found."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest
from checks.goodai_replay import Replayed, replay, replay_run
from checks.goodai_run import LegacyRun, LogEvent, read_legacy_run
from tests.memory_core_parts import replayable_runs

from tunecheck_memory import EventType, Settings, load_filler, load_tokenizer, load_wording

RUNS = range(8)


@lru_cache
def read_run(shared: Path, number: int) -> tuple[LegacyRun, Settings]:
    run = read_legacy_run(replayable_runs(shared)[number])
    texts = shared / "ltm"
    wording, filler = load_wording(texts / "wording.yml"), load_filler(texts / "trivia" / "trivia.json")
    return run, run.settings(wording, filler, load_tokenizer(), max_message_tokens=4096)


def replayed(shared: Path, number: int, events: Sequence[LogEvent] | None = None) -> Replayed:
    run, settings = read_run(shared, number)
    return replay(run.log.events if events is None else events, run.tests, settings)


@pytest.mark.parametrize("number", RUNS)
def test_a_published_run_gives_the_identical_event_stream(shared_data: Path, number: int) -> None:
    expected = json.loads((shared_data / "ltm" / "replayable_runs.json").read_text("utf-8"))[number]
    result = replayed(shared_data, number)
    assert result.difference is None
    assert (result.events, result.resumed) == (len(read_run(shared_data, number)[0].log.events), 0)
    assert result.messages == expected["messages"]


def other_text(event: LogEvent) -> LogEvent:
    return replace(event, text=f"{event.text}.")


def other_tokens(event: LogEvent) -> LogEvent:
    return replace(event, tokens=event.tokens + 1)


CHANGES: list[tuple[EventType, Callable[[LogEvent], LogEvent]]] = [
    (EventType.SEND_MESSAGE, other_text),
    (EventType.SEND_MESSAGE, lambda event: replace(event, question=not event.question)),
    (EventType.SEND_FILL, other_text),
    (EventType.BEGIN, other_tokens),
    (EventType.WAIT, other_tokens),
    (EventType.WAIT, lambda event: replace(event, seconds=event.seconds + 1)),
    (EventType.END, lambda event: replace(event, test="Jokes - 7")),
    (EventType.REGISTER_CALLBACK, lambda event: replace(event, type=EventType.DEREGISTER_CALLBACK)),
    (EventType.DEREGISTER_CALLBACK, lambda event: replace(event, test="")),
    (EventType.SUITE_RESET, lambda event: replace(event, test="x")),
]


@pytest.mark.parametrize(("kind", "change"), CHANGES)
def test_a_changed_event_is_the_first_difference(
    shared_data: Path, kind: EventType, change: Callable[[LogEvent], LogEvent]
) -> None:
    events = list(read_run(shared_data, 5)[0].log.events)
    places = [place for place, event in enumerate(events) if event.type is kind]
    place = places[len(places) // 2]
    events[place] = change(events[place])
    result = replayed(shared_data, 5, events)
    assert result.events == place
    assert result.difference is not None and result.difference.logged == events[place]
    assert result.difference.ours is not None and result.difference.ours != events[place]


@pytest.mark.parametrize("size", [1024, 3000, 1500])
def test_the_largest_message_of_a_run_is_found_from_its_log(shared_data: Path, size: int) -> None:
    from tests.memory_core_parts import logged, run

    published, settings = read_run(shared_data, 3)
    tests = [test for test in published.tests if not test.kind.consults]
    events = logged(run(tests, replace(settings, max_message_tokens=size)), settings.start_us)
    mine = replace(published, tests=tests, log=replace(published.log, events=tuple(events)))
    result, found = replay_run(mine, settings)
    assert result.difference is None
    # The found size explains every message; where several sizes do, the roundest is taken.
    assert abs(found - size) < 64


@pytest.mark.parametrize("days", [1, 3])
def test_a_joke_told_days_ago_is_asked_for_without_the_days_as_the_reference_does(shared_data: Path, days: int) -> None:
    legacy, _ = read_run(shared_data, 5)
    events = list(legacy.log.events)
    asked = next(place for place, event in enumerate(events) if event.sent and "Which joke" in (event.text or ""))
    later = [replace(event, at_us=event.at_us + days * 86_400_000_000) for event in events[asked - 1 :]]
    found = replayed(shared_data, 5, [*events[: asked - 1], *later])
    assert found.difference is None
    changed = replace(later[1], text=(later[1].text or "").replace("Which joke", "Which jest"))
    found = replayed(shared_data, 5, [*events[: asked - 1], later[0], changed, *later[2:]])
    assert found.difference is not None
    assert found.events == asked
