"""Tunecheck's side of the benchmark of conversations: `python cases_bfcl_ours.py CASES MODE PASSES DATA`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.bfcl_check_parts import check_conversation

from tunecheck.episodes import CallMode, Services
from tunecheck_bfcl._data.files import find_bfcl
from tunecheck_bfcl._data.prompts import read_long_context


def conversations(cases: str, mode: CallMode, passes: str, data: str) -> None:
    """Judge each conversation as the leaderboard does; the seconds of each pass, and what was valid."""
    with open(cases, encoding="utf-8") as file:
        given = [json.loads(line) for line in file]
    long_context = read_long_context(find_bfcl(Path(data)))
    seconds = []
    for number in range(int(passes)):
        started = time.perf_counter()
        simulators = Services(long_context=lambda: long_context)
        verdicts = [
            check_conversation(
                case["entry"], case[mode], compat=True, services=simulators, mode=mode, model=f"model{number}"
            )
            for case in given
        ]
        seconds.append(time.perf_counter() - started)
    print(json.dumps({"seconds": seconds, "valid": sum(bool(verdict.valid) for verdict in verdicts)}))


if __name__ == "__main__":
    conversations(sys.argv[1], "text" if sys.argv[2] == "text" else "tools", *sys.argv[3:])
