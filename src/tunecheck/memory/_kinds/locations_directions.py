"""Locations, directions: a chain of places, and the whole way from the first to the last asked for."""

from __future__ import annotations

from typing import ClassVar

from tunecheck.memory._kind import Making
from tunecheck.memory._kinds.places import TownKind, walk
from tunecheck.memory._kinds.scripts import scripted_test
from tunecheck.memory._model import Definition

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


class LocationsDirections(TownKind):
    """`known_locations` places, each seen from the one before, and the question for the way through all of them."""

    name: ClassVar[str] = "locations_directions"
    title: ClassVar[str] = "Locations Directions"

    def definition(self, example: str, making: Making) -> Definition:
        """See Kind."""
        random = making.random(self.title, example)
        legs = walk(random, self.known_locations)
        statements = [_FIRST.format(start=legs[0].start)]
        statements += [leg.told(random.choice(_NEXT)) for leg in legs]
        question = _QUESTION.format(start=legs[0].start, end=legs[-1].end)
        return scripted_test(self, example, statements, [question], ["\n".join(leg.instruction() for leg in legs)])
