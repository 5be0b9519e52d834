"""What results look like in a notebook: a sentence, a chart of figures with intervals, and a table; a progress line.

Everything is escaped: names, reasons and remarks may hold anything.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tunecheck._messages import clean
from tunecheck._progress import Pace, Progress, duration_text, rate_text

if TYPE_CHECKING:

    class _Display(Protocol):
        def update(self, shown: object) -> None: ...


class Figure(NamedTuple):
    """A line of a chart: what it is called, its value, and its interval."""

    label: str
    value: float | None
    low: float | None
    high: float | None


_MOST_FIGURES, _MOST_ROWS = 30, 60
_LINE, _LABELS, _WIDTH = 24, 220, 640
_STYLE = "text-align:left;padding:2px 10px 2px 0"


def shown(
    sentences: Iterable[str], figures: Sequence[Figure], heads: Sequence[str], rows: Iterable[Sequence[str]]
) -> str:
    """HTML of a result: `figures` are drawn on one scale, with a line at 0 where they lie on both sides of it."""
    said = "".join(f"<p>{_escaped(clean(sentence, 600))}</p>" for sentence in sentences)
    return f"<div>{said}{_chart(figures)}{_table(heads, rows)}</div>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def line(tag: str, cells: Sequence[str]) -> str:
        return (
            "<tr>"
            + "".join(f'<{tag} style="{_STYLE}">{_escaped(clean(cell, 200))}</{tag}>' for cell in cells)
            + "</tr>"
        )

    all_rows = list(rows)
    body = "".join(line("td", row) for row in all_rows[:_MOST_ROWS])
    more = len(all_rows) - _MOST_ROWS
    left = f"<p>and {more:,} more</p>" if more > 0 else ""
    return f"<table><thead>{line('th', heads)}</thead><tbody>{body}</tbody></table>{left}"


def _chart(figures: Sequence[Figure]) -> str:
    drawn = [each for each in figures if each.value is not None][:_MOST_FIGURES]
    if not drawn:
        return ""
    bounds = [bound for each in drawn for bound in (each.value, each.low, each.high, 0.0) if bound is not None]
    low, high = min(bounds), max(bounds)
    scale = (_WIDTH - _LABELS - 20) / ((high - low) or 1.0)

    def at(value: float) -> str:
        return f"{_LABELS + 10 + (value - low) * scale:.1f}"

    height = _LINE * len(drawn) + 4
    lines = "".join(_lines(drawn, at))
    zero = f'<line x1="{at(0)}" x2="{at(0)}" y1="0" y2="{height}" stroke="currentColor" stroke-opacity="0.4"/>'
    return (
        f'<svg role="img" aria-label="values and intervals, as in the table" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" style="max-width:100%" font-size="13">{zero}{lines}</svg>'
    )


def _lines(figures: Sequence[Figure], at: _Place) -> Iterator[str]:
    for number, (label, value, low, high) in enumerate(figures):
        y = _LINE * number + _LINE // 2 + 2
        yield f'<text x="0" y="{y + 4}" fill="currentColor">{_escaped(clean(label, 32))}</text>'
        if low is not None and high is not None:
            yield f'<line x1="{at(low)}" x2="{at(high)}" y1="{y}" y2="{y}" stroke="#3b7dd8" stroke-width="3"/>'
        if value is not None:
            yield f'<circle cx="{at(value)}" cy="{y}" r="5" fill="#3b7dd8"/>'


class _Place(Protocol):
    def __call__(self, value: float) -> str: ...


# -- progress


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

        self._label, self._pace, self._html = clean(label, 60), Pace(), HTML
        # Made here, where the cell runs: the engine may run in another thread, which has no cell.
        self._shown: _Display = display(HTML(""), display_id=True)

    def __call__(self, progress: Progress) -> None:
        """Show a moment."""
        self._pace.note(progress.finished)
        left = self._pace.left_s(progress.rows)
        rows = "" if progress.rows is None else f" of {progress.rows:,}"
        failed = f"{progress.failed:,} with an error" if progress.failed else ""
        remaining = f"{duration_text(left)} left" if left is not None else ""
        about = (f"{progress.finished:,}{rows} rows", rate_text(self._pace.rate), failed, remaining, progress.remark)
        bar = "" if not progress.rows else f'<progress max="{progress.rows}" value="{progress.finished}"></progress> '
        text = _escaped(" · ".join(clean(part) for part in (self._label, *about) if part))
        self._shown.update(self._html(f"<div>{bar}{text}</div>"))

    def close(self) -> None:
        """Take the line away."""
        self._shown.update(self._html(""))
