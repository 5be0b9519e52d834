"""Where in a journal the records stand that a row may reuse: by its index, or by the hash of its inputs."""

from array import array
from collections.abc import Iterator
from typing import NamedTuple

_FARTHEST_AHEAD = 1 << 20
_ROOM_A_PLACE = 4


class Place(NamedTuple):
    offset: int
    row: int


class ByRow:
    """Places found by the row's index: 8 bytes a row."""

    def __init__(self) -> None:
        self._offsets = array("Q")
        self._far: dict[int, int] = {}
        self._added = 0

    def add(self, _: str | None, place: Place) -> None:
        self._added += 1
        if place.row > _FARTHEST_AHEAD + _ROOM_A_PLACE * self._added:
            # Many rows before it failed, or somebody made it up: memory goes by what is there, not by what it says.
            self._far[place.row] = place.offset + 1
            return
        if place.row >= len(self._offsets):
            self._offsets.frombytes(bytes(8 * (place.row + 1024 - len(self._offsets))))
        self._offsets[place.row] = place.offset + 1

    def rows(self) -> Iterator[int]:
        """The rows that have a place."""
        yield from (row for row, offset in enumerate(self._offsets) if offset)
        yield from self._far

    def find(self, _: str | None, index: int) -> Place | None:
        offset = self._far.get(index) or (self._offsets[index] if index < len(self._offsets) else 0)
        return Place(offset - 1, index) if offset else None


class ByContent:
    """Places found by the hash of the inputs.

    Of several places with equal inputs, a row gets the one that was recorded for it; else the n-th asking gets the
    n-th place, then the last.
    """

    def __init__(self) -> None:
        self._places: dict[int, Place | dict[int, Place]] = {}

    def add(self, input_hash: str | None, place: Place) -> None:
        if input_hash is None:
            return
        key = hash(input_hash)
        known = self._places.get(key)
        if isinstance(known, dict):
            known[place.row] = place
        else:
            self._places[key] = place if known is None else {known.row: known, place.row: place}

    def find(self, input_hash: str | None, index: int) -> Place | None:
        if input_hash is None:
            return None
        known = self._places.get(hash(input_hash))
        if not isinstance(known, dict):
            return known
        row = index if index in known else next(iter(known))
        return known.pop(row) if len(known) > 1 else known[row]
