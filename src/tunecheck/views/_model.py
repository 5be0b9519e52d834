"""The parts of a page of results, independent of the output format, and the writer for terminals."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TextIO, TypeAlias

from tunecheck._messages import cut_middle, printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table as Grid
    from rich.text import Text as Line

SIMULATED = "SIMULATED answers: no model was asked"

Style = Literal["", "strong", "dim", "good", "bad", "warn"]


@dataclass(frozen=True, slots=True)
class Words:
    """A piece of a sentence.

    Words are `foreign` if they come from data, a model or a user. In formats with markup, they are in a code span.
    """

    text: str
    style: Style = ""
    foreign: bool = False


Cell: TypeAlias = "str | Words"
Sentence: TypeAlias = "Cell | tuple[Cell, ...]"


def words_of(sentence: Sentence) -> Iterator[Words]:
    """Yield the pieces of a sentence."""
    for piece in sentence if isinstance(sentence, tuple) else (sentence,):
        yield Words(piece) if isinstance(piece, str) else piece


def text_of(sentence: Sentence) -> str:
    """Return a sentence without styles."""
    return "".join(piece.text for piece in words_of(sentence))


@dataclass(frozen=True, slots=True)
class Text:
    """Sentences that belong together, one per line."""

    lines: Sequence[Sentence]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells.

    `align` has a letter for each column: l (left) or r (right); the last letter also holds for all further columns. On
    a terminal, a table of figures that is too wide continues in another table below. `folded` tables open with a click.
    """

    heads: Sequence[Cell]
    rows: Sequence[Sequence[Sentence]]
    align: str = "lr"
    title: Sentence = ""
    below: Sentence = ""
    folded: bool = False

    def alignment(self, column: int) -> Literal["left", "right"]:
        """Return the alignment of a column."""
        return "left" if self.align[min(column, len(self.align) - 1)] == "l" else "right"


@dataclass(frozen=True, slots=True)
class Interval:
    """A line of a chart: a label, and a value with its interval."""

    label: str
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Chart:
    """Intervals on one axis; formats without drawings leave it out, because a table has the same figures."""

    intervals: Sequence[Interval]


Part: TypeAlias = Text | Table | Chart


@dataclass(frozen=True, slots=True)
class Check:
    """A condition that a run must meet, with the finding; `ended` is None if it was met."""

    group: str
    name: str
    found: str
    ended: Literal["failure", "error", "skipped"] | None


@dataclass(frozen=True, slots=True)
class View:
    """A page of results. Terminals do not show the title, so the first part must contain its information, too."""

    title: Sentence
    parts: Sequence[Part]
    notes: Sequence[str] = ()
    checks: Sequence[Check] = ()
    facts: Mapping[str, str] = field(default_factory=dict)


# -- on a terminal


_STYLES: Mapping[Style, str] = {
    "": "",
    "strong": "bold",
    "dim": "dim",
    "good": "green",
    "bad": "bold red",
    "warn": "bold yellow",
}
_BETWEEN, _INDENT, _LEAST = 2, 6, 8
_NARROW = 32
"""Columns of text may become this narrow before a table is split or an identifier is cut."""


def console(stream: TextIO) -> Console:
    """Return a console that interprets no markup; it uses colours only on a terminal without NO_COLOR."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            """Raise the error, because the program handles a closed pipe; rich would end the process."""
            raise BrokenPipeError

    return Plain(file=stream, markup=False, highlight=False, emoji=False)


def print_view(view: View, console: Console) -> None:
    """Print the parts, each after an empty line, and the notes.

    Sentences are wrapped to the width of the terminal, or to COLUMNS; in files and logs each stays on one line.
    """
    whole = not console.is_terminal and "COLUMNS" not in os.environ
    for part in view.parts:
        if isinstance(part, Chart):
            continue
        console.print()
        is_table = isinstance(part, Table)
        shown = _tables(part, console.width) if isinstance(part, Table) else map(_line, part.lines)
        for each in shown:
            console.print(each, soft_wrap=whole and not is_table)
    if view.notes:
        console.print()
    for note in view.notes:
        console.print(_line(f"note: {note}"), soft_wrap=whole)


def _line(sentence: Sentence) -> Line:
    """Return a sentence as styled text for the terminal."""
    from rich.text import Text

    return Text.assemble(*((printable(piece.text), _STYLES[piece.style]) for piece in words_of(sentence)))


def _tables(table: Table, width: int) -> Iterator[RenderableType]:
    """Yield what a terminal shows of a table: its title, the table in one or several pieces, the text below."""
    from rich.padding import Padding

    if table.title:
        yield _line(table.title)
    sizes = _sizes(table)
    every = [*range(len(sizes))]
    least = sum(min(size, _NARROW) for size in _word_sizes(table, every, sizes)) + _BETWEEN * (len(sizes) - 1)
    if all(_is_number_column(table, at) for at in every[1:]) or (least > width and any(map(text_of, table.heads))):
        groups = [*_columns_that_fit(sizes, width)]
    elif sum(sizes) > width + _BETWEEN and sizes[0] > width // 2 and _is_list_of_identifiers(table):
        groups = []
        for first, *others in table.rows:  # a column of these would leave too little room: put the rest below them
            yield _cut(first, width)
            yield Padding(_line(tuple(words for cell in others for words in words_of(cell))), (0, 0, 0, _INDENT))
    else:
        groups = [every]
    for columns in groups:
        yield _grid(table, columns, sizes, width)
    if table.below:
        yield _line(table.below)


def _sizes(table: Table) -> list[int]:
    """Return the width of each column's longest cell, with the space to the next column."""
    from rich.cells import cell_len

    sizes = [_BETWEEN] * max(map(len, [table.heads, *table.rows]))
    for cells in (table.heads, *table.rows):
        for at, cell in enumerate(cells):
            sizes[at] = max(sizes[at], cell_len(text_of(cell)) + _BETWEEN)
    return sizes


def _is_list_of_identifiers(table: Table) -> bool:
    """Return whether the table has no headings and its first column only single words."""
    return not any(map(text_of, table.heads)) and not any(" " in text_of(row[0]).strip() for row in table.rows)


def _columns_that_fit(sizes: Sequence[int], width: int) -> Iterator[list[int]]:
    """Yield the columns of each piece of a table that is too wide: the first column, then as many as fit."""
    first = min(sizes[0], max(min(_NARROW, width // 2), width + _BETWEEN - sum(sizes[1:])))
    shown, used = [0], first
    for at in range(1, len(sizes)):
        if used + sizes[at] > width + _BETWEEN and len(shown) > 1:
            yield shown
            shown, used = [0], first
        shown.append(at)
        used += sizes[at]
    yield shown


def _grid(table: Table, columns: list[int], sizes: Sequence[int], width: int) -> Grid:
    """Return the table of these columns, in the widths that fit the terminal."""
    from rich.table import Table as Grid

    grid = Grid.grid(padding=(0, _BETWEEN))
    widths = _widths(table, columns, sizes, width)
    for at, room in zip(columns, widths, strict=True):
        grid.add_column(justify=table.alignment(at), overflow="fold", width=room)
    if any(map(text_of, table.heads)):
        grid.add_row(*(_line(table.heads[at]) for at in columns), style="bold")
    for cells in table.rows:
        shown = (cells[at] if at < len(cells) else "" for at in columns)
        grid.add_row(*(_cut(cell, room) for cell, room in zip(shown, widths, strict=True)))
    return grid


def _widths(table: Table, columns: list[int], sizes: Sequence[int], width: int) -> list[int]:
    """Return widths that fit the terminal: text columns shrink to their longest word, then any column to _LEAST."""
    widths = [sizes[at] - _BETWEEN for at in columns]
    words = _word_sizes(table, columns, sizes)
    for least in (words, [_LEAST] * len(words)):
        while sum(widths) + _BETWEEN * (len(widths) - 1) > width:
            spare = [has - needs for has, needs in zip(widths, least, strict=True)]
            room, place = max((room, place) for place, room in enumerate(spare))
            if room <= 0:
                break
            widths[place] -= 1
    return widths


def _word_sizes(table: Table, columns: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Return the least width of each column without a broken number or word; words keep their line's indent."""

    def longest(text: str) -> int:
        return len(text) - len(text.lstrip()) + max(map(len, text.split()), default=0)

    return [
        sizes[at] - _BETWEEN
        if at and _is_number_column(table, at)
        else max(longest(text_of(row[at])) for row in (table.heads, *table.rows) if at < len(row))
        for at in columns
    ]


def _is_number_column(table: Table, at: int) -> bool:
    """Return whether the column with this index is right-aligned, as numbers are."""
    return table.alignment(at) == "right"


def _cut(cell: Sentence, most: int) -> Line:
    """Return a cell for a terminal; an identifier longer than `most` loses its middle."""
    if len(text_of(cell)) <= most or " " in text_of(cell).strip():
        return _line(cell)
    return _line(Words(cut_middle(text_of(cell), most), next(words_of(cell)).style))
