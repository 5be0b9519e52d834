"""Public MCP servers from npm and PyPI: a recorded service, a test set, an evaluation without the server, an audit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.authoring_parts import calls_of, lines, passes

from tunecheck.cli._app import main

CACHE = Path(os.environ.get("TUNECHECK_TEST_CACHE", Path.home() / ".cache" / "tunecheck-tests")) / "mcp"


def from_npm(package: str, program: str) -> str:
    """A program of a package of npm's."""
    path = CACHE / "npm" / "node_modules" / ".bin" / program
    if not path.exists():
        if shutil.which("npm") is None:
            pytest.skip("npm is not installed: it brings the server")
        path.parents[2].mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            ["npm", "install", "--silent", package], cwd=path.parents[2], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"{package} cannot be had: {done.stderr[-200:]}")
    return str(path)


def from_pypi(package: str) -> str:
    """The program of a package of PyPI's, in an environment of its own."""
    path = CACHE / package / "bin" / package
    if not path.exists():
        folder = path.parents[1]
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        done = subprocess.run([folder / "bin" / "pip", "install", "-q", package], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"{package} cannot be had: {done.stderr[-200:]}")
    return str(path)


def server(name: str) -> str:
    if name == "memory":
        program = from_npm("@modelcontextprotocol/server-memory", "mcp-server-memory")
        return f"env MEMORY_FILE_PATH={{folder}}/memory.jsonl {program}"
    return from_pypi("mcp-server-time")


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "tasks"), [("time", 50), ("memory", 5)])
def test_a_public_server_becomes_a_service_a_test_set_and_a_score(
    name: str, tasks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = server(name)
    monkeypatch.chdir(tmp_path)
    assert main(["datasets", "author", name, "--mcp", command, "--tasks", str(tasks)]) == 0
    rows = lines(Path("datasets", f"{name}.jsonl"))
    assert sum(row["variant"] == "base" for row in rows) >= tasks - 2
    for row in rows:
        assert passes(row, calls_of(row)), row["id"]
        assert not passes(row, [[] for _ in row["turns"]]), row["id"]
    data = f"datasets/{name}.jsonl"
    assert main(["datasets", "check", data]) == 0
    capsys.readouterr()
    assert main(["datasets", "audit", data, "--json"]) in (0, 3)
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [each for each in findings if each["certainty"] == "sure"] == []
    assert main(["evaluate", "--dataset", data, "--limit", "20", "--quiet"]) == 0
