"""A thousand rows, three replies in ten faulty, 48 interruptions in eight ways: only calls in flight repeat."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fault_server import RESET, FaultServer, Request, Step, answer, busy, failing, page, raw, truncated
from tests.pipeline_parts import strict_json, strict_lines

ROWS = 1_000
INTERRUPTIONS = 48
FAULTY = 0.3
CONCURRENCY = 16
TIMES = ("outputs.latency_ms",)
"""Columns that say when, which no two runs share."""


def asked(request: Request) -> str:
    """The question in a request's body."""
    body = request.json()
    assert isinstance(body, dict)
    return str(body["messages"][-1]["content"])


def plan(request: Request, attempt: int) -> Step:
    question = asked(request)
    chance = random.Random(f"{question} {attempt}")
    reply = {"choices": [{"message": {"role": "assistant", "content": f"answer to {question}"}}]}
    faults = [busy(), busy("0.05"), failing(500), failing(503), truncated(reply), raw(b'{"cho'), RESET, page(502)]
    return chance.choice(faults) if chance.random() < FAULTY else answer(reply)


class Case:
    """One run from the command line in a folder of its own."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.runs = folder / "eval_results"
        rows = ({"id": f"r{n}", "query": f"{n}", "ground_truth": f"answer to {n}"} for n in range(ROWS))
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        definition = {"kind": "openai", "url": url.removesuffix("/score"), "model": "m", "auth": {"type": "none"}}
        limits = {"retries": 12, "limits": {"concurrency": CONCURRENCY}}
        (folder / "endpoint.yaml").write_text(json.dumps({**definition, **limits}), encoding="utf-8")

    def begin(self, before: Callable[[], None] | None = None) -> subprocess.Popen[bytes]:
        """Start the run, or go on with it."""
        command = [sys.executable, "-m", "tunecheck", "evaluate"]
        if any(self.runs.glob("*/run.json")):
            command += ["--resume", "last", "--quiet"]
        else:
            command += ["--dataset", "rows.jsonl", "--endpoint", "endpoint.yaml", "--evaluators", "f1_score", "--quiet"]
        return subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=before
        )

    @property
    def journal(self) -> Path | None:
        return next(self.runs.glob("*/journal.jsonl"), None)

    def records(self) -> list[bytes]:
        """The whole lines of the journal."""
        return self.journal.read_bytes().split(b"\n")[:-1] if self.journal else []

    def recorded(self) -> set[str]:
        """The rows whose answers are recorded."""
        return {record["id"] for record in map(strict_json, self.records()) if record["k"] == "answer"}

    def wait_for(self, process: subprocess.Popen[bytes], more: int) -> None:
        """Until so many more records are there, or it has ended."""
        wanted = len(self.records()) + more
        while process.poll() is None and len(self.records()) < wanted:
            time.sleep(0.005)

    def results(self) -> list[object]:
        """The rows, without what says when."""
        (path,) = self.runs.glob("*/eval_results.jsonl")
        return [{k: v for k, v in row.items() if k not in TIMES} for row in strict_lines(path)]


def finish(process: subprocess.Popen[bytes]) -> None:
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors.decode()


def stopped(case: Case, rng: random.Random, *signals: signal.Signals) -> None:
    """Send signals one after another at some moment of the run."""
    process = case.begin()
    case.wait_for(process, rng.randrange(4, 24))
    for number in signals:
        process.send_signal(number)
        time.sleep(rng.uniform(0, 0.2))
    _, errors = process.communicate(timeout=60)
    assert b"Traceback" not in errors, errors.decode()


def torn(case: Case, rng: random.Random) -> None:
    """Killed, and what was last written reached the disk in part, as when the machine goes down."""
    stopped(case, rng, signal.SIGKILL)
    if case.journal:
        lines = case.journal.read_bytes().splitlines(keepends=True)
        lines[-1] = lines[-1][: rng.randrange(1, len(lines[-1]))]
        case.journal.write_bytes(b"".join(lines))


def full(case: Case, rng: random.Random) -> None:
    """No more than some kilobytes fit on the disk."""
    size = (case.journal.stat().st_size if case.journal else 0) + rng.randrange(4_000, 8_000)
    process = case.begin(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert b"Traceback" not in errors, errors.decode()


WAYS: dict[str, Callable[[Case, random.Random], None]] = {
    "killed": lambda case, rng: stopped(case, rng, signal.SIGKILL),
    "killed with a torn last record": torn,
    "frozen and killed": lambda case, rng: stopped(case, rng, signal.SIGSTOP, signal.SIGKILL),
    "terminated": lambda case, rng: stopped(case, rng, signal.SIGTERM),
    "interrupted": lambda case, rng: stopped(case, rng, signal.SIGINT),
    "interrupted twice": lambda case, rng: stopped(case, rng, signal.SIGINT, signal.SIGINT),
    "hung up": lambda case, rng: stopped(case, rng, signal.SIGHUP),
    "disk full": full,
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="signals and limits of POSIX systems")
def test_a_run_interrupted_in_eight_ways_asks_again_only_what_was_in_flight(tmp_path: Path) -> None:
    rng = random.Random(12)
    with FaultServer(plan) as server:
        (tmp_path / "unbroken").mkdir()
        unbroken = Case(tmp_path / "unbroken", server.url)
        finish(unbroken.begin())
    with FaultServer(plan) as server:
        (tmp_path / "broken").mkdir()
        case = Case(tmp_path / "broken", server.url)
        done: Counter[str] = Counter()
        repeated = in_flight = 0
        for number in range(INTERRUPTIONS):
            before = len(server.requests)
            known = case.recorded()
            way = list(WAYS)[number % len(WAYS)]
            WAYS[way](case, rng)
            again = [asked(request) for request in server.requests[before:]]
            assert not {f"r{question}" for question in again} & known, f"{way}: a recorded call was sent again"
            done[way] += 1
            in_flight += CONCURRENCY
        assert len(case.recorded()) < ROWS, "it was finished before the last interruption"
        finish(case.begin())
        keys = {key: count for key, count in server.answered.items() if count > 1}
        repeated = sum(keys.values()) - len(keys)
        assert len(server.seen) == ROWS, "two rows share a key, or a call was sent again under another one"
    assert sum(done.values()) == INTERRUPTIONS
    assert repeated <= in_flight
    assert case.results() == unbroken.results()
