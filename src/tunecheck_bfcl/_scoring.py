"""Scores of result trees: a verdict for every row, and the figures that the leaderboard makes of them.

Several processes score where that is worth their start, each one file at a time (`tunecheck_bfcl._scorer`).
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import cast, get_args

from tunecheck._describe import one_of
from tunecheck._errors import DataError, RunError
from tunecheck._json import JSON, dumps_line, loads
from tunecheck.episodes._decoding import CallMode
from tunecheck.episodes._verdicts import RowVerdict
from tunecheck_bfcl._data.files import find_bfcl
from tunecheck_bfcl._decoding import Names
from tunecheck_bfcl._result_files import ResultFile, asked_in_mode, find_results
from tunecheck_bfcl._scorer import Scorer
from tunecheck_bfcl._summary import CategoryScore, ModelScore

_START_S = 0.5
# Seconds that a byte of a result file takes, in conversations and in single answers, on an ordinary machine.
_PER_BYTE_S = {True: 1e-7, False: 2e-7}


@dataclass(frozen=True, slots=True)
class Scores:
    """What was scored: `models` by name, and the files of categories that are not checked here."""

    compat: bool
    models: dict[str, ModelScore]
    passed_over: list[Path]


def score_results(
    path: Path,
    *,
    compat: bool = True,
    mode: CallMode | None = None,
    names: Names = "auto",
    data: Path | None = None,
    workers: int | None = None,
) -> Scores:
    """Score a result file or a tree of them.

    Args:
        path: a file `BFCL_v4_<category>_result.json`, or a folder above some.
        compat: judge exactly as the leaderboard does; else strictly.
        mode: how the models were asked, where that is known; by default their results tell.
        names: how the leaderboard expects functions with dots in their names: "dotted", "underscored", or "auto", as
            each row's calls spell them; strictly, either way is right.
        data: the copy of BFCL, where not the usual one.
        workers: how many processes; by default as many as pay for their start.

    Raises:
        ConfigurationError: `names` is none of these.
        DataError: there are no result files, or the data is not there.
    """
    one_of(names, get_args(Names), "names")
    tree = find_results(path)
    files = find_bfcl(data)
    tasks = [(file, mode or asked_in_mode(group)) for group in tree.models.values() for file in group]
    count = _worker_count([file for file, _ in tasks]) if workers is None else workers
    if count > 1:
        settings: JSON = {"package": str(files.package), "data": str(files.data), "compat": compat, "names": names}
        scored = _score_in_processes(tasks, settings, workers=count)
    else:
        scorer = Scorer(files, compat=compat, names=names)
        scored = {file.path: scorer.score(file, file_mode) for file, file_mode in tasks}
    models = {
        name: ModelScore(name, {file.category.name: scored[file.path] for file in group})
        for name, group in tree.models.items()
    }
    return Scores(compat, models, tree.passed_over)


def _worker_count(files: Sequence[ResultFile]) -> int:
    seconds = sum(file.path.stat().st_size * _PER_BYTE_S[file.category.multi_turn] for file in files)
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(available, len(files), int(seconds / (4 * _START_S))))


def _score_in_processes(
    tasks: Sequence[tuple[ResultFile, CallMode]], settings: JSON, *, workers: int
) -> dict[Path, CategoryScore]:
    waiting: SimpleQueue[tuple[ResultFile, CallMode]] = SimpleQueue()
    for task in sorted(tasks, key=lambda task: -task[0].path.stat().st_size):
        waiting.put(task)
    with ThreadPoolExecutor(workers) as pool:
        done = [pool.submit(_drive_worker, waiting, settings) for _ in range(workers)]
        return {path: score for each in done for path, score in each.result().items()}


def _drive_worker(waiting: SimpleQueue[tuple[ResultFile, CallMode]], settings: JSON) -> dict[Path, CategoryScore]:
    command = [sys.executable, "-P", "-m", "tunecheck_bfcl._scorer"]
    scored: dict[Path, CategoryScore] = {}
    # Workers import the same modules from the same places, however this process was told of them.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(  # noqa: S603 - our own module
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(dumps_line(settings))
        while True:
            try:
                file, mode = waiting.get_nowait()
            except Empty:
                return scored
            asked: JSON = {"path": str(file.path), "model": file.model, "category": file.category.name, "mode": mode}
            worker.stdin.write(dumps_line(asked))
            worker.stdin.flush()
            scored[file.path] = _read_reply(file, worker.stdout.readline())


def _read_reply(file: ResultFile, reply: bytes) -> CategoryScore:
    if not reply:
        raise RunError(f"a worker process ended while it scored {file.path}")
    value = cast("dict[str, JSON]", loads(reply))
    if "error" in value:
        raise DataError(str(value["error"]))
    lines = cast("list[dict[str, JSON]]", value["lines"])
    verdicts = [(cast("str", line.pop("id")), RowVerdict(**line)) for line in lines]  # type: ignore[arg-type]
    return CategoryScore(file.category.name, verdicts, cast("int", value["missing"]))
