"""Environments for reference implementations, because their pins conflict with Tunecheck's; kept in a cache."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filelock import lock_descriptor
from tests.source_path import source_path

AZURE = (
    "azure-ai-evaluation==1.18.10",
    # Needs of Tunecheck itself: its source is put on the path of this environment, to run next to the other.
    "aiohttp",
    "filelock",
    "msgspec",
    "pyyaml",
    "rapidfuzz",
    "rouge-score",
    "jsonschema-rs",
    "click",
    "platformdirs",
)
"""The environment `azure`: azure-ai-evaluation, and what Tunecheck needs to run there from its source."""


def make_environment(name: str, *requirements: str, without_dependencies: tuple[str, ...] = ()) -> Path:
    """The python of an environment that holds these packages, some without what they ask for.

    Raises:
        RuntimeError: it cannot be made; the text is the installer's.
    """
    cache = Path(os.environ.get("TUNECHECK_TEST_CACHE", Path.home() / ".cache" / "tunecheck-tests"))
    tag = hashlib.sha256("\n".join((sys.version, *requirements, *without_dependencies)).encode()).hexdigest()[:12]
    folder = cache / f"{name}-{tag}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{name}-{tag}.lock").open("w") as lock:
        lock_descriptor(lock.fileno())  # several test processes may ask for the same environment at once
        if not (folder / "ready").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _install(folder, requirements, without_dependencies)
            (folder / "ready").touch()
    return folder / "bin" / "python"


def _install(folder: Path, requirements: tuple[str, ...], without_dependencies: tuple[str, ...]) -> None:
    uv = [sys.executable, "-m", "uv"]
    python = folder / "bin" / "python"
    install = [*uv, "pip", "install", "--quiet", "--python", str(python)]
    whole = [[*install, *requirements]] if requirements else []
    alone = [[*install, "--no-deps", *without_dependencies]] if without_dependencies else []
    for command in ([*uv, "venv", "--quiet", "--python", sys.executable, str(folder)], *whole, *alone):
        done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
        if done.returncode:
            raise RuntimeError(f"cannot prepare {folder.name}: {done.stderr.strip()[-2000:]}")


def said_by(
    python: Path, script: str, *arguments: str, timeout_s: float = 240, env: Mapping[str, str] | None = None
) -> Any:
    """The last output of a script of checks/, as JSON; it runs in that environment, with our source on its path."""
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(
        [str(python), str(root / "checks" / script), *arguments],
        env={**os.environ, "PYTHONPATH": source_path(root), **(env or {})},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
