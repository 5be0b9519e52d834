"""Run the commands of docs/gates.md and of the example pipelines."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from tests.cli_parts import here, replay, rows, workspace

from tunecheck.cli import Options

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "gates.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def commands() -> list[str]:
    """The evaluations of the pipelines, as the shell gets them."""
    names = ("github-actions.yml", "azure-pipelines.yml")
    github, azure = (yaml.safe_load((DOCS / "examples" / name).read_text("utf-8")) for name in names)
    steps = [step.get("run", "") for step in github["jobs"]["evaluate"]["steps"]]
    steps += [step.get("script", "") for step in azure["steps"]]
    return [step for step in [*steps, *blocks("sh")] if step.startswith("tunecheck ")]


def test_the_pipelines_are_yaml_and_each_has_an_evaluation() -> None:
    assert len(commands()) == 4


@pytest.mark.parametrize("text", commands())
def test_every_option_shown_is_one_of_the_command(text: str) -> None:
    words = shlex.split(text)
    assert words[:2] == ["tunecheck", "evaluate"]
    known = set(Options.__dataclass_fields__)
    assert {word[2:].replace("-", "_") for word in words if word.startswith("--")} <= known


@pytest.mark.parametrize("text", commands())
def test_every_evaluation_shown_lets_an_identical_model_pass_with_150_rows(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(workspace(tmp_path, rows(150)))
    monkeypatch.setenv("AZURE_ML_KEY", "key")
    for kind in ("jsonl", "yaml"):
        (tmp_path / "datasets" / f"small.{kind}").rename(tmp_path / "datasets" / f"val.{kind}")
    replay(tmp_path, {str(row["id"]): row["answer"] for row in rows(150)}, "my-endpoint")
    words = shlex.split(text)[1:]
    base = Path(words[words.index("--no-worse-than") + 1])
    evaluation = words[: words.index("--no-worse-than")]
    run = Path(here(capsys, *evaluation, "--json").json()["run_dir"])
    base.parent.mkdir(exist_ok=True)
    run.rename(base)
    assert here(capsys, *words).code == 0


@pytest.mark.parametrize(("count", "points"), [(200, 1.9), (1000, 0.4)])
def test_what_unchanged_rows_show_is_as_the_page_says(count: int, points: float) -> None:
    from tunecheck.statistics import paired_binary

    low = paired_binary([1.0] * count, [1.0] * count).difference.low
    assert low is not None
    assert round(-100 * low, 1) == points
    assert f"{count:,} rows" in PAGE
