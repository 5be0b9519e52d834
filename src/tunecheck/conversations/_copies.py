"""What conversations need of the user's copy of BFCL: its prompts and its long-context constants, read when needed."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from tunecheck._targets import Row
from tunecheck.conversations._wording import BfclWording
from tunecheck.datasets._bfcl.categories import CATEGORIES
from tunecheck.datasets._bfcl.files import find_bfcl
from tunecheck.datasets._bfcl.prompts import read_prompts
from tunecheck.simulators._long_context import LongContext


def is_bfcl(row: Row) -> bool:
    """Whether a row is one of BFCL's, as `bfcl:…` gives them."""
    category = row.values.get("category")
    known = CATEGORIES.get(category) if isinstance(category, str) else None
    return known is not None and row.values.get("check") == known.check


class BfclCopy:
    """A copy of BFCL, looked for as `find_bfcl` does."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def wording(self) -> BfclWording:
        """Its prompts.

        Raises:
            DataError: there is no copy; the text says how to get one.
        """
        return self._wording

    def long_context(self) -> LongContext:
        """Its long-context constants.

        Raises:
            DataError: there is no copy; the text says how to get one.
        """
        return self._long_context

    @cached_property
    def _wording(self) -> BfclWording:
        return BfclWording(read_prompts(self._folder))

    @cached_property
    def _long_context(self) -> LongContext:
        return LongContext.read(find_bfcl(self._folder).package)
