"""Favourite colour: which colour a reply says it is, where it names several."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tunecheck.memory._model import Given, Score
from tunecheck.memory._scoring.base import Verdict, expected_text, last_reply, plain_words
from tunecheck.memory._scoring.simple import NO_EXPECTATION, NO_REPLY

_NAMES = (
    "amber|apricot|aqua|aquamarine|azure|beige|black|blue|bronze|brown|burgundy|chartreuse|copper|coral|cream|crimson"
    "|cyan|emerald|fuchsia|gold|golden|gray|green|grey|indigo|ivory|jade|khaki|lavender|lilac|lime|magenta|maroon|mauve"
    "|mint|navy|ochre|olive|orange|orchid|peach|periwinkle|pink|plum|purple|red|rose|ruby|rust|salmon|sapphire|scarlet"
    "|sienna|silver|tan|teal|turquoise|ultramarine|vermilion|violet|white|yellow"
)
_CLAUSE_END = re.compile(
    rf"[.!?;\n]+|,? but\b|,? however\b|,? although\b|, (?!(?:(?:and|or|even|also) )?(?:{_NAMES})\b)", re.I
)
"""Where a clause ends; a comma between colours goes on with the list."""
_NOT_THIS = re.compile(
    r"(?:\bnot|n't|\bno longer|\bnever|\brather than|\binstead of|\bneither|\bnor)\W+(?:\w+\W+){0,3}$", re.I
)
_CURRENT = re.compile(
    r"\b(?:most recent(?:ly)?|latest|lastly|current(?:ly)?|now|actual(?:ly)?|final(?:ly)?|still|updated|single answer"
    r"|as of|last (?:time|one|update|mentioned|said|told))\b",
    re.I,
)
_PAST = re.compile(
    r"\b(?:initial(?:ly)?|original(?:ly)?|previous(?:ly)?|formerly|at first|first|used to|at some point|before that"
    r"|changed (?:it )?from|in the past)\b",
    re.I,
)
_LATER = re.compile(r"\bthen\b|\blater\b", re.I)
_FAVOURITE = re.compile(r"\bfavou?rite(?: colou?r)?\b(?! colou?rs| shades)", re.I)
_MOST_CLAUSES = 400


def score_colour(given: Given, compat: bool) -> Verdict:
    """The reply says that the last colour is the favourite.

    The reference looks for the colour's letters anywhere ("shaRED"). By default it must be a word, not denied, and
    where several colours are named, the one that the reply settles on: by what it calls the favourite, and by words
    such as "most recently" and "initially". A list of colours without a choice is no answer.
    """
    reply, colour = last_reply(given), expected_text(given)
    if reply is None or colour is None:
        return NO_REPLY if reply is None else NO_EXPECTATION
    wanted = colour.strip().lower()
    if compat:
        found = colour.lower() in reply.lower()
        return Score(float(found), (f"{colour!r} is {'' if found else 'not '}in the reply",))
    return _claimed(wanted, list(_named(plain_words(reply), wanted)))


@dataclass(frozen=True, slots=True)
class _Mention:
    colour: str
    weight: int


def _claimed(wanted: str, mentions: list[_Mention]) -> Score:
    named = {mention.colour for mention in mentions}
    if wanted not in named:
        return Score(0.0, (f"the reply does not say {wanted!r}",))
    highest = max(mention.weight for mention in mentions)
    chosen = {mention.colour for mention in mentions if mention.weight == highest}
    if chosen == {wanted}:
        return Score(1.0, (f"the reply says {wanted!r}",))
    shown = ", ".join(sorted(chosen)[:8])
    return Score(0.0, (f"the reply names {shown} without settling on {wanted!r}",))


def _named(reply: str, wanted: str) -> Iterator[_Mention]:
    """Each colour that is not denied, with how much its clause speaks for it."""
    colours = re.compile(rf"\b(?:{_NAMES}|{re.escape(wanted)})\b", re.I)
    for clause in _CLAUSE_END.split(reply, _MOST_CLAUSES):
        weight = _weight(clause)
        for found in colours.finditer(clause):
            if not _NOT_THIS.search(clause[max(0, found.start() - 60) : found.start()]):
                yield _Mention(found[0].lower(), weight)


def _weight(clause: str) -> int:
    weight = 2 * bool(_CURRENT.search(clause)) - 2 * bool(_PAST.search(clause))
    return weight + bool(_LATER.search(clause)) + bool(_FAVOURITE.search(clause))
