"""What the tests of `tunecheck.azure` share: a file of rows, and evaluate() that keeps its run folder below it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tunecheck import azure

QA = (
    {"query": "q1", "response": "blue sky", "ground_truth": "a blue sky", "context": "c1"},
    {"query": "q2", "response": "red", "ground_truth": "green", "context": "c2"},
    {"query": "q3", "response": "the sea", "ground_truth": "sea", "context": "c3"},
)
CONVERSATION = {
    "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "blue sky", "ground_truth": "blue sky", "context": {"source": "book"}},
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": "red", "ground_truth": "green"},
        {"role": "user", "content": "unanswered"},
    ]
}


def jsonl(folder: Path, *rows: Mapping[str, Any], name: str = "data.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows or QA))
    return path


def evaluate(folder: Path, *rows: Mapping[str, Any], **arguments: Any) -> Any:
    """The result of azure.evaluate() over these rows, by default three questions and answers."""
    return azure.evaluate(**{"data": jsonl(folder, *rows), "results_dir": folder / "runs", "workers": 0, **arguments})


def column(result: Any, name: str) -> list[Any]:
    return [row[name] for row in result["rows"]]
