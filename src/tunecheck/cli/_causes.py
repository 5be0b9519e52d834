"""The causes of failed rows as a person reads them: what serving should change first, then what the model does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tunecheck._causes import Side, cause_named, in_order
from tunecheck._messages import clean

if TYPE_CHECKING:
    from rich.table import Table

    from tunecheck.pipeline._finished_rows import FailureGroup

HEADS: Mapping[Side, str] = {
    "serving": "failed because of how the model is served",
    "model": "failed because of the model",
}


def by_side(causes: Mapping[str, FailureGroup]) -> Iterator[tuple[str, list[tuple[str, FailureGroup]]]]:
    """A heading and its causes, the commonest first; what is changed without training comes before the rest."""
    for side, head in HEADS.items():
        codes = [code for code in in_order(causes) if cause_named(code).side == side]
        if codes:
            yield head, sorted(((code, causes[code]) for code in codes), key=lambda item: -item[1].rows)


def causes_table(causes: Mapping[str, FailureGroup], rows: int) -> Table:
    """How many rows have which cause, with one of them and, the first time that it is said, what to try."""
    from rich.text import Text

    from tunecheck.cli._console import grid

    table = grid("right", "right", "left")
    advised: set[str] = set()
    for head, groups in by_side(causes):
        table.add_row("", "", Text(head, "bold"))
        for code, group in groups:
            title, advice = clean(group.title, 100), cause_named(code).advice
            told = Text.assemble(f"  {title}  ", (f"e.g. {clean(group.example, 60)}", "dim"))
            table.add_row(f"{group.rows:,}", f"{group.rows / rows:.1%}", told)
            if advice not in advised:
                table.add_row("", "", Text(f"    try: {advice}", "dim"))
                advised.add(advice)
    return table
