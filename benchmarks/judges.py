"""Judging against a model that takes 100 ms, 50 calls at a time: `python benchmarks/judges.py [--quick]`.

The ideal is what the answers alone take: their number times 100 ms, shared by 50.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import conversations
import slow_model

HERE = Path(__file__).resolve().parent

CONCURRENCY = 50
MOST_OF_IDEAL = 1.2

Figures = dict[str, float]


def rows(count: int) -> list[dict[str, object]]:
    """Calls with another date than expected, each of a day of its own, so that no two calls to the judge are equal."""
    return [
        {
            "id": f"row_{number}",
            "response": f'[book_table(day="{number}/03/2026", people=2)]',
            "ground_truth": f'[book_table(day="2026-03-{number}", people=2)]',
        }
        for number in range(count)
    ]


def run(url: str, count: int) -> Figures:
    """One run, in this process."""
    import tunecheck.endpoints._chat  # noqa: F401 - and with it aiohttp: what is loaded is not what is measured
    from tunecheck import DifferenceEvaluator, evaluate

    model = {
        "kind": "openai",
        "url": url,
        "model": "m",
        "auth": {"type": "none"},
        "limits": {"concurrency": CONCURRENCY},
    }
    with tempfile.TemporaryDirectory() as folder:
        started, cpu = time.perf_counter(), time.process_time()
        result = evaluate(
            data=rows(count), evaluators={"difference": DifferenceEvaluator(model)}, results_dir=folder, workers=0
        )
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    assert not result.failed_row_count
    metrics = result["metrics"]
    assert isinstance(metrics, dict)
    assert metrics["difference.difference"] == 0.5
    ideal = count * slow_model.LATENCY_S / CONCURRENCY
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "ideal": ideal, "cpu": cpu, "memory": memory}


def _measured(url: str, count: int) -> Figures:
    """One run in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--run", url, str(count)], stdout=subprocess.PIPE, text=True, check=True
    )
    figures: Figures = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def _line(count: int, found: Figures) -> conversations.Line:
    times = found["seconds"] / found["ideal"]
    return conversations.Line(
        f"{count:,} rows judged by `difference`, 100 ms a call, {CONCURRENCY} at a time",
        f"within {MOST_OF_IDEAL - 1:.0%} of the ideal",
        f"{found['seconds']:.2f} s, {times:.2f} × the ideal of {found['ideal']:.1f} s, "
        f"{1000 * found['cpu'] / count:.2f} CPU ms a call, {found['memory']:.0f} MB",
        "–",
        times <= MOST_OF_IDEAL,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="measure once")
    parser.add_argument("--run", nargs=2, metavar=("URL", "ROWS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        run(arguments.run[0], 1)  # what is loaded at the first call is not the calls' cost
        print(json.dumps(run(arguments.run[0], int(arguments.run[1]))))
        return
    conversations.print_head("ideal")
    with slow_model.served(str(slow_model.LATENCY_S), "judge") as url:
        for count in (1_000, 5_000):
            found = [_measured(url, count) for _ in range(1 if arguments.quick else 3)]
            conversations.print_line(_line(count, sorted(found, key=lambda each: each["seconds"])[len(found) // 2]))


if __name__ == "__main__":
    main()
