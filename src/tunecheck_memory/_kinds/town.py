"""The kinds `locations` and `locations_directions`: a town on a grid, and the way between its places.

Tests are made of a random walk through the town. A reply is scored by where its route leads, in kilometers.
"""

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
"""The longest way between two places of a walk in kilometers, unless all nearer points are taken."""

_NEAR_KM = 0.05
"""The largest distance between the point that a route leads to and the destination."""

# Expected routes are also read from data sets of others; these limits bound the time that the pattern takes.
_MOST_STEPS = 60
_LONGEST_STEP = 250

_STEP = re.compile(r"From (?P<start>.+?), go (?P<move>.+?) to (?P<end>.+?)\.?\s*")
"""A line of an expected route, as `Leg.instruction` writes it."""

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
        """The way back."""
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
        expected, destination = _displacement(steps), steps[-1]["end"]
        names = [name for step in steps for name in step.group("start", "end") if name.lower() != destination.lower()]
        if not names:
            raise NoExpectationError
        places = Places([*names, destination])
        routes = read_routes(reply, places)
        if _complete_routes(routes):
            return _score_routes(routes, expected)
        position = where_it_lies(reply, places)
        if position is None:
            return _score_routes(_read_two_parts(reply, places) or routes, expected)
        return _score_position(position, expected)


def walk(random: Random, places: int) -> list[Leg]:
    """Draw a walk through this many places; no point is used twice.

    Places are at most 5 km apart unless all near points are taken.
    """
    position, used, legs = 0j, {0j}, list[Leg]()
    for start, end in pairwise(random.sample(read_words("places"), places)):
        free, longest = list[tuple[str, int]](), 0
        while not free:
            longest += _LONGEST_LEG
            near = [(direction, kilometres) for direction in _DIRECTIONS for kilometres in range(1, longest + 1)]
            free = [move for move in near if position + move[1] * _DIRECTIONS[move[0]] not in used]
        direction, kilometres = random.choice(free)
        position += kilometres * _DIRECTIONS[direction]
        used.add(position)
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
        way_back = random.choice(legs).back
        question = _WAY_BACK.format(start=way_back.start, end=way_back.end)
        return scripted_test(self, example, statements, [question], [way_back.instruction()])


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


def _expected_steps(expected: str) -> list[re.Match[str]]:
    """Return the matches of the expected lines "From A, go 4km East to B."; other lines are ignored."""
    lines = [line for line in expected.split("\n")[:_MOST_STEPS] if len(line) <= _LONGEST_STEP]
    return [match for match in map(_STEP.fullmatch, lines) if match is not None]


def _displacement(steps: Sequence[re.Match[str]]) -> tuple[float, float]:
    """Return how far the expected steps lead, in kilometers east and north.

    Raises:
        NoExpectationError: There is no step, or one is not a single move with distance and direction.
    """
    moves_by_step = [moves(step["move"]) for step in steps]
    if not steps or any(len(found) != 1 or not found[0].is_complete for found in moves_by_step):
        raise NoExpectationError
    return Route([found[0] for found in moves_by_step]).displacement()


def _complete_routes(routes: Sequence[Route]) -> list[Route]:
    """Return the routes that have moves, each with distance and direction."""
    return [route for route in routes if route.complete and route.legs]


def _score_routes(routes: Sequence[Route], expected: tuple[float, float]) -> Score:
    """Score the first complete route that arrives at the destination, or else the first complete route."""
    if not routes:
        return Score(0.0, ("the reply gives no route",))
    complete = _complete_routes(routes)
    if not complete:
        return Score(0.0, ("a step of the route has no distance or no direction",), sure=False)
    route = next((route for route in complete if route.arrives), complete[0])
    return _score_position(route.displacement(), expected)


def _score_position(reached: tuple[float, float], expected: tuple[float, float]) -> Score:
    """Score 1 if the reply leads to the expected point; both points are kilometers east and north of the start."""
    leads = f"the route leads {_position_text(*reached)}"
    if math.dist(reached, expected) < _NEAR_KM:
        return Score(1.0, (leads,))
    return Score(0.0, (f"{leads}, not {_position_text(*expected)}",))


def _read_two_parts(text: str, places: Places) -> list[Route]:
    """Return the route of a reply that names direction and distance apart, such as "Direction: East. Distance: 4 km".

    Return an empty list unless the reply has exactly one direction and one distance.
    """
    parts = moves(places.masked(text))
    directions = {move.eighths for move in parts if move.eighths is not None}
    lengths = {move.kilometers for move in parts if move.kilometers is not None}
    if len(directions) != 1 or len(lengths) != 1:
        return []
    return [Route([Move(lengths.pop(), directions.pop(), 0, 0)], arrives=True)]


def _position_text(east: float, north: float) -> str:
    """Return a point as text, such as "3 km east and 1 km north"; "nowhere" for the start."""
    parts = []
    for kilometers, forward, backward in ((east, "east", "west"), (north, "north", "south")):
        rounded = round(kilometers, 2)
        if rounded:
            parts.append(f"{abs(rounded):g} km {backward if rounded < 0 else forward}")
    return " and ".join(parts) or "nowhere"
