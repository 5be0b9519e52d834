"""Tunecheck's side of the benchmarks: `python cases_ours.py CASE [ARGUMENT…]` prints what it measured as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import made_data

Measured = dict[str, float]


def exact(response: str, ground_truth: str) -> dict[str, float]:
    return {"score": float(response == ground_truth)}


def _timed(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def trivial(rows: int) -> Measured:
    from tunecheck import evaluate

    with tempfile.TemporaryDirectory() as folder:
        data = made_data.sentences(Path(folder) / "rows.jsonl", rows)
        seconds = _timed(lambda: evaluate(data=data, evaluators={"exact": exact}, results_dir=folder))
    return {"seconds": seconds, "rows_per_second": rows / seconds}


def _text_evaluators() -> Mapping[str, object]:
    from tunecheck import BleuScoreEvaluator, GleuScoreEvaluator, MeteorScoreEvaluator, RougeScoreEvaluator, RougeType

    return {
        "bleu": BleuScoreEvaluator(),
        "gleu": GleuScoreEvaluator(),
        "meteor": MeteorScoreEvaluator(),
        "rouge": RougeScoreEvaluator(rouge_type=RougeType.ROUGE_L),
    }


def text(rows: int, workers: int) -> Measured:
    from tunecheck import evaluate

    with tempfile.TemporaryDirectory() as folder:
        data = made_data.sentences(Path(folder) / "rows.jsonl", rows)
        seconds = _timed(
            lambda: evaluate(data=data, evaluators=_text_evaluators(), results_dir=folder, workers=workers)
        )
    return {"seconds": seconds, "rows_per_second": rows / seconds}


def slow_target(rows: int) -> Measured:
    from tunecheck import evaluate

    async def target(response: str) -> dict[str, str]:
        await asyncio.sleep(0.05)
        return {"response": response}

    with tempfile.TemporaryDirectory() as folder:
        data = made_data.sentences(Path(folder) / "rows.jsonl", rows)
        seconds = _timed(
            lambda: evaluate(
                data=data, target=target, evaluators=_text_evaluators(), results_dir=folder, concurrency=10, workers=1
            )
        )
    return {"seconds": seconds, "ideal_seconds": rows * 0.05 / 10}


def dict_rows(rows: int) -> Measured:
    from tunecheck import ArgumentMatchEvaluator, FunctionCallMatchEvaluator, evaluate

    with tempfile.TemporaryDirectory() as folder:
        data = made_data.calls(Path(folder) / "rows.jsonl", rows)
        evaluators = {"function_call_match": FunctionCallMatchEvaluator(), "argument_match": ArgumentMatchEvaluator()}
        config = {"default": {"column_mapping": {"tool_definitions": "${data.tool_definition}"}}}
        started = time.perf_counter()
        result = evaluate(data=data, evaluators=evaluators, evaluator_config=config, results_dir=folder)
        seconds = time.perf_counter() - started
        output = (result.run_dir / "eval_results.jsonl").stat().st_size
        return {"seconds": seconds, "input_bytes": data.stat().st_size, "output_bytes": output}


def calls(rows: int) -> Measured:
    """All three evaluators of calls on recorded answers, with tool definitions; `cpu_seconds` is this process's."""
    from tunecheck import ArgumentMatchEvaluator, FunctionCallMatchEvaluator, MatchEvaluator, evaluate

    with tempfile.TemporaryDirectory() as folder:
        data = made_data.calls(Path(folder) / "rows.jsonl", rows)
        evaluators = {
            "function_call_match": FunctionCallMatchEvaluator(),
            "argument_match": ArgumentMatchEvaluator(),
            "match": MatchEvaluator(),
        }
        config = {"default": {"column_mapping": {"tool_definitions": "${data.tool_definition}"}}}
        spent = time.process_time()
        seconds = _timed(
            lambda: evaluate(data=data, evaluators=evaluators, evaluator_config=config, results_dir=folder)
        )
        return {"seconds": seconds, "cpu_seconds": time.process_time() - spent, "rows_per_second": rows / seconds}


def many_tools(rows: int, tools: int) -> Measured:
    """`function_call_match` where each row has many tools of its own."""
    from tunecheck import FunctionCallMatchEvaluator, evaluate

    with tempfile.TemporaryDirectory() as folder:
        data = made_data.many_tools(Path(folder) / "rows.jsonl", rows, tools)
        evaluators = {"function_call_match": FunctionCallMatchEvaluator()}
        spent = time.process_time()
        seconds = _timed(lambda: evaluate(data=data, evaluators=evaluators, results_dir=folder))
        return {"seconds": seconds, "cpu_seconds": time.process_time() - spent, "input_bytes": data.stat().st_size}


def function(rows: int) -> Measured:
    """A synchronous function as the target, which takes no time, and a trivial evaluator."""
    from tunecheck import evaluate

    def repeat(response: str) -> str:
        return response

    with tempfile.TemporaryDirectory() as folder:
        data = made_data.sentences(Path(folder) / "rows.jsonl", rows)
        spent = time.process_time()
        seconds = _timed(lambda: evaluate(data=data, target=repeat, evaluators={"exact": exact}, results_dir=folder))
        spent = time.process_time() - spent
        return {"seconds": seconds, "cpu_seconds": spent, "rows_per_cpu_second": rows / spent}


def million(rows: int) -> Measured:
    from tunecheck import evaluate

    def length(response: str) -> dict[str, int]:
        return {"length": len(response)}

    def stream() -> Iterator[dict[str, object]]:
        for number in range(rows):
            yield {"response": made_data.kilobyte(number)}

    with tempfile.TemporaryDirectory() as folder:
        seconds = _timed(lambda: evaluate(data=stream(), evaluators={"length": length}, results_dir=folder))
    return {"seconds": seconds, "rows_per_second": rows / seconds}


CASES: Mapping[str, Callable[..., Measured]] = {
    "trivial": trivial,
    "text": text,
    "slow_target": slow_target,
    "dict_rows": dict_rows,
    "calls": calls,
    "many_tools": many_tools,
    "function": function,
    "million": million,
}

if __name__ == "__main__":
    print(json.dumps(CASES[sys.argv[1]](*map(int, sys.argv[2:]))))
