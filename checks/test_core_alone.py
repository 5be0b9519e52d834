"""The core without a plug-in, and without any: in a copy of the repository from which their folders are deleted."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.bfcl_data_parts import make_tree
from tests.conftest import ROOT
from tests.source_path import source_path

PLUGINS = sorted(path.name for path in (ROOT / "src").glob("tunecheck_*"))

COPIED = (
    "src", "datasets", "evaluators", "endpoints", "prompty", "tests", "checks", "docs", "scripts", "evaluate.py",
    "pyproject.toml", "README.md", "CONTRIBUTING.md",
)  # fmt: skip

COMMANDS = {
    "tunecheck_authoring": "datasets audit",
    "tunecheck_azure": "azureml job",
    "tunecheck_bfcl": "bfcl run",
    "tunecheck_memory": "memory run",
    "tunecheck_serve": "serve",
    "tunecheck_upload": "upload",
}
"""A command of each plug-in that has some."""

ALSO_PLUGINS = {
    "test_comparison_reading.py", "test_conversation_reasoning.py", "test_datasets_check.py", "test_docs.py",
    "test_files_versions.py",
    "test_hostile_output.py", "test_import_rules.py", "test_readme.py",
    "test_report_data.py", "test_trust.py",
}  # fmt: skip
"""Tests of the core that also use a plug-in's command, page or data."""

MEMORY = """\
config: {run_name: memories}
datasets:
  args: {memory_span: 900, dataset_examples: 1}
  datasets: [{name: names}, {name: colours, args: {colour_changes: 2}}]
"""

ECHO = "def answer(messages):\n    return messages[-1]['content'][:100]\n"


@dataclass(frozen=True)
class Copy:
    """A checkout of its own, run from its source, and a workspace with runs."""

    folder: Path
    workspace: Path

    def run(self, *words: str, exit_code: int = 0) -> str:
        done = self.python("-m", "tunecheck", *words)
        assert done.returncode == exit_code, f"tunecheck {' '.join(words)}: {done.stdout[-500:]}{done.stderr[-2000:]}"
        return done.stdout + done.stderr

    def python(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        # -S: without the .pth file by which an editable installation finds the original's source.
        paths = [source_path(self.folder), *(path for path in sys.path if "site-packages" in path)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "100", "NO_COLOR": "1"}
        command = [sys.executable, "-S", *words]
        return subprocess.run(command, cwd=cwd or self.workspace, env=environment, capture_output=True, text=True)

    def runs(self) -> list[str]:
        return sorted(path.name for path in (self.workspace / "eval_results").iterdir())


def made_copy(folder: Path, workspace: Path) -> Copy:
    folder.mkdir(exist_ok=True)
    for name in COPIED:
        source, target = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    return Copy(folder, workspace)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """The whole copy, with two runs of each sort in its workspace."""
    folder = tmp_path_factory.mktemp("whole")
    workspace = folder / "workspace"
    (workspace / "endpoints").mkdir(parents=True)
    (workspace / "endpoints" / "echo.yaml").write_text("kind: python\nfunction: echo.py:answer\n")
    (workspace / "endpoints" / "echo.py").write_text(ECHO)
    (workspace / "memory.yaml").write_text(MEMORY)
    tree = make_tree(workspace / "tree")
    copy = made_copy(folder, workspace)
    for _ in range(2):
        copy.run("evaluate", "--dataset", str(folder / "datasets" / "val.jsonl"), "--limit", "20", "--name", "plain")
        categories = ("--categories", "simple_python,multi_turn_base")
        copy.run("bfcl", "run", "--endpoint", "simulated", "--data", str(tree), *categories, "--name", "bfcl")
        copy.run("memory", "run", "--config", "memory.yaml", "--endpoint", "echo", "--name", "memories")
    assert len(copy.runs()) == 6
    return copy


def without(whole: Copy, deleted: set[str], folder: Path) -> Copy:
    """A copy without these plug-ins, with the same runs."""
    made = made_copy(folder / "copy", folder / "workspace")
    shutil.copytree(whole.workspace, made.workspace)
    for name in deleted:
        shutil.rmtree(made.folder / "src" / name)
    return made


CASES = [*(pytest.param({name}, id=name) for name in PLUGINS), pytest.param(set(PLUGINS), id="all")]


@pytest.fixture(params=CASES)
def deleted(request: pytest.FixtureRequest) -> set[str]:
    names: set[str] = request.param
    return names


@pytest.fixture
def copy(whole: Copy, deleted: set[str], tmp_path: Path) -> Copy:
    return without(whole, deleted, tmp_path)


def test_the_main_job_and_help_work_and_the_deleted_commands_are_gone(copy: Copy, deleted: set[str]) -> None:
    words = ("evaluate.py", "--dataset", "datasets/val.jsonl", "--limit", "20", "--json")
    done = copy.python(*words, cwd=copy.folder)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout)["rows"] == 20
    assert "evaluate" in copy.run("--help")
    for name, command in COMMANDS.items():
        code = 2 if name in deleted else 0
        said = copy.run(*command.split(), "--help", exit_code=code)
        assert ("there is no command" in said and "is not installed" in said) is (name in deleted)


def test_what_is_missing_is_listed_and_named_where_one_of_its_names_is_used(copy: Copy, deleted: set[str]) -> None:
    listed: dict[str, Any] = json.loads(copy.run("plugins", "--json"))
    assert {each["package"] for each in listed["missing"]} == deleted
    data = str(copy.folder / "datasets" / "val.jsonl")
    said = copy.run("evaluate", "--dataset", data, "--evaluators", "call_chck", exit_code=2)
    assert all(name in said for name in deleted)


def test_runs_of_a_deleted_plugin_are_still_listed_compared_and_reported(copy: Copy) -> None:
    assert len(json.loads(copy.run("runs", "--json"))) == 6
    for sort in ("plain", "bfcl", "memories"):
        base, new = (name for name in copy.runs() if name.startswith(sort))
        copy.run("compare", base, new, "--json", "--allow-simulated")
        copy.run("report", new)
        assert (copy.workspace / "eval_results" / new / "report.html").is_file()


def imports_a_plugin(path: Path) -> bool:
    """Whether a module of the tests imports a plug-in, itself or through the modules that it imports."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        module = node.module if isinstance(node, ast.ImportFrom) else None
        if module is not None and module.startswith("tunecheck_"):
            return True
        shared = ROOT / f"{(module or '').replace('.', '/')}.py"
        if module is not None and module.startswith("tests.") and shared.is_file() and imports_a_plugin(shared):
            return True
    return False


@pytest.mark.timeout(1_200)
def test_the_core_s_tests_pass_without_any_plugin(whole: Copy, tmp_path: Path) -> None:
    copy = without(whole, set(PLUGINS), tmp_path)
    files = sorted((ROOT / "tests" / "core").glob("test_*.py"))
    tests = [path.relative_to(ROOT) for path in files if path.name not in ALSO_PLUGINS and not imports_a_plugin(path)]
    assert len(tests) > 0.8 * len(files)
    done = copy.python("-m", "pytest", "-q", "-n", "2", *map(str, tests), cwd=copy.folder)
    assert done.returncode == 0, done.stdout[-3000:]
