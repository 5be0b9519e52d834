"""One run on a Ray cluster of this machine: how close it comes to the ideal, how fast the driver is, memory.

python benchmarks/scale.py waiting [ROWS]      # rows of 50 ms, 3 nodes of 16 calls at once, against the ideal
python benchmarks/scale.py driver [ROWS]       # rows that take no time: what one driver reads a second
python benchmarks/scale.py memory [ROWS]       # peak memory of the driver and of the tasks
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
MB = 1 << 20
NODES, CALLS, SECONDS = 3, 16, 0.05
SETTLE_S = 3
"""The nodes' own services still start when the cluster has its nodes; on two cores, that slows the first requests."""


def write_rows(folder: Path, rows: int) -> None:
    with (folder / "rows.jsonl").open("w") as file:
        for n in range(rows):
            row = {"id": f"r{n}", "query": f"{n}", "response": f"answer {n // 2}", "ground_truth": f"answer {n}"}
            file.write(json.dumps(row) + "\n")


@contextmanager
def cluster(nodes: int) -> Iterator[str]:
    command = [sys.executable, str(ROOT / "checks" / "ray_cluster.py"), str(nodes), "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            address = next(line for line in process.stdout if ":" in line and line[0].isdigit()).strip()
            time.sleep(SETTLE_S)
            yield address
        finally:
            process.stdin.close()


@contextmanager
def server(folder: Path) -> Iterator[Path]:
    """An endpoint that answers after 50 ms; the file has a line for each request, with its time."""
    log = folder / "requests.log"
    log.touch()
    command = [sys.executable, str(ROOT / "tests" / "chat_server.py"), str(log), str(SECONDS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        url = f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        definition = f"kind: openai\nurl: {url}\nmodel: m\nauth: {{type: none}}\nlimits: {{concurrency: {CALLS}}}\n"
        (folder / "echo.yaml").write_text(definition)
        try:
            yield log
        finally:
            process.stdin.close()


def evaluate(folder: Path, *arguments: str, every_s: float | None = 0.5) -> tuple[float, dict[str, float]]:
    """Seconds that a run takes, and the peak of its driver's and its tasks' memory in MB.

    Memory is measured `every_s` seconds, which takes CPU time; None: never.
    """
    command = [sys.executable, "-m", "tunecheck", "evaluate", "--dataset", "rows.jsonl", "--quiet", *arguments]
    peaks, ended = {"driver": 0.0, "task": 0.0}, threading.Event()
    begun = time.monotonic()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)

    def watch() -> None:
        while not ended.wait(every_s):
            for each in psutil.process_iter():
                try:
                    kind = (
                        "driver" if each.pid == process.pid else "task" if "ray::" in " ".join(each.cmdline()) else ""
                    )
                    if kind:
                        peaks[kind] = max(peaks[kind], each.memory_info().rss / MB)
                except psutil.Error:
                    continue

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert process.wait() == 0
    ended.set()
    watcher.join()
    return time.monotonic() - begun, peaks


def waiting(folder: Path, rows: int) -> None:
    write_rows(folder, rows)
    with server(folder) as log, cluster(NODES) as address:
        where = ("--on", f"ray:{address}", "--task-cpus", "1")
        took, _ = evaluate(folder, "--endpoint", "echo.yaml", "--evaluators", "f1_score", *where, every_s=None)
        times = [float(line.split()[2]) for line in log.read_text().splitlines()]
    ideal, requests = rows * SECONDS / (NODES * CALLS), max(times) - min(times) + SECONDS
    print(f"{rows:,} rows of 50 ms, {NODES} nodes of {CALLS} calls: first request to last {requests:.1f} s, ", end="")
    print(f"{requests / ideal:.2f} x ideal ({ideal:.1f} s); the command {took:.1f} s")


def driver(folder: Path, rows: int) -> None:
    write_rows(folder, rows)
    for where in ([], ["--on", "ray"]):
        took, peaks = evaluate(folder, "--response-column", "response", "--evaluators", "f1_score", *where)
        print(f"{rows:,} rows that take no time, {' '.join(where) or 'one process'}: {took:.1f} s, {peaks}")


def memory(folder: Path, rows: int) -> None:
    for count in (rows // 10, rows):
        write_rows(folder, count)
        took, peaks = evaluate(folder, "--response-column", "response", "--evaluators", "f1_score", "--on", "ray")
        print(f"{count:,} rows: driver {peaks['driver']:.0f} MB, a task at most {peaks['task']:.0f} MB, {took:.1f} s")


if __name__ == "__main__":
    case, given = sys.argv[1], sys.argv[2:]
    cases = {"waiting": (waiting, 10_000), "driver": (driver, 50_000), "memory": (memory, 200_000)}
    run, usual = cases[case]
    with tempfile.TemporaryDirectory() as made:
        run(Path(made), int(given[0]) if given else usual)
