"""Tunecheck beside aiohttp and inspect_ai in the same run: `python benchmarks/peers.py [--pairs 10] [--only CASE]`.

`http`: the CPU seconds of 2,000 requests, each as a row of an endpoint with one evaluator, against bare aiohttp. Both
times count from the start of a process, so they include its imports. The server runs in another process.

`inspect`: 10,000 samples with a mock model and an exact match, in rows per second by the clock, against inspect_ai 0.3
in an environment of its own. Both times leave the imports out.

The two sides take turns. Each line gives the median of the ratios, with the second smallest and the second largest.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import slow_model
from main_job import measure

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.reference_environments import make_environment

REQUESTS, AT_ONCE, SAMPLES = 2_000, 16, 10_000


def exact(response: object, ground_truth: str) -> dict[str, float]:
    return {"score": float(response == ground_truth)}


def evaluate_endpoint(url: str) -> None:
    from tunecheck import evaluate
    from tunecheck.endpoints import load_endpoint

    endpoint = load_endpoint({"kind": "openai", "url": url, "model": "m", "auth": {"type": "none"}})
    rows = [{"id": f"r{number}", "query": f"Question {number}", "ground_truth": "Done."} for number in range(REQUESTS)]
    with tempfile.TemporaryDirectory() as folder:
        evaluate(data=rows, target=endpoint, evaluators={"exact": exact}, concurrency=AT_ONCE, results_dir=folder)


def send_with_aiohttp(url: str) -> None:
    import asyncio

    import aiohttp

    async def send_all() -> None:
        free = asyncio.Semaphore(AT_ONCE)

        async def send(number: int) -> object:
            messages = [{"role": "user", "content": f"Question {number}"}]
            body = json.dumps({"model": "m", "messages": messages}).encode()
            headers = {"Content-Type": "application/json"}
            async with free, session.post(f"{url}/chat/completions", data=body, headers=headers) as response:
                return json.loads(await response.read())["choices"][0]["message"]

        async with aiohttp.ClientSession() as session:
            await asyncio.gather(*map(send, range(REQUESTS)))

    asyncio.run(send_all())


def evaluate_samples() -> None:
    from tunecheck import evaluate

    async def target(query: str) -> dict[str, str]:
        return {"response": "Done."}

    rows = [{"id": f"r{number}", "query": f"Question {number}", "ground_truth": "Done."} for number in range(SAMPLES)]
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        evaluate(data=rows, target=target, evaluators={"exact": exact}, results_dir=folder)
        print(json.dumps({"seconds": time.perf_counter() - started}))


INSPECT = f"""\
import json, tempfile, time
from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import match
from inspect_ai.solver import generate

samples = [Sample(input=f"Question {{n}}", target="Done.", id=f"r{{n}}") for n in range({SAMPLES})]
with tempfile.TemporaryDirectory() as folder:
    started = time.perf_counter()
    task = Task(dataset=MemoryDataset(samples), solver=generate(), scorer=match(location="exact"))
    eval(task, model="mockllm/model", display="none", log_dir=folder, max_samples=100, max_connections=100)
    print(json.dumps({{"seconds": time.perf_counter() - started}}))
"""


def compare_http() -> float:
    with slow_model.served("0") as url:
        ours = measure(sys.executable, [__file__, "--run", "endpoint", url]).cpu
        bare = measure(sys.executable, [__file__, "--run", "aiohttp", url]).cpu
    print(f"  http: {ours:.2f} CPU s, aiohttp {bare:.2f} CPU s", flush=True)
    return ours / bare


def compare_inspect() -> float:
    python = make_environment("inspect", "inspect_ai==0.3.*")
    ours = SAMPLES / measure(sys.executable, [__file__, "--run", "samples"])["seconds"]
    theirs = SAMPLES / measure(python, ["-c", INSPECT])["seconds"]
    print(f"  inspect: {ours:,.0f} rows/s, inspect_ai {theirs:,.0f} rows/s", flush=True)
    return ours / theirs


CASES: dict[str, tuple[Callable[[], float], str]] = {
    "http": (compare_http, "x the CPU of aiohttp (at most 2)"),
    "inspect": (compare_inspect, "x the rows a second of inspect_ai (at least 5)"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--only", choices=sorted(CASES))
    parser.add_argument("--run", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        match given.run:
            case ["endpoint", url]:
                evaluate_endpoint(url)
            case ["aiohttp", url]:
                send_with_aiohttp(url)
            case _:
                evaluate_samples()
        return
    for name, (compare, unit) in CASES.items():
        if given.only in (None, name):
            ratios = sorted(compare() for _ in range(given.pairs))
            low, high = (ratios[1], ratios[-2]) if len(ratios) > 3 else (ratios[0], ratios[-1])
            print(f"{name}: {statistics.median(ratios):.2f} ({low:.2f} to {high:.2f}) {unit}", flush=True)


if __name__ == "__main__":
    main()
