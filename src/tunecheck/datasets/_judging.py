"""A row's settings for the strict judgement of its conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from tunecheck._describe import read_as
from tunecheck._errors import ConfigurationError
from tunecheck.datasets._sources import refuse


class Judging(Struct, frozen=True):
    """The settings by which a row is judged, named as their columns.

    `free_calls` are functions that may also be called in turns without expected calls, as long as the state stays
    right; "read_only" means all functions. `final_state_only`: only the state after the last turn is judged.
    `alternative_ground_truths` are other ground truths; following any of them passes. `ignored_state` has paths in the
    state that are not compared.
    """

    free_calls: frozenset[str] | Literal["read_only"] = frozenset()
    final_state_only: bool = False
    alternative_ground_truths: tuple[list[list[Any]], ...] = ()
    ignored_state: tuple[str, ...] = ()

    @classmethod
    def read(cls, row: Mapping[str, object], turns: int) -> Judging:
        """Read the settings from a row's columns; `turns` is the number of turns in its ground truth.

        Raises:
            UnusableRowError: a column has the wrong form, or an alternative ground truth has another number of turns;
                the text names the column.
        """
        declared = {name: row[name] for name in JUDGING_COLUMNS if row.get(name) is not None}
        try:
            judging = read_as(declared, cls, "the row's settings")
        except ConfigurationError as error:
            refuse(str(error))

        for index, truth in enumerate(judging.alternative_ground_truths):
            if len(truth) != turns:
                problem = f"has {len(truth)} turns, but `ground_truth` has {turns}: give both the same number"
                refuse(f"`alternative_ground_truths[{index}]` {problem}")
        return judging

    @property
    def free_names(self) -> frozenset[str]:
        """The functions in `free_calls`; empty for "read_only"."""
        return frozenset() if self.free_calls == "read_only" else frozenset(self.free_calls)

    def is_free(self, name: str) -> bool:
        """Return True if a turn without expected calls may have a call of this function."""
        return self.free_calls == "read_only" or name in self.free_calls

    def ignores(self, path: str) -> bool:
        """Return True if `ignored_state` has this path in the state, or the path of an object or list around it.

        `Shelf.things` ignores `Shelf.things.book` and `Shelf.things[0]`, but not `Shelf.things2`.
        """
        return any(path == outer or path.startswith((f"{outer}.", f"{outer}[")) for outer in self.ignored_state)


JUDGING_COLUMNS = Judging.__struct_fields__
