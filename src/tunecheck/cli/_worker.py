"""`tunecheck worker`: one of the processes that share a run."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

from tunecheck._errors import INTERRUPTED, ConfigurationError
from tunecheck._messages import command_line
from tunecheck.cli._invocation import DONE, Invocation
from tunecheck.cli._options import RUNNING, argument, command, flag, option
from tunecheck.cli._shared_options import ResultsOptions, TrustOptions


@dataclass(frozen=True, kw_only=True)
class WorkerOptions(ResultsOptions, TrustOptions):
    run: str = argument("A run that was begun with --on: its folder, its id, or last.", "RUN")
    wait: int | None = option("Wait so long for a run to begin whose name is given.", "SECONDS", RUNNING, least=1)
    concurrency: int | None = option("Calls under way at once here.", "N", RUNNING, least=1)
    attached: bool = flag("End when standard input ends.", RUNNING, recorded=False)


@command(WorkerOptions)
def worker(options: WorkerOptions, invocation: Invocation) -> int:
    """Work on a run that several processes share, until nothing of it is left to do.

    Start as many as you like, on any machine that sees the run's folder, with the same version and data. With --wait
    they may be started beside the run itself: tunecheck worker nightly-7 --wait 600

    Exit codes:
    0 nothing is left to do
    1 it failed
    2 wrong use, or another version or other data than those of the run
    143 it was interrupted: what it had is given back, and others go on with it
    """
    where = [] if options.results_dir is None else ["--results-dir", options.results_dir]
    invocation.again = f"{invocation.program} worker {command_line([options.run, *where])}"
    invocation.interrupted = INTERRUPTED

    from tunecheck.cli._evaluate.job import completed, prepare
    from tunecheck.cli._evaluate.options import Options
    from tunecheck.cli._running import trust_of

    if options.attached:
        threading.Thread(target=_end_with_input, name="tunecheck-attached", daemon=True).start()
    given = Options(
        resume=options.run, concurrency=options.concurrency, trust=options.trust, results_dir=options.results_dir
    )
    trust = trust_of(given)
    if options.wait is not None:
        _wait_for(options.run, options.folder, options.wait)
    invocation = replace(invocation, takes_options=False)
    prepare(completed(given, trust, invocation), trust, invocation).work()
    return DONE


def _wait_for(run: str, folder: Path, seconds: int) -> None:
    """Until a run has begun that workers share, or is finished.

    Raises:
        ConfigurationError: there is none after so many seconds.
    """
    from tunecheck.runs._claims import Claims
    from tunecheck.runs._store import find_run
    from tunecheck.storage._shipping import look_again

    if run == "last":
        raise ConfigurationError("--wait: 'last' is an earlier run; give the name of the one to come (evaluate --name)")
    until = time.monotonic() + seconds
    while True:
        problem = f"run {run} was not begun with --on"
        try:
            found = find_run(run, folder)
            if found.manifest().status == "finished" or Claims.of(found).exist:
                return
        except ConfigurationError as error:
            problem = str(error)
        if time.monotonic() > until:
            raise ConfigurationError(f"{problem}; waited {seconds:,} s for it")
        time.sleep(1)
        look_again(folder)


def _end_with_input() -> None:
    """Whoever started this process holds the other end, and has closed it or is gone."""
    # Not sys.stdin: Python's end would wait for its lock, which this thread holds, and abort the process.
    while os.read(0, 1024):
        pass
    signal.raise_signal(signal.SIGTERM)
