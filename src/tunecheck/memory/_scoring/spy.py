"""Spy meeting: which time, place and thing to bring the coded messages meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tunecheck.memory._model import Given, Score
from tunecheck.memory._scoring.base import Verdict, last_reply, mentions
from tunecheck.memory._scoring.simple import NO_EXPECTATION, NO_REPLY

CODES: tuple[tuple[str, ...], ...] = (
    ("noon", "midday"),
    ("night", "midnight", "nighttime"),
    ("sunrise", "dawn", "rise", "morning"),
    ("sunset", "dusk", "sets"),
    ("orchard",),
    ("automobile", "factory", "manufacturing"),
    ("shore", "beach", "coastline"),
    ("railway", "yard", "depot"),
    ("port", "warehouse", "seaport", "docks"),
    ("boat", "bridge", "raft", "kayak"),
    ("pick", "picks", "key"),
    ("bribe", "credentials", "paperwork", "passport"),
    ("motorbike", "motorcycle", "car", "fast vehicle"),
)
"""The words that tell that a message of the benchmark was understood: of those not sent, each costs a point."""


def score_spy(given: Given, compat: bool) -> Verdict:
    """A third for each message of which the reply has a word; one less where it has a word of another message.

    Words of their own count; the reference wants them in small letters, by default their case is all one.
    """
    reply, expected = last_reply(given), _expected(given)
    if reply is None or not expected:
        return NO_REPLY if reply is None else NO_EXPECTATION
    understood = [any(mentions(word, reply, cased=compat) for word in words) for words in expected]
    wrong = next((word for word in _others(expected, compat) if mentions(word, reply, cased=compat)), None)
    reasons = [
        f"{'/'.join(words)[:80]}: {'understood' if right else 'not in the reply'}"
        for words, right in zip(expected, understood, strict=True)
    ]
    if wrong is not None:
        reasons.append(f"{wrong!r} is of another message")
    points = max(0, sum(understood) - (wrong is not None))
    return Score(points / len(expected), tuple(reasons))


def _codes(known: set[str]) -> Sequence[Sequence[str]]:
    """The messages that a test chose from: the benchmark's, or those of our own kind, by whose words are expected."""
    from tunecheck.memory._kinds.spy_meeting import spy_words

    ours = spy_words()
    theirs_known, ours_known = (sum(not known.isdisjoint(words) for words in codes) for codes in (CODES, ours))
    return ours if ours_known > theirs_known else CODES


def _expected(given: Given) -> list[list[str]] | None:
    if not isinstance(given.expected, (list, tuple)) or len(given.expected) > len(CODES):
        return None
    found: list[list[str]] = []
    for words in given.expected:
        if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) and word.strip() for word in words):
            return None
        found.append([str(word) for word in words][:40])
    return found if all(found) else None


def _others(expected: list[list[str]], compat: bool) -> Iterator[str]:
    """The words of messages that were not given: none of theirs is expected."""
    known = {word for words in expected for word in words}
    for words in CODES if compat else _codes(known):
        if known.isdisjoint(words):
            yield from words
