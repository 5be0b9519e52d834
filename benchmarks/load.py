"""How concurrency gives way to a service that refuses calls: `python benchmarks/load.py [--quick]`.

3,000 rows against a model that takes 0.8 s, 200 calls at once: without faults (the definition states no limit, so that
the 200 asked for count), with 0.5% and 2% of random 429 and 503, and where only 50 at once are taken.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time

import conversations
import slow_model

LATENCY_S = 0.8
CONCURRENCY = 200
CAPACITY = 50
ROWS = 3_000

Figures = dict[str, float]


def run(url: str, count: int) -> Figures:
    """One run, in this process."""
    from tunecheck import evaluate
    from tunecheck.endpoints import load_endpoint

    endpoint = load_endpoint({"kind": "openai", "url": url, "model": "m", "auth": {"type": "none"}})
    rows = [{"id": f"row_{number}", "query": f"What is on day {number}?"} for number in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        result = evaluate(
            data=rows, target=endpoint, evaluators={"answered": _answered}, concurrency=CONCURRENCY, results_dir=folder
        )
        seconds = time.perf_counter() - started
    print(*result.notes, sep="\n", file=sys.stderr)
    return {"seconds": seconds, "failed": result.failed_row_count}


def _answered(response: object) -> dict[str, bool]:
    return {"answered": response is not None}


def _measured(count: int, *faults: str) -> Figures:
    """One run in a process of its own."""
    with slow_model.served(str(LATENCY_S), *faults) as url:
        command = [sys.executable, __file__, "--run", url, str(count)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    figures: Figures = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the rows")
    parser.add_argument("--run", nargs=2, metavar=("URL", "ROWS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        print(json.dumps(run(arguments.run[0], int(arguments.run[1]))))
        return
    count = ROWS // 4 if arguments.quick else ROWS
    conversations.print_head("ideal")
    faultless = _measured(count)
    ideal = count * LATENCY_S / CONCURRENCY
    _print(f"{count:,} rows × {LATENCY_S} s, {CONCURRENCY} at once, no faults", 1.6, faultless, ideal, "the ideal")
    for share, most in ((0.005, 1.25), (0.02, 1.6)):
        found = _measured(count, "--refused", str(share))
        _print(f"{share:.1%} refused at random", most, found, faultless["seconds"], "without faults")
    found = _measured(count, "--capacity", str(CAPACITY))
    _print(f"only {CAPACITY} at once are taken", 2.0, found, count * LATENCY_S / CAPACITY, "the ideal of that")


def _print(name: str, most: float, found: Figures, base: float, of: str) -> None:
    times = found["seconds"] / base
    measured = f"{found['seconds']:.1f} s, {times:.2f} × {of} ({base:.1f} s), {found['failed']:.0f} rows failed"
    reached = times <= most and not found["failed"]
    conversations.print_line(conversations.Line(name, f"≤ {most:g} × {of}", measured, "–", reached))


if __name__ == "__main__":
    main()
