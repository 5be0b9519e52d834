"""Gates in pytest and in the pages on them."""

import re
import shlex
from pathlib import Path

import pytest
import yaml
from tests.cli_parts import call, here, pytest_in, replay, rows, workspace, write_lines

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


TEST = """\
from tunecheck._pytest_plugin import assert_no_regression

def test_same(assert_no_regression):
    found = assert_no_regression("same", "base", metric="function_call_match", margin=0.2)
    assert found.metrics["function_call_match"].base.value == 1

def test_same_without_a_margin():
    assert_no_regression("same", "base", metric="function_call_match")

def test_worse():
    assert_no_regression("worse", "base", metric="function_call_match", margin=0.1)

def test_worse_without_a_margin():
    assert_no_regression("worse", "base", metric="function_call_match")

def test_worse_within_a_large_margin():
    assert_no_regression("worse", "base", metric="function_call_match", margin=0.6)

def test_an_unchanged_score_within_a_margin():
    found = assert_no_regression("same", "base", metric="match.match", margin=0.2)
    assert found.metric("match.match").kind == "score"

def test_an_evaluator_means_its_pass_rate():
    found = assert_no_regression("same", "base", metric="match", margin=0.2)
    assert found.metric("match").key == "match.binary_aggregate"

def test_a_slice():
    found = assert_no_regression("worse", "base", metric="match[row_kind=answer]", margin=0.3)
    assert found.metric("match[row_kind=answer]").difference.value == 0

def test_rows_of_other_content():
    assert_no_regression("other", "base", metric="match", margin=0.2, pair_by="id")
"""


def test_a_regression_fails_a_test_and_names_figures_and_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(workspace(tmp_path, rows(60)))
    right: dict[str, object] = {str(row["id"]): row["answer"] for row in rows(60)}
    evaluate = ("evaluate", "--dataset", "small.jsonl")
    wrong = {f"r{at}": call(name="cancel") for at in range(0, 30, 2)}
    for name, answers in (("base", right), ("same", right), ("worse", {**right, **wrong})):
        replay(tmp_path, answers, name)
        endpoint = f"endpoints/{name}.yaml"
        assert here(capsys, *evaluate, "--endpoint", endpoint, "--name", name).code == 0
    write_lines(tmp_path / "datasets" / "small.jsonl", rows(60, source="second edition"))
    assert here(capsys, *evaluate, "--endpoint", "endpoints/base.yaml", "--name", "other").code == 0
    (tmp_path / "test_regression.py").write_text(TEST)
    said = pytest_in(tmp_path)
    assert "3 failed, 6 passed" in said.out, said.out + said.err
    assert "FAILED test_regression.py::test_worse " in said.out
    assert "FAILED test_regression.py::test_worse_without_a_margin" in said.out
    assert "function_call_match: worse, 100.0% → 75.0%" in said.out
    assert "NOT shown to be at most 10.0 points worse" in said.out
    assert "regressed 15:" in said.out
    assert "r0  now: " in said.out


def test_starting_pytest_imports_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text(
        "import sys\n\ndef test_nothing():\n"
        "    assert 'tunecheck._pytest_plugin' in sys.modules\n"
        "    heavy = {'numpy', 'nltk', 'aiohttp', 'rouge_score', 'pandas', 'msgspec', 'tunecheck.comparison',\n"
        "             'tunecheck.statistics', 'tunecheck.evaluation._evaluate'}\n"
        "    assert not heavy & set(sys.modules)\n"
    )
    said = pytest_in(tmp_path)
    assert said.code == 0, said.out + said.err
