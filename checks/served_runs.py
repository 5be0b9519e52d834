"""Runs of the command line against a served endpoint: their data, the server, and what the runs left."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.platforms import hear_ctrl_c

SERVER = Path(__file__).parents[1] / "tests" / "chat_server.py"
_PASSING = ("latency", "request_id", "started")
"""Parts of columns that differ between two runs against an endpoint that answers alike."""


EVALUATED = ("evaluate", "--dataset", "rows.jsonl", "--endpoint", "echo.yaml", "--evaluators", "f1_score", "--quiet")
"""The command that evaluates the data of a workspace."""


class Workspace:
    """A folder with data, and an endpoint that takes some time for each answer; `python` is who runs tunecheck."""

    python = sys.executable

    def __init__(self, folder: Path, rows: int) -> None:
        self.folder = folder
        self.log = folder / "requests.log"
        folder.mkdir(parents=True, exist_ok=True)
        self.log.touch()
        self.unbroken_s = 0.0
        """How long a run took to which nothing happened."""
        lines = (json.dumps({"id": f"r{n}", "query": f"{n}", "ground_truth": f"answer {n}"}) for n in range(rows))
        (folder / "rows.jsonl").write_text("".join(f"{line}\n" for line in lines))

    @contextmanager
    def serving(self, seconds: float, calls: int, limits: str = "", price: str = "") -> Iterator[None]:
        """The service, as a process of its own, and its definition, which may have more limits, and a price."""
        command = [sys.executable, str(SERVER), str(self.log), str(seconds)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            url = f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
            definition = f"kind: openai\nurl: {url}\nmodel: m\nauth: {{type: none}}\n"
            more = f"limits: {{concurrency: {calls}{limits and f', {limits}'}}}\n{price and f'price: {{{price}}}'}\n"
            (self.folder / "echo.yaml").write_text(definition + more)
            try:
                yield
            finally:
                process.stdin.close()

    def begin(self, *arguments: str) -> subprocess.Popen[bytes]:
        """`tunecheck` with these arguments, in this folder."""
        command = [self.python, "-m", "tunecheck", *arguments]
        return subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=hear_ctrl_c
        )

    def evaluate(self, *arguments: str) -> subprocess.Popen[bytes]:
        """`tunecheck evaluate` of the data."""
        return self.begin(*EVALUATED, *arguments)

    def requests(self) -> Counter[str]:
        """How often each row was asked."""
        return Counter(line.split()[1] for line in self.log.read_text().splitlines())

    def times(self) -> list[float]:
        """When each request arrived, in seconds."""
        return [float(line.split()[2]) for line in self.log.read_text().splitlines()]

    def run(self, name: str) -> Path:
        """The folder of the run of that name."""
        (folder,) = (self.folder / "eval_results").glob(f"{name}-*")
        return folder

    def results(self, name: str) -> tuple[list[dict[str, Any]], Any]:
        """A run's rows and metrics, without what differs each time."""
        run = self.run(name)
        rows = [json.loads(line) for line in (run / "eval_results.jsonl").read_text().splitlines()]
        lasting = [{key: row[key] for key in row if not any(part in key for part in _PASSING)} for row in rows]
        return lasting, json.loads((run / "metrics.json").read_text())


def finished(process: subprocess.Popen[bytes], seconds: float = 120) -> str:
    """What a process printed that ended well."""
    printed, errors = process.communicate(timeout=seconds)
    assert process.returncode == 0, errors.decode()
    return printed.decode()
