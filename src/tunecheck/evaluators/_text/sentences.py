"""Sentences of English text, by nltk's Punkt with the parameters that nltk learnt from the Wall Street Journal.

T. Kiss and J. Strunk, "Unsupervised multilingual sentence boundary detection", Computational Linguistics 32(4), 2006.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from tunecheck.evaluators._text.resources import read_lines

if TYPE_CHECKING:
    from nltk.tokenize.punkt import PunktSentenceTokenizer

_BOUNDARY_CANDIDATE = re.compile(r"[.?!](?:[)\";}\]*:@'({\[!?]|\s+\S)")


def split_sentences(text: str) -> list[str]:
    """The sentences of a text in ASCII, without blanks at their ends."""
    if not _BOUNDARY_CANDIDATE.search(text):
        return [text.rstrip()]
    sentences: list[str] = _punkt().tokenize(text)
    return sentences


def is_abbreviation(word: str) -> bool:
    """Whether Punkt knows a word, which may carry its full stop, as an abbreviation."""
    return word.rstrip(".").lower() in _abbreviations()


@lru_cache(maxsize=1)
def _parameters() -> list[list[str]]:
    return [line.split("\t") for line in read_lines("punkt_english.txt")]


@lru_cache(maxsize=1)
def _abbreviations() -> frozenset[str]:
    return frozenset(_parameters()[0][1:])


class _Contexts(dict[str, int]):
    """Orthographic contexts by word; asking for an unknown word leaves no trace, unlike in nltk's own table."""

    def __missing__(self, word: str) -> int:
        return 0


@lru_cache(maxsize=1)
def _punkt() -> PunktSentenceTokenizer:
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer  # a third of a second; few texts need it

    known = PunktParameters()
    known.ortho_context = _Contexts()
    for kind, *values in _parameters():
        if kind == "abbreviations":
            known.abbrev_types = set(values)
        elif kind == "starters":
            known.sent_starters = set(values)
        elif kind == "collocation":
            known.collocations.add(tuple(values))
        else:
            known.ortho_context.update(dict.fromkeys(values[1:], int(values[0])))
    return PunktSentenceTokenizer(known)
