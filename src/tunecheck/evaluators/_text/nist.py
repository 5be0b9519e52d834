"""Tokens of any text, as nltk's `NISTTokenizer().international_tokenize` gives them.

After the tokeniser of NIST's mteval-v14 script: ASCII and other characters are parted, and so are symbols, and
punctuation that stands beside a digit; what counts as which comes from Perl's classes of Unicode 7.0. No rule looks
across blanks, so words are tokenised once and remembered.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tunecheck.evaluators._text.resources import read_lines

_MAX_REMEMBERED = 48
"""Longest word, in characters, that is remembered."""

_ENTITIES = {
    "&lt;": "<",
    "&gt;": ">",
    "&apos;": "'",
    "&quot;": '"',
    "&#124;": "|",
    "&#91;": "[",
    "&#93;": "]",
    "&amp;": "&",
}


def nist_tokens(text: str) -> list[str]:
    """The tokens of a text."""
    tokens: list[str] = []
    for word in text.split():
        tokens += _remembered(word) if len(word) <= _MAX_REMEMBERED else _word_tokens(word)
    return tokens


def _word_tokens(word: str) -> tuple[str, ...]:
    word = word.replace("<skipped>", "")
    if "&" in word:
        for entity, character in _ENTITIES.items():
            word = word.replace(entity, character)
    for pattern, replacement in _rules():
        word = pattern.sub(replacement, word)
    return tuple(word.split())


_remembered = lru_cache(maxsize=1 << 15)(_word_tokens)


@lru_cache(maxsize=1)
def _rules() -> tuple[tuple[re.Pattern[str], str], ...]:
    number, punctuation, symbol = (_character_class(line.split(" ")[1:]) for line in read_lines("unicode_classes.txt"))
    return (
        (re.compile("([\0-\x7f]+)"), r" \1 "),
        (re.compile(f"({number})({punctuation})"), r"\1 \2 "),
        (re.compile(f"({punctuation})({number})"), r" \1 \2"),
        (re.compile(f"({symbol})"), r" \1 "),
    )


def _character_class(ranges: list[str]) -> str:
    """`30-39` and the like as a class of a regular expression."""
    bounds = (span.split("-") for span in ranges)
    return "[" + "".join(rf"\u{int(first, 16):04x}-\u{int(last, 16):04x}" for first, last in bounds) + "]"
