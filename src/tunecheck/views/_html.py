"""A page of results as HTML for notebooks: sentences, charts of intervals and tables. All text is escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tunecheck._messages import clean
from tunecheck.views._model import Chart, Interval, Sentence, Table, View, text_of

_MOST_INTERVALS, _MOST_ROWS = 30, 60
_LINE, _LABELS, _WIDTH = 24, 220, 640
_STYLE = "text-align:left;padding:2px 10px 2px 0"


def html(view: View) -> str:
    """Return the parts and the notes of a page in one `<div>`."""
    return f"<div>{''.join(_write_view(view))}</div>"


def _write_view(view: View) -> Iterator[str]:
    for part in view.parts:
        if isinstance(part, Chart):
            yield _chart(part.intervals)
        elif isinstance(part, Table):
            yield _table(part)
        else:
            yield from (f"<p>{_escape_sentence(line, 600)}</p>" for line in part.lines)
    yield from (f"<p>{_escape_sentence(f'note: {note}', 600)}</p>" for note in view.notes)


def _escape_sentence(sentence: Sentence, most: int = 200) -> str:
    from html import escape  # imported here because it loads a table of all entity names

    return escape(clean(text_of(sentence), most))


def _table(table: Table) -> str:
    def line(tag: str, cells: Sequence[Sentence]) -> str:
        return "<tr>" + "".join(f'<{tag} style="{_STYLE}">{_escape_sentence(cell)}</{tag}>' for cell in cells) + "</tr>"

    title, below = (f"<p>{_escape_sentence(said)}</p>" if said else "" for said in (table.title, table.below))
    body = "".join(line("td", row) for row in table.rows[:_MOST_ROWS])
    more = len(table.rows) - _MOST_ROWS
    left = f"<p>and {more:,} more</p>" if more > 0 else ""
    return f"{title}<table><thead>{line('th', table.heads)}</thead><tbody>{body}</tbody></table>{left}{below}"


def _chart(intervals: Sequence[Interval]) -> str:
    """Return an SVG of the intervals on one axis, with a line at 0."""
    drawn = [each for each in intervals if each.value is not None][:_MOST_INTERVALS]
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


def _lines(intervals: Sequence[Interval], at: Callable[[float], str]) -> Iterator[str]:
    for number, each in enumerate(intervals):
        y = _LINE * number + _LINE // 2 + 2
        yield f'<text x="0" y="{y + 4}" fill="currentColor">{_escape_sentence(each.label, 32)}</text>'
        if each.low is not None and each.high is not None:
            ends = f'x1="{at(each.low)}" x2="{at(each.high)}" y1="{y}" y2="{y}"'
            yield f'<line {ends} stroke="#3b7dd8" stroke-width="3"/>'
        if each.value is not None:
            yield f'<circle cx="{at(each.value)}" cy="{y}" r="5" fill="#3b7dd8"/>'
