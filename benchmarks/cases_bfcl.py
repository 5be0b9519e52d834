"""BFCL's side of the benchmarks, run by a python that has `bfcl-eval`: its own decoders, checker and evaluation.

python cases_bfcl.py conversations CASES MODE PASSES
python cases_bfcl.py command RESULT_DIR MODEL CATEGORIES SCORE_DIR
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any


def conversations(cases: str, mode: str, passes: str) -> None:
    """Decode and check each conversation as BFCL's runner does; the seconds of each pass, and what was valid."""
    checker = _module("eval_checker.multi_turn_eval.multi_turn_checker")
    utils = _module("model_handler.utils")
    check, is_empty = checker.multi_turn_checker, checker.is_empty_execute_response
    decode = utils.convert_to_function_call if mode == "tools" else utils.default_decode_execute_prompting

    def valid(case: dict[str, Any], model: str) -> bool:
        turns = []
        for turn in case[mode]:
            steps = [decode(step) for step in turn]
            turns.append([step for step in steps if not is_empty(step)])
        entry = case["entry"]
        return bool(check(turns, entry["ground_truth"], entry, case["category"], model)["valid"])

    with open(cases, encoding="utf-8") as file:
        given = [json.loads(line) for line in file]
    seconds = []
    for number in range(int(passes)):
        started = time.perf_counter()
        # A model of another name each time: the checker keeps a conversation's simulators for the next with its name.
        found = sum(valid(case, f"model{number}") for case in given)
        seconds.append(time.perf_counter() - started)
    print(json.dumps({"seconds": seconds, "valid": found}))


def _module(name: str) -> Any:
    return import_module(f"bfcl_eval.{name}")


def command(results: str, model: str, categories: str, scores: str) -> None:
    """What `bfcl evaluate` does once its own imports of all vendors' clients are done, which it does not need."""
    _module("eval_checker.eval_runner").main([model], categories.split(","), results, scores)


if __name__ == "__main__":
    cases: dict[str, Callable[..., None]] = {"conversations": conversations, "command": command}
    cases[sys.argv[1]](*sys.argv[2:])
