"""Kinds about a town on a grid, and the way between its places."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from random import Random
from typing import NamedTuple

from tunecheck_memory import FinishedTest, GenerationContext, Kind, MemoryTest, Score, scripted_test
from tunecheck_memory._kinds.replies import NoExpectationError, expected_text, last_reply, plain_words
from tunecheck_memory._kinds.routes import Move, Places, Route, moves, read_routes, where_it_lies
from tunecheck_memory._kinds.scripts import read_line, read_lines, read_words, whole

LONGEST_TOWN = 40
"""The most places of one town; the list of names has more."""

_LONGEST_LEG = 5

_DIRECTIONS: Mapping[str, complex] = {"North": 1j, "East": 1, "South": -1j, "West": -1}

_OPPOSITE = {"North": "South", "South": "North", "East": "West", "West": "East"}


class Leg(NamedTuple):
    """The way from one place to the next: kilometres in a direction."""

    start: str
    kilometres: int
    direction: str
    end: str

    @property
    def back(self) -> Leg:
        return Leg(self.end, self.kilometres, _OPPOSITE[self.direction], self.start)

    def told(self, sentence: str) -> str:
        """Fill {start}, {kilometres}, {direction} and {end} into a sentence."""
        return sentence.format(**self._replace(direction=self.direction.lower())._asdict())

    def instruction(self) -> str:
        """Return `From Mill, go 4km East to Chapel.`, the form of expected routes."""
        return f"From {self.start}, go {self.kilometres}km {self.direction} to {self.end}."


class TownKind(Kind):
    """Base of the kinds about a town with `known_locations` places along a walk."""

    topics = frozenset({"places of a town"})
    resets = True
    judge_prompt = "memory_route"

    def __init__(self, *, known_locations: int = 5) -> None:
        self.known_locations = whole("known_locations", known_locations, least=2, most=LONGEST_TOWN)

    def score(self, given: FinishedTest) -> Score | None:
        """Score 1 if the route in the reply leads from the start to the destination, by any way.

        A statement of the destination's position is as good as a route. A route without a distance or a direction in
        one of its steps scores 0.
        """
        reply, steps = plain_words(last_reply(given)), _expected_steps(expected_text(given))
        wanted, destination = _displacement(steps), steps[-1][3]
        names = [name for step in steps for name in (step[1], step[3]) if name.lower() != destination.lower()]
        if not names:
            raise NoExpectationError
        places = Places([*names, destination])
        routes = read_routes(reply, places)
        if any(route.complete and route.legs for route in routes):
            return _leads(routes, wanted)
        lies = where_it_lies(reply, places)
        return _compare(lies, wanted) if lies else _leads(_read_two_parts(reply, places) or routes, wanted)


def walk(random: Random, places: int) -> list[Leg]:
    """Draw a walk through this many places, at most 5 km apart unless all near points are taken; no point is used
    twice.
    """
    here, been, legs = 0j, {0j}, list[Leg]()
    for start, end in pairwise(random.sample(read_words("places"), places)):
        free, longest = list[tuple[str, int]](), 0
        while not free:
            longest += _LONGEST_LEG
            reach = [(way, kilometres) for way in _DIRECTIONS for kilometres in range(1, longest + 1)]
            free = [(way, kilometres) for way, kilometres in reach if here + kilometres * _DIRECTIONS[way] not in been]
        direction, kilometres = random.choice(free)
        here += kilometres * _DIRECTIONS[direction]
        been.add(here)
        legs.append(Leg(start, kilometres, direction, end))
    return legs


_SEEN_FROM = read_lines("place seen from another")
_WAY_BACK = read_line("way back")


class Locations(TownKind):
    """The user tells of `known_locations` places along a walk, and asks for the way from one back to the one before."""

    name = "locations"
    title = "Locations"

    def definition(self, example: str, making: GenerationContext) -> MemoryTest:
        """Return a test with the places of a random walk, and the question for the way back between two of them."""
        random = making.random(self.title, example)
        legs = walk(random, self.known_locations)
        statements = [leg.told(random.choice(_SEEN_FROM)) for leg in legs]
        asked = random.choice(legs).back
        question = _WAY_BACK.format(start=asked.start, end=asked.end)
        return scripted_test(self, example, statements, [question], [asked.instruction()])


_FIRST = read_line("first place of a walk")
_NEXT = read_lines("next place of a walk")
_WHOLE_WAY = read_line("whole way")


class LocationsDirections(TownKind):
    """The user tells of `known_locations` places, each seen from the one before, and asks for the way through all."""

    name = "locations_directions"
    title = "Locations Directions"

    def definition(self, example: str, making: GenerationContext) -> MemoryTest:
        """Return a test with the places of a random walk, and the question for the whole way from first to last."""
        random = making.random(self.title, example)
        legs = walk(random, self.known_locations)
        statements = [_FIRST.format(start=legs[0].start), *(leg.told(random.choice(_NEXT)) for leg in legs)]
        question = _WHOLE_WAY.format(start=legs[0].start, end=legs[-1].end)
        return scripted_test(self, example, statements, [question], ["\n".join(leg.instruction() for leg in legs)])


_STEP = re.compile(r"From (.+?), go (.+?) to (.+?)\.?\s*")


_MOST_STEPS = 60


_LONGEST_STEP = 250


_NEAR_KM = 0.05


def _expected_steps(expected: str) -> list[re.Match[str]]:
    """Return the matches of the expected lines "From A, go 4km East to B."; other lines are ignored."""
    lines = expected.split("\n")[:_MOST_STEPS]
    return [match for line in lines if len(line) <= _LONGEST_STEP and (match := _STEP.fullmatch(line)) is not None]


def _displacement(steps: Sequence[re.Match[str]]) -> tuple[float, float]:
    """Return how far the expected steps lead, in kilometers east and north.

    Raises:
        NoExpectationError: A step is not one move with distance and direction.
    """
    ways = [moves(step[2]) for step in steps]
    if not ways or any(len(way) != 1 or not way[0].is_complete for way in ways):
        raise NoExpectationError
    return Route([way[0] for way in ways]).displacement()


def _leads(routes: list[Route], wanted: tuple[float, float]) -> Score:
    """Score by where the first complete route leads; one that arrives at the destination comes first."""
    if not routes:
        return Score(0.0, ("the reply gives no route",))
    whole = [route for route in routes if route.complete and route.legs]
    if not whole:
        return Score(0.0, ("a step of the route has no distance or no direction",), sure=False)
    route = next((route for route in whole if route.arrives), whole[0])
    return _compare(route.displacement(), wanted)


def _compare(said: tuple[float, float], wanted: tuple[float, float]) -> Score:
    """Score 1 if the reply leads to the wanted point; both points are kilometers east and north of the start."""
    east, north = said
    right = math.dist(said, wanted) < _NEAR_KM
    leads = f"the route leads {_position_text(east, north)}"
    return Score(float(right), (leads if right else f"{leads}, not {_position_text(*wanted)}",))


def _read_two_parts(text: str, places: Places) -> list[Route]:
    """Return the route of a reply with one direction and one distance apart, "Direction: East. Distance: 4 km"; else
    empty.
    """
    routes = moves(places.masked(text))
    ways = {move.eighths for move in routes if move.eighths is not None}
    lengths = {move.kilometers for move in routes if move.kilometers is not None}
    if len(ways) != 1 or len(lengths) != 1:
        return []
    return [Route([Move(lengths.pop(), ways.pop(), 0, 0)], arrives=True)]


def _position_text(east: float, north: float) -> str:
    """Return a point as text, such as "3 km east and 1 km north"; "nowhere" for the start."""
    parts = [
        f"{abs(way):g} km {names[way < 0]}"
        for way, names in ((round(east, 2), ("east", "west")), (round(north, 2), ("north", "south")))
        if way
    ]
    return " and ".join(parts) or "nowhere"
