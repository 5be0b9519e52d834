"""A run in a Foundry project's evals API: what the service makes of it, how it is repeated, and every step failing."""

from pathlib import Path
from typing import Any

import pytest
from tests.foundry_fake import Failure, Fake
from tests.foundry_parts import certificates, fake, finished_run, run, uploader

from tunecheck import ConfigurationError, Run
from tunecheck.cli import main
from tunecheck_azure._foundry import apis as foundry_evals
from tunecheck_upload import Uploaded, UploadError

__all__ = ["certificates", "fake", "run"]


def sent(fake: Fake, run: Run, **options: Any) -> Uploaded:
    return uploader(fake.project, api="evals").upload(run, **options)


def items(fake: Fake, done: Uploaded) -> list[dict[str, Any]]:
    return fake.items[done.run_id]


def test_output_items_have_our_scores_by_our_thresholds(fake: Fake, run: Run) -> None:
    done = sent(fake, run)
    rows = list(run.rows())
    results = [{result["name"]: result for result in item["results"]} for item in items(fake, done)]
    assert [each["my_f1"]["score"] for each in results] == [row["outputs.my_f1.f1_score"] for row in rows]
    assert [each["my_f1"]["passed"] for each in results] == [row["outputs.my_f1.f1_score_passed"] for row in rows]
    assert [each["length.words"]["score"] for each in results] == [3, 4, 0]
    (evaluation,) = fake.evals.values()
    assert {each["name"]: each.get("pass_threshold") for each in evaluation["testing_criteria"]} == {
        "my_f1": 0.5, "length.words": None, "length.weight": None,
    }  # fmt: skip
    assert (done.metrics, done.url) == (3, fake.evals_runs[done.run_id]["report_url"])


def test_items_hold_inputs_outputs_reasons_and_properties(fake: Fake, tmp_path: Path) -> None:
    def picky(*, response: str) -> dict[str, object]:
        if not response:
            raise ValueError("nothing was said")
        return {"picky": 0.2, "picky_result": "pass", "picky_reason": "why not", "picky_properties": {"a": [1]}}

    done = sent(fake, finished_run(tmp_path, evaluators={"picky": picky}))
    first, _, failed = items(fake, done)
    item = first["datasource_item"]
    assert (item["row_id"], item["inputs"]["ground_truth"]) == ("a", "Rome is very sunny")
    verdict = item["verdicts"]["picky"]
    assert (verdict["passed"], verdict["reason"], verdict["properties"]) == (True, "why not", {"a": [1]})
    assert first["results"][0]["passed"]
    assert failed["results"] == []
    assert failed["datasource_item"]["verdicts"]["picky"]["reason"] == "nothing was said"


def test_what_passes_by_no_threshold_passes_over_there_too(fake: Fake, tmp_path: Path) -> None:
    def shortness(*, response: str) -> dict[str, object]:
        words = len(response.split())
        return {"words": words, "words_threshold": 3, "words_result": "pass" if words <= 3 else "fail"}

    done = sent(fake, finished_run(tmp_path, evaluators={"shortness": shortness}))
    assert [item["results"][0]["passed"] for item in items(fake, done)] == [True, False, True]


def test_runs_of_the_same_data_and_evaluators_stand_in_one_evaluation(fake: Fake, tmp_path: Path) -> None:
    for name in ("one", "two"):
        sent(fake, finished_run(tmp_path / name))
    sent(fake, finished_run(tmp_path / "three", evaluators={"f1": "f1_score"}))
    of = [run["eval_id"] for run in fake.evals_runs.values()]
    assert of[0] == of[1] != of[2]


def test_a_repeated_upload_changes_nothing_and_a_deleted_one_is_made_anew_when_asked(fake: Fake, run: Run) -> None:
    first = sent(fake, run)
    assert sent(fake, run).unchanged
    fake.evals_runs.clear()
    with pytest.raises(UploadError, match=r"was deleted at the destination; .* --foundry evals --again"):
        sent(fake, run)
    second = sent(fake, run, again=True)
    assert list(fake.evals_runs) == [second.run_id] != [first.run_id]
    assert len(fake.evals) == 1


def test_of_changed_results_another_run_takes_the_place_of_the_first(fake: Fake, run: Run) -> None:
    first = sent(fake, run)
    text = run.results.read_text("utf-8")
    run.results.write_text(text.replace("Rome is sunny", "Rome is hot"), "utf-8")
    second = sent(fake, run)
    assert list(fake.evals_runs) == [second.run_id] != [first.run_id]


def test_many_rows_go_into_a_dataset_of_the_project(fake: Fake, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foundry_evals, "MOST_INLINE", 100)
    done = sent(fake, run)
    assert [item["datasource_item"]["row_id"] for item in items(fake, done)] == ["a", "b", "c"]
    assert len(fake.datasets) == 1


STEPS = [
    "list evals",
    "create eval",
    "reserve rows",
    "blob",
    "register rows",
    "create run of evals",
    "get run of evals",
]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("failure", [{"status": 403}, {"cut": True, "after": True}])
def test_an_upload_that_failed_is_repeated_and_leaves_one_run(
    fake: Fake, run: Run, step: str, failure: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foundry_evals, "MOST_INLINE", 100)
    fake.failures[step] = Failure(**failure, times=100)
    with pytest.raises(UploadError, match=r"continue with: .* --foundry evals"):
        sent(fake, run)
    fake.failures.clear()
    done = sent(fake, run)
    assert (list(fake.evals_runs), len(fake.evals)) == ([done.run_id], 1)


def test_a_run_that_fails_over_there_says_why_and_is_made_anew(fake: Fake, run: Run) -> None:
    fake.fate = "failed"
    with pytest.raises(UploadError, match="complete the run: status failed: out of order"):
        sent(fake, run)
    fake.fate = "completed"
    assert sent(fake, run).run_id == list(fake.evals_runs)[-1]


def test_a_run_without_numbers_makes_no_evaluation(fake: Fake, tmp_path: Path) -> None:
    run = finished_run(tmp_path, evaluators={"words": lambda response: {"words": response}})
    with pytest.raises(ConfigurationError, match="has no verdicts and no numbers"):
        sent(fake, run)
    assert fake.asked == []


def test_a_project_in_a_hub_has_no_such_api(fake: Fake) -> None:
    with pytest.raises(ConfigurationError, match="a project in a hub has no evals API"):
        uploader(fake.hub, api="evals")
    with pytest.raises(ConfigurationError, match="Foundry has no API 'graders'"):
        uploader(fake.project, api="graders")


def test_which_api_is_meant_needs_a_project(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    results = str(run.folder.parent)
    given = ["upload", run.id, "--mlflow", "http://127.0.0.1:9", "--foundry", "evals", "--results-dir", results]
    assert main(given) == 2
    assert "--foundry works only with --project" in capsys.readouterr().err
