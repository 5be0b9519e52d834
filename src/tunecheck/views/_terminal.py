"""A page of results on a terminal."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TextIO

from tunecheck._messages import printable
from tunecheck.views._model import Chart, Sentence, Style, Table, View, text_of, words_of

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table as Grid
    from rich.text import Text as Line

_STYLES: Mapping[Style, str] = {
    "": "",
    "strong": "bold",
    "dim": "dim",
    "good": "green",
    "bad": "bold red",
    "warn": "bold yellow",
}
_BETWEEN = 2


def console(stream: TextIO) -> Console:
    """A console that takes no text for markup; colours only on a terminal, and not where NO_COLOR is set."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            """Leave it to the program what a reader that has gone means; rich would end the process."""
            raise BrokenPipeError

    return Plain(file=stream, markup=False, highlight=False, emoji=False)


def print_view(view: View, console: Console) -> None:
    """Print the parts, each after an empty line, and the notes.

    Sentences are wrapped for a terminal, or to COLUMNS; in files and logs each stays on one line.
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
    from rich.text import Text

    return Text.assemble(*((printable(piece.text), _STYLES[piece.style]) for piece in words_of(sentence)))


def _tables(table: Table, width: int) -> Iterator[RenderableType]:
    if table.title:
        yield _line(table.title)
    for columns in _columns_that_fit(table, width):
        yield _grid(table, columns)
    if table.below:
        yield _line(table.below)


def _columns_that_fit(table: Table, width: int) -> Iterator[list[int]]:
    """The columns of each table that a wide one is split into: the first column, and as many others as fit."""
    from rich.cells import cell_len

    count = max(map(len, [table.heads, *table.rows]))
    sizes = [_BETWEEN] * count
    for cells in (table.heads, *table.rows):
        for at, cell in enumerate(cells):
            sizes[at] = max(sizes[at], cell_len(text_of(cell)) + _BETWEEN)
    if any(table.alignment(at) == "left" for at in range(1, count)):  # texts are folded instead
        yield [*range(count)]
        return
    shown, used = [0], sizes[0]
    for at in range(1, count):
        if used + sizes[at] > width + _BETWEEN and len(shown) > 1:
            yield shown
            shown, used = [0], sizes[0]
        shown.append(at)
        used += sizes[at]
    yield shown


def _grid(table: Table, columns: list[int]) -> Grid:
    from rich.table import Table as Grid

    grid = Grid.grid(padding=(0, _BETWEEN))
    for at in columns:
        grid.add_column(justify=table.alignment(at), overflow="fold")
    if any(map(text_of, table.heads)):
        grid.add_row(*(_head(table.heads[at]) for at in columns))
    for cells in table.rows:
        grid.add_row(*(_line(cells[at] if at < len(cells) else "") for at in columns))
    return grid


def _head(head: Sentence) -> Line:
    line = _line(head)
    line.stylize("bold")
    return line
