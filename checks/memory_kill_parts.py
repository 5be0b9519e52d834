"""What the kill matrix of memory runs is made of: runs in processes of their own, and their files."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.pipeline_parts import strict_lines

HERE = Path(__file__).parent


KINDS = (
    "colours",
    "names",
    "name_list",
    "shopping",
    "locations_directions",
    "jokes",
    "sallyanne",
    "prospective_memory",
    "trigger_response",
    "spy_meeting",
    "restaurant",
    "locations",
)


CONFIG = f"""
config:
  run_name: Kill matrix
datasets:
  args: {{memory_span: 900, dataset_examples: 3, seed: 5}}
  datasets: [{", ".join(f"{{name: {kind}}}" for kind in KINDS)}]
"""


class Runner:
    """Runs in processes that are forked off a warm one."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "memory_kill_process.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(self, **order: Any) -> int:
        """Start a run; its pid."""
        assert self._process.stdin is not None
        print(json.dumps(order), file=self._process.stdin, flush=True)
        return int(self._line("pid"))

    def ended(self) -> int:
        """How it ended: an exit code, or minus the signal."""
        return int(self._line("ended"))

    def _line(self, word: str) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith(f"{word} "), line
        return line.split()[1]

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


@dataclass(frozen=True)
class Manner:
    """How the runs of a matrix are had."""

    name: str
    agent: str
    isolated: bool = False
    max_prompt_size: int | None = None
    clock: str = "virtual"

    def endpoint(self, port: int) -> dict[str, Any]:
        if self.agent == "memory_agent":
            return {"kind": "memory_agent", "url": f"http://127.0.0.1:{port}/agent", "auth": {"type": "none"}}
        url = f"http://127.0.0.1:{port}/v1"
        return {"kind": "openai", "url": url, "model": "m", "auth": {"type": "none"}}


def run_folder(folder: Path) -> Path:
    (manifest,) = (folder / "eval_results").glob("*/run.json")
    return manifest.parent


def records(folder: Path) -> list[Any]:
    """The records of a run's event log, a torn last line left out."""
    raw = (run_folder(folder) / "memory" / "session-1" / "events.jsonl").read_bytes()
    return [json.loads(line) for line in raw.split(b"\n")[:-1]]


def stream(folder: Path) -> list[Any]:
    """Every event with what it came to; keys are each run's own, and how long a reply took is measured."""
    found: list[Any] = []
    for record in records(folder)[1:]:
        if record["k"] != "done":
            found.append(record["effect"])
        if record["k"] != "do":
            found.append({name: value for name, value in record["outcome"].items() if name != "ms"})
    return found


def scores(folder: Path) -> list[Any]:
    """What the rows say, but for how long replies took, which is measured."""
    rows = strict_lines(run_folder(folder) / "eval_results.jsonl")
    for row in rows:
        del row["outputs.latency_ms"]
        for entry in row["outputs.log"]:
            entry.pop("ms", None)
    return rows


def master_log(folder: Path) -> bytes:
    (path,) = (run_folder(folder) / "memory").glob("*/results/*/master_log.jsonl")
    return path.read_bytes()


def journaled(before: Sequence[Mapping[str, Any]]) -> tuple[set[str], str | None]:
    """The keys of what was answered, and the key of what was in flight."""
    asked = {record["n"]: record["key"] for record in before if record["k"] == "do"}
    done = {record["n"] for record in before if record["k"] == "done"}
    in_flight = [key for number, key in asked.items() if number not in done]
    return {key for number, key in asked.items() if number in done}, in_flight[0] if in_flight else None
