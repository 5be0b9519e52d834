"""Which of BFCL's rows a run asks: some categories, of each the first rows, or rows by their ids."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from tunecheck._errors import ConfigurationError, DataError
from tunecheck._json import canonical
from tunecheck._messages import did_you_mean
from tunecheck.datasets._bfcl.categories import CATEGORIES, Category, category_of, named_categories
from tunecheck.datasets._bfcl.files import BfclFiles, find_bfcl
from tunecheck.datasets._bfcl.loader import BfclSource
from tunecheck.datasets._defaults import DatasetDefaults
from tunecheck.datasets._reading import Dataset
from tunecheck.datasets._sources import Digest, Record, Source


def select_rows(
    categories: str | None, *, ids: Sequence[str] = (), limit: int | None = None, folder: Path | None = None
) -> Dataset:
    """Rows of the user's copy of BFCL, in the data's order.

    Args:
        categories: names of categories and groups between commas; None: those that the ids are of, else all that are
            scored.
        ids: only these rows.
        limit: only so many rows of each category.
        folder: the copy, if not the usual one.

    Raises:
        ConfigurationError: a limit below 1.
        DataError: the copy is not there, a category or an id does not exist.
    """
    if limit is not None and limit < 1:
        raise ConfigurationError(f"the limit must be at least 1 row, not {limit}")
    if categories is not None:
        chosen = named_categories(categories)
    elif ids:
        chosen = [each for each in CATEGORIES.values() if any(category_of(row_id) is each for row_id in ids)]
    else:
        chosen = named_categories("all")
    for row_id in ids:
        if category_of(row_id) not in chosen:
            where = ", ".join(each.name for each in chosen) or "BFCL"
            raise DataError(f"{row_id[:100]!r} is no id of a row in {where}; ids are such as multi_turn_base_0")
    name = categories or ",".join(each.name for each in chosen) if ids or categories else "all"
    source = _Selection(find_bfcl(folder), chosen, frozenset(ids), limit, f"bfcl:{name}")
    return Dataset(source, defaults=DatasetDefaults(target="conversation"))


class _Selection(Source):
    """Rows of several categories, each cut short or picked by id."""

    unit = "row"

    def __init__(
        self, files: BfclFiles, categories: Sequence[Category], ids: frozenset[str], limit: int | None, name: str
    ) -> None:
        self.name = self.label = name
        self._sources = [BfclSource(files, [category], category.name) for category in categories]
        self._ids = ids
        self._limit = limit

    def state(self) -> object:
        """See Source."""
        return [source.state() for source in self._sources]

    def records(self, digest: Digest | None = None) -> Iterator[tuple[int, Record]]:
        """See Source.

        Raises:
            DataError: also where an id was not found.
        """
        number = 0
        known: list[str] = []
        for source in self._sources:
            picked = self._picked(source, known)
            for row in islice(picked, self._limit):
                number += 1
                if digest is not None:
                    digest.update(canonical(row) + b"\n")
                yield number, row
            if self._ids:  # those after the limit are looked at, too: an id that is not there is a mistake
                deque(picked, maxlen=0)
        missing = self._ids.difference(known)
        if missing:
            first = min(missing)
            raise DataError(f"{self.label}: there is no row {first[:100]!r}{did_you_mean(first[:100], known)}")

    def _picked(self, source: Source, known: list[str]) -> Iterator[Record]:
        for _, row in source.records():
            if not self._ids:
                yield row
                continue
            known.append(str(row.get("id")))
            if known[-1] in self._ids:
                yield row
