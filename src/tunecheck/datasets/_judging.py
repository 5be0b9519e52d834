"""A row's settings for the strict judgement of its conversation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tunecheck._json import JSON
from tunecheck.datasets._sources import as_list, as_text, kind, refuse

JUDGING_COLUMNS = ("free_calls", "final_state_only", "alternative_ground_truths", "ignored_state")

_READ_ONLY = "read_only"


@dataclass(frozen=True, slots=True)
class Judging:
    """The settings by which a row is judged.

    `free` are functions that may also be called in turns without expected calls, as long as the state stays right; with
    `reads_are_free`, all functions may. `final_state_only`: only the state after the last turn is judged.
    `alternatives` are other ground truths; following any of them passes. `ignored` are paths in the state that are not
    compared.
    """

    free: frozenset[str] = frozenset()
    reads_are_free: bool = False
    final_state_only: bool = False
    alternatives: tuple[list[list[JSON]], ...] = ()
    ignored: tuple[str, ...] = ()

    @classmethod
    def read(cls, row: Mapping[str, object], turns: int) -> Judging:
        """Read the settings from a row's columns; `turns` is the number of turns in its ground truth.

        Raises:
            UnusableRowError: a column has the wrong form; the text names it.
        """
        free, final = row.get("free_calls"), row.get("final_state_only")
        if final is not None and not isinstance(final, bool):
            refuse(f"the column `final_state_only` must be true or false, not {kind(final)}")
        if isinstance(free, str) and free != _READ_ONLY:
            refuse(f"the column `free_calls` must be {_READ_ONLY!r} or a list of functions, not {free[:60]!r}")

        reads_are_free = free == _READ_ONLY
        return cls(
            free=frozenset() if reads_are_free else frozenset(_texts(row, "free_calls")),
            reads_are_free=reads_are_free,
            final_state_only=final is True,
            alternatives=tuple(_alternatives(row, turns)),
            ignored=tuple(_texts(row, "ignored_state")),
        )

    def ignores(self, path: str) -> bool:
        """Return True if `ignored` has this path in the state, or the path of an object or list around it.

        `Shelf.things` ignores `Shelf.things.book` and `Shelf.things[0]`, but not `Shelf.things2`.
        """
        return any(path == outer or path.startswith((f"{outer}.", f"{outer}[")) for outer in self.ignored)


def _list(row: Mapping[str, object], column: str) -> list[JSON]:
    """Return the list in a column, an empty one for None; raise UnusableRowError for a value of another type."""
    value = row.get(column)
    return [] if value is None else as_list(value, column)


def _texts(row: Mapping[str, object], column: str) -> list[str]:
    """Return the list of texts in a column, an empty one for None; raise UnusableRowError for any other value."""
    return [as_text(item, f"{column}[{index}]") for index, item in enumerate(_list(row, column))]


def _alternatives(row: Mapping[str, object], turns: int) -> Iterator[list[list[JSON]]]:
    """Yield each alternative ground truth of a row: a list of calls for each turn.

    Raises:
        UnusableRowError: a ground truth has another form, or not as many `turns` as the row's main one.
    """
    for index, value in enumerate(_list(row, "alternative_ground_truths")):
        column = f"alternative_ground_truths[{index}]"
        truth = [as_list(turn, f"{column}[{number}]") for number, turn in enumerate(as_list(value, column))]
        if len(truth) != turns:
            refuse(f"`{column}` has {len(truth)} turns, but `ground_truth` has {turns}: give both the same number")
        yield truth
