"""Locations: a route between places, or the direction and distance of one place, compared by where they lead."""

from __future__ import annotations

import math
import re

from tunecheck.memory._model import Given, Score
from tunecheck.memory._scoring.base import Undecided, Verdict, expected_text, last_reply, plain_words
from tunecheck.memory._scoring.directions import Move, moves
from tunecheck.memory._scoring.routes import Places, Route, read_routes, where_it_lies
from tunecheck.memory._scoring.single import NO_EXPECTATION, NO_REPLY

_STEP = re.compile(r"From (.+?), go (.+?) to (.+?)\.?\s*")
_MOST_STEPS = 60
_LONGEST_STEP = 250
_NEAR_KM = 0.05
_ASKS_BACK = Undecided("the reference asks a model")


def score_directions(given: Given, compat: bool) -> Verdict:
    """The route in the reply leads from the start to the destination, whichever way it takes.

    A route that leaves out a distance or a direction leads nowhere. The reference asks a model to read the route.
    """
    reply, expected = last_reply(given), expected_text(given)
    if reply is None or expected is None:
        return NO_REPLY if reply is None else NO_EXPECTATION
    if compat:
        return _ASKS_BACK
    steps = _steps(expected)
    names = [name for step in steps for name in (step[1], step[3])]
    wanted = _displacement([step[2] for step in steps])
    if wanted is None or not names:
        return NO_EXPECTATION
    places, text = Places([*_without_last(names), names[-1]]), plain_words(reply)
    routes = read_routes(text, places)
    lies = None if routes else where_it_lies(text, places)
    return _leads(routes, wanted) if lies is None else _compared(lies, wanted)


def _steps(expected: str) -> list[re.Match[str]]:
    """The lines "From A, go 4km East to B." of what was expected."""
    lines = expected.split("\n")[:_MOST_STEPS]
    return [found for line in lines if len(line) <= _LONGEST_STEP and (found := _STEP.fullmatch(line)) is not None]


def _without_last(names: list[str]) -> list[str]:
    return [name for name in names[:-1] if name.lower() != names[-1].lower()]


def _displacement(ways: list[str]) -> tuple[float, float] | None:
    found = [moves(way) for way in ways]
    if not found or any(len(each) != 1 or not each[0].is_complete for each in found):
        return None
    return Route([each[0] for each in found]).displacement()


def _leads(routes: list[Route], wanted: tuple[float, float]) -> Score:
    if not routes:
        return Score(0.0, ("the reply gives no route",))
    whole = [route for route in routes if route.complete and route.legs]
    if not whole:
        return Score(0.0, ("a step of the route has no distance or no direction",))
    route = next((route for route in whole if route.arrives), whole[0])
    return _compared(route.displacement(), wanted)


def _compared(said: tuple[float, float], wanted: tuple[float, float]) -> Score:
    east, north = said
    right = math.dist(said, wanted) < _NEAR_KM
    leads = f"the route leads {_shown(east, north)}"
    return Score(float(right), (leads if right else f"{leads}, not {_shown(*wanted)}",))


def _one_way(reply: str, step: re.Match[str]) -> Verdict:
    """One way with both its ends known: other ways in the reply, "the Mill lies west", are told from it."""
    wanted = _displacement([step[2]])
    if wanted is None or step[1].lower() == step[3].lower():
        return NO_EXPECTATION
    places, text = Places([step[1], step[3]]), plain_words(reply)
    routes = read_routes(text, places)
    lies = where_it_lies(text, places)
    if any(route.complete and route.legs for route in routes):
        return _leads(routes, wanted)
    return _compared(lies, wanted) if lies is not None else _leads(_in_two_parts(text, places) or routes, wanted)


def _in_two_parts(text: str, places: Places) -> list[Route]:
    """A way whose direction and distance stand apart: "Direction: East. Distance: 4 km"."""
    found = moves(places.masked(text))
    ways = {move.eighths for move in found if move.eighths is not None}
    lengths = {move.kilometers for move in found if move.kilometers is not None}
    if len(ways) != 1 or len(lengths) != 1:
        return []
    return [Route([Move(lengths.pop(), ways.pop(), 0, 0)], arrives=True)]


def _shown(east: float, north: float) -> str:
    parts = [
        f"{abs(way):g} km {names[way < 0]}"
        for way, names in ((round(east, 2), ("east", "west")), (round(north, 2), ("north", "south")))
        if way
    ]
    return " and ".join(parts) or "nowhere"


def score_location(given: Given, compat: bool) -> Verdict:
    """Where one place lies from another: the reply's directions and distances add up to the expected ones."""
    reply, expected = last_reply(given), expected_text(given)
    if reply is None or expected is None:
        return NO_REPLY if reply is None else NO_EXPECTATION
    if compat:
        return _ASKS_BACK
    steps = _steps(expected)
    if len(steps) == 1:
        return _one_way(reply, steps[0])
    wanted = [move for move in moves(plain_words(expected)) if move.is_complete]
    said = [move for move in moves(plain_words(reply)) if move.is_complete]
    if not wanted:
        return Undecided("no direction and distance can be read from what was expected")
    if not said:
        return Score(0.0, ("the reply gives no direction with a distance",))
    there = Route(wanted).displacement()
    right = any(math.dist(route.displacement(), there) < _NEAR_KM for route in (Route(said), Route(said[-1:])))
    return Score(float(right), (f"the reply leads {_shown(*Route(said).displacement())}",))
