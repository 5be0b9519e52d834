"""One run, many workers: how fast `--on local:N` is, and what memory its workers and its merge take.

python benchmarks/scale.py trivial [ROWS]      # rows that only compute: one process, then local:2
python benchmarks/scale.py waiting [ROWS]      # rows of 50 ms: 4 workers of 16 calls, against the ideal
python benchmarks/scale.py memory [ROWS]       # 8 workers: the peak of each process
python benchmarks/scale.py merge [ROWS ...]    # putting together what workers of so many rows have left
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import psutil
from tunecheck.evaluation._merging import Merge
from tunecheck.pipeline._outcome import Outcome
from tunecheck.runs._claims import Claims, Moment, Results

from tunecheck._files import WorkerEntry
from tunecheck._json import content_hash
from tunecheck._targets import Row
from tunecheck.pipeline._aggregate import Aggregator
from tunecheck.pipeline._journal import Journal
from tunecheck.pipeline._plan import Tally
from tunecheck.pipeline._results import ResultsWriter, RowState, result_row, write_table
from tunecheck.pipeline._scoring import bind_evaluator
from tunecheck.storage._address import open_store

SERVER = Path(__file__).parents[1] / "tests" / "chat_server.py"
CHUNK = 10_000
MB = 1 << 20


def length(*, text: str) -> dict[str, float]:
    return {"length": float(len(text))}


def evaluate(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tunecheck", "evaluate", "--dataset", "rows.jsonl", "--quiet", *arguments]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)


def write_rows(folder: Path, rows: int) -> None:
    with (folder / "rows.jsonl").open("w") as file:
        for n in range(rows):
            row = {"id": f"r{n}", "query": f"{n}", "response": f"answer {n // 2}", "ground_truth": f"answer {n}"}
            file.write(json.dumps(row) + "\n")


def seconds(folder: Path, *arguments: str) -> tuple[float, float]:
    """Wall and CPU seconds of a run."""
    begun, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    assert evaluate(folder, *arguments).wait() == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - begun, cpu


def trivial(folder: Path, rows: int) -> None:
    write_rows(folder, rows)
    given = ("--evaluators", "f1_score", "--workers", "0")
    alone, alone_cpu = seconds(folder, *given)
    two, two_cpu = seconds(folder, *given, "--on", "local:2")
    print(f"{rows:,} rows, one process: {alone:.1f} s ({alone_cpu:.1f} s of CPU)")
    print(f"{rows:,} rows, local:2: {two:.1f} s ({two_cpu:.1f} s of CPU): {alone / two:.2f} times as fast")


def waiting(folder: Path, rows: int) -> None:
    write_rows(folder, rows)
    (folder / "log").touch()
    command = [sys.executable, str(SERVER), str(folder / "log"), "0.05"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        definition = f"kind: openai\nurl: {url}\nmodel: m\nauth: {{type: none}}\nlimits: {{concurrency: 16}}\n"
        (folder / "echo.yaml").write_text(definition)
        run = evaluate(folder, "--endpoint", "echo.yaml", "--evaluators", "f1_score", "--on", "local:4")
        while not (folder / "log").stat().st_size:
            time.sleep(0.01)
        begun = time.monotonic()
        assert run.wait() == 0
        took, ideal = time.monotonic() - begun, rows * 0.05 / (4 * 16)
        print(f"{rows:,} rows of 50 ms, 4 workers of 16: {took:.1f} s after the first call, {took / ideal:.2f} × ideal")
        server.stdin.close()


def memory(folder: Path, rows: int) -> None:
    write_rows(folder, rows)
    run = evaluate(folder, "--evaluators", "f1_score", "--workers", "0", "--on", "local:8")
    driver, peaks = psutil.Process(run.pid), dict[int, int]()
    begun, last = time.monotonic(), time.monotonic()
    while run.poll() is None:
        try:
            workers = driver.children()
            for each in [driver, *workers]:
                peaks[each.pid] = max(peaks.get(each.pid, 0), each.memory_info().rss)
            last = time.monotonic() if workers else last
        except psutil.NoSuchProcess:
            pass
        time.sleep(0.1)
    own = peaks.pop(run.pid)
    workers_mb = ", ".join(f"{peak / MB:.0f}" for peak in peaks.values())
    took = f"{time.monotonic() - begun:.0f} s, {time.monotonic() - last:.0f} s of them for the merge"
    print(f"{rows:,} rows, local:8: {took}; workers {workers_mb} MB, driver and merge {own / MB:.0f} MB")


def leave_chunks(folder: Path, rows: int) -> None:
    """What workers leave of a run: each chunk with what the real writers made of one."""
    claims = Claims(open_store(str(folder / "shared")), "owner")
    claims.prepare([[(begin, begin + CHUNK)] for begin in range(0, rows, CHUNK)])
    evaluator = bind_evaluator("length", length, {})
    aggregator, results = Aggregator([evaluator], ["row_kind"]), ResultsWriter(folder / "chunk.jsonl")
    with closing(Journal(folder / "chunk-journal.jsonl")) as journal:
        for index in range(CHUNK):
            values = {"id": f"r{index}", "text": "x" * (index % 7)}
            row = Row(index, f"r{index}", values, content_hash(values))
            state = RowState(row, outputs={"length": {"length": index / 7}})
            journal.verdicts([(index, {"length": (row.fingerprint, state.outputs["length"])})])
            results.write(index, result_row(state, ["length"]))
            aggregator.add(state)
        records = journal.sync()
    outcome = Outcome(aggregator, {}, results.shapes, Tally())
    view = results.finish()
    write_table(folder / "chunk.csv", outcome.columns, view)
    kept = [(folder / name).read_bytes() for name in ("chunk-journal.jsonl", "chunk.jsonl", "chunk.csv")]
    while (claim := claims.claim()) is not None:
        claim.ship(kept[0])
        found = Results(
            rows=claim.keep("rows", kept[1:2]),
            table=claim.keep("table", kept[2:]),
            outcome=claim.keep("outcome", [outcome.stored()]),
        )
        worker = WorkerEntry(id="owner", host="h", versions={}, started="s", ended="e", rows=CHUNK)
        claim.commit(worker, Moment(CHUNK, CHUNK), records, {}, found)


def merge(folder: Path, rows: int) -> None:
    leave_chunks(folder, rows)
    read, write = os.pipe()
    if not (child := os.fork()):  # a process of its own, for a peak of its own
        begun, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        claims = Claims(open_store(str(folder / "shared")), "merge")
        outcome = Outcome(Aggregator([bind_evaluator("length", length, {})], ["row_kind"]), {}, {}, Tally())
        put_together = Merge(claims, outcome)
        with closing(Journal(folder / "journal.jsonl")) as journal:
            journal.hold(claims.records())
        view = put_together.write_rows(folder / "eval_results.jsonl")
        put_together.write_table(folder / "eval_results.csv", outcome.columns, view)
        assert outcome.aggregator.metrics(view)[0]["length.scored_count"] == rows
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        told = f"{time.monotonic() - begun:.0f} s, {peak / 1024:.0f} MB at most ({before / 1024:.0f} before)"
        os.write(write, told.encode())
        os._exit(0)
    os.waitpid(child, 0)
    print(f"merge of {rows:,} rows in chunks of {CHUNK:,}: {os.read(read, 1_000).decode()}")


CASES = {"trivial": (trivial, 200_000), "waiting": (waiting, 10_000), "memory": (memory, 1_000_000)}


def main(case: str, *sizes: str) -> None:
    measure, usual = {**CASES, "merge": (merge, 10_000_000)}[case]
    for rows in map(int, sizes or [str(usual)]):
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
