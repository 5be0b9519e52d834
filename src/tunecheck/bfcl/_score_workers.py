"""Several processes that score result files, each started with `python -m`, one file at a time.

A task goes to a worker as one line of JSON, and its verdicts come back as one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import cast

from tunecheck._errors import DataError, RunError, TunecheckError
from tunecheck._json import JSON, dumps_line, loads
from tunecheck.bfcl._decoding import Mode
from tunecheck.bfcl._result_files import ResultFile
from tunecheck.bfcl._scoring import Scorer
from tunecheck.bfcl._summary import CategoryScore
from tunecheck.bfcl._verdicts import Verdict
from tunecheck.datasets._bfcl.categories import CATEGORIES
from tunecheck.datasets._bfcl.files import BfclFiles

_START_S = 0.5
_PER_BYTE_S = {True: 1e-7, False: 2e-7}
"""Seconds that a byte of a result file takes, in conversations and in single answers, on an ordinary machine."""

Told = Callable[[ResultFile, CategoryScore], None]


def worth_while(files: Sequence[ResultFile]) -> int:
    """How many processes pay for their start."""
    seconds = sum(file.path.stat().st_size * _PER_BYTE_S[file.category.multi_turn] for file in files)
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(available, len(files), int(seconds / (4 * _START_S))))


def score_side_by_side(
    tasks: Sequence[tuple[ResultFile, Mode]],
    files: BfclFiles,
    *,
    compat: bool,
    workers: int,
    told: Told | None = None,
) -> dict[Path, CategoryScore]:
    """The scores of result files, by path; the largest are begun with.

    Raises:
        RunError: a worker process ended.
    """
    waiting: SimpleQueue[tuple[ResultFile, Mode]] = SimpleQueue()
    for task in sorted(tasks, key=lambda task: -task[0].path.stat().st_size):
        waiting.put(task)
    settings: JSON = {"package": str(files.package), "data": str(files.data), "compat": compat}
    with ThreadPoolExecutor(workers) as pool:
        done = [pool.submit(_attend, waiting, settings, told) for _ in range(workers)]
        return {path: score for each in done for path, score in each.result().items()}


def _attend(
    waiting: SimpleQueue[tuple[ResultFile, Mode]], settings: JSON, told: Told | None
) -> dict[Path, CategoryScore]:
    """Give one worker task after task until none is left."""
    command = [sys.executable, "-P", "-m", "tunecheck.bfcl._score_workers"]
    scored: dict[Path, CategoryScore] = {}
    with subprocess.Popen(  # noqa: S603 - our own module
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment()
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(dumps_line(settings))
        while task := _next(waiting):
            file, mode = task
            asked: JSON = {"path": str(file.path), "model": file.model, "category": file.category.name, "mode": mode}
            worker.stdin.write(dumps_line(asked))
            worker.stdin.flush()
            scored[file.path] = _score(file, worker.stdout.readline())
            if told is not None:
                told(file, scored[file.path])
    return scored


def _next(waiting: SimpleQueue[tuple[ResultFile, Mode]]) -> tuple[ResultFile, Mode] | None:
    try:
        return waiting.get_nowait()
    except Empty:
        return None


def _score(file: ResultFile, reply: bytes) -> CategoryScore:
    if not reply:
        raise RunError(f"a worker process ended while it scored {file.path}")
    value = cast("dict[str, JSON]", loads(reply))
    if "error" in value:
        raise DataError(str(value["error"]))
    lines = cast("list[dict[str, JSON]]", value["lines"])
    verdicts = [(cast("str", line.pop("id")), Verdict(**line)) for line in lines]  # type: ignore[arg-type]
    return CategoryScore(file.category.name, verdicts, cast("int", value["missing"]))


def _environment() -> dict[str, str]:
    """The same modules are found where ours were, however that was said."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def main() -> None:
    """Score what comes in, until nothing comes any more."""
    settings = cast("dict[str, str]", loads(sys.stdin.buffer.readline()))
    files = BfclFiles(Path(settings["package"]), Path(settings["data"]))
    scorer = Scorer(files, compat=bool(settings["compat"]))
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(dumps_line(_done(scorer, cast("dict[str, str]", loads(line)))))
        sys.stdout.buffer.flush()


def _done(scorer: Scorer, task: dict[str, str]) -> dict[str, JSON]:
    file = ResultFile(Path(task["path"]), task["model"], CATEGORIES[task["category"]])
    try:
        score = scorer.score(file, "text" if task["mode"] == "text" else "tools")
    except TunecheckError as error:
        return {"error": str(error)}
    return {"lines": [*score.lines()], "missing": score.missing}


if __name__ == "__main__":
    main()
