"""The event loop of a run: start it in any context, report progress, stop in an orderly way on Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Protocol

from tunecheck._errors import LeftAtOnceError, RunInterruptedError
from tunecheck._progress import LiveProgress, Progress, ProgressCallback
from tunecheck._targets import Load
from tunecheck.pipeline._plan import Plan, Tally


class Closable(Protocol):
    """A target or an evaluator with connections to close at the end of a run."""

    async def close(self) -> None:
        """Close the connections."""
        ...


class RunsPlan(Protocol):
    """An engine that runs a plan in an event loop."""

    plan: Plan
    tally: Tally

    async def run(self) -> None:
        """Process all rows.

        Raises:
            RunError: The run was stopped.
        """
        ...

    def stop(self, reason: BaseException) -> None:
        """Start no more work; `run` then raises the reason."""
        ...

    def load(self) -> Load | None:
        """Return the current load limit of the target's service, or None if it has none."""
        ...

    def waiting_for(self) -> str:
        """Return a remark for the progress line; it may be empty."""
        ...


_GRACE_S = 10.0
"""How long calls in flight may take after Ctrl-C."""

_PROGRESS_EVERY_S = 0.1


def run_engine(engine: RunsPlan, closing: Mapping[str, Closable], show: ProgressCallback | None) -> None:
    """Run the engine in a new event loop; if this thread already runs a loop (a notebook), in another thread.

    At the end, close all of `closing` in that loop and restore the working folder.

    Raises:
        RunError: The run was stopped.
    """
    stopper = _Stopper(engine)
    _run_in_loop(lambda: _run(engine, closing, show, stopper), stopper)


def _run_in_loop(run: Callable[[], Coroutine[object, object, None]], stopper: _Stopper) -> None:
    here = Path.cwd()
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        try:
            asyncio.run(run())
        except KeyboardInterrupt:
            stopper.forget()
            raise
    else:
        _run_in_thread(lambda: asyncio.run(run()), stopper)
    finally:
        with contextlib.suppress(OSError):  # the folder was removed meanwhile
            os.chdir(here)


def _run_in_thread(work: Callable[[], None], stopper: _Stopper) -> None:
    failure: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - the calling thread raises it
            failure.append(error)
        finally:
            ended.set()

    # A notebook's stop button interrupts this thread only, and asyncio's signal handler would wait for its loop.
    with _interruptible(stopper):
        threading.Thread(target=run, name="tunecheck-run", daemon=True).start()
        ended.wait()  # not `Thread.join`, which returns as if the thread had ended when it is interrupted
    if failure:
        raise failure[0]


class _Stopper:
    """Asks a run to stop, from a signal handler or another thread."""

    def __init__(self, engine: RunsPlan) -> None:
        self._engine = engine
        self._pending = False
        self.stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[object] | None = None

    @property
    def asked(self) -> bool:
        """True if a stop was requested before."""
        return self._pending or self.stopping

    def bind(self) -> None:
        """Remember the current task as the one to stop."""
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        if self._pending:
            self._stop()

    def ask(self) -> bool:
        """Request an orderly stop: calls in flight get some seconds. A second request ends them.

        Return False if the first request is still pending because code blocks the loop.
        """
        if self._pending:
            return False
        self._pending = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop)
        return True

    def _stop(self) -> None:
        assert self._loop is not None
        assert self._task is not None
        self._pending = False
        if self.stopping:
            self._task.cancel()
            return
        self.stopping = True
        self._engine.stop(RunInterruptedError(None))
        self._loop.call_later(_GRACE_S, self._task.cancel)

    def forget(self) -> None:
        """Retrieve the task's exception, so that asyncio does not report it as never retrieved."""
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.exception()


async def _run(
    engine: RunsPlan, closing: Mapping[str, Closable], show: ProgressCallback | None, stopper: _Stopper
) -> None:
    stopper.bind()
    ticker = asyncio.create_task(_tick(engine, show))
    try:
        with _interruptible(stopper):
            await engine.run()
    finally:
        ticker.cancel()
        if show is not None:
            _show(engine, show)
            if isinstance(show, LiveProgress):
                show.close()
        if (load := engine.load()) is not None and load.refused:
            engine.tally.notes.append(load.sentence())
        for name, each in closing.items():
            await _close(name, each, engine.tally.notes)


async def _tick(engine: RunsPlan, show: ProgressCallback | None) -> None:
    while True:  # also without `show`, because a signal to another thread does not wake the loop
        if show is not None and not _show(engine, show):
            show = None
        await asyncio.sleep(_PROGRESS_EVERY_S)


def _show(engine: RunsPlan, show: ProgressCallback) -> bool:
    """Report the run's progress; return False if the caller's function raised an error, which does not end the run."""
    tally, load = engine.tally, engine.load()
    remark = ", ".join(filter(None, [load.brief() if load is not None else "", engine.waiting_for()]))
    try:
        show(Progress(engine.plan.row_count, tally.answered, tally.finished, tally.failed, tally.reused, remark))
    except Exception as error:  # noqa: BLE001 - an error in a caller's function must not end a costly run
        note = f"progress could not be shown: {type(error).__name__}: {error}"
        if note not in tally.notes:
            tally.notes.append(note)
        return False
    return True


async def _close(name: str, each: Closable, notes: list[str]) -> None:
    try:
        await each.close()
    except Exception as error:  # noqa: BLE001 - all answers are complete: an error of closing must not lose them
        notes.append(f"{name} did not close: {type(error).__name__}: {error}")


@contextlib.contextmanager
def _interruptible(stopper: _Stopper) -> Iterator[None]:
    """Within this block, stop in an orderly way on Ctrl-C and SIGTERM; a second Ctrl-C ends calls in flight at once.

    On a shutdown, SIGTERM may arrive twice, from the scheduler and from the process that started the run; only the
    first counts. The loop's own signal handlers would wait until code that blocks the loop returns.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGTERM and stopper.asked:
            return
        if not stopper.ask():
            raise LeftAtOnceError

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)  # None is a handler that was not set by Python
