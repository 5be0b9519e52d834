"""A plug-in that is a distribution of its own, installed into a fresh environment; docs/plugins.md shows its files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import ROOT

TOY = ROOT / "tests" / "toy_plugin"
PAGE = ROOT / "docs" / "plugins.md"


class Environment:
    """A virtual environment that sees the packages installed here, Tunecheck among them, and the toy plug-in."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        venv.create(folder / "venv", symlinks=True)
        self._python = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
        site = next((folder / "venv").rglob("site-packages"))
        seen = [path for path in sys.path if "site-packages" in path]
        (site / "seen.pth").write_text("\n".join([str(ROOT / "src"), *seen]), encoding="utf-8")

    def install(self, project: Path) -> None:
        pip = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", str(project))
        done = self._run(*pip)
        assert done.returncode == 0, done.stderr[-2000:]

    def tunecheck(self, *words: str, exit_code: int = 0) -> str:
        done = self._run("-m", "tunecheck", *words)
        assert done.returncode == exit_code, f"{words}: {done.stdout[-500:]}{done.stderr[-2000:]}"
        return done.stdout + done.stderr

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        return subprocess.run(
            [str(self._python), *words], cwd=self.workspace, env=environment, capture_output=True, text=True
        )


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("fresh"))
    environment.install(TOY)
    return environment


def test_its_benchmark_is_evaluated_by_its_evaluator(fresh: Environment) -> None:
    words = ("evaluate", "--dataset", "greetings:all", "--response-column", "answer", "--json")
    result: dict[str, Any] = json.loads(fresh.tunecheck(*words))
    assert (result["rows"], result["metrics"]["greets.binary_aggregate"]) == (2, 1.0)


def test_its_command_runs(fresh: Environment) -> None:
    assert fresh.tunecheck("greetings", "show", "bob") == "My name is Bob. Say hello.\n"
    assert "show  Print the benchmark's rows." in fresh.tunecheck("greetings", "--help")
    assert "greetings  Look at the greetings benchmark." in fresh.tunecheck("--help")


def test_its_panel_stands_in_the_report(fresh: Environment) -> None:
    words = ("evaluate", "--dataset", "greetings:all", "--response-column", "answer", "--quiet")
    run = fresh.workspace / fresh.tunecheck(*words).strip()
    fresh.tunecheck("report", str(run))
    page = (run / "report.html").read_text("utf-8")
    assert (TOY / "src" / "greetings" / "panel.js").read_text("utf-8") in page
    head = re.search(r'id="head">(.*?)</script>', page, re.DOTALL)
    assert head is not None
    assert json.loads(head[1])["panels"] == {"greetings": ["Ada", "Bob"]}


def test_a_run_without_it_has_no_panel_of_its(fresh: Environment) -> None:
    (fresh.workspace / "rows.jsonl").write_text('{"response": "x"}\n')
    run = fresh.tunecheck("evaluate", "--dataset", "rows.jsonl", "--response-column", "response", "--evaluators",
                          "bleu", "--mapping", "ground_truth=x", "--quiet").strip()  # fmt: skip
    fresh.tunecheck("report", run)
    page = (fresh.workspace / run / "report.html").read_text("utf-8")
    head = re.search(r'id="head">(.*?)</script>', page, re.DOTALL)
    assert head is not None
    assert json.loads(head[1])["panels"] == {}


def test_it_is_listed_with_what_it_brings(fresh: Environment) -> None:
    listed = json.loads(fresh.tunecheck("plugins", "--json"))
    (brings,) = (each["brings"] for each in listed["plugins"] if each["name"] == "greetings")
    assert {kind: [each["name"] for each in brought] for kind, brought in brings.items()} == {
        "commands": ["greetings show"],
        "datasets": ["greetings"],
        "evaluators": ["greets"],
        "panels": ["greetings"],
    }


def test_the_page_on_plugins_shows_exactly_its_files() -> None:
    shown = dict(re.findall(r"`([\w./]+)`:\n\n```\w*\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL))
    files = [TOY / "pyproject.toml", *sorted((TOY / "src" / "greetings").glob("*.*"))]
    expected = {str(path.relative_to(TOY)): path.read_text("utf-8") for path in files if path.name != "__init__.py"}
    assert shown == expected
