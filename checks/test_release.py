"""The distributions that a release publishes: built, checked, installed and used without the repository."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
SKIPPED = shutil.ignore_patterns(
    "__pycache__", ".git", ".venv", ".*_cache", ".hypothesis", "dist", "build", "site", "eval_results", ".smoke"
)
VERSION = "1.2.3"


def run(*words: str | Path, cwd: Path) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TUNECHECK"))}
    done = subprocess.run([*map(str, words)], cwd=cwd, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}: {done.stdout[-2000:]}{done.stderr[-3000:]}"
    return done.stdout


def environment(folder: Path, *packages: str | Path) -> Path:
    """Make a virtual environment with these packages, and return the folder of its programs."""
    run(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    run(programs / "python", "-m", "pip", "install", "--quiet", *packages, cwd=folder.parent)
    return programs


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    packages = ("build", "twine", "hatchling>=1.27", "check-jsonschema")
    return environment(tmp_path_factory.mktemp("tools") / "venv", *packages)


@pytest.fixture(scope="module")
def distributions(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build both distributions as the release workflow does, and return their folder."""
    copy = tmp_path_factory.mktemp("release") / "copy"
    shutil.copytree(ROOT, copy, ignore=SKIPPED, symlinks=True)
    run(tools / "hatchling", "version", VERSION, cwd=copy)
    run(tools / "python", "-m", "build", cwd=copy)
    return copy / "dist"


@pytest.fixture(scope="module")
def wheel(distributions: Path) -> Path:
    return distributions / f"tunecheck-{VERSION}-py3-none-any.whl"


def test_both_distributions_have_the_version_of_the_tag_and_pass_twine(tools: Path, distributions: Path) -> None:
    names = {f"tunecheck-{VERSION}-py3-none-any.whl", f"tunecheck-{VERSION}.tar.gz"}
    assert {path.name for path in distributions.iterdir()} >= names
    run(tools / "python", "-m", "twine", "check", "--strict", *(distributions / name for name in names), cwd=ROOT)


def test_the_wheel_contains_every_file_of_the_source_and_of_the_workspace(wheel: Path) -> None:
    source = ROOT / "src"
    files = (path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    expected = {path.relative_to(source).as_posix() for path in files}
    expected |= set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"].values())
    assert len(expected) > 400
    assert expected - set(zipfile.ZipFile(wheel).namelist()) == set()


def test_the_installed_wheel_evaluates_the_sample_and_lists_every_plugin(wheel: Path, tmp_path: Path) -> None:
    programs = environment(tmp_path / "venv", wheel)
    run(programs / "tunecheck", "init", "demo", cwd=tmp_path)
    demo = tmp_path / "demo"
    run(programs / "tunecheck", "evaluate", "--dataset", "datasets/val.jsonl", cwd=demo)
    metrics = [json.loads(path.read_text("utf-8")) for path in demo.glob("eval_results/*/metrics.json")]
    assert len(metrics) == 1
    listed = json.loads(run(programs / "tunecheck", "plugins", "--json", cwd=demo))
    assert {each["name"] for each in listed["plugins"]} >= set(PROJECT["project"]["entry-points"]["tunecheck.plugins"])
    assert listed["missing"] == []
    assert run(programs / "tunecheck", "--version", cwd=demo).split()[-1] == VERSION


@pytest.mark.parametrize(
    ("schema", "pattern"),
    [
        ("vendor.github-workflows", ".github/workflows/*.yml"),
        ("vendor.github-workflows", "docs/examples/github-actions.yml"),
        ("vendor.azure-pipelines", "docs/examples/azure-pipelines.yml"),
    ],
)
def test_pipelines_keep_to_the_schema_of_their_system(tools: Path, schema: str, pattern: str) -> None:
    files = sorted(ROOT.glob(pattern))
    assert files
    # The schema of Azure Pipelines has patterns that the Unicode mode of ECMA-262 refuses.
    azure = ("--data-transform", "azure-pipelines", "--regex-variant", "nonunicode")
    options = azure if "azure" in schema else ()
    run(tools / "check-jsonschema", "--builtin-schema", schema, *options, *files, cwd=ROOT)


@pytest.mark.skipif(shutil.which("actionlint") is None, reason="actionlint is not installed")
def test_actionlint_finds_nothing_in_the_workflows() -> None:
    files = [*(ROOT / ".github" / "workflows").glob("*.yml"), ROOT / "docs" / "examples" / "github-actions.yml"]
    run("actionlint", *files, cwd=ROOT)
