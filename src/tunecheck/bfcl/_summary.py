"""What the verdicts of a model come to: accuracies, and the leaderboard's figures of V3 and V4.

A figure is a share from 0 to 1, and None where one of its categories was not scored.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from tunecheck._files import CategorySummary, ModelSummary, VerdictLine
from tunecheck.bfcl._verdicts import Verdict

_SIMPLE = ("simple_python", "simple_java", "simple_javascript")
_COMPOSED = ("multiple", "parallel", "parallel_multiple")
_LIVE = ("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple")
_ABSTAINING = ("live_irrelevance", "live_relevance")
_CONVERSATIONS = ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param", "multi_turn_long_context")

FIGURES = {"v3": ("overall", "non_live", "live", "multi_turn"), "v4": ("non_live", "live", "irrelevance", "multi_turn")}
"""The leaderboard's figures by its version; V4's overall score needs agentic categories that are not checked here."""


@dataclass(frozen=True)
class CategoryScore:
    """The verdicts of one category in the order of its result file; `missing` counts entries without a result."""

    name: str
    verdicts: Sequence[tuple[str, Verdict]]
    missing: int = 0

    @cached_property
    def correct(self) -> int:
        return sum(verdict.valid is True for _, verdict in self.verdicts)

    @cached_property
    def total(self) -> int:
        return sum(verdict.valid is not None for _, verdict in self.verdicts)

    @property
    def accuracy(self) -> float | None:
        return self.correct / self.total if self.total else None

    def lines(self) -> list[VerdictLine]:
        return [verdict.as_line(name) for name, verdict in self.verdicts]

    def summary(self) -> CategorySummary:
        kinds = Counter(verdict.error_type for _, verdict in self.verdicts if verdict.error_type is not None)
        return CategorySummary(
            accuracy=self.accuracy,
            correct=self.correct,
            total=self.total,
            not_scored=len(self.verdicts) - self.total,
            missing=self.missing,
            error_types=dict(kinds.most_common()),
        )


@dataclass(frozen=True)
class ModelScore:
    name: str
    categories: Mapping[str, CategoryScore]

    def figures(self, version: str) -> dict[str, float | None]:
        """The leaderboard's figures of that version, "v3" or "v4", by name."""
        multi_turn = self._mean_of(_CONVERSATIONS)
        if version == "v4":
            return {
                "non_live": _mean([self._mean_of(_SIMPLE), *map(self._accuracy, _COMPOSED)]),
                "live": self._pooled(_LIVE),
                "irrelevance": self._mean_of(("irrelevance", "live_irrelevance")),
                "multi_turn": multi_turn,
            }
        non_live = _mean([self._mean_of(_SIMPLE), *map(self._accuracy, (*_COMPOSED, "irrelevance"))])
        live = self._pooled((*_LIVE, *_ABSTAINING))
        overall = _mean([non_live, live, multi_turn])
        return {"overall": overall, "non_live": non_live, "live": live, "multi_turn": multi_turn}

    def summary(self, compat: Literal["bfcl", "strict"]) -> ModelSummary:
        return ModelSummary(
            compat=compat,
            model=self.name,
            categories={name: score.summary() for name, score in self.categories.items()},
            v3=self.figures("v3"),
            v4=self.figures("v4"),
        )

    def _accuracy(self, category: str) -> float | None:
        score = self.categories.get(category)
        return None if score is None else score.accuracy

    def _mean_of(self, categories: Sequence[str]) -> float | None:
        return _mean([self._accuracy(category) for category in categories])

    def _pooled(self, categories: Sequence[str]) -> float | None:
        scores = [self.categories[category] for category in categories if category in self.categories]
        total = sum(score.total for score in scores)
        if len(scores) < len(categories) or not total:
            return None
        return sum(score.correct for score in scores) / total


def _mean(shares: Sequence[float | None]) -> float | None:
    known = [share for share in shares if share is not None]
    return sum(known) / len(known) if len(known) == len(shares) else None
