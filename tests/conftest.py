"""Fixtures shared by all tests: real inputs and environments for the reference implementations."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

ReferenceEnvironment = Callable[..., Path]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real inputs; tests that need it skip where it is absent."""
    folder = Path(os.environ.get("TUNECHECK_TEST_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real inputs are not here: set TUNECHECK_TEST_DATA ({folder})")
    return folder


@pytest.fixture(scope="session")
def reference_env() -> ReferenceEnvironment:
    """`reference_env(name, *requirements)`: the python of an environment that holds these packages, made once."""
    return _reference_env


def _reference_env(name: str, *requirements: str) -> Path:
    cache = Path(os.environ.get("TUNECHECK_TEST_CACHE", Path.home() / ".cache" / "tunecheck-tests"))
    tag = hashlib.sha256("\n".join((sys.version, *requirements)).encode()).hexdigest()[:12]
    folder = cache / f"{name}-{tag}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{name}-{tag}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may ask for the same environment at once
        if not (folder / "ready").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _install(folder, requirements)
            (folder / "ready").touch()
    return folder / "bin" / "python"


def _install(folder: Path, requirements: tuple[str, ...]) -> None:
    uv = [sys.executable, "-m", "uv"]
    python = folder / "bin" / "python"
    for command in (
        [*uv, "venv", "--quiet", "--python", sys.executable, str(folder)],
        [*uv, "pip", "install", "--quiet", "--python", str(python), *requirements],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
        if done.returncode:
            pytest.fail(f"cannot prepare {folder.name}: {done.stderr.strip()[-2000:]}")
