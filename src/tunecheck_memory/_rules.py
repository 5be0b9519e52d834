"""Score finished tests by the rules of the shipped kinds, from 0 to 1."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from tunecheck_memory._kind import GROUP, FinishedTest, Kind, Points, Score
from tunecheck_memory._kinds.replies import UndecidedError
from tunecheck_memory.plugin import PLUGIN

_ALIASES = {"keyvaluepairs": "kv", "conflictingpersonalinformation": "conflictingpersonalinfo"}


@dataclass(frozen=True, slots=True)
class Undecided:
    """The reason why rules cannot score a test; a person or a model may."""

    reason: str


def judge_by_words(given: FinishedTest) -> Score | Undecided:
    """Score a finished test by the rules of its kind, found by the test's title.

    Never raises for the texts of a test: a reply or an expectation that cannot be read is a reason.
    """
    try:
        score = _score(given)
    except UndecidedError as error:
        return Undecided(str(error))
    return replace(score, score=min(1.0, max(0.0, score.score)))


def _score(given: FinishedTest) -> Score:
    if given.points is not None:
        return _share(given.points)
    kind = shipped_kind(given.title)
    if kind is None:
        raise UndecidedError(f"there are no rules for the data set {given.title[:80]!r}")
    score = None if kind.judged else kind().score(given)
    if score is None:
        raise UndecidedError(f"only a judge can score {given.title}")
    return score


def _share(points: Points) -> Score:
    if not (math.isfinite(points.points) and math.isfinite(points.most) and points.most > 0):
        raise UndecidedError("its points are not numbers, or there are none to have")
    return Score(points.points / points.most, points.reasons)


@lru_cache(maxsize=64)
def shipped_kind(title: str) -> type[Kind] | None:
    """Return the kind of this package with a title or name: "Spy Meeting" and "spy_meeting" are the same."""
    name = plain_title(title)
    return shipped_kinds().get(_ALIASES.get(name, name))


@lru_cache(maxsize=1)
def shipped_kinds() -> Mapping[str, type[Kind]]:
    """Return the kinds of this package by their plain names."""
    kinds = {}
    for name, extension in PLUGIN.own_kinds[GROUP].items():
        kind = extension.load()
        assert isinstance(kind, type) and issubclass(kind, Kind)
        kinds[plain_title(name)] = kind
    return kinds


def plain_title(title: str) -> str:
    return re.sub(r"[\W_]+", "", title[:200].lower())
