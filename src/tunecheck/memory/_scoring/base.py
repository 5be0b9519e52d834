"""What all scorers share: the words of a reply, taken in bounds, and what to say where words do not suffice."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tunecheck._json import JSON
from tunecheck.memory._model import Given, Score

MAX_CHARACTERS = 50_000
"""As much of a reply as is looked at; the longest recorded one has 8,000."""

MAX_EXPECTED = 2_000
"""Longest list of expectations; a test has three."""

_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "`": "'", "\u00a0": " "})


@dataclass(frozen=True, slots=True)
class Undecided:
    """Words do not suffice, and why: a person or a model may know more."""

    reason: str


Verdict: TypeAlias = Score | Undecided

Scorer: TypeAlias = Callable[[Given, bool], Verdict]
"""Scores a finished test; with True exactly as the reference does, its defects included."""


def last_reply(given: Given) -> str | None:
    """The reply to the last question; None where there is none."""
    replies = texts(given.responses)
    return replies[-1] if replies else None


def texts(values: Sequence[JSON]) -> list[str]:
    """The texts among values from outside, each in bounds."""
    if not isinstance(values, (list, tuple)):
        return []
    return [value[:MAX_CHARACTERS] for value in values if isinstance(value, str)]


def expected_texts(given: Given) -> list[str] | None:
    """What was expected where that is a list of texts, else None."""
    expected = given.expected
    if (
        not isinstance(expected, (list, tuple))
        or len(expected) > MAX_EXPECTED
        or not all(isinstance(each, str) for each in expected)
    ):
        return None
    return texts(expected)


def expected_text(given: Given) -> str | None:
    """The last of the expected texts, which answers the last question; None where there is none."""
    expected = expected_texts(given)
    return expected[-1] if expected and expected[-1].strip() else None


def mentions(word: str, text: str, *, cased: bool = False) -> bool:
    """Whether a text has a word or a phrase as words of their own."""
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, 0 if cased else re.IGNORECASE) is not None


def plain_words(text: str) -> str:
    """The text with straight quotes and without the stars and underscores of emphasis."""
    return re.sub(r"[*_#]+", "", text.translate(_QUOTES))
