"""A small seeded paraphraser: the same thing said in other words, so that text metrics have something to measure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random
from types import MappingProxyType

_BOTH_WAYS = """
    help you = assist you, find a = locate a, show = display, need = require, get = obtain, give = provide,
    buy = purchase, currently = right now, great = wonderful, happy = glad, quick = fast, large = big,
    information = details, price = cost, movie = film, results = findings, maybe = perhaps, i'm = i am,
    it's = it is, you're = you are, i've = i have, here's = here is, that's = that is, can't = cannot,
    don't = do not, won't = will not, i'll = i will
"""
_ONE_WAY = """
    approximately = about, however = but, because = since, begin = start, create = make, verify = check,
    total = overall, correct = right, please = kindly, send = forward
"""

_OPENERS = ("Sure! ", "Of course. ", "Certainly. ", "All right: ", "Here you go. ")
_KNOWN_OPENER = re.compile(r"(?:sure|of course|certainly|all right|okay|great|absolutely)[!.,:]+\s+", re.IGNORECASE)
_CLOSERS = (
    " Let me know if you need anything else.",
    " Is there anything else you would like to know?",
    " I hope that helps.",
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def _pairs(text: str) -> dict[str, str]:
    pairs = (pair.partition(" = ") for pair in " ".join(text.split()).split(", "))
    return {word: other for word, _, other in pairs}


_SYNONYMS: Mapping[str, str] = MappingProxyType(
    {**{other: word for word, other in _pairs(_BOTH_WAYS).items()}, **_pairs(_BOTH_WAYS), **_pairs(_ONE_WAY)}
)
_WORDS = re.compile(
    r"\b(?:" + "|".join(sorted(map(re.escape, _SYNONYMS), key=len, reverse=True)) + r")\b", re.IGNORECASE
)


def paraphrase(text: str, rng: Random) -> str | None:
    """The text in other words; numbers and names stay. None where there is nothing to say differently.

    Words give way to synonyms, an opening is added or left out, neighbouring sentences change places, a closing
    line is added. The same text and state of `rng` give the same words.
    """
    if not text.strip():
        return None
    changed = _WORDS.sub(lambda match: _other_word(match[0], rng), text)
    changed = rng.choice((_reopened, _reordered, _closed, _same))(changed, rng)
    return changed if changed != text else _reopened(text, rng)


def _other_word(word: str, rng: Random) -> str:
    if rng.random() < 0.4:
        return word
    other = _SYNONYMS[word.lower()]
    if word[0].isupper() or other.startswith("i "):
        other = other[0].upper() + other[1:]
    return other


def _reopened(text: str, rng: Random) -> str:
    known = _KNOWN_OPENER.match(text)
    if known and len(text) > known.end():
        return text[known.end()].upper() + text[known.end() + 1 :]
    return rng.choice(_OPENERS) + text


def _reordered(text: str, rng: Random) -> str:
    sentences = _SENTENCE.split(text)
    if len(sentences) < 2 or "\n" in text:
        return text
    at = rng.randrange(len(sentences) - 1)
    sentences[at : at + 2] = reversed(sentences[at : at + 2])
    return " ".join(sentences)


def _closed(text: str, rng: Random) -> str:
    return text.rstrip() + rng.choice(_CLOSERS)


def _same(text: str, _: Random) -> str:
    return text
