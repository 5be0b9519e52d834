"""Three public OpenAPI files, as npm packages bring them: a service, 50 tasks, served agents, an audit."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from checks.authored_scores import prove
from tests.authoring_parts import lines

from tunecheck.cli import main

CACHE = Path(os.environ.get("TUNECHECK_TEST_CACHE", Path.home() / ".cache" / "tunecheck-tests")) / "openapi"
TASKS = 50

FILES = {
    "petstore": ("@readme/oas-examples", "3.0/json/petstore.json", []),
    "directus": ("@directus/specs", "dist/openapi.json", ["/folders*", "/files*", "/roles*", "/presets*"]),
    "github": ("@octokit/openapi", "generated/api.github.com.json", ["*/milestones*"]),
}


def from_npm(package: str, file: str) -> Path:
    """A file of a package of npm's."""
    folder = CACHE / package.replace("/", "-")
    path = folder / "package" / file
    if path.is_file():
        return path
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed: it brings the OpenAPI files")
    folder.mkdir(parents=True, exist_ok=True)
    packed = subprocess.run(["npm", "pack", "--silent", package], cwd=folder, capture_output=True, text=True)
    if packed.returncode:
        pytest.skip(f"{package} cannot be had: {packed.stderr[-200:]}")
    archive = folder / packed.stdout.strip().splitlines()[-1]
    subprocess.run(["tar", "xzf", archive, f"package/{file}"], cwd=folder, check=True)
    archive.unlink()
    return path


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", FILES)
def test_a_public_api_becomes_a_service_a_test_set_and_a_score(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package, file, only = FILES[name]
    openapi = from_npm(package, file)
    monkeypatch.chdir(tmp_path)
    chosen = [word for pattern in only for word in ("--only", pattern)]
    assert main(["datasets", "author", name, "--openapi", str(openapi), "--tasks", str(TASKS), *chosen]) == 0
    rows = lines(Path("datasets", f"{name}.jsonl"))
    assert sum(row["variant"] == "base" for row in rows) >= TASKS * 0.9
    with capsys.disabled():
        print(Path("datasets", f"{name}.card.md").read_text())
    prove(name, rows, capsys)
