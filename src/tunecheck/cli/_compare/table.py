"""The table of a comparison: a line for each metric, which finds room on a narrow screen, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len

from tunecheck._messages import clean
from tunecheck.comparison._results import Comparison, MetricComparison, RunComparison
from tunecheck.comparison._table import PASS_RATE
from tunecheck.comparison._wording import NOTHING, difference_text, interval_text, p_text, size_text, value_text

if TYPE_CHECKING:
    from rich.text import Text

_BETWEEN, _INDENT = 2, 4
_LEAST_NEEDED = ("p", "finds ≥")
"""What a narrow screen has no room for: the answer goes by Holm's p-value."""

Line = tuple[str, list[str], str]
"""A label, its figures, and a style."""


def metrics_table(against: RunComparison, comparison: Comparison, width: int) -> Text:
    """The table in so many characters: where they are too few, labels have lines of their own."""
    from rich.text import Text

    heads = ["pairs", "base", "new", f"difference ({100 * comparison.confidence:.3g}%)", "p", "Holm", "finds ≥"]
    margin = comparison.margin
    heads += [f"worse by < {margin:g}"] if margin is not None else []
    lines: list[Line] = [("", heads, "bold")]
    lines += [
        (_label(each), [*_cells(each, margin=margin is not None)], "" if each.tested else "dim")
        for each in _in_order(against)
    ]
    labels = max(cell_len(label) for label, _, _ in lines)
    stacked = labels + _width(lines) > width
    for head in _LEAST_NEEDED if stacked else ():
        if _INDENT - _BETWEEN + _width(lines) > width:
            at = lines[0][1].index(head)
            lines = [(label, cells[:at] + cells[at + 1 :], style) for label, cells, style in lines]
    widths = _widths(lines)
    text = Text()
    for label, cells, style in lines:
        if stacked:
            text.append(f"{label}\n" if label else "", style)
        start = " " * (_INDENT - _BETWEEN) if stacked else label + " " * (labels - cell_len(label))
        figures = "".join(
            " " * (_BETWEEN + most - cell_len(cell)) + cell for cell, most in zip(cells, widths, strict=True)
        )
        text.append(f"{start}{figures}".rstrip() + "\n", style)
    text.rstrip()
    text.no_wrap = True
    return text


def _widths(lines: Sequence[Line]) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(*(cells for _, cells, _ in lines), strict=True)]


def _width(lines: Sequence[Line]) -> int:
    return sum(_BETWEEN + most for most in _widths(lines))


def _in_order(against: RunComparison) -> Iterator[MetricComparison]:
    """Evaluator by evaluator, what is tested first, then what speaks for it."""
    metrics = sorted(against.metrics.values(), key=lambda each: (not each.tested, each.name != each.evaluator))
    for evaluator in dict.fromkeys(metric.evaluator for metric in metrics):
        yield from (metric for metric in metrics if metric.evaluator == evaluator)


def _label(metric: MetricComparison) -> str:
    if metric.tested or metric.name == metric.evaluator:
        return clean(metric.name, 60)
    key = metric.key.removeprefix(f"{metric.evaluator}.")
    return f"  {'pass rate' if key == PASS_RATE else clean(key, 60)}"


def _cells(metric: MetricComparison, *, margin: bool) -> Iterator[str]:
    kind = metric.kind
    yield f"{metric.difference.n:,}"
    yield value_text(kind, metric.base.value)
    yield value_text(kind, metric.new.value)
    interval = interval_text(kind, metric.difference)
    yield difference_text(kind, metric.difference.value, unit=False) + f" ({interval})" * (interval != NOTHING)
    yield p_text(metric.p_value) if metric.tested else ""
    yield p_text(metric.p_adjusted) if metric.tested else ""
    smallest = metric.smallest_difference
    yield size_text(kind, smallest.value).removesuffix(" points") if smallest is not None else ""
    if margin:
        shown = {True: "shown", False: "NOT shown", None: "cannot be said"}
        yield shown[metric.non_inferior] if metric.non_inferiority is not None else ""
