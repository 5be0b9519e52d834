"""Why rows failed, as a part of a page: what serving should change first, then what the model does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tunecheck._causes import Side, cause_named, in_order
from tunecheck._messages import clean
from tunecheck.views import Sentence, Table, Words

if TYPE_CHECKING:
    from tunecheck.pipeline._finished_rows import FailureGroup

_HEADS: Mapping[Side, str] = {
    "serving": "failed because of how the model is served",
    "model": "failed because of the model",
}


def causes_table(causes: Mapping[str, FailureGroup], rows: int) -> Table:
    """How many rows have which cause, with one of them and, the first time that it is said, what to try."""
    cells: list[Sequence[Sentence]] = []
    advised: set[str] = set()
    for side, head in _HEADS.items():
        groups = [(code, causes[code]) for code in in_order(causes) if cause_named(code).side == side]
        cells += [("", "", Words(head, "strong"))] if groups else []
        for code, group in sorted(groups, key=lambda item: -item[1].rows):
            title, advice = clean(group.title, 100), cause_named(code).advice
            said = (f"  {title}  ", Words("e.g. ", "dim"), Words(clean(group.example, 60), "dim", foreign=True))
            cells.append((f"{group.rows:,}", f"{group.rows / rows:.1%}", said))
            if advice not in advised:
                cells.append(("", "", Words(f"    try: {advice}", "dim")))
                advised.add(advice)
    return Table(("", "", ""), cells, "rrl")
