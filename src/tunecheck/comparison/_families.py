"""Holm's correction by families of tests: the primary metric, all other metrics, and the slices of each column."""

from collections.abc import Iterable, Sequence

from tunecheck.comparison._comparison import MetricComparison
from tunecheck.comparison._measuring import Chosen
from tunecheck.results import RunTable
from tunecheck.statistics._decisions import holm

MATCH = "match"
"""The default primary evaluator if rows have calls."""


def correct_by_holm(tests: Sequence[tuple[float | None, bool]]) -> list[float | None]:
    """Return p-values after Holm's correction; each test is given with whether any row changed.

    Tests without a changed row are left out of the correction, because their smallest possible p-value is 1: Tarone,
    "A modified Bonferroni method for discrete data", Biometrics 46 (1990), 515-522.
    """

    adjusted = holm([p_value if moved else None for p_value, moved in tests])
    return [p_value if moved else own for (own, moved), p_value in zip(tests, adjusted, strict=True)]


def corrected_by_family(metrics: Sequence[MetricComparison]) -> list[float | None]:
    """Correct the tests of all runs in two families: the primary metric, and all other metrics."""
    adjusted: list[float | None] = [None] * len(metrics)
    for primary in (True, False):
        places = [place for place, metric in enumerate(metrics) if metric.primary is primary]
        for place, p_value in zip(
            places, correct_by_holm([(metrics[at].p_value, metrics[at].moved) for at in places]), strict=True
        ):
            adjusted[place] = p_value
    return adjusted


def primary_of(chosen: Iterable[Chosen], base: RunTable, new: RunTable, named: Sequence[str] | None) -> Chosen:
    """Return the metric that decides: the first named one, else the data's primary, else `default_primary`."""
    tested = [each for each in chosen if each.tested]
    declared = base.primary or new.primary
    if named:
        return tested[0]
    default = default_primary([each.name for each in tested], base, new)
    found = [each for name in (declared, default) for each in tested if name in (each.name, each.key)]
    return found[0]


def default_primary(names: Sequence[str], *tables: RunTable) -> str:
    """Return `match` if it is among the names and rows have calls, or their kinds are unknown; else the first name."""
    kinds = [table.groups["row_kind"] for table in tables if "row_kind" in table.groups]
    has_calls = not kinds or any("call" in each for each in kinds)
    return MATCH if MATCH in names and has_calls else names[0]
