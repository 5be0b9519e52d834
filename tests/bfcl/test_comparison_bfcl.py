"""The two published runs of the leaderboard, row by row; accuracies are those of its own score files."""

import csv
import json
from pathlib import Path

import pytest
from tests.comparison_parts import declares, row, verdict, write_run
from tests.tables import cases

from tunecheck import Comparison, compare
from tunecheck_bfcl import CATEGORIES
from tunecheck_bfcl._data.files import shared_part


@pytest.fixture(scope="module")
def published(shared_data: Path) -> Comparison:
    runs = shared_data / "bfcl_runs"
    return compare(runs / "v0.11.0", runs / "2025-11-12-main", rows=None)


def test_every_categorys_figures_are_the_published_ones(published: Comparison, shared_data: Path) -> None:
    parts = {part.value: part for part in published.against[-1].parts}
    for side, name in (("base", "v0.11.0"), ("new", "2025-11-12-main")):
        files = sorted((shared_data / "bfcl_runs" / name / "score").rglob("*_score.json"))
        assert len(files) == len(parts) == 16
        correct = total = 0
        for path in files:
            with path.open() as file:
                counts = json.loads(file.readline())
            category = path.name.removeprefix("BFCL_v4_").removesuffix("_score.json")
            estimate = getattr(parts[category], side)
            assert (estimate.value, estimate.n) == (counts["accuracy"], counts["total_count"])
            correct, total = correct + counts["correct_count"], total + counts["total_count"]
        assert getattr(published.metrics["bfcl_pooled"], side).value == correct / total


def test_leaderboard_figures_are_as_published_and_have_intervals(published: Comparison, shared_data: Path) -> None:
    columns = {"non_live": "Non-Live AST Acc", "live": "Live Acc", "irrelevance": "Irrelevance Detection"}
    figures = {part.value: part for part in published.against[-1].figures if part.column == "v4"}
    assert figures.keys() == columns.keys()  # one multi-turn category was not published
    runs = (("base", "v0.11.0", "-120b "), ("new", "2025-11-12-main", "-20b "))
    for side, name, model in runs:
        with (shared_data / "bfcl_runs" / name / "score" / "data_overall.csv").open() as file:
            published_row = next(row for row in csv.DictReader(file) if model in row["Model"])
        for figure, column in columns.items():
            estimate = getattr(figures[figure], side)
            assert f"{estimate.value:.2%}" == published_row[column]
            assert estimate.low < estimate.value < estimate.high


def test_the_total_is_better_and_no_category_is_shown_to_be(published: Comparison) -> None:
    total = published.metrics["bfcl_pooled"]
    assert (total.primary, total.verdict, total.b, total.c) == (True, "better", 232, 283)
    assert total.p_adjusted == total.p_value
    assert {part.verdict for part in published.against[-1].parts} == {None}


def test_what_cannot_move_is_no_test_among_the_categories(published: Comparison) -> None:
    parts = published.against[-1].parts
    still = {part.value for part in parts if not part.moved}
    assert still == {"parallel", "parallel_multiple", "live_parallel", "live_parallel_multiple"}
    smallest = min(part.p_value for part in parts if part.p_value is not None)
    assert min(part.p_adjusted for part in parts if part.p_adjusted is not None) == pytest.approx(12 * smallest)


def test_rows_of_one_scenario_or_function_document_are_one_cluster(published: Comparison, shared_data: Path) -> None:
    assert published.pairs.cluster == "scenario and function document"
    runs = shared_data / "bfcl_runs"
    alone = compare(runs / "v0.11.0", runs / "2025-11-12-main", cluster="none", rows=0)
    assert alone.pairs.clusters is None
    clustered, plain = (each.metrics["bfcl_pooled"].difference.standard_error for each in (published, alone))
    assert clustered is not None and plain is not None and clustered > plain


@cases("bfcl")
def test_what_rows_have_in_common_is_told_by_their_ids(row_id: str, shared: str) -> None:
    assert shared_part(row_id) == shared


def test_the_verdicts_of_both_evaluators_of_a_run_are_its_pooled_rate(tmp_path: Path) -> None:
    """A run of ours holds conversations and single calls, each judged by its own evaluator."""

    def run(name: str, wrong: set[int]) -> Path:
        judged = [("call_check", f"simple_python_{n}", "simple_python") for n in range(10)]
        judged += [("multi_turn_state", f"multi_turn_base_{n}", "multi_turn_base") for n in range(10)]
        rows = [
            {**row(at, verdict(metric, at not in wrong, "why"), category=category), "row_id": name}
            for at, (metric, name, category) in enumerate(judged)
        ]
        declared = {**declares("call_check"), **declares("multi_turn_state")}
        return write_run(tmp_path, name, rows, declared, dataset={"name": "bfcl:all"}, group_by=["category"])

    found = compare(run("a", {1}), run("b", {12, 13}))
    total = found.metrics["bfcl_pooled"]
    assert (total.primary, total.base.value, total.new.value, total.b, total.c) == (True, 19 / 20, 18 / 20, 2, 1)
    assert [each.new_reason for each in total.regressed] == ["why", "why"]
    assert {part.value for part in found.against[-1].parts} == {"simple_python", "multi_turn_base"}


def test_the_overall_figure_weighs_the_categories_and_is_tested_by_itself(tmp_path: Path) -> None:
    """V3: the mean of non-live (of five, the three simple ones as one), live (pooled), and multi-turn."""
    categories = [each for each in CATEGORIES.values() if each.scored]

    def run(name: str, lost: set[str]) -> Path:
        rows = [
            {**row(at, verdict("call_check", n > 0 or each.name not in lost), category=each.name), "row_id": f"q{at}"}
            for at, (each, n) in enumerate((each, n) for each in categories for n in range(4))
        ]
        dataset = {"name": "bfcl:all"}
        return write_run(tmp_path, name, rows, declares("call_check"), dataset=dataset, group_by=["category"])

    against = compare(run("a", set()), run("b", {"simple_java", "live_parallel", "multi_turn_base"})).against[-1]
    figures = {part.value: part for part in against.figures if part.column == "v3"}
    assert {name: part.new.value for name, part in figures.items()} == {
        "overall": pytest.approx((59 / 60 + 23 / 24 + 15 / 16) / 3),
        "non_live": pytest.approx(59 / 60),  # a quarter of a third of a fifth is lost
        "live": pytest.approx(23 / 24),
        "multi_turn": pytest.approx(15 / 16),
    }
    assert figures["overall"].p_adjusted == figures["overall"].p_value
