"""What all scorers share: the words of a reply, taken in bounds, and the error where words do not suffice."""

import re
from collections.abc import Sequence

from tunecheck._json import JSON
from tunecheck.memory._model import Given

MAX_CHARACTERS = 50_000
"""As much of a reply as is looked at; the longest recorded one has 8,000."""

MAX_EXPECTED = 2_000
"""Longest list of expectations; a test has three."""

_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "`": "'", "\u00a0": " "})


class UndecidedError(Exception):
    """Words do not suffice to score a test; the text says why. A person or a model may know more."""


class NoExpectationError(UndecidedError):
    def __init__(self) -> None:
        super().__init__("what was expected cannot be read")


def last_reply(given: Given) -> str:
    """The reply to the last question."""
    return replies(given)[-1]


def replies(given: Given) -> list[str]:
    """The replies to the questions, at least one."""
    if not (answers := texts(given.responses)):
        raise UndecidedError("there is no reply to score")
    return answers


def texts(values: Sequence[JSON]) -> list[str]:
    """The texts among values from outside, each in bounds."""
    if not isinstance(values, (list, tuple)):
        return []
    return [value[:MAX_CHARACTERS] for value in values if isinstance(value, str)]


def expected_texts(given: Given) -> list[str]:
    expected = given.expected
    if (
        not isinstance(expected, (list, tuple))
        or len(expected) > MAX_EXPECTED
        or not all(isinstance(each, str) for each in expected)
    ):
        raise NoExpectationError
    return texts(expected)


def expected_text(given: Given) -> str:
    """The last of the expected texts, which answers the last question."""
    expected = expected_texts(given)
    if not expected or not expected[-1].strip():
        raise NoExpectationError
    return expected[-1]


def mentions(word: str, text: str, *, cased: bool = False) -> bool:
    """Whether a text has a word or a phrase as words of their own."""
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, 0 if cased else re.IGNORECASE) is not None


def plain_words(text: str) -> str:
    """The text with straight quotes and without the stars and underscores of emphasis."""
    return re.sub(r"[*_#]+", "", text.translate(_QUOTES))
