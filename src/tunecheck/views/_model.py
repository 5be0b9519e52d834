"""The parts of a page of results, independent of the output format, and the writer for terminals.

Commands build a `View` of `Text`, `Table` and `Chart` parts. `print_view` writes it to a terminal, and `views._files`
to other formats:

    View("val-…", [Text(["31 of 46 rows passed."]), Table(["", "all 46 rows"], [["match", "67.4%"]])], ["a note"])

A terminal shows a table in the first of these ways that fits (`_table_blocks`):

1. Numbers (all columns but the first are right-aligned), or a table with headings whose longest words do not fit:
   several tables, one below the other. Each has the first column and as many others as fit.
2. Any other: one table. If it is too wide, its columns of text become narrower.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal, TextIO, TypeAlias

import msgspec

from tunecheck._messages import cut_middle, printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table as Grid
    from rich.text import Text as Line

SIMULATED = "SIMULATED answers: no model was asked"
"""The notice in all formats for a run with simulated answers."""

Style = Literal["", "strong", "dim", "good", "bad", "warn"]
"""The meaning of words; each format has its own marks, such as green or ✅ for `good`."""


class Words(msgspec.Struct, frozen=True):
    """A piece of a sentence.

    Words are `foreign` if they come from data, a model or a user. In formats with markup, they are in a code span.
    """

    text: str
    style: Style = ""
    foreign: bool = False


Cell: TypeAlias = "str | Words"
Sentence: TypeAlias = "Cell | tuple[Cell, ...]"
"""One piece, or several in a row: `("files in ", Words("eval_results/a", "strong", foreign=True))`."""


def words_of(sentence: Sentence) -> Iterator[Words]:
    """Yield the pieces of a sentence."""
    for piece in sentence if isinstance(sentence, tuple) else (sentence,):
        yield Words(piece) if isinstance(piece, str) else piece


def text_of(sentence: Sentence) -> str:
    """Return a sentence without styles."""
    return "".join(piece.text for piece in words_of(sentence))


class Text(msgspec.Struct, frozen=True):
    """Sentences that belong together, one per line."""

    lines: Sequence[Sentence]


class Table(msgspec.Struct, frozen=True):
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


class Interval(msgspec.Struct, frozen=True):
    """A line of a chart: a label, and a value with its interval."""

    label: str
    value: float | None
    low: float | None
    high: float | None


class Chart(msgspec.Struct, frozen=True):
    """Intervals on one axis; formats without drawings leave it out, because a table has the same figures."""

    intervals: Sequence[Interval]


Part: TypeAlias = Text | Table | Chart


CheckEnd: TypeAlias = Literal["failure", "error", "skipped"]
"""The elements of JUnit for a test that did not pass."""


class Check(msgspec.Struct, frozen=True):
    """A condition that a run must meet, with the finding; `ended` is None if it was met."""

    group: str
    name: str
    found: str
    ended: CheckEnd | None


class View(msgspec.Struct, frozen=True):
    """A page of results. Terminals do not show the title, so the parts must contain its information, too.

    Only JUnit shows `checks`, and it shows no parts. `notes` are warnings and remarks.
    """

    title: Sentence
    parts: Sequence[Part]
    notes: Sequence[str] = ()
    checks: Sequence[Check] = ()


# -- on a terminal


_STYLES: Mapping[Style, str] = {
    "": "", "strong": "bold", "dim": "dim", "good": "green", "bad": "bold red", "warn": "bold yellow",
}  # fmt: skip
_BETWEEN = 2
"""Spaces between two columns."""

_NARROWEST = 8
"""The width to which columns shrink if even their longest words do not fit."""
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
    # COLUMNS asks for wrapped sentences, also in files and logs.
    on_one_line = not console.is_terminal and "COLUMNS" not in os.environ

    notes = [Text([f"note: {note}" for note in view.notes])] if view.notes else []

    for part in (*view.parts, *notes):
        if isinstance(part, Table):
            console.print()
            for block in _table_blocks(part, console.width):
                console.print(block)
        elif isinstance(part, Text):
            console.print()
            for sentence in part.lines:
                _print_sentence(_line(sentence), console, on_one_line=on_one_line)


def _print_sentence(line: Line, console: Console, *, on_one_line: bool) -> None:
    """Print a sentence, wrapped unless `on_one_line`.

    If it is too long, the command after its colon and two spaces gets an unbroken line, so that it can be copied. For
    example `Next, compare the two runs:  tunecheck compare val-iteration-6 val-iteration-7`.
    """
    end = line.plain.find(":  ") + 1
    if end and not on_one_line and line.cell_len > console.width:
        console.print(line[:end])
        line, on_one_line = line[end:], True

    console.print(line, soft_wrap=on_one_line)


def _line(sentence: Sentence) -> Line:
    """Return a sentence as styled text for the terminal."""
    from rich.text import Text

    # Text from data or a model may contain escape sequences.
    return Text.assemble(*((printable(piece.text), _STYLES[piece.style]) for piece in words_of(sentence)))


def _table_blocks(table: Table, width: int) -> Iterator[RenderableType]:
    """Yield what a terminal shows of a table: its title, the table in one or several pieces, the text below."""
    if table.title:
        yield _line(table.title)

    sizes = _sizes(table)
    words = [_word_size(table, column, size) for column, size in enumerate(sizes)]
    groups: Iterable[Sequence[int]] = [range(len(sizes))]

    # Numbers must not be wrapped. A table with headings is also split if its longest words do not fit side by side.
    has_only_numbers = all(table.alignment(column) == "right" for column in range(1, len(sizes)))
    narrowest = sum(min(size, _NARROW) + _BETWEEN for size in words) - _BETWEEN
    if has_only_numbers or (narrowest > width and any(map(text_of, table.heads))):
        # Each piece repeats the first column, which may shrink to its longest word.
        groups = _columns_that_fit(sizes, width, least=min(_NARROW, width // 2, words[0] + _BETWEEN))

    for columns in groups:
        widths = _widths([sizes[column] - _BETWEEN for column in columns], [words[column] for column in columns], width)
        yield _grid(table, dict(zip(columns, widths, strict=True)))

    if table.below:
        yield _line(table.below)


def _sizes(table: Table) -> list[int]:
    """Return the width of each column's longest cell, with the space to the next column."""
    from rich.cells import cell_len

    columns = zip_longest(table.heads, *table.rows, fillvalue="")
    return [max(cell_len(text_of(cell)) for cell in cells) + _BETWEEN for cells in columns]


def _columns_that_fit(sizes: Sequence[int], width: int, least: int) -> Iterator[list[int]]:
    """Yield the columns of each piece of a table that is too wide: the first column, then as many as fit.

    The first column may shrink to the width `least`. For example, columns of the sizes 20, 30, 30 and 30 give the
    pieces `[0, 1, 2]` and `[0, 3]` in a terminal of 80 characters, with a `least` of 20.
    """
    # Each size includes the space to the next column. The last column of a piece needs none, hence `width + _BETWEEN`.
    first = min(sizes[0], max(least, width + _BETWEEN - sum(sizes[1:])))
    piece, used = [0], first

    for column in range(1, len(sizes)):
        if used + sizes[column] > width + _BETWEEN and len(piece) > 1:
            yield piece
            piece, used = [0], first

        piece.append(column)
        used += sizes[column]

    yield piece


def _grid(table: Table, widths: Mapping[int, int]) -> Grid:
    """Return the table of the columns with these widths."""
    from rich.table import Table as Grid

    grid = Grid.grid(padding=(0, _BETWEEN))
    # `fold` continues a long identifier on the next line; nothing is hidden.
    for column, width in widths.items():
        grid.add_column(justify=table.alignment(column), overflow="fold", width=width)

    if any(map(text_of, table.heads)):
        grid.add_row(*(_line(table.heads[column]) for column in widths), style="bold")
    for row in table.rows:
        grid.add_row(*(_cut(row[column] if column < len(row) else "", width) for column, width in widths.items()))
    return grid


def _widths(sizes: Sequence[int], words: Sequence[int], width: int) -> list[int]:
    """Return widths that fit the terminal: columns shrink to their longest word, then all to _NARROWEST.

    `sizes` has the width of each column's longest cell, `words` the least width without a broken word.
    """
    widths = [*sizes]
    # First, lines are wrapped between words. If that is not enough, words are broken, too.
    for limits in (words, [_NARROWEST] * len(words)):
        while sum(widths) + _BETWEEN * (len(widths) - 1) > width:
            # Take one character from the column with the most to spare; of several, from the last.
            spare = [current - limit for current, limit in zip(widths, limits, strict=True)]
            if max(spare) <= 0:
                break
            loosest = max(range(len(spare)), key=lambda position: (spare[position], position))
            widths[loosest] -= 1

    return widths


def _word_size(table: Table, column: int, size: int) -> int:
    """Return the least width of a column without a broken number or word; words keep their line's indent.

    `size` is the width of its longest cell, with the space to the next column.
    """
    if column > 0 and table.alignment(column) == "right":
        return size - _BETWEEN
    texts = [text_of(row[column]) for row in (table.heads, *table.rows) if column < len(row)]
    return max(len(text) - len(text.lstrip()) + max(map(len, text.split()), default=0) for text in texts)


def _cut(cell: Sentence, most: int) -> Line:
    """Return a cell for a terminal; an identifier longer than `most` loses its middle."""
    # A cell of several words is wrapped. Only an identifier is cut.
    if len(text_of(cell)) <= most or " " in text_of(cell).strip():
        return _line(cell)
    return _line(Words(cut_middle(text_of(cell), most), next(words_of(cell)).style))
