"""A run that several workers share, seen from who began it: workers started, watched, and ended in order."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from tunecheck._errors import INTERRUPTED, RunError
from tunecheck._files import WorkerEntry
from tunecheck._messages import counted
from tunecheck._notebook import NotebookProgress
from tunecheck._progress import Progress, ProgressBar, ProgressCallback
from tunecheck.evaluation._worker import process_name
from tunecheck.pipeline._chunks import cut
from tunecheck.pipeline._plan import Plan
from tunecheck.runs._authorship import began_here
from tunecheck.runs._claims import Claims, Moment, size_of
from tunecheck.runs._shares import SharedLimits
from tunecheck.runs._store import Run

_LOOKED_EVERY_S = 0.3

_ENDED_WITHIN_S = 0.03
"""Between two looks whether a worker's process has ended, which cost next to nothing."""

_GRACE_S = 15.0
"""How long workers may take to end in order: a little longer than they give calls under way."""

_MOST_WITHOUT_PROGRESS = 3
"""So often in a row a worker is started again while no row gets finished."""


class Launcher(Protocol):
    """What starts workers of a run somewhere, and starts them again."""

    @property
    def count(self) -> int:
        """How many there are to be."""

    def start(self, run: Path) -> None:
        """Start them."""

    def look(self, claims: Claims, finished: int) -> None:
        """Start again what has died; so many rows are finished.

        Raises:
            RunError: a worker says that the run cannot go on, or they die again and again.
        """

    def wait(self, seconds: float) -> None:
        """Wait so long, or until one that is seen from here ends."""

    def stop(self) -> None:
        """End them in order: calls under way get some seconds."""


@contextlib.contextmanager
def finished_by(
    launcher: Launcher, plan: Plan, claims: Claims, limits: SharedLimits, show: ProgressCallback | None
) -> Iterator[None]:
    """Have workers finish all chunks of a run, and show how far they are; they end while what they did is joined.

    Raises:
        RunError: as `Launcher.look`.
    """
    assert plan.row_count is not None
    assert plan.folder is not None
    limits.prepare(plan.pace.max_cost)  # first: who sees chunks looks for it
    claims.prepare(cut(plan, plan.row_count, launcher.count))
    try:
        try:
            _watch(launcher, plan.folder, claims, show)
        finally:
            if isinstance(show, (ProgressBar, NotebookProgress)):
                show.close()
        yield
    finally:
        launcher.stop()


def _watch(launcher: Launcher, run: Path, claims: Claims, show: ProgressCallback | None) -> None:
    rows = sum(map(size_of, claims.chunks))
    if not claims.finished:
        launcher.start(run)
    while not claims.finished:
        moment = claims.moment()
        launcher.look(claims, moment.finished)
        if show is not None:
            _show(show, moment, rows, claims)
        launcher.wait(_LOOKED_EVERY_S)


def _show(show: ProgressCallback, moment: Moment, rows: int, claims: Claims) -> None:
    working = len({held.lease.owner for held in claims.working()})
    remark = f"{counted(working, 'worker')}, {moment.under_way:,} rows under way"
    remark += f", cost {moment.cost:.4g}" if moment.cost else ""
    show(Progress(rows, moment.answered, moment.finished, moment.failed, moment.reused, remark))


def workers_of(claims: Claims) -> list[WorkerEntry]:
    """Who finished the chunks of a run, in the order in which they began."""
    found: dict[str, WorkerEntry] = {}
    for each in (claims.done_with(chunk).worker for chunk in sorted(claims.done())):
        known = found.get(each.id)
        found[each.id] = each if known is None else _together(known, each)
    return sorted(found.values(), key=lambda worker: (worker.started, worker.id))


def _together(one: WorkerEntry, other: WorkerEntry) -> WorkerEntry:
    return WorkerEntry(
        id=one.id,
        host=one.host,
        versions=one.versions,
        started=min(one.started, other.started),
        ended=max(one.ended, other.ended),
        chunks=one.chunks + other.chunks,
        rows=one.rows + other.rows,
        taken_over=one.taken_over + other.taken_over,
    )


@dataclass
class _Process:
    process: subprocess.Popen[bytes]
    said: IO[bytes]

    def last_words(self) -> str:
        self.said.seek(0)
        lines = self.said.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1].removeprefix("error: ") if lines else f"exit code {self.process.returncode}"


@dataclass
class LocalWorkers:
    """Workers as processes of this machine; each ends when this process does, for its standard input ends then."""

    count: int
    command: Sequence[str]
    """What starts one, but for the run."""
    _processes: list[_Process] = field(default_factory=list)
    _run: Path | None = None
    _finished: int = -1
    _deaths: int = 0

    def start(self, run: Path) -> None:
        """As `Launcher.start`."""
        self._run = run
        for _ in range(self.count):
            self._start_one(run)

    def _start_one(self, run: Path) -> None:
        said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        # That a run goes on that was begun elsewhere was typed here; of one's own a worker sees for itself that it is.
        allowed = [] if began_here(Run(run).manifest()) else ["--trust", str(run)]
        process = subprocess.Popen(  # noqa: S603 - our own program
            [*self.command, *allowed, str(run)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,  # Ctrl-C is for this process, which ends them in order
        )
        self._processes.append(_Process(process, said))

    def look(self, claims: Claims, finished: int) -> None:
        """As `Launcher.look`."""
        ended = [each for each in self._processes if each.process.poll() is not None]
        if finished > self._finished:
            self._finished, self._deaths = finished, 0
        for each in ended:
            self._processes.remove(each)
            code, words = each.process.returncode, each.last_words()
            self._close(each)
            if code > 0 and code != INTERRUPTED:
                raise RunError(words)
            if code:
                self._deaths += 1
                if self._deaths > _MOST_WITHOUT_PROGRESS * self.count:
                    raise RunError(f"workers die again and again, the last with exit code {code}: {words}")
                claims.release(process_name(each.process.pid))
                assert self._run is not None
                self._start_one(self._run)

    def wait(self, seconds: float) -> None:
        """As `Launcher.wait`."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and all(each.process.poll() is None for each in self._processes):
            time.sleep(_ENDED_WITHIN_S)

    def stop(self) -> None:
        """As `Launcher.stop`."""
        for each in self._processes:
            if each.process.stdin is not None:
                with contextlib.suppress(OSError):
                    each.process.stdin.close()
        until = time.monotonic() + _GRACE_S
        try:
            for each in self._processes:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    each.process.wait(max(0.0, until - time.monotonic()))
        finally:
            for each in self._processes:
                each.process.kill()
                each.process.wait()
                self._close(each)
            self._processes.clear()

    def _close(self, each: _Process) -> None:
        each.said.close()
        if each.process.stdin is not None:
            with contextlib.suppress(OSError):
                each.process.stdin.close()
