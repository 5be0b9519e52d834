"""Read replies of finished tests for scores: bounded texts, words in them, and denials.

Rows may come from other programs, so every value may have any type or length. Texts of the wrong type are left out, and
long ones are cut. `read_lenient` reads the JSON that models write.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec

from tunecheck.calls import PythonScanner
from tunecheck.plugins import JSON, convert_value, loads, plain
from tunecheck_memory import FinishedTest, Score

T = TypeVar("T")

MAX_CHARACTERS = 50_000
"""The most characters of a reply that are read; the longest recorded one has 8,000."""

MAX_EXPECTED = 2_000
"""The most expected texts; a test has three."""

_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "`": "'", "\u00a0": " "})


class UndecidedError(Exception):
    """Rules cannot score a test, but a person or a model may. The text says why."""


class NoExpectationError(UndecidedError):
    """The row's expected answer does not have the form that the rules need."""

    def __init__(self) -> None:
        super().__init__("the column `expected` does not have the form that the data set's rules need")


def last_reply(given: FinishedTest) -> str:
    """Return the reply to the last question; raise UndecidedError if there is no reply."""
    return all_replies(given)[-1]


def all_replies(given: FinishedTest) -> list[str]:
    """Return the replies to the questions; raise UndecidedError if there is no reply."""
    if not (answers := texts(given.responses)):
        raise UndecidedError("the column `responses` holds no reply to score")
    return answers


def texts(values: Sequence[JSON]) -> list[str]:
    """Return the texts among values of any type, each cut to the length that is read; empty if it is not a list."""
    if not isinstance(values, (list, tuple)):
        return []
    return [value[:MAX_CHARACTERS] for value in values if isinstance(value, str)]


def expected_as(form: type[T], given: FinishedTest) -> T:
    """Return the expected answers in this form, such as `list[str]`; raise NoExpectationError if they have another."""
    try:
        return convert_value(given.expected, form)
    except msgspec.ValidationError:
        raise NoExpectationError from None


def expected_texts(given: FinishedTest) -> list[str]:
    """Return the expected texts, each cut to the length that is read.

    Raises:
        NoExpectationError: they are not a list of texts, or there are over `MAX_EXPECTED`.
    """
    expected = expected_as(list[str], given)
    if len(expected) > MAX_EXPECTED:
        raise NoExpectationError
    return texts(expected)


def expected_text(given: FinishedTest) -> str:
    """Return the last expected text, which answers the last question.

    Raises:
        NoExpectationError: the text is blank or missing.
    """
    expected = expected_texts(given)
    if not expected or not expected[-1].strip():
        raise NoExpectationError
    return expected[-1]


# -- words, and whether a reply denies them

_DENIAL = re.compile(
    # "not at ", "rather than ", but neither "not only " nor "not sure": at most three words before the denied ones
    r"(?:\bnot|n't|\bno longer|\bnever|\brather than|\binstead of|\bneither|\bnor)"
    r"(?! (?:only|just|merely|until|before|least|sure)\b)\W+(?:\w+\W+){0,3}$",
    re.IGNORECASE,
)

# "Bob is no longer", "Bob wasn't"
_DENIED_AFTER = re.compile(r"\W{0,3}(?:is|was|are|were)(?:n't| not| no longer| never)\b", re.IGNORECASE)

# A denial ends here: in "not Ann but Bob", Bob is not denied.
_BREAK = re.compile(r"[.!?;\n]|\bbut\b|\bhowever\b|\balthough\b", re.IGNORECASE)


def is_denied(text: str, start: int, end: int) -> bool:
    """Return True if a text denies its words from `start` to `end`.

    A denial stands before them in the same clause, with at most three words between ("not at dawn", "rather than
    Bob"), or follows at once ("Bob is no longer"). "Not" before "only", "just", "merely", "until", "before", "least"
    or "sure" denies nothing.
    """
    before = _BREAK.split(text[max(0, start - 60) : start])[-1]
    return _DENIAL.search(before) is not None or _DENIED_AFTER.match(text[end : end + 20]) is not None


# "I do not have any record", "I can't recall", "without access"; at most 40 characters between the two words
_DECLINES = re.compile(
    r"\b(?:do(?:n't| not)|can(?:'t|not| not)|could(?:n't| not)|unable to|haven't|have not|no|without)\b[^.!?\n]{0,40}"
    r"\b(?:access|recall|remember|retain|know|see|information|record|memory|context|provided?|shared?|mentioned)\b",
    re.IGNORECASE,
)


def declines(text: str) -> bool:
    """Return True if the text's writer says that they do not know, remember or have access."""
    return _DECLINES.search(text.translate(_QUOTES)) is not None


def find_words(word: str, text: str, *, cased: bool = False) -> Iterator[re.Match[str]]:
    """Yield the matches of a word or phrase in a text as whole words; case counts only if `cased`."""
    return re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", text, 0 if cased else re.IGNORECASE)


def mentions(word: str, text: str, *, cased: bool = False) -> bool:
    """Return True if a text has a word or phrase as whole words; case counts only if `cased`."""
    return next(find_words(word, text, cased=cased), None) is not None


def plain_words(text: str) -> str:
    """Return the text with straight quotes and without marks of emphasis: "**Red**" becomes "Red"."""
    return re.sub(r"[*_#]+", "", text.translate(_QUOTES))


def score_mention(value: str, found: bool) -> Score:
    """Return the score 1 if the expected value was found in the reply, else 0, with the reason."""
    return Score(float(found), (f"{value!r} is {'' if found else 'not '}in the reply",))


# -- JSON as models write it

MAX_JSON = 200_000
"""The most characters that are read as JSON; a reply with a list has about a hundredth of them."""

# A Markdown block with JSON: the first one counts.
_FENCE = re.compile(r"```[ \t]*(?:javascript|json)\b(.*?)```", re.DOTALL | re.IGNORECASE)

# A quoted text, a bare word, a `//` comment, or dots for omitted values. Numbers and brackets are not matched.
_TOKEN = re.compile(r"""("(?:[^"\\]|\\.)*+"|'(?:[^'\\\n]|\\.)*+')|([^\W\d][\w-]*+)|//[^\n]*|\.\.\.|…""", re.DOTALL)

# `{"Ann", "Ben"}` is meant as a list.
_NAMES_ALONE = re.compile(r"\{([^{}:]+)\}")
_LITERALS = frozenset(("true", "false", "null", "True", "False", "None"))

# The place between `}` and `{` in `[{"item": "soap"} {"item": "milk"}]`
_FORGOTTEN_COMMA = re.compile(r"(?<=[}\]])(?=\s*[{\[])")

# Accepts raw line breaks in texts, and text after the value.
_decode = json.JSONDecoder(strict=False).raw_decode


def read_lenient(text: str) -> JSON:
    """Return the JSON value in a text: the whole text, the first ```json block, or the value at the first bracket.

    These deviations are accepted: `//` comments, `...`, unquoted words, superfluous commas, missing commas between
    brackets, Python literals, and text after the value. An unclosed bracket is an error, as parts are missing.

    Examples: `{'a': True, b: [1, 2,], ...}` gives `{"a": true, "b": [1, 2]}`, and `{Ann, Ben}` gives `["Ann", "Ben"]`.

    Raises:
        ValueError: The text contains no such value.
    """
    text = text[:MAX_JSON]
    try:
        return loads(text)
    except ValueError:
        fenced = _FENCE.search(text) if "```" in text else None

    body = fenced[1] if fenced else text
    opening = re.search(r"[\[{]", body)
    if opening is None:
        raise ValueError("the model's reply contains no JSON")
    body = body[opening.start() :]

    # First strict JSON from the bracket on. If that fails, rewrite the value in Python's syntax and read it so.
    try:
        return plain(_decode(body)[0])
    except (ValueError, TypeError, RecursionError):  # TypeError: nested too deeply
        body = _FORGOTTEN_COMMA.sub(",", _TOKEN.sub(_plain_token, body))

    names = _NAMES_ALONE.match(body)
    return PythonScanner(f"[{names[1]}]" if names else body).value()


def _plain_token(match: re.Match[str]) -> str:
    """Return a token in Python's syntax: nothing for a comment or `...`, quotation marks around a bare word."""
    quoted, word = match.groups()
    if word is None:
        return quoted or ""
    return word if word in _LITERALS else f'"{word}"'
