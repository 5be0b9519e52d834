"""How a wrong value is wrong: one of a few kinds, decided by rules, without a model."""

from __future__ import annotations

import re
import unicodedata

from rapidfuzz import fuzz

from tunecheck._json import JSON
from tunecheck.calls._matching.dates import same_moment
from tunecheck.calls._matching.numbers import same_number_in_text, same_quantity

KINDS = (
    "number_as_text",
    "number_conversion",
    "date_or_time_format",
    "case_or_spacing",
    "list_order",
    "close_wording",
    "other",
)
"""In the order in which a reader wants them; `list_order` is found by the comparison of lists itself."""

CLOSE_WORDING = 80.0
"""Texts are close from this similarity on: 100 × (1 − insertions and deletions / both lengths), as rapidfuzz's ratio
has it, of the words as they stand or sorted."""

_COMPARED_CHARACTERS = 2_000  # the similarity of two texts costs the product of their lengths
_GLANCED_CHARACTERS = 256  # and every pair of calls is looked at
_BETWEEN_LETTERS = re.compile(r"(?<=[^\W\d_])[-_](?=[^\W\d_])")
_DIGITS = re.compile(r"\d+")
_WORD = re.compile(r"\w+")


def kind_of_wrong(expected: JSON, actual: JSON) -> str:
    """The kind of a wrong value that is no object, and no list in another order: one of `KINDS`."""
    if isinstance(expected, bool) or isinstance(actual, bool):
        return "other"
    if isinstance(expected, str) and isinstance(actual, str):
        return _kind_of_texts(expected, actual)
    if not isinstance(expected, (int, float, str)) or not isinstance(actual, (int, float, str)):
        return "other"
    if _number_as_text(expected, actual):
        return "number_as_text"
    if same_moment(expected, actual):
        return "date_or_time_format"
    return "number_conversion" if same_quantity(expected, actual) else "other"


def closeness(expected: str, actual: str) -> float:
    """How alike two texts are, 0 to 1, letter case and white space aside; long ones by their beginnings."""
    one, other = ("".join(text[:_GLANCED_CHARACTERS].casefold().split()) for text in (expected, actual))
    return fuzz.ratio(one, other) / 100


def plain_words(text: str) -> str:
    """The text without letter case, white space, and the hyphens and underscores between letters."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(_BETWEEN_LETTERS.sub("", folded).split())


def _number_as_text(expected: float | str, actual: float | str) -> bool:
    if isinstance(expected, str):
        return not isinstance(actual, str) and same_number_in_text(actual, expected)
    return isinstance(actual, str) and same_number_in_text(expected, actual)


def _kind_of_texts(expected: str, actual: str) -> str:
    if plain_words(expected) == plain_words(actual):
        return "case_or_spacing"
    if same_moment(expected, actual):
        return "date_or_time_format"
    if same_quantity(expected, actual):
        return "number_conversion"
    return "close_wording" if _close_wording(expected, actual) else "other"


def _close_wording(expected: str, actual: str) -> bool:
    """Texts that differ in a number (`user_1`, `user_2`) are never close: they name different things."""
    one, other = (" ".join(text[:_COMPARED_CHARACTERS].casefold().split()) for text in (expected, actual))
    if _DIGITS.findall(one) != _DIGITS.findall(other):
        return False
    if fuzz.ratio(one, other) >= CLOSE_WORDING or fuzz.token_sort_ratio(one, other) >= CLOSE_WORDING:
        return True
    words = set(_WORD.findall(one)), set(_WORD.findall(other))
    common = words[0] & words[1]  # `Paris` and `Paris, France`
    return common in words and any(len(word) > 2 for word in common)
