"""Tests whose answer is one thing that the reply names: a name, the value of a key, a place, a chapter's number."""

from __future__ import annotations

import re

from tunecheck._json import JSON
from tunecheck.memory._goodai.lenient_json import read_lenient
from tunecheck.memory._model import Given, Score
from tunecheck.memory._scoring.base import Undecided, Verdict, expected_text, last_reply, mentions

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
    return _named(name, found)


def score_key_value(given: Given, compat: bool) -> Verdict:
    """Key-value pairs: the value stands in the reply."""
    reply, value = last_reply(given), expected_text(given)
    if reply is None or value is None:
        return NO_REPLY if reply is None else NO_EXPECTATION
    return _named(value, value in reply if compat else value.lower() in reply.lower())


def _named(value: str, found: bool) -> Score:
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
