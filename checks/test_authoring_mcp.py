"""Public MCP servers from npm and PyPI: a recorded service, a test set, an evaluation without the server, an audit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from checks.authored_scores import prove
from tests.authoring_parts import lines

from tunecheck.cli import main

CACHE = Path(os.environ.get("TUNECHECK_TEST_CACHE", Path.home() / ".cache" / "tunecheck-tests")) / "mcp"
TASKS = {"time": 50, "memory": 12, "filesystem": 50}
"""Fewer with server-memory, which keeps its state in a file and must start anew for each state that is tried."""


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


FOUND = {
    "notes.txt": "Call the printer on Monday.\nBook the room for Thursday.\n",
    "budget.csv": "rent,1200\nfood,430\n",
    "drafts/letter.txt": "Dear neighbours, the lift is out of order.\n",
    "drafts/speech.txt": "Thank you all for coming.\n",
    "archive/2025.txt": "A quiet year.\n",
}
"""What the server of files finds in its folder."""


def server(name: str, folder: Path) -> str:
    """The command that starts a server."""
    if name == "time":
        return from_pypi("mcp-server-time")
    program = from_npm(f"@modelcontextprotocol/server-{name}", f"mcp-server-{name}")
    if name == "memory":
        return f"env MEMORY_FILE_PATH={{folder}}/memory.jsonl {program}"
    for file, content in FOUND.items():
        path = folder / "found" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return f"sh -c 'cp -r {folder}/found/. . && exec {program} {{folder}}'"


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("name", ["time", "memory", "filesystem"])
def test_a_public_server_becomes_a_service_a_test_set_and_a_score(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = server(name, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["datasets", "author", name, "--mcp", command, "--tasks", str(TASKS[name])]) == 0
    rows = lines(Path("datasets", f"{name}.jsonl"))
    assert sum(row["variant"] == "base" for row in rows) >= TASKS[name] * 0.9
    with capsys.disabled():
        print(Path("datasets", f"{name}.card.md").read_text())
    prove(name, rows, capsys)
