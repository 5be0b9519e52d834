"""Tests whose answer the reply names: a name, a colour, a value, a place, a number, what coded messages meant."""

import re
from collections.abc import Iterator, Sequence

from tunecheck.memory._data import spy_words
from tunecheck.memory._lenient_json import read_lenient
from tunecheck.memory._model import Given, Score
from tunecheck.memory._scoring.base import (
    NoExpectationError,
    UndecidedError,
    expected_text,
    last_reply,
    mentions,
    plain_words,
)
from tunecheck.memory._scoring.reference_json import read_as_reference

_DIGITS = re.compile(r"\d+")
_OF_HOW_MANY = re.compile(
    r"(?:\bout)?\s{1,3}of(?:\s{1,3}the)?\s{1,3}(?:\d{1,3}|six)\b|(?<=\d)\s?/\s?\d{1,3}"
    r"|\b\d{1,3}\s{1,3}(?:\w{1,20}\s)?(?:options|choices)\b",
    re.IGNORECASE,
)
_OPTION = re.compile(r"\b(?:options?|number|no\.?|choice|chapter|#)[\s:#*\"'(]{0,5}(\d{1,3})\b", re.IGNORECASE)


def score_name(given: Given, compat: bool) -> Score:
    """Names: the reply says the last name. By default as a word of its own ("Ann" is not in "Joanna")."""
    reply, name = last_reply(given), expected_text(given)
    return _in_reply(name, name.lower() in reply.lower() if compat else mentions(name.strip(), reply))


def score_key_value(given: Given, compat: bool) -> Score:
    reply, value = last_reply(given), expected_text(given)
    return _in_reply(value, value in reply if compat else value.lower() in reply.lower())


def _in_reply(value: str, found: bool) -> Score:
    return Score(float(found), (f"{value!r} is {'' if found else 'not '}in the reply",))


def score_sally_anne(given: Given, compat: bool) -> Score:
    """Sally-Anne: the reply is `{"answer": "word"}`, with the right word, in any case.

    The reference breaks off where the answer is no text; by default that is a wrong answer.
    """
    reply, place = last_reply(given), expected_text(given)
    try:
        said = read_as_reference(reply) if compat else read_lenient(reply)
    except ValueError as error:
        return Score(0.0, (f"the reply is not JSON: {error}",))
    if not isinstance(said, dict) or "answer" not in said:
        return Score(0.0, ('the reply has no "answer"',))
    answer = said["answer"]
    if not isinstance(answer, str):
        if compat:
            raise UndecidedError("the reference breaks off: the answer is no text")
        return Score(0.0, ("the answer is no text",))
    right = answer.lower() == place if compat else answer.strip(" .").casefold() == place.strip().casefold()
    return Score(float(right), (f"the answer is {answer[:80]!r}" + ("" if right else f", not {place!r}"),))


def score_chapter(given: Given, compat: bool) -> Score:
    """Chapter break: the reply names the right option, and no other.

    The reference wants the option's number to be the only one in the reply; by default how many options there were
    ("Option 2 of 6") is not taken as a choice, and where options are named as such, other numbers are not either.
    """
    reply, answer = last_reply(given), expected_text(given)
    counted = reply if compat else _OF_HOW_MANY.sub(" ", reply)
    options: list[str] = [] if compat else _OPTION.findall(counted)
    named = set(options or _DIGITS.findall(counted))
    right = named == {answer.strip()}
    shown = ", ".join(sorted(named)[:6]) or "none"
    return Score(float(right), (f"the reply chooses {shown}" + ("" if right else f", not {answer} alone"),))


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


def score_colour(given: Given, compat: bool) -> Score:
    """The reply says that the last colour is the favourite.

    The reference looks for the colour's letters anywhere ("shaRED"). By default it must be a word, not denied, and
    where several colours are named, the one that the reply settles on: by what it calls the favourite, and by words
    such as "most recently" and "initially". A list of colours without a choice is no answer.
    """
    reply, colour = last_reply(given), expected_text(given)
    if compat:
        return _in_reply(colour, colour.lower() in reply.lower())
    wanted = colour.strip().lower()
    named = list(_named_colours(plain_words(reply), wanted))
    if all(name != wanted for name, _ in named):
        return Score(0.0, (f"the reply does not say {wanted!r}",))
    highest = max(weight for _, weight in named)
    chosen = {name for name, weight in named if weight == highest}
    if chosen == {wanted}:
        return Score(1.0, (f"the reply says {wanted!r}",))
    shown = ", ".join(sorted(chosen)[:8])
    return Score(0.0, (f"the reply names {shown} without settling on {wanted!r}",))


def _named_colours(reply: str, wanted: str) -> Iterator[tuple[str, int]]:
    """Each colour that is not denied, with how much its clause speaks for it."""
    colours = re.compile(rf"\b(?:{_NAMES}|{re.escape(wanted)})\b", re.I)
    for clause in _CLAUSE_END.split(reply, _MOST_CLAUSES):
        weight = 2 * bool(_CURRENT.search(clause)) - 2 * bool(_PAST.search(clause))
        weight += bool(_LATER.search(clause)) + bool(_FAVOURITE.search(clause))
        for found in colours.finditer(clause):
            if not _NOT_THIS.search(clause[max(0, found.start() - 60) : found.start()]):
                yield found[0].lower(), weight


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


def score_spy(given: Given, compat: bool) -> Score:
    """A third for each message of which the reply has a word; one less where it has a word of another message.

    Words of their own count; the reference wants them in small letters, by default their case is all one.
    """
    reply, expected = last_reply(given), _expected_words(given)
    understood = [any(mentions(word, reply, cased=compat) for word in words) for words in expected]
    known = {word for words in expected for word in words}
    # A test chose from the messages of the benchmark or from those of our own kind: by whose words are expected.
    choices: list[Sequence[tuple[str, ...]]] = [CODES] if compat else [CODES, spy_words()]
    codes = max(choices, key=lambda each: sum(not known.isdisjoint(words) for words in each))
    others = (word for words in codes if known.isdisjoint(words) for word in words)
    wrong = next((word for word in others if mentions(word, reply, cased=compat)), None)
    reasons = [
        f"{'/'.join(words)[:80]}: {'understood' if right else 'not in the reply'}"
        for words, right in zip(expected, understood, strict=True)
    ]
    if wrong is not None:
        reasons.append(f"{wrong!r} is of another message")
    points = max(0, sum(understood) - (wrong is not None))
    return Score(points / len(expected), tuple(reasons))


def _expected_words(given: Given) -> list[list[str]]:
    if not isinstance(given.expected, (list, tuple)) or not 0 < len(given.expected) <= len(CODES):
        raise NoExpectationError
    expected: list[list[str]] = []
    for words in given.expected:
        if not isinstance(words, (list, tuple)) or not words:
            raise NoExpectationError
        if not all(isinstance(word, str) and word.strip() for word in words):
            raise NoExpectationError
        expected.append([str(word) for word in words][:40])
    return expected
