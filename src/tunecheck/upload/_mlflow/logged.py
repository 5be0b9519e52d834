"""What of a run an MLflow server is given: its settings as parameters, its rows as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from tunecheck._json import JSON, dumps
from tunecheck.runs._store import Run
from tunecheck.upload._contents import metric_keys
from tunecheck.upload._files import Artifact, artifact, cell, common_artifacts, table_columns

TABLE = "eval_results.json"

_PARTS = ("dataset", "target", "evaluators", "mapping", "group_by", "command", "versions")

_NOT_LOGGED = frozenset({"metrics", "primary"})
"""What an evaluator says of its metrics is no argument."""

_MOST_CHARACTERS = 500
"""Longest value that servers of all ages take; `run.json`, which is uploaded too, has them whole."""


def parameters(manifest: Mapping[str, JSON]) -> dict[str, str]:
    """The run's arguments, flat: `dataset.path`, `evaluators.bleu.threshold`; secrets are masked in them already."""
    flat = {"name": str(manifest.get("name"))}
    for part in _PARTS:
        flat.update(_flat(part, manifest.get(part)))
    keys = metric_keys(flat)
    return {keys[name]: _cut(value) for name, value in flat.items()}


def _flat(name: str, value: JSON) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, entry in value.items():
            if key not in _NOT_LOGGED:
                yield from _flat(name if key == "arguments" else f"{name}.{key}", entry)
    elif isinstance(value, str):
        yield name, value
    elif value is not None:
        yield name, dumps(value).decode()


def _cut(value: str) -> str:
    return value if len(value) <= _MOST_CHARACTERS else f"{value[: _MOST_CHARACTERS - 1]}…"


def mlflow_artifacts(run: Run, folder: Path) -> Iterator[Artifact]:
    """The table as MLflow shows tables, manifest and metrics, logs of conversations, and the report."""
    columns = ["row_id", *table_columns(run.rows())]
    with (folder / TABLE).open("wb") as file:
        file.write(b'{"columns": ' + dumps(columns) + b', "data": [')
        for number, row in enumerate(run.rows()):
            file.write((b",\n" if number else b"\n") + dumps([cell(row, name) for name in columns]))
        file.write(b"\n]}\n")
    yield artifact(TABLE, folder / TABLE, "application/json")
    for path in (run.folder / "run.json", run.metrics_file):
        yield artifact(path.name, path, "application/json")
    yield from common_artifacts(run, folder)
