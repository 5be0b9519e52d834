"""Scores by words alone, from 0 to 1: a rule for every kind of memory test whose answer words can tell."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from types import MappingProxyType

from tunecheck_memory._model import Given, Score
from tunecheck_memory._scoring.base import UndecidedError, expected_text, last_reply, texts

_RULES: Mapping[str, str] = MappingProxyType(
    {
        "names": "single:score_name",
        "namelist": "lists:score_name_list",
        "colours": "single:score_colour",
        "shopping": "lists:score_shopping",
        "locations": "locations:score_location",
        "locationsdirections": "locations:score_directions",
        "jokes": "jokes:score_joke",
        "sallyanne": "single:score_sally_anne",
        "keyvaluepairs": "single:score_key_value",
        "kv": "single:score_key_value",
        "chapterbreak": "single:score_chapter",
        "prospectivememory": "instructions:score_prospective",
        "triggerresponse": "instructions:score_trigger",
        "spymeeting": "single:score_spy",
    }
)
"""The rule of each data set, by its title or its name in configurations, in small letters without blanks and marks."""

JUDGED = frozenset(
    {"delayedrecall", "instructionrecall", "howtothink", "conflictingpersonalinfo", "conflictingpersonalinformation"}
)
"""Data sets whose answers only a person or a model can judge."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """Words do not suffice, and why: a person or a model may know more."""

    reason: str


def score_by_words(given: Given) -> Score | None:
    """Score a finished test by words alone; None where they do not suffice.

    Never raises for what stands in the test: a reply or an expectation that cannot be read is a reason.
    """
    verdict = judge_by_words(given)
    return verdict if isinstance(verdict, Score) else None


def judge_by_words(given: Given) -> Score | Undecided:
    """The same, with the reason where words do not suffice."""
    try:
        verdict = _score(given)
    except UndecidedError as error:
        return Undecided(str(error))
    return replace(verdict, score=min(1.0, max(0.0, verdict.score)))


def _score(given: Given) -> Score:
    if (points := given.points) is not None:
        if not (math.isfinite(points.points) and math.isfinite(points.most) and points.most > 0):
            raise UndecidedError("its points are not numbers, or there are none to have")
        return Score(points.points / points.most, points.reasons)
    title = plain_title(given.title)
    if title == "restaurant":
        raise UndecidedError("the test has no points: a restaurant test counts them while it runs")
    if title in JUDGED:
        raise UndecidedError(f"only a judge can score {given.title}")
    if title not in _RULES:
        raise UndecidedError(f"there are no rules for the data set {given.title[:80]!r}")
    module, name = _RULES[title].split(":")  # a rule brings what it needs when it is first used
    rule: Callable[[Given], Score] = getattr(import_module(f"tunecheck_memory._scoring.{module}"), name)
    return rule(given)


def has_expected_words(given: Given) -> bool:
    """True if each reply has its expected text word by word; never for routes, whose words may differ."""
    title = plain_title(given.title)
    if title == "triggerresponse":
        from tunecheck_memory._scoring.instructions import has_sentence, trigger_threshold

        threshold = trigger_threshold(given)
        pairs = zip(texts(given.expected), texts(given.responses), strict=False)
        return all(has_sentence(wanted, reply, threshold) for wanted, reply in pairs)
    return title == "jokes" and expected_text(given).lower() in last_reply(given).lower()


def needs_judge(title: str) -> bool:
    """Whether only a judge can score a data set's tests."""
    return plain_title(title) in JUDGED


def plain_title(title: str) -> str:
    """A data set's title or name for look-ups: "Spy Meeting" and "spy_meeting" are one."""
    return re.sub(r"[\W_]+", "", title[:200].lower())
