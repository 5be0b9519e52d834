"""Which rows are not independent: by a column that is named, that the data declares, or that is found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tunecheck._messages import counted

NONE = "none"
"""Named as the column, it takes all rows as independent."""

_FIRST = "conversation_id"
_LEAST_VALUES, _MOST_ROWS = 10, 20
"""What a column must have to be found: so many values at least, on average of so many rows at most. A category, or who
wrote the rows, has fewer values or more rows."""

How = Literal["named", "declared", "found"]
"""Who says that rows are not independent: who asks, the data, or a column's values."""

Labels = Sequence[str | None]


@dataclass(frozen=True, slots=True)
class Clusters:
    """A label for each item: items with equal labels are dependent, items labelled None are independent.

    `by` names the column of the labels, `how` where it came from.
    """

    by: str
    how: How
    labels: Labels

    @property
    def count(self) -> int:
        """The number of clusters."""
        return _values(self.labels) + self.labels.count(None)

    def __str__(self) -> str:
        why = {"named": "", "declared": ", as the data says", "found": ", whose values repeat"}[self.how]
        start = f"{counted(self.count, 'cluster')} by {self.by}{why}"
        return f"{start}: the rows of one are not independent; --cluster none takes them to be"


def may_cluster(column: str) -> bool:
    """Whether a column of the data is looked at where none is named."""
    return column.endswith("_id")


def clusters_of(named: str | None, declared: str | None, labels: Mapping[str, Labels]) -> Clusters | None:
    """The clusters by the column that is named, else by the declared one, else by one that is found.

    Found is `conversation_id`, else the column `…_id` of the fewest values, where values repeat.
    """
    if named is not None:
        return Clusters(named, "named", labels[named]) if named in labels else None
    if declared is not None and declared in labels:
        return Clusters(declared, "declared", labels[declared])
    found = {name: _values(each) for name, each in labels.items() if may_cluster(name) and _groups(name, each)}
    if not found:
        return None
    name = _FIRST if _FIRST in found else min(found, key=found.__getitem__)
    return Clusters(name, "found", labels[name])


def _values(labels: Labels) -> int:
    return len(set(labels) - {None})


def _groups(name: str, labels: Labels) -> bool:
    values, rows = _values(labels), len(labels) - labels.count(None)
    least, most = (2, rows) if name == _FIRST else (_LEAST_VALUES, _MOST_ROWS)
    return least <= values < rows <= most * values
