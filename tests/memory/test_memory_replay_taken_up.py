"""Logs of runs that died and were taken up again, written down by the reference's rules for that.

Words count as tokens; every reply is "ok" but to filler. The run that all of these begin with, with T the tokens:

    hello there / ok            T = 3
    Alpha begins at 3: a1 / ok  T = 5    waits 50 % of 100: 50 - (5 - 3) - 1 = 47, that is until T = 52
    Beta begins at 5:  b1 / ok  T = 7    waits 30 %:        30 - (7 - 5) - 1 = 27, that is until T = 34
    filler of 27                T = 35   (a preface of 3, 5 entries of 4 words, 5 answers)
    Beta: b2? / ok              T = 37   over
    filler of 15                T = 55   (3 + 3 × 4, 3 answers)
    Alpha: a2? / ok             T = 57   over
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from checks.goodai_replay import Replayed, replay
from checks.goodai_run import LogEvent
from tests.memory_core_parts import SECOND, kind, logged, made_test, run, settings

from tunecheck_memory import Wait
from tunecheck_memory._run_files import EventType
from tunecheck_memory._scheduler import Test

TESTS = [made_test("Alpha", "a1", Wait(percentage=50), "a2?"), made_test("Beta", "b1", Wait(percentage=30), "b2?")]

UNBROKEN = logged(run(TESTS, settings()))

SEND, REPLY, FILL, FILLED = (
    EventType.SEND_MESSAGE,
    EventType.RESPONSE_MESSAGE,
    EventType.SEND_FILL,
    EventType.RESPONSE_FILL,
)


def kinds(events: Sequence[LogEvent]) -> list[EventType]:
    return [event.type for event in events]


def reset_after(event: LogEvent) -> LogEvent:
    """What is logged when the run is taken up, a minute later."""
    return LogEvent(EventType.SUITE_RESET, event.at_us + 60 * SECOND)


def broken(at: int, goes_on_at: int | None = None, *, registers: Sequence[str] = ()) -> list[LogEvent]:
    """The unbroken log, broken off before the event at a place, and gone on from another."""
    events = UNBROKEN[:at]
    again = [LogEvent(EventType.REGISTER_CALLBACK, events[-1].at_us, test) for test in registers]
    rest = UNBROKEN[at if goes_on_at is None else goes_on_at :]
    later = [replace(event, at_us=event.at_us + 120 * SECOND) for event in rest]
    return [*events, *again, reset_after(events[-1]), *later]


def replayed(events: Sequence[LogEvent], tests: Sequence[Test] = TESTS) -> Replayed:
    return replay(events, tests, settings())


def test_the_unbroken_run_is_the_one_that_is_described_above() -> None:
    assert kinds(UNBROKEN) == [
        FILL, FILLED, EventType.SUITE_RESET,
        EventType.BEGIN, SEND, REPLY, EventType.WAIT,
        EventType.BEGIN, SEND, REPLY, EventType.WAIT,
        FILL, FILLED, SEND, REPLY, EventType.END,
        FILL, FILLED, SEND, REPLY, EventType.END,
    ]  # fmt: skip
    assert [event.tokens for event in UNBROKEN if event.tokens] == [3, 47, 5, 27]


def test_filler_that_was_not_saved_is_drawn_again_and_does_not_count() -> None:
    # Died after the filler at 11 and 12: T = 7 had been saved. Beta waits until 7 + 30 - 2 - 1 = 34, as before.
    result = replayed(broken(13, 11))
    assert result.difference is None
    assert result.resumed == 1


def test_a_test_that_died_in_its_turn_goes_on_without_beginning_again() -> None:
    # Died after Alpha's first reply: it is not waiting, and is the first that could begin.
    assert replayed(broken(6)).difference is None


def test_a_message_whose_reply_was_lost_is_not_sent_again() -> None:
    # Died between the two lines of Beta's first exchange: T = 5, and what was said to Beta has no reply. Its wait is
    # 30 - (5 - 5) = 30, nothing is taken off; until T = 35. Filler of 30 is 6 entries, and brings T to 5 + 27 + 6 = 38.
    events = broken(9, 10)
    place = next(
        place for place, event in enumerate(events) if event.test == "Beta - 0" and event.type is EventType.WAIT
    )
    events[place] = replace(events[place], tokens=30)
    assert replayed(events[: place + 1]).events == place + 1
    assert replayed(broken(9, 10)).events == place


def test_a_message_that_was_logged_and_not_saved_is_not_counted() -> None:
    # Died between Beta's first reply and the saving of its tokens: T = 5 was what was saved. Beta: 30 - 0 - 1 = 29.
    events = broken(10)
    place = 11
    assert events[place].type is EventType.WAIT
    events[place] = replace(events[place], tokens=29)
    assert replayed(events[: place + 1]).events == place + 1
    # Any other number has no explanation: 27 had all been saved, 29 without the last exchange.
    events[place] = replace(events[place], tokens=28)
    assert replayed(events[: place + 1]).events == place


def test_a_run_may_die_and_be_taken_up_many_times() -> None:
    # Twice in the same filler, then once before Alpha's last question.
    first = broken(13, 11)
    again = [*first[:16], reset_after(first[15]), *first[14:]]
    later = next(place for place, event in enumerate(again) if event.text == "a2?") - 2
    whole = [*again[:later], reset_after(again[later - 1]), *again[later:]]
    ordered = [replace(event, at_us=place * SECOND) for place, event in enumerate(whole)]
    result = replayed(ordered)
    assert result.difference is None
    assert result.resumed == 3


def test_what_is_not_explained_by_dying_is_a_difference() -> None:
    events = broken(13, 11)
    place = next(place for place, event in enumerate(events) if event.text == "b2?")
    events[place] = replace(events[place], text="b3?")
    result = replayed(events)
    assert result.events == place
    assert result.difference is not None and result.difference.logged == events[place]


def test_a_callback_is_registered_again_and_counts_the_replies_of_before() -> None:
    # Gamma looks on until five replies: its own, two of filler that make it wait a token each, and two after.
    gamma = [made_test(kind("Gamma", looks=5), "remember?", uses_callback=True)]
    unbroken = logged(run(gamma, settings()))
    places = [place for place, event in enumerate(unbroken) if event.type is EventType.WAIT]
    at = places[2] + 1
    register = LogEvent(EventType.REGISTER_CALLBACK, unbroken[at - 1].at_us, "Gamma - 0")
    rest = [replace(event, at_us=event.at_us + 99 * SECOND) for event in unbroken[at:]]
    events = [*unbroken[:at], register, reset_after(unbroken[at - 1]), *rest]
    assert replay(events, gamma, settings()).difference is None
    without = [event for event in events if event is not register]
    assert replay(without, gamma, settings()).events == at


def test_a_question_of_time_is_worded_when_it_is_sent_however_long_the_saving_before_took() -> None:
    tests = [made_test("Alpha", "a", Wait(seconds=100), is_temporal=True)]
    events = logged(run(tests, settings()))
    place = next(place for place, event in enumerate(events) if event.text == "which 102 seconds ago?")
    for at in (place, place + 1, place + 2):
        events[at] = replace(events[at], at_us=events[at].at_us + 7 * SECOND)
    assert replay(events, tests, settings()).events == place
    events[place] = replace(events[place], text="which 109 seconds ago?")
    assert replay(events, tests, settings()).difference is None
