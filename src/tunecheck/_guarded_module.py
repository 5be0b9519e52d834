"""Run a module in a process that ends with its parent: `python -m tunecheck._guarded_module MODULE`.

A guard process kills the process group soon after the parent has closed the pipe of the standard input, even if user
code hangs. It is forked before the module is imported: with the imports, each page of memory that is written after the
fork is copied, which takes a worker about 10 ms more CPU.
"""

import os
import runpy
import select
import signal
import sys
import time
from typing import NoReturn

PATIENCE_S = 2.0
"""Time for a process to end by itself before it is killed."""


def _guard() -> NoReturn:
    """Wait until the parent closes the pipe, give this process group time to end, and kill it."""
    os.close(1)  # else the parent would not see the end of the replies
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)

    # Standard input is the pipe: without requested events, `poll` returns only when the parent closes it.
    closed = select.poll()
    closed.register(0, 0)
    closed.poll()

    time.sleep(PATIENCE_S)
    os.killpg(0, signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    if not os.fork():
        _guard()
    runpy.run_module(sys.argv[1], run_name="__main__", alter_sys=True)
