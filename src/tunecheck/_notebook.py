"""A run's progress in a notebook: a line below the cell."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

from tunecheck._messages import clean
from tunecheck._progress import Progress, Throughput, duration_text, rate_text

if TYPE_CHECKING:

    class _Display(Protocol):
        def update(self, shown: object) -> None: ...


def _escaped(text: str) -> str:
    from html import escape  # and with it the names of all characters

    return escape(text)


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this, whose output is HTML."""
    known = sys.modules.get("IPython")
    shell = known.get_ipython() if known is not None else None
    return shell is not None and hasattr(shell, "kernel")


class NotebookProgress:
    """A line below the cell: rows done, rate, errors, time left. It goes when the run is done."""

    def __init__(self, label: str) -> None:
        from IPython.display import HTML, display

        self._label, self._rows_done, self._html = clean(label, 60), Throughput(), HTML
        # Made here, where the cell runs: the engine may run in another thread, which has no cell.
        self._shown: _Display = display(HTML(""), display_id=True)

    def __call__(self, progress: Progress) -> None:
        """Show a moment."""
        self._rows_done.note(progress.finished)
        left = self._rows_done.left_s(progress.rows)
        rows = "" if progress.rows is None else f" of {progress.rows:,}"
        failed = f"{progress.failed:,} with an error" if progress.failed else ""
        remaining = f"{duration_text(left)} left" if left is not None else ""
        about = (
            f"{progress.finished:,}{rows} rows",
            rate_text(self._rows_done.rate),
            failed,
            remaining,
            progress.remark,
        )
        bar = "" if not progress.rows else f'<progress max="{progress.rows}" value="{progress.finished}"></progress> '
        text = _escaped(" · ".join(clean(part) for part in (self._label, *about) if part))
        self._shown.update(self._html(f"<div>{bar}{text}</div>"))

    def close(self) -> None:
        """Take the line away."""
        self._shown.update(self._html(""))
