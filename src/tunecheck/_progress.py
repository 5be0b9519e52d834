"""How far a run is: what a caller may be told, and the bar on a terminal."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tunecheck._messages import clean

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress

_WINDOW_S = 20.0
"""The rate is that of the last so many seconds: rows reused from another run rush by and should not count long."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A moment of a run: rows in all (None where not known), answered, finished, failed, reused of another run.

    `remark` says what holds the run back, where something does.
    """

    rows: int | None
    answered: int
    finished: int
    failed: int
    reused: int
    remark: str = ""


ProgressCallback = Callable[[Progress], None]


class Throughput:
    """Rows a second, and what is left at that pace, from counts noted as they come."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first: tuple[float, int] | None = None
        self._noted: deque[tuple[float, int]] = deque()

    def note(self, finished: int) -> None:
        """So many rows are finished by now."""
        now = self._clock()
        self._first = self._first or (now, finished)
        self._noted.append((now, finished))
        while self._noted[0][0] < now - _WINDOW_S:
            self._noted.popleft()

    @property
    def rate(self) -> float | None:
        """Rows a second lately; over the whole time where lately none was finished; None before the first."""
        return self._since(self._noted[0]) or self._since(self._first) if self._noted else None

    def left_s(self, rows: int | None) -> float | None:
        """Seconds that the rest of so many rows takes; None where nobody can know."""
        rate = self.rate
        return None if rows is None or not rate else max(0, rows - self._noted[-1][1]) / rate

    def _since(self, start: tuple[float, int] | None) -> float | None:
        now, finished = self._noted[-1]
        return (finished - start[1]) / (now - start[0]) if start and now > start[0] else None


class ProgressBar:
    """A bar on standard error: rows done, rate, errors, time left."""

    def __init__(
        self, label: str, *, console: Console | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._label = label
        self._console = console
        self._rows_done = Throughput(clock)
        self._bar: RichProgress | None = None

    def __call__(self, progress: Progress) -> None:
        """Show a moment."""
        bar = self._bar or self._start(progress.rows)
        self._rows_done.note(progress.finished)
        left = self._rows_done.left_s(progress.rows)
        bar.update(
            bar.tasks[0].id,
            completed=progress.finished,
            total=progress.rows,
            rate=rate_text(self._rows_done.rate),
            failed=_failed(progress.failed),
            left=f"{duration_text(left)} left" if left is not None else "",
            remark=progress.remark,
        )

    def _start(self, rows: int | None) -> RichProgress:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress as RichProgress, TextColumn

        self._bar = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}", markup=False),
            TextColumn("{task.fields[failed]}"),
            TextColumn("{task.fields[left]}", markup=False),
            TextColumn("{task.fields[remark]}", markup=False),
            console=self._console or Console(stderr=True),
            transient=True,
            expand=True,
        )
        self._bar.add_task(clean(self._label, 24), total=rows, rate="", failed="", left="", remark="")
        self._bar.start()
        return self._bar

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def rate_text(rate: float | None) -> str:
    """`12 rows/s`; empty where nothing is known."""
    if not rate:
        return ""
    return f"{rate:,.0f} rows/s" if rate >= 10 else f"{rate:.1f} rows/s" if rate >= 0.1 else f"{rate * 60:.1f} rows/min"


def _failed(rows: int) -> str:
    return f"[red]{rows:,} error{'s' if rows > 1 else ''}[/red]" if rows else "no errors"


def duration_text(seconds: float) -> str:
    """`1:02:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
