"""Kinds that tell of a town on a grid, and ask for the way between its places."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import NamedTuple

from tunecheck_memory._data import read_words
from tunecheck_memory._kind import Kind, Making
from tunecheck_memory._kinds.scripts import scripted_test, whole
from tunecheck_memory._model import Definition

LONGEST_TOWN = 40
"""Most places of one town; the list of names has as many and more."""

_LONGEST_LEG = 5

_DIRECTIONS = {"North": (0, 1), "East": (1, 0), "South": (0, -1), "West": (-1, 0)}

_OPPOSITE = {"North": "South", "South": "North", "East": "West", "West": "East"}


class Leg(NamedTuple):
    """From one place so many kilometres in a direction to the next."""

    start: str
    kilometres: int
    direction: str
    end: str

    @property
    def back(self) -> Leg:
        return Leg(self.end, self.kilometres, _OPPOSITE[self.direction], self.start)

    def told(self, sentence: str) -> str:
        """A sentence with {start}, {kilometres}, {direction} and {end} filled in."""
        return sentence.format(**self._replace(direction=self.direction.lower())._asdict())

    def instruction(self) -> str:
        """`From Mill, go 4km East to Chapel.`: the form in which expected routes are written."""
        return f"From {self.start}, go {self.kilometres}km {self.direction} to {self.end}."


class TownKind(Kind):
    """Base of the kinds that tell of a town with `known_locations` places along a walk."""

    topics = frozenset({"places of a town"})
    resets = True

    def __init__(self, *, known_locations: int = 5) -> None:
        self.known_locations = whole("known_locations", known_locations, least=2, most=LONGEST_TOWN)
        self.arguments = {"known_locations": known_locations}


def walk(random: Random, places: int) -> list[Leg]:
    """A walk through so many places, no two of which are at the same point."""
    names = random.sample(read_words("places"), places)
    here, been = (0, 0), {(0, 0)}
    legs: list[Leg] = []
    for start, end in pairwise(names):
        here, kilometres, direction = _next_point(random, here, been)
        been.add(here)
        legs.append(Leg(start, kilometres, direction, end))
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


_SEEN_FROM = (
    "In my town the {end} lies {kilometres} km {direction} of the {start}.",
    "Go {kilometres} km {direction} from the {start} of my town, and you stand before the {end}.",
    "My town's {end} is found {kilometres} km to the {direction} of the {start}.",
)
_WAY_BACK = (
    "I am at the {start} of my town and want to go straight to the {end}. In which direction do I go, and how many "
    "kilometres?"
)


class Locations(TownKind):
    """`known_locations` places along a walk, and the question for the way from one of them back to the one before."""

    name = "locations"
    title = "Locations"

    def definition(self, example: str, making: Making) -> Definition:
        random = making.random(self.title, example)
        legs = walk(random, self.known_locations)
        statements = [leg.told(random.choice(_SEEN_FROM)) for leg in legs]
        asked = random.choice(legs).back
        question = _WAY_BACK.format(start=asked.start, end=asked.end)
        return scripted_test(self, example, statements, [question], [asked.instruction()])


_FIRST = "Right in the middle of the town where I grew up stands the {start}."
_NEXT = (
    "The {end} of that town is {kilometres} km {direction} of the {start}.",
    "From the {start} it is {kilometres} km {direction} to the {end} of that town.",
    "Whoever leaves the {start} of that town and goes {direction} for {kilometres} km gets to the {end}.",
)
_WHOLE_WAY = (
    "How do I get from the {start} to the {end} of the town where I grew up, if I go by all the places in between in "
    "the order in which I told you of them? Give the direction and the distance of each part of the way."
)


class LocationsDirections(TownKind):
    """`known_locations` places, each seen from the one before, and the question for the way through all of them."""

    name = "locations_directions"
    title = "Locations Directions"

    def definition(self, example: str, making: Making) -> Definition:
        random = making.random(self.title, example)
        legs = walk(random, self.known_locations)
        statements = [_FIRST.format(start=legs[0].start), *(leg.told(random.choice(_NEXT)) for leg in legs)]
        question = _WHOLE_WAY.format(start=legs[0].start, end=legs[-1].end)
        return scripted_test(self, example, statements, [question], ["\n".join(leg.instruction() for leg in legs)])
