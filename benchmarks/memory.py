"""Long-term memory with an agent that answers at once: `python benchmarks/memory.py [--quick] [--python FILE]`.

What the scheduler, the journal, the counting of tokens and the scoring cost beside the agent: a whole run of 33 tests
woven together over 32,000 tokens each, and one of 330. The time to the first message is a process's, from its start,
against a server on loopback; `--python` names the interpreter of an environment as users have it (`tunecheck[memory]`
and nothing else), where less has to be loaded than beside the development tools.

The reference's figures are the GoodAI LTM Benchmark's (v3.5), measured elsewhere: it is no package that can be
installed beside this.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

from conversations import Line, print_head, print_line

from tunecheck._json import JSON
from tunecheck.endpoints._base import ChatRequest, Completion, Endpoint, Usage

SPAN = 32_000
WINDOW = 8_000

DATA_SETS: Mapping[str, Mapping[str, int]] = {
    "colours": {"colour_changes": 3},
    "shopping": {"item_changes": 6},
    "locations_directions": {"known_locations": 6},
    "name_list": {"name_changes": 5},
    "jokes": {"jokes_told": 4},
    "sallyanne": {},
    "prospective_memory": {},
    "trigger_response": {},
    "spy_meeting": {},
    "delayed_recall": {},
    "locations": {},
}

Figures = dict[str, float]


class Instant(Endpoint):
    """Says "Okay." at once, and notes when it was asked."""

    kind: ClassVar[str] = "instant"
    name = "instant"

    def __init__(self) -> None:
        self.asked: list[float] = []

    async def complete(self, request: ChatRequest) -> Completion:
        self.asked.append(time.perf_counter())
        return Completion(text="Okay.", usage=Usage(1, 1), latency_ms=0.0)

    def settings(self) -> dict[str, JSON]:
        return {"kind": self.kind}


def configuration(folder: Path, examples: int) -> Path:
    """A configuration of the eleven data sets, in the published form."""
    path = folder / "memory.yml"
    sets = [{"name": name, "args": dict(args)} for name, args in DATA_SETS.items()]
    universal = {"memory_span": SPAN, "dataset_examples": examples}
    content = {"config": {"run_name": "benchmark"}, "datasets": {"args": universal, "datasets": sets}}
    path.write_text(json.dumps(content), "utf-8")  # JSON is YAML
    return path


def run(examples: int) -> Figures:
    """One run, in this process; the tokenizer is loaded before."""
    from tunecheck_memory import MemoryPlan, load_tokenizer, run_memory

    load_tokenizer("cl100k_base").count("warm")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        agent = Instant()
        path = configuration(folder, examples)
        started = time.perf_counter()
        plan = MemoryPlan(
            configuration=path,
            endpoint=agent,
            definitions=folder / "definitions",
            max_prompt_size=WINDOW,
            unjudged=True,
        )
        outcome = run_memory(plan, results_dir=folder / "runs")
        seconds = time.perf_counter() - started
        assert outcome.result.row_count == examples * len(DATA_SETS)
        messages = sum(1 for line in _events(outcome.result.run_dir) if b'"do":"send"' in line)
    return {"seconds": seconds, "messages": messages, **_course(agent.asked)}


def _events(run_dir: Path) -> list[bytes]:
    (log,) = run_dir.glob("memory/*/events.jsonl")
    return [line for line in log.read_bytes().splitlines() if b'"k":"do"' in line]


def _course(asked: Sequence[float]) -> Figures:
    """How much the agent's turn costs in the first and in the last quarter of a conversation, in ms."""
    gaps = [after - before for before, after in itertools.pairwise(asked)]
    quarter = len(gaps) // 4
    return {
        "first_ms": 1_000 * statistics.median(gaps[:quarter]),
        "last_ms": 1_000 * statistics.median(gaps[-quarter:]),
    }


class _First(BaseHTTPRequestHandler):
    """Notes when the first request came, and never answers well."""

    came: ClassVar[list[float]] = []

    def do_POST(self) -> None:
        self.came.append(time.perf_counter())
        self.send_response(401)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nobody wants to read of it."""


def start(python: str) -> float:
    """Seconds from starting `tunecheck memory run` to its first message; definitions are there already."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _First) as server, tempfile.TemporaryDirectory() as name:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        folder = Path(name)
        config = configuration(folder, 3)
        definition = {"kind": "openai", "url": f"http://127.0.0.1:{server.server_port}/v1", "model": "m", "retries": 0}
        (folder / "agent.yaml").write_text(json.dumps({**definition, "auth": {"type": "none"}}), "utf-8")
        command = [python, "-m", "tunecheck", "memory", "run", "-c", str(config), "--endpoint", "agent.yaml"]
        found = []
        for _ in range(4):
            _First.came.clear()
            began = time.perf_counter()
            subprocess.run([*command, "--fresh", "--quiet", "--unjudged"], cwd=folder, capture_output=True, check=False)
            found.append(_First.came[0] - began)
        server.shutdown()
    return statistics.median(found[1:])  # the first one makes the definitions


def _measured(examples: int) -> Figures:
    """One run in a process of its own."""
    command = [sys.executable, __file__, "--run", str(examples)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    figures: Figures = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def _median(examples: int, times: int) -> Figures:
    runs = sorted((_measured(examples) for _ in range(times)), key=lambda each: each["seconds"])
    return runs[len(runs) // 2]


def lines(*, quick: bool, python: str) -> list[Line]:
    """The lines of the table, measured."""
    times = 1 if quick else 3
    few, many, first = _median(3, times), _median(30, times), start(python)
    each = 1_000 * few["seconds"] / few["messages"]
    course = f"{many['first_ms']:.2f} ms in the first quarter, {many['last_ms']:.2f} ms in the last"
    return [
        Line(
            f"a message, all told: {few['messages']:.0f} messages, 33 tests over {SPAN:,} tokens",
            "at most 2 ms",
            f"{each:.2f} ms",
            "14 ms",
            each <= 2,
        ),
        Line("the same as a run gets longer: 330 tests", "flat", course, "–", many["last_ms"] < 1.5 * many["first_ms"]),
        Line(
            f"330 tests, {many['messages']:.0f} messages",
            "at most 3 s",
            f"{many['seconds']:.2f} s",
            "11.7 s",
            many["seconds"] <= 3,
        ),
        Line(
            "from the command to the first message", "at most 0.5 s", f"{first:.2f} s", "5.5 s to import", first <= 0.5
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="measure once")
    parser.add_argument("--python", default=sys.executable, metavar="FILE", help="who runs the command")
    parser.add_argument("--run", type=int, metavar="EXAMPLES", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        print(json.dumps(run(arguments.run)))
        return
    print_head("the reference")
    for line in lines(quick=arguments.quick, python=arguments.python):
        print_line(line)


if __name__ == "__main__":
    main()
