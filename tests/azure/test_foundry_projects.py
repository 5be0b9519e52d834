"""Names of projects, and the error for a name that is none."""

import importlib.util
import re
from pathlib import Path

import pytest
from tests.tables import cases

from tunecheck import ConfigurationError, MissingExtraError
from tunecheck.cli import main
from tunecheck.plugins import JSON
from tunecheck_azure import FoundryUploader
from tunecheck_azure._foundry.contents import properties
from tunecheck_azure._foundry.projects import HubProject, read_project
from tunecheck_upload import metric_keys
from tunecheck_upload._uploader import name_map

ENDPOINT = "https://team.services.ai.azure.com/api/projects/tuning"
HUB = HubProject("1b2c", "my-group", "tuning")


@pytest.mark.parametrize("text", [ENDPOINT, f"{ENDPOINT}/", f"  {ENDPOINT}  "])
def test_an_endpoint_is_a_foundry_project(text: str) -> None:
    assert read_project(text) == ENDPOINT


@cases("azure")
def test_a_hub_project_is_named_in_several_ways(value: object) -> None:
    assert read_project(value) == HUB


@cases("azure")
def test_a_file_names_a_project(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    assert read_project(str(tmp_path / name)) == HUB


def test_a_file_may_name_an_endpoint(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(f"endpoint: {ENDPOINT}\n", "utf-8")
    assert read_project(tmp_path / "p.yaml") == ENDPOINT


@cases("azure")
def test_what_is_no_project_is_refused(value: object, said: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(said)) as caught:
        read_project(value)
    assert "s3cret" not in str(caught.value)


def test_without_azures_packages_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"tunecheck\[foundry\]"):
        FoundryUploader(ENDPOINT)


def test_upload_without_a_destination_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["upload", "last"]) == 2
    assert "no destination" in capsys.readouterr().err


def test_only_evaluators_that_the_portal_knows_are_named_to_it() -> None:
    evaluators: dict[str, JSON] = {
        "a": {"type": "azure.ai.evaluation._evaluators._f1_score._f1_score.F1ScoreEvaluator"},
        "b": {"type": "tunecheck.evaluators._text.BleuScoreEvaluator"},
        "c": {"type": "mine.F1ScoreEvaluator"},
        "d": {"type": "tunecheck.evaluators._calls.FunctionCallMatchEvaluator"},
    }
    assert name_map(evaluators) == {"a": "f1_score", "b": "bleu_score"}


@pytest.mark.parametrize(("names", "segments"), [(0, 1), (60, 3), (400, -1)])
def test_a_long_name_map_goes_in_segments_a_longer_one_not_at_all(tmp_path: Path, names: int, segments: int) -> None:
    from types import SimpleNamespace

    contents = SimpleNamespace(
        name_map={f"my evaluator number {index}": "f1_score" for index in range(names)}, run=SimpleNamespace(id="r")
    )
    found = properties(contents, "m")  # type: ignore[arg-type]
    assert found["_azureml.evaluation_name_map_length"] == segments
    parts = [found[f"_azureml.evaluation_name_map_{index}"] for index in range(max(segments, 0))]
    assert all(isinstance(part, str) and len(part) <= 950 for part in parts)


def test_metrics_keep_names_of_their_own_where_mlflow_takes_fewer_letters() -> None:
    taken = metric_keys(["f1.f1_score", "größe.n", "gr__e.n", "a/b", "..x"]).values()
    assert list(taken) == ["f1.f1_score", "gr__e.n", "gr__e.n_2", "a_b", "_.x"]
