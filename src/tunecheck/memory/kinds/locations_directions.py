"""Locations, directions: a chain of places, and the whole way from the first to the last asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tunecheck.jsontext import JSON
from tunecheck.memory.kind import Kind, Making
from tunecheck.memory.kinds.arguments import whole
from tunecheck.memory.kinds.places import LONGEST_TOWN, TOWN, walk
from tunecheck.memory.kinds.scripts import scripted_test
from tunecheck.memory.model import Definition

__all__ = ["LocationsDirections"]

_FIRST = "Right in the middle of the town where I grew up stands the {start}."
_NEXT = (
    "The {end} of that town is {kilometres} km {direction} of the {start}.",
    "From the {start} it is {kilometres} km {direction} to the {end} of that town.",
    "Whoever leaves the {start} of that town and goes {direction} for {kilometres} km gets to the {end}.",
)
_QUESTION = (
    "How do I get from the {start} to the {end} of the town where I grew up, if I go by all the places in between in "
    "the order in which I told you of them? Give the direction and the distance of each part of the way."
)


class LocationsDirections(Kind):
    """`known_locations` places, each seen from the one before, and the question for the way through all of them."""

    name: ClassVar[str] = "locations_directions"
    title: ClassVar[str] = "Locations Directions"
    topics: ClassVar[frozenset[str]] = frozenset({TOWN})
    resets: ClassVar[bool] = True

    def __init__(self, *, known_locations: int = 5) -> None:
        self.known_locations = whole("known_locations", known_locations, least=2, most=LONGEST_TOWN)
        self.arguments: Mapping[str, JSON] = {"known_locations": known_locations}

    def definition(self, example: str, making: Making) -> Definition:
        """See Kind."""
        random = making.random(self.title, example)
        legs = walk(random, self.known_locations)
        statements = [_FIRST.format(start=legs[0].start)]
        statements += [leg.told(random.choice(_NEXT)) for leg in legs]
        question = _QUESTION.format(start=legs[0].start, end=legs[-1].end)
        return scripted_test(self, example, statements, [question], ["\n".join(leg.instruction() for leg in legs)])
