"""The two published runs of the leaderboard, row by row; accuracies are those of its own score files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tunecheck import Comparison, compare


@pytest.fixture(scope="module")
def published(shared_data: Path) -> Comparison:
    runs = shared_data / "bfcl_runs"
    return compare(runs / "v0.11.0", runs / "2025-11-12-main", rows=None)


def test_every_categorys_figures_are_the_published_ones(published: Comparison, shared_data: Path) -> None:
    for side, name in (("base", "v0.11.0"), ("new", "2025-11-12-main")):
        files = sorted((shared_data / "bfcl_runs" / name / "score").rglob("*_score.json"))
        assert len(files) == 16
        correct = total = 0
        for path in files:
            with path.open() as file:
                counts = json.loads(file.readline())
            category = path.name.removeprefix("BFCL_v4_").removesuffix("_score.json")
            estimate = getattr(published.metrics[category], side)
            assert (estimate.value, estimate.n) == (counts["accuracy"], counts["total_count"])
            correct, total = correct + counts["correct_count"], total + counts["total_count"]
        assert getattr(published.metrics["bfcl"], side).value == correct / total


def test_the_smaller_model_is_not_shown_to_be_worse_in_any_category(published: Comparison) -> None:
    assert {metric.verdict for metric in published.metrics.values()} == {"no difference shown", "too little data"}
    small = {name for name, metric in published.metrics.items() if metric.verdict == "too little data"}
    assert small == {"live_parallel", "live_parallel_multiple", "live_relevance"}


def test_over_all_rows_it_is_better_if_that_alone_is_asked(shared_data: Path) -> None:
    runs = shared_data / "bfcl_runs"
    found = compare(runs / "v0.11.0", runs / "2025-11-12-main", metrics="bfcl").metrics["bfcl"]
    assert found.verdict == "better"
    assert (found.b, found.c) == (232, 283)


def test_the_flips_of_all_rows_are_those_of_the_categories(published: Comparison) -> None:
    together = published.metrics["bfcl"]
    categories = [metric for name, metric in published.metrics.items() if name != "bfcl"]
    for which in ("regressed", "fixed"):
        rows = {row.row_id for metric in categories for row in getattr(metric, which)}
        assert {row.row_id for row in getattr(together, which)} == rows
    assert all(row.new_reason for row in together.regressed)
