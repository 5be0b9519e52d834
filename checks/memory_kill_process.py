"""A warm process that forks one run after another, each of which may be killed at a certain record of its event log.

    python memory_kill_process.py

Reads a line of JSON from standard input for each run: `{"folder", "config", "endpoint", "isolated", "resume", "die"}`,
where `die` is null or `[record, bytes]`: SIGKILL when that record of the log is due, so many bytes of it being written
(-1: all of it). Prints `pid N` when it has forked, then `ended N` with what the run came to: 0, or minus the signal.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, ClassVar

from tunecheck._records import seal_record
from tunecheck.endpoints import ChatRequest, Completion, Endpoint, Usage, load_endpoint
from tunecheck.plugins import JSON, RecordFile, dumps
from tunecheck_memory import MemoryPlan, Tokenizer, _kinds as kinds, load_tokenizer, run_memory

LATE = (
    "aiohttp",
    "yaml",
    "tunecheck.endpoints._chat",
    "tunecheck_memory._agent_endpoint",
    "tunecheck_memory._agents",
    "tunecheck_memory._evaluator",
    "tunecheck_memory._judging",
    "tunecheck_memory._run_files",
    *(f"tunecheck_memory._kinds.{module.name}" for module in iter_modules(kinds.__path__)),
)
"""What a run imports only when it needs it; here once for all."""


def die_at(record: int, written: int) -> None:
    """SIGKILL to this very process, when the record of that number (from 0) of an event log is to be written."""
    real, count = RecordFile.append, [0]

    def append(self: RecordFile, value: Mapping[str, object]) -> int:
        if self.path.name == "events.jsonl":
            count[0] += 1
            if count[0] - 1 == record:
                line = seal_record(dumps(value), self.count)
                os.write(self._file.fileno(), line if written < 0 else line[:written])
                os.kill(os.getpid(), signal.SIGKILL)
        return real(self, value)

    RecordFile.append = append  # type: ignore[method-assign,assignment]


class Judge(Endpoint):
    """A judge that says yes to everything, and reads every reply as an order of tea."""

    kind: ClassVar[str] = "judge"
    name = "judge"

    async def complete(self, request: ChatRequest) -> Completion:
        tea = {"is_drink": True, "item": "tea", "menu_nr": None, "menu_ref": None, "off_menu": False}
        yes = dict.fromkeys(("follows_role", "noticed", "recalls", "right", "has_ordered_something"), True)
        return Completion(text=json.dumps({**yes, "order": [tea], "reason": "yes"}), usage=Usage(1, 1), latency_ms=0.0)

    def settings(self) -> dict[str, JSON]:
        return {"kind": self.kind}


def run(order: Mapping[str, Any], tokenizer: Tokenizer) -> None:
    """One run, in this process."""
    os.chdir(order["folder"])
    if order["die"] is not None:
        die_at(*order["die"])
    plan = MemoryPlan(
        configuration=order["config"],
        endpoint=load_endpoint(order["endpoint"], name="agent"),
        judge=Judge(),
        isolated=order["isolated"],
        max_prompt_size=order["max_prompt_size"],
        tokenizer=tokenizer,
        clock=order["clock"],
    )
    run_memory(plan, resume="last" if order["resume"] else None)


def forked(order: Mapping[str, Any], tokenizer: Tokenizer) -> int:
    """The pid of a process that does it."""
    pid = os.fork()
    if pid:
        return pid
    try:
        run(order, tokenizer)
    except BaseException:  # said, and the process ends
        traceback.print_exc()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)


def main() -> None:
    """Fork until standard input ends."""
    for module in LATE:
        import_module(module)
    tokenizer = load_tokenizer()
    tokenizer.count("warm")
    for line in sys.stdin:
        pid = forked(json.loads(line), tokenizer)
        print(f"pid {pid}", flush=True)
        _, status = os.waitpid(pid, 0)
        print(f"ended {os.waitstatus_to_exitcode(status)}", flush=True)


if __name__ == "__main__":
    main()
