"""Tests whose answer the reply names: a name, a colour, a value, a place, a number, what coded messages meant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tunecheck._json import JSON
from tunecheck.memory._data import spy_words
from tunecheck.memory._lenient_json import read_lenient
from tunecheck.memory._model import Given, Score
from tunecheck.memory._scoring.base import Undecided, Verdict, expected_text, last_reply, mentions, plain_words

NO_REPLY = Undecided("there is no reply to score")
NO_EXPECTATION = Undecided("what was expected cannot be read")

_DIGITS = re.compile(r"\d+")
_OF_HOW_MANY = re.compile(
    r"(?:\bout)?\s{1,3}of(?:\s{1,3}the)?\s{1,3}(?:\d{1,3}|six)\b|(?<=\d)\s?/\s?\d{1,3}"
    r"|\b\d{1,3}\s{1,3}(?:\w{1,20}\s)?(?:options|choices)\b",
    re.IGNORECASE,
)
_OPTION = re.compile(r"\b(?:options?|number|no\.?|choice|chapter|#)[\s:#*\"'(]{0,5}(\d{1,3})\b", re.IGNORECASE)


def score_name(given: Given, compat: bool) -> Verdict:
    """Names: the reply says the last name. By default as a word of its own ("Ann" is not in "Joanna")."""
    reply, name = last_reply(given), expected_text(given)
    if reply is None or name is None:
        return NO_REPLY if reply is None else NO_EXPECTATION
    found = name.lower() in reply.lower() if compat else mentions(name.strip(), reply)
    return _in_reply(name, found)


def score_key_value(given: Given, compat: bool) -> Verdict:
    reply, value = last_reply(given), expected_text(given)
    if reply is None or value is None:
        return NO_REPLY if reply is None else NO_EXPECTATION
    return _in_reply(value, value in reply if compat else value.lower() in reply.lower())


def _in_reply(value: str, found: bool) -> Score:
    return Score(float(found), (f"{value!r} is {'' if found else 'not '}in the reply",))


def score_sally_anne(given: Given, compat: bool) -> Verdict:
    """Sally-Anne: the reply is `{"answer": "word"}`, with the right word, in any case.

    The reference breaks off where the answer is no text; by default that is a wrong answer.
    """
    reply, place = last_reply(given), expected_text(given)
    if reply is None or place is None:
        return NO_REPLY if reply is None else NO_EXPECTATION
    try:
        said = read_lenient(reply)
    except ValueError as error:
        return Score(0.0, (f"the reply is not JSON: {error}",))
    return _answered(said, place, compat)


def _answered(said: JSON, place: str, compat: bool) -> Verdict:
    if not isinstance(said, dict) or "answer" not in said:
        return Score(0.0, ('the reply has no "answer"',))
    answer = said["answer"]
    if not isinstance(answer, str):
        if compat:
            return Undecided("the reference breaks off: the answer is no text")
        return Score(0.0, ("the answer is no text",))
    right = answer.lower() == place if compat else answer.strip(" .").casefold() == place.strip().casefold()
    return Score(float(right), (f"the answer is {answer[:80]!r}" + ("" if right else f", not {place!r}"),))


def score_chapter(given: Given, compat: bool) -> Verdict:
    """Chapter break: the reply names the right option, and no other.

    The reference wants the option's number to be the only one in the reply; by default how many options there were
    ("Option 2 of 6") is not taken as a choice, and where options are named as such, other numbers are not either.
    """
    reply, answer = last_reply(given), expected_text(given)
    if reply is None or answer is None:
        return NO_REPLY if reply is None else NO_EXPECTATION
    named = set(_DIGITS.findall(reply)) if compat else _options(reply)
    right = named == {answer.strip()}
    shown = ", ".join(sorted(named)[:6]) or "none"
    return Score(float(right), (f"the reply chooses {shown}" + ("" if right else f", not {answer} alone"),))


def _options(reply: str) -> set[str]:
    counted = _OF_HOW_MANY.sub(" ", reply)
    chosen: list[str] = _OPTION.findall(counted)
    return set(chosen) or set(_DIGITS.findall(counted))


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
    return _claimed(wanted, list(_named_colours(plain_words(reply), wanted)))


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


def _named_colours(reply: str, wanted: str) -> Iterator[_Mention]:
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
    reply, expected = last_reply(given), _expected_words(given)
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
    ours = spy_words()
    theirs_known, ours_known = (sum(not known.isdisjoint(words) for words in codes) for codes in (CODES, ours))
    return ours if ours_known > theirs_known else CODES


def _expected_words(given: Given) -> list[list[str]] | None:
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
