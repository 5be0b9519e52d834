"""Locations: where places are, each seen from another, and one such statement asked for from the other end."""

from __future__ import annotations

from typing import ClassVar

from tunecheck.memory._kind import Making
from tunecheck.memory._kinds.places import TownKind, walk
from tunecheck.memory._kinds.scripts import scripted_test
from tunecheck.memory._model import Definition

_STATEMENTS = (
    "In my town the {end} lies {kilometres} km {direction} of the {start}.",
    "Go {kilometres} km {direction} from the {start} of my town, and you stand before the {end}.",
    "My town's {end} is found {kilometres} km to the {direction} of the {start}.",
)
_QUESTION = (
    "I am at the {start} of my town and want to go straight to the {end}. In which direction do I go, and how many "
    "kilometres?"
)


class Locations(TownKind):
    """`known_locations` places along a walk, and the question for the way from one of them back to the one before."""

    name: ClassVar[str] = "locations"
    title: ClassVar[str] = "Locations"

    def definition(self, example: str, making: Making) -> Definition:
        """See Kind."""
        random = making.random(self.title, example)
        legs = walk(random, self.known_locations)
        statements = [leg.told(random.choice(_STATEMENTS)) for leg in legs]
        asked = random.choice(legs).back
        question = _QUESTION.format(start=asked.start, end=asked.end)
        return scripted_test(self, example, statements, [question], [asked.instruction()])
