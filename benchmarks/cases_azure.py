"""azure-ai-evaluation's side of the benchmarks, run by a python that has it; the same cases, data and measures."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import made_data

Measured = dict[str, float]


def exact(response: str, ground_truth: str) -> dict[str, float]:
    return {"score": float(response == ground_truth)}


def _evaluate(**arguments: object) -> float:
    from azure.ai.evaluation import evaluate

    started = time.perf_counter()
    with open(os.devnull, "w") as silence, contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
        evaluate(**arguments)
    return time.perf_counter() - started


def _text_evaluators() -> Mapping[str, object]:
    from azure.ai.evaluation import (
        BleuScoreEvaluator,
        GleuScoreEvaluator,
        MeteorScoreEvaluator,
        RougeScoreEvaluator,
        RougeType,
    )

    return {
        "bleu": BleuScoreEvaluator(),
        "gleu": GleuScoreEvaluator(),
        "meteor": MeteorScoreEvaluator(),
        "rouge": RougeScoreEvaluator(rouge_type=RougeType.ROUGE_L),
    }


def trivial(rows: int) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        data = made_data.sentences(Path(folder) / "rows.jsonl", rows)
        seconds = _evaluate(data=str(data), evaluators={"exact": exact}, output_path=folder)
    return {"seconds": seconds, "rows_per_second": rows / seconds}


def text(rows: int) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        data = made_data.sentences(Path(folder) / "rows.jsonl", rows)
        seconds = _evaluate(data=str(data), evaluators=_text_evaluators(), output_path=folder)
    return {"seconds": seconds, "rows_per_second": rows / seconds}


def slow_target(rows: int) -> Measured:
    async def target(response: str) -> dict[str, str]:
        await asyncio.sleep(0.05)
        return {"answer": response}

    with tempfile.TemporaryDirectory() as folder:
        data = made_data.sentences(Path(folder) / "rows.jsonl", rows)
        seconds = _evaluate(data=str(data), target=target, evaluators=_text_evaluators(), output_path=folder)
    return {"seconds": seconds, "ideal_seconds": rows * 0.05 / 10}


def exact_dict(tool_definition: object, expected: object) -> dict[str, float]:
    return {"score": float(tool_definition is expected)}


def dict_rows(rows: int) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        data = made_data.calls(Path(folder) / "rows.jsonl", rows)
        seconds = _evaluate(data=str(data), evaluators={"exact": exact_dict}, output_path=folder)
        output = Path(folder, "evaluation_results.json").stat().st_size
        return {"seconds": seconds, "input_bytes": data.stat().st_size, "output_bytes": output}


CASES: Mapping[str, Callable[..., Measured]] = {
    "trivial": trivial,
    "text": text,
    "slow_target": slow_target,
    "dict_rows": dict_rows,
}

if __name__ == "__main__":
    measured = CASES[sys.argv[1]](*map(int, sys.argv[2:]))
    print("\n" + json.dumps(measured))
