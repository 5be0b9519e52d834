"""Repeated judging: several judgements of one row made one, with how far they agree."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tunecheck._json import JSON, dumps
from tunecheck.endpoints._base import Completion
from tunecheck.evaluators._judges.asking import Judgement

Combine: TypeAlias = Literal["mean", "majority"]


@dataclass(frozen=True, slots=True)
class Combined:
    """What several judgements come to.

    `score` is None where there is nothing to judge. `typical` is the judgement whose reason stands for all. `spread` is
    the population standard deviation of a mean, or the share of votes against a majority. `votes` count what was said.
    """

    score: float | None
    typical: Judgement
    spread: float | None
    votes: dict[str, int] | None


def combined(judgements: Sequence[Judgement], combine: Combine, *, higher_is_better: bool) -> Combined:
    """The judgements of one row, at least one, as one.

    Where more than half say that there is nothing to judge, there is not. Of equal votes the worse score counts.
    """
    scored = [(judgement.answer.score, judgement) for judgement in judgements if judgement.answer.score is not None]
    if 2 * len(scored) < len(judgements) or not scored:
        return Combined(None, next(one for one in judgements if one.answer.score is None), None, None)
    if len(judgements) == 1:
        return Combined(scored[0][0], scored[0][1], None, None)
    scores = [score for score, _ in scored]
    if combine == "mean":
        mean = math.fsum(scores) / len(scores)
        spread = math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / len(scores))
        typical = min(scored, key=lambda item: abs(item[0] - mean))[1]
        return Combined(mean, typical, spread, None)
    counts = Counter(scores)
    worse = -1 if higher_is_better else 1
    winner = max(counts, key=lambda score: (counts[score], worse * score))
    typical = next(judgement for score, judgement in scored if score == winner)
    votes = Counter(_said(judgement.answer.said) for _, judgement in scored)
    return Combined(winner, typical, 1 - counts[winner] / len(scores), dict(votes))


def tokens_of(completions: Sequence[Completion]) -> dict[str, JSON]:
    """All tokens that were used; None where a call did not say."""
    used: dict[str, JSON] = {}
    for name in ("input_tokens", "output_tokens"):
        counts = [getattr(completion.usage, name) for completion in completions]
        used[name] = sum(counts) if all(count is not None for count in counts) else None
    return used


def _said(value: JSON) -> str:
    return value if isinstance(value, str) else dumps(value).decode()
