"""Whole recorded runs of BFCL, replayed and evaluated, have the verdicts that scoring their result files gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.bfcl.test_bfcl_evaluate import CATEGORIES, EVALUATOR, judged, recorded, scored
from tests.bfcl_copy import bfcl_copy
from tests.cli_parts import script

from tunecheck import ConversationTarget, DataError, load_endpoint
from tunecheck_bfcl import find_bfcl, get_bfcl, run_bfcl, score_results


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNECHECK_BFCL", str(bfcl_copy()))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "endpoints").mkdir()


@pytest.mark.parametrize("published", ["2025-11-12-main", "v0.11.0"])
def test_a_replayed_run_has_the_accuracy_that_scoring_its_files_gives(published: str, shared_data: Path) -> None:
    results = shared_data / "bfcl_runs" / published / "result"
    endpoint = load_endpoint({"kind": "replay", "path": str(results)}, name="recorded")
    outcome = run_bfcl(
        ConversationTarget(endpoint),
        categories="single_turn,multi_turn_base,multi_turn_miss_func,multi_turn_miss_param",
    )
    assert outcome.result.failed_row_count == 0
    (theirs,), (ours,) = (score_results(path).models.values() for path in (results, outcome.folder))
    assert theirs.categories.keys() == ours.categories.keys()
    for name, score in theirs.categories.items():
        assert [verdict for _, verdict in sorted(ours.categories[name].verdicts)] == [
            verdict for _, verdict in sorted(score.verdicts)
        ], name
        evaluator = "multi_turn_state" if name.startswith("multi_turn") else "call_check"
        assert outcome.result.by_group["category"][name][f"{evaluator}.binary_aggregate"] == score.accuracy, name


@pytest.mark.parametrize("mode", ["bfcl", "strict"])
@pytest.mark.parametrize("published", ["2025-11-12-main", "v0.11.0"])
def test_a_recorded_run_evaluated_has_the_accuracy_and_the_verdicts_of_its_result_files(
    published: str, mode: str, tmp_path: Path, shared_data: Path
) -> None:
    (results,) = (shared_data / "bfcl_runs" / published / "result").iterdir()
    recorded(tmp_path, results)
    settings = [f"--set={name}.compat={mode}" for name in ("multi_turn_state", "call_check")]
    dataset = f"bfcl:{','.join(CATEGORIES)}"
    arguments = ("--dataset", dataset, "--endpoint", "recorded", "--group-by", "category", "--json", *settings)
    said = script(tmp_path, "evaluate.py", *arguments)
    assert said.code == 0, said.err
    summaries, verdicts = scored(tmp_path, results, mode)
    for category in CATEGORIES:
        metrics = said.json()["by"]["category"][category]
        assert metrics[f"{EVALUATOR[category]}.binary_aggregate"] == summaries[category]["accuracy"], category
        assert metrics[f"{EVALUATOR[category]}.scored_count"] == summaries[category]["total"], category
        assert judged(tmp_path / said.json()["run_dir"], category) == verdicts[category], category


def test_the_release_is_fetched_from_the_package_index_and_holds_every_file(tmp_path: Path) -> None:
    try:
        folder = get_bfcl(to=tmp_path / "data")
    except DataError as error:
        pytest.skip(f"the package index is out of reach: {error}")
    assert find_bfcl(folder).missing() == []
