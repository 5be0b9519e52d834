"""Prospective memory: a quote in one reply among those that follow the request, and in no other."""

from __future__ import annotations

import re

from tunecheck._json import JSON
from tunecheck.memory._model import Given, Score
from tunecheck.memory._scoring.base import Undecided, Verdict, texts
from tunecheck.memory._scoring.simple import NO_EXPECTATION


def score_prospective(given: Given, compat: bool) -> Verdict:
    """Whether the quote stands in the nth reply since the request, its own reply counted, and in none of the others.

    Words are compared in small letters, without punctuation.
    """
    wanted = _expected(given.expected)
    if wanted is None:
        return NO_EXPECTATION
    replies = texts(given.since_question)
    if not replies:
        return Undecided("the replies since the question are not known")
    quote, turn = wanted
    found = [number for number, reply in enumerate(replies, 1) if quote in _letters(reply)]
    right = found == [turn]
    said = f"the quote is in reply {', '.join(map(str, found[:8]))}" if found else "the quote is in no reply"
    return Score(float(right), (said + ("" if right else f", not in reply {turn} alone"),))


def _expected(expected: object) -> tuple[str, int] | None:
    """The quote, and in which reply: of `[[quote, author, n]]`."""
    if not isinstance(expected, (list, tuple)) or not expected:
        return None
    first: JSON = expected[0]
    if not isinstance(first, (list, tuple)) or len(first) < 2:
        return None
    quote, turn = first[0], first[-1]
    if not isinstance(quote, str) or not _letters(quote) or isinstance(turn, bool) or not isinstance(turn, int):
        return None
    return _letters(quote), turn


def _letters(text: str) -> str:
    return " ".join(re.sub(r"[^\w\s]", "", text.lower()).split())
