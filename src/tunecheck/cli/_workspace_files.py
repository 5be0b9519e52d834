"""The files of a new workspace: those of this repository's own workspace, which the wheel carries along."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

FOLDERS = ("evaluators", "prompty", "endpoints", "datasets", "eval_results")

COPIED = (
    "evaluators/asks_back.py",
    "prompty/tone.prompty",
    "endpoints/azure_ml.yaml",
    "endpoints/azure_openai.yaml",
    "endpoints/openai.yaml",
    "endpoints/simulated.yaml",
    "datasets/val.jsonl",
    "datasets/val.yaml",
)

_IGNORED = b"eval_results/\n__pycache__/\n"


def workspace_files() -> Iterator[tuple[str, bytes]]:
    """Each file's path below the workspace, and its content."""
    for name in COPIED:
        yield name, _content(name)
    yield ".gitignore", _IGNORED


def _content(name: str) -> bytes:
    """A file from the wheel, or from the repository that an editable install runs from."""
    shipped = files("tunecheck.cli") / "workspace" / name
    if shipped.is_file():
        return shipped.read_bytes()
    return (Path(__file__).resolve().parents[3] / name).read_bytes()
