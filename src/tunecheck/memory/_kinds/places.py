"""A town of our own on a grid: places that are so many kilometres from one another, along the four directions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import ClassVar

from tunecheck._json import JSON
from tunecheck.memory._kind import Kind
from tunecheck.memory._kinds.arguments import whole
from tunecheck.memory._kinds.scripts import read_words

TOWN = "places of a town"
"""The topic of tests in which the user tells of a town."""

LONGEST_TOWN = 40
"""Most places of one town; the list of names has as many and more."""

_LONGEST_LEG = 5

_DIRECTIONS = {"North": (0, 1), "East": (1, 0), "South": (0, -1), "West": (-1, 0)}

OPPOSITE = {"North": "South", "South": "North", "East": "West", "West": "East"}
"""The direction of the way back."""


@dataclass(frozen=True, slots=True)
class Leg:
    """From one place so many kilometres in a direction to the next."""

    start: str
    kilometres: int
    direction: str
    end: str

    @property
    def back(self) -> Leg:
        """The way back."""
        return Leg(self.end, self.kilometres, OPPOSITE[self.direction], self.start)

    def told(self, sentence: str) -> str:
        """A sentence with {start}, {kilometres}, {direction} and {end} filled in."""
        direction = self.direction.lower()
        return sentence.format(start=self.start, kilometres=self.kilometres, direction=direction, end=self.end)

    def instruction(self) -> str:
        """`From Mill, go 4km East to Chapel.`: the form in which expected routes are written."""
        return f"From {self.start}, go {self.kilometres}km {self.direction} to {self.end}."


class TownKind(Kind):
    """Base of the kinds that tell of a town with `known_locations` places along a walk."""

    topics: ClassVar[frozenset[str]] = frozenset({TOWN})
    resets: ClassVar[bool] = True

    def __init__(self, *, known_locations: int = 5) -> None:
        self.known_locations = whole("known_locations", known_locations, least=2, most=LONGEST_TOWN)
        self.arguments: Mapping[str, JSON] = {"known_locations": known_locations}


def walk(random: Random, places: int) -> list[Leg]:
    """A walk through so many places, no two of which are at the same point."""
    names = random.sample(read_words("places"), places)
    here, been = (0, 0), {(0, 0)}
    legs: list[Leg] = []
    for start, end in pairwise(names):
        there, kilometres, direction = _next_point(random, here, been)
        been.add(there)
        legs.append(Leg(start, kilometres, direction, end))
        here = there
    return legs


def _next_point(random: Random, here: tuple[int, int], been: set[tuple[int, int]]) -> tuple[tuple[int, int], int, str]:
    """A point where nobody has been; further away than usual where all near ones are taken."""
    longest = _LONGEST_LEG
    while True:
        free = [
            ((here[0] + kilometres * east, here[1] + kilometres * north), kilometres, direction)
            for direction, (east, north) in _DIRECTIONS.items()
            for kilometres in range(1, longest + 1)
            if (here[0] + kilometres * east, here[1] + kilometres * north) not in been
        ]
        if free:
            return random.choice(free)
        longest += _LONGEST_LEG
