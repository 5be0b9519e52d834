"""The progress of a run: data for callbacks, and progress bars for terminals and notebooks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from tunecheck._messages import clean

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress

    class _NotebookDisplay(Protocol):
        def update(self, shown: object) -> None: ...


_LEAST_S = 0.1
"""Minimum time in seconds before a rate is shown."""


class Progress(msgspec.Struct, frozen=True):
    """A snapshot of a run: the numbers of all rows (None if unknown), answered, finished, failed, and reused rows.

    `remark` names what the run is waiting for, if anything.
    """

    rows: int | None
    answered: int
    finished: int
    failed: int
    reused: int
    remark: str = ""


ProgressCallback = Callable[[Progress], None]


class Throughput:
    """Rows per second since the beginning, and the time left; reused rows do not count, because they finish quickly."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = clock()

    def texts_of(self, progress: Progress) -> tuple[str, str]:
        """Return the rate and the time left as texts; empty if unknown."""
        passed_s = self._clock() - self._begun
        rate = (progress.finished - progress.reused) / passed_s if passed_s >= _LEAST_S else 0.0
        if rate <= 0 or progress.rows is None:
            return rate_text(rate), ""
        return rate_text(rate), f"{duration_text(max(0, progress.rows - progress.finished) / rate)} left"


class ProgressBar:
    """A bar on standard error: rows done, rate, errors, time left."""

    def __init__(
        self, label: str, *, console: Console | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Prepare a bar with this label; it appears with the first snapshot."""
        self._label = label
        self._console = console
        self._throughput = Throughput(clock)
        self._bar: RichProgress | None = None

    def __call__(self, progress: Progress) -> None:
        """Show a snapshot."""
        bar = self._bar or self._start(progress.rows)

        rate, left = self._throughput.texts_of(progress)
        task, done, rows, failed = bar.tasks[0].id, progress.finished, progress.rows, _errors_text(progress.failed)
        bar.update(task, completed=done, total=rows, rate=rate, failed=failed, left=left, remark=progress.remark)

    def _start(self, rows: int | None) -> RichProgress:
        """Show a new bar for this number of rows (None: unknown) and return it."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress as RichProgress, TextColumn

        console = self._console or Console(stderr=True)
        columns = [TextColumn("{task.description}", markup=False), BarColumn(bar_width=None), MofNCompleteColumn()]
        fields = ("rate", "failed", "left", "remark")
        texts = [TextColumn(f"{{task.fields[{name}]}}", markup=name == "failed") for name in fields]

        self._bar = RichProgress(*columns, *texts, console=console, transient=True, expand=True)
        self._bar.add_task(clean(self._label, 24), total=rows, rate="", failed="", left="", remark="")
        self._bar.start()
        return self._bar

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class NotebookProgress:
    """A line below the cell: rows done, rate, errors, time left; removed at the end of the run."""

    def __init__(self, label: str) -> None:
        """Show an empty line with this label below the current cell."""
        from IPython.display import HTML, display

        self._label, self._throughput, self._html = clean(label, 60), Throughput(), HTML
        # Created here, in the cell's thread: the engine may run in another thread, which has no cell.
        self._shown: _NotebookDisplay = display(HTML(""), display_id=True)

    def __call__(self, progress: Progress) -> None:
        """Show a snapshot."""
        from html import escape  # imported here because it loads a table of all entity names

        rate, left = self._throughput.texts_of(progress)
        of_rows = "" if progress.rows is None else f" of {progress.rows:,}"
        failed = f"{progress.failed:,} with an error" if progress.failed else ""
        parts = (self._label, f"{progress.finished:,}{of_rows} rows", rate, failed, left, progress.remark)
        bar = f'<progress max="{progress.rows}" value="{progress.finished}"></progress> ' if progress.rows else ""

        text = escape(" · ".join(clean(part) for part in parts if part))
        self._shown.update(self._html(f"<div>{bar}{text}</div>"))

    def close(self) -> None:
        """Remove the line."""
        self._shown.update(self._html(""))


def progress_of(wanted: bool | ProgressCallback | None, label: str) -> ProgressCallback | None:
    """Return the function to call with progress: the caller's own, a display with this label, or None for no progress.

    `wanted` is a function, True (a bar, or in a notebook a line), False (no display), or None (a line in a notebook, no
    display elsewhere).
    """
    if wanted is not None and not isinstance(wanted, bool):
        return wanted
    if wanted is not False and in_notebook():
        return NotebookProgress(label)
    return ProgressBar(label) if wanted else None


def in_notebook() -> bool:
    """Return True if this code runs in a notebook kernel, which can show HTML."""
    known = sys.modules.get("IPython")
    shell = known.get_ipython() if known is not None else None
    return shell is not None and hasattr(shell, "kernel")


def rate_text(rate: float) -> str:
    """Return the rate, in rows per second, as text such as `12 rows/s` or `3.0 rows/min`; empty if not above 0."""
    if rate <= 0:
        return ""
    if rate < 0.1:
        return f"{rate * 60:.1f} rows/min"
    return f"{rate:,.0f} rows/s" if rate >= 10 else f"{rate:.1f} rows/s"


def _errors_text(rows: int) -> str:
    """Return the number of failed rows as text with rich's markup."""
    return f"[red]{rows:,} error{'s' if rows > 1 else ''}[/red]" if rows else "no errors"


def duration_text(seconds: float) -> str:
    """Return a duration as text: `1:02:03`, or `2:03` below an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
