"""How far a run is: what a caller may be told, and the bar on a terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

__all__ = ["Progress", "ProgressBar", "ProgressCallback"]


@dataclass(frozen=True, slots=True)
class Progress:
    """A moment of a run: rows in all (None where not known), answered, finished, with an error, taken over."""

    rows: int | None
    answered: int
    finished: int
    failed: int
    taken_over: int


ProgressCallback = Callable[[Progress], None]


class ProgressBar:
    """A bar on standard error: rows done, rate, errors, time left."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._bar: RichProgress | None = None

    def __call__(self, progress: Progress) -> None:
        """Show a moment."""
        bar = self._bar or self._start(progress.rows)
        rate = bar.tasks[0].finished_speed or bar.tasks[0].speed
        bar.update(
            bar.tasks[0].id,
            completed=progress.finished,
            total=progress.rows,
            rate=f"{rate:,.0f} rows/s" if rate else "",
            errors=f"[red]{progress.failed} with an error[/red]" if progress.failed else "no errors",
        )

    def _start(self, rows: int | None) -> RichProgress:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TextColumn("{task.fields[errors]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._bar.add_task(self._label, total=rows, rate="", errors="")
        self._bar.start()
        return self._bar

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
