"""Accuracies of a model, and the leaderboard's figures of V3 and V4.

A figure is a share from 0 to 1, or None if a category that it needs was not scored. A mean gives each part the same
weight; a pool gives each row the same weight (`figure_weights`).

  simple            mean of simple_python, simple_java and simple_javascript

  figure            V3                                          V4
  non_live          mean of five parts: simple, multiple,       mean of four parts: the same without irrelevance
                    parallel, parallel_multiple, irrelevance
  live              pool of the six live_ categories            pool of the four without live_irrelevance and
                                                                live_relevance
  irrelevance       -                                           mean of irrelevance and live_irrelevance
  multi_turn        mean of base, miss_func, miss_param and     the same
                    long_context
  overall           mean of non_live, live, multi_turn          - (needs categories that are not checked)

Example: 300 of 400 rows of simple_python are right, 50 of 100 of simple_java, and 25 of 50 of simple_javascript. The
part simple is (0.75 + 0.50 + 0.50) / 3 = 0.583, and not 375 of 550 rows.
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import msgspec
from msgspec import UnsetType

from tunecheck.episodes import RowVerdict
from tunecheck.plugins import FORMAT_VERSION

_CODES = {
    "ast_decoder": "unreadable_call", "inference_error": "no_response",
    "cannot_find_match": "no_matching_call", "wrong_count": "call_count", "wrong_func_name": "misnamed_call",
    "irrelevance_error": "called_instead_of_answering", "relevance_error": "answered_instead_of_calling",
    "missing_optional": "missing_argument", "missing_required": "missing_argument",
    "unexpected_param": "unexpected_argument",
    "type_error": "wrong_argument.type", "value_error": "wrong_argument.other",
}  # fmt: skip
"""The fault code for each part of the leaderboard's error types. Parts are separated by colons.

`type_error:simple` has the code "wrong_argument.type", and `simple_function_checker:wrong_func_name` "misnamed_call".
"""


class VerdictLine(msgspec.Struct, frozen=True):
    """A line of `<category>.verdicts.jsonl`. The format version is in `summary.json` in the same folder.

    `valid` is null for a row that is not scored.
    """

    id: str
    valid: bool | None
    error_type: str | None
    turn: int | None
    message: str | None


class CategorySummary(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of one category. `missing` counts rows that are in the data but not in the results."""

    accuracy: float | None
    correct: int
    total: int
    not_scored: int
    missing: int
    error_types: dict[str, int]


class ModelSummary(msgspec.Struct, frozen=True, kw_only=True):
    """`summary.json` of one model: the categories, and the leaderboard's figures of versions 3 and 4."""

    format_version: int | UnsetType = FORMAT_VERSION
    compat: Literal["bfcl", "strict"]
    model: str
    categories: dict[str, CategorySummary]
    v3: dict[str, float | None]
    v4: dict[str, float | None]


class ModelsSummary(msgspec.Struct, frozen=True, kw_only=True):
    """`summary.json` of several models, in the folder above theirs. The models' summaries have no format version."""

    format_version: int = FORMAT_VERSION
    compat: Literal["bfcl", "strict"]
    models: dict[str, ModelSummary]


def failed_row(error_type: str, message: str) -> RowVerdict:
    """Return the verdict on a row that failed, with Tunecheck's fault code for the leaderboard's error type."""
    # The first part that has a code: in type_error:simple it is the first, in …_checker:wrong_count the second.
    code = next((_CODES[part] for part in error_type.split(":") if part in _CODES), None)
    return RowVerdict(False, error_type, message=message, code=code)


def verdict_line(row_id: str, verdict: RowVerdict) -> VerdictLine:
    """Return a verdict as a line of a verdict file."""
    return VerdictLine(row_id, verdict.valid, verdict.error_type, verdict.turn, verdict.reason)


_SIMPLE = ("simple_python", "simple_java", "simple_javascript")
_COMPOSED = ("multiple", "parallel", "parallel_multiple")
_LIVE = ("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple")
_ABSTAINING = ("live_irrelevance", "live_relevance")
_CONVERSATIONS = ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param", "multi_turn_long_context")

FIGURES = {"v3": ("overall", "non_live", "live", "multi_turn"), "v4": ("non_live", "live", "irrelevance", "multi_turn")}
"""The leaderboard's figures by version. V4's overall score is missing: it needs categories that are not checked."""

Weights = Mapping[str, Fraction]
"""The weight of each category's accuracy in a figure. The weights add up to exactly 1."""


@dataclass(frozen=True)
class CategoryScore:
    """The verdicts on one category in the order of the result file. `entry_ids` are the ids of the data's entries."""

    name: str
    verdicts: Sequence[tuple[str, RowVerdict]]
    entry_ids: Set[str]

    @cached_property
    def missing(self) -> int:
        """The number of entries without a result."""
        return len(self.entry_ids - dict(self.verdicts).keys())

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
        """Return a line of the verdict file for each row."""
        return [verdict_line(row_id, verdict) for row_id, verdict in self.verdicts]

    def summary(self) -> CategorySummary:
        """Return the summary of the category, with the number of rows for each error type."""
        kinds = Counter(verdict.error_type for _, verdict in self.verdicts if verdict.error_type is not None)
        return CategorySummary(
            accuracy=self.accuracy,
            correct=self.correct,
            total=self.total,
            not_scored=len(self.verdicts) - self.total,
            missing=self.missing,
            error_types=dict(kinds.most_common()),
        )


class ModelScore(msgspec.Struct, frozen=True):
    name: str
    categories: Mapping[str, CategoryScore]

    def figures(self, version: str) -> dict[str, float | None]:
        """Return the leaderboard's figures of a version, "v3" or "v4", by name.

        A figure is None if one of its categories has no scored row.
        """
        # Weights for pools depend on the number of scored rows, so they are computed for each model.
        weights = figure_weights({name: score.total for name, score in self.categories.items()})[version]
        return {name: self._figure(weights.get(name)) for name in FIGURES[version]}

    def _figure(self, weights: Weights | None) -> float | None:
        """Return the weighted mean of the categories' accuracies, or None without weights.

        Fractions keep rounding errors out of the printed decimals.
        """
        if weights is None:
            return None
        scores = {name: self.categories[name] for name in weights}
        return float(sum(weights[name] * Fraction(score.correct, score.total) for name, score in scores.items()))

    def summary(self, compat: Literal["bfcl", "strict"]) -> ModelSummary:
        """Return the summary of the model with its categories and figures."""
        return ModelSummary(
            compat=compat,
            model=self.name,
            categories={name: score.summary() for name, score in self.categories.items()},
            v3=self.figures("v3"),
            v4=self.figures("v4"),
        )


def figure_weights(totals: Mapping[str, int]) -> dict[str, dict[str, Weights]]:
    """Return the weight of each category in each figure of each leaderboard version.

    `totals` is the number of scored rows in each category. A figure is left out if one of its categories is missing or
    has no scored row.
    """
    simple, multi_turn = _mean(_weigh_alone(_SIMPLE, totals)), _mean(_weigh_alone(_CONVERSATIONS, totals))
    composed = _weigh_alone(_COMPOSED, totals)
    non_live = _mean([simple, *composed, *_weigh_alone(["irrelevance"], totals)])
    live = _weigh_pooled((*_LIVE, *_ABSTAINING), totals)

    figures: dict[str, dict[str, Weights | None]] = {
        "v3": {
            "overall": _mean([non_live, live, multi_turn]),
            "non_live": non_live,
            "live": live,
            "multi_turn": multi_turn,
        },
        "v4": {
            "non_live": _mean([simple, *composed]),
            "live": _weigh_pooled(_LIVE, totals),
            "irrelevance": _mean(_weigh_alone(["irrelevance", "live_irrelevance"], totals)),
            "multi_turn": multi_turn,
        },
    }

    return {
        version: {name: weights for name, weights in by_name.items() if weights is not None}
        for version, by_name in figures.items()
    }


def _weigh_alone(categories: Sequence[str], totals: Mapping[str, int]) -> list[Weights | None]:
    """Return weights of 1 for each category alone, with None for a category without scored rows."""
    return [{category: Fraction(1)} if totals.get(category) else None for category in categories]


def _weigh_pooled(categories: Sequence[str], totals: Mapping[str, int]) -> Weights | None:
    """Return weights by the number of scored rows in each category, or None if a category has no scored row."""
    rows = [totals.get(category, 0) for category in categories]
    # A category without scored rows makes the figure unknown; it does not count as 0.
    return {name: Fraction(totals[name], sum(rows)) for name in categories} if all(rows) else None


def _mean(parts: Sequence[Weights | None]) -> Weights | None:
    """Return the weights of the mean of several weighted figures, or None if one of them is None.

    The mean of `{"a": 1}` and `{"b": 1/2, "c": 1/2}` has the weights `{"a": 1/2, "b": 1/4, "c": 1/4}`.
    """
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None

    return {category: weight / len(parts) for part in known for category, weight in part.items()}
