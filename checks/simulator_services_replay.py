"""Replays calls as `simulator_reference_replay` does, for the four services; run by the reference's python.

Two things are put right before anything is compared: constants that long-context instances share and change are made
fresh for each case, and an answer that is a list of one refusal counts as the error that it is.
"""

from __future__ import annotations

import copy
import json
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

REFUSALS = ("[{'error'", "['Error:")


def shared_constants() -> list[tuple[Any, Any]]:
    """Each container that a loaded module of the reference holds for long context, with a copy of what it holds."""
    modules = [module for name, module in sys.modules.items() if "func_source_code" in name]
    found = {id(value): value for module in modules for name, value in vars(module).items() if name.isupper()}
    return [(value, copy.deepcopy(value)) for value in found.values() if isinstance(value, (dict, list))]


def restore(constants: list[tuple[Any, Any]]) -> None:
    for value, original in constants:
        fresh = copy.deepcopy(original)
        if isinstance(value, dict):
            value.clear()
            value.update(fresh)
        else:
            value[:] = fresh


def told(result: dict[str, Any]) -> dict[str, Any]:
    return {**result, "error": result["error"] or result["text"].startswith(REFUSALS)}


def main(cases: str, out: str) -> None:
    beside: Any = import_module("simulator_reference_replay")
    makers = import_module("bfcl_eval.constants.executable_backend_config").CLASS_FILE_PATH_MAPPING
    signal.signal(signal.SIGALRM, beside.late)
    all_cases = [json.loads(line) for line in Path(cases).read_text(encoding="utf-8").splitlines()]
    for name in {case["class"] for case in all_cases}:
        import_module(makers[name])
    constants = shared_constants()
    with Path(out).open("w", encoding="utf-8") as answers:
        for case in all_cases:
            restore(constants)
            answer = beside.replay(case, makers)
            answer["results"] = [told(result) for result in answer["results"]]
            answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
