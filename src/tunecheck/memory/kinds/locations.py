"""Locations: where places are, each seen from another, and one such statement asked for from the other end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tunecheck.jsontext import JSON
from tunecheck.memory.kind import Kind, Making
from tunecheck.memory.kinds.arguments import whole
from tunecheck.memory.kinds.places import LONGEST_TOWN, TOWN, walk
from tunecheck.memory.kinds.scripts import scripted_test
from tunecheck.memory.model import Definition

__all__ = ["Locations"]

_STATEMENTS = (
    "In my town the {end} lies {kilometres} km {direction} of the {start}.",
    "Go {kilometres} km {direction} from the {start} of my town, and you stand before the {end}.",
    "My town's {end} is found {kilometres} km to the {direction} of the {start}.",
)
_QUESTION = (
    "I am at the {start} of my town and want to go straight to the {end}. In which direction do I go, and how many "
    "kilometres?"
)


class Locations(Kind):
    """`known_locations` places along a walk, and the question for the way from one of them back to the one before."""

    name: ClassVar[str] = "locations"
    title: ClassVar[str] = "Locations"
    topics: ClassVar[frozenset[str]] = frozenset({TOWN})
    resets: ClassVar[bool] = True

    def __init__(self, *, known_locations: int = 5) -> None:
        self.known_locations = whole("known_locations", known_locations, least=2, most=LONGEST_TOWN)
        self.arguments: Mapping[str, JSON] = {"known_locations": known_locations}

    def definition(self, example: str, making: Making) -> Definition:
        """See Kind."""
        random = making.random(self.title, example)
        legs = walk(random, self.known_locations)
        statements = [leg.told(random.choice(_STATEMENTS)) for leg in legs]
        asked = random.choice(legs).back
        question = _QUESTION.format(start=asked.start, end=asked.end)
        return scripted_test(self, example, statements, [question], [asked.instruction()])
