"""Run somebody's code in a thread that is given up, and asked to end, when its time is over."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable


class OverdueError(Exception):
    """The code did not return in time."""


class _EndError(BaseException):
    """Raised inside a thread whose time is over; no `except Exception` stops it."""


def run_watched(work: Callable[[], object], time_limit_s: float) -> object:
    """What `work` returns or raises, if that comes in time.

    A thread that is late is asked to end at its next step in Python code, so that an endless loop does not burn a
    processor for good. Code that stays inside one call of a C function cannot be asked, and one that also keeps the
    interpreter's lock (`10**10**9`) cannot even be given up: a simulator must bound such arguments itself.

    Raises:
        OverdueError: it did not come in time.
        BaseException: whatever `work` raises.
    """
    outcome: list[object] = []
    failed: list[BaseException] = []

    def body() -> None:
        with contextlib.suppress(_EndError):  # it may come just after the work was done
            try:
                outcome.append(work())
            except BaseException as error:  # noqa: BLE001 - handed over to the thread that waits
                failed.append(error)

    thread = threading.Thread(target=body, name="tunecheck-simulator", daemon=True)
    thread.start()
    thread.join(time_limit_s)
    if failed:
        raise failed[0]
    if outcome:
        return outcome[0]
    _end(thread)
    raise OverdueError


def _end(thread: threading.Thread) -> None:
    if thread.ident is not None and thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_EndError))
