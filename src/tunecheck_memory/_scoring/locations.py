"""Locations: a route between places, or the direction and distance of one place, compared by where they lead.

A route in words is read as legs: numbered steps, sentences or arrows; from where it starts to where it is said to end.
Every part of the reply that reads like a route is one; the first that is complete and reaches the destination counts.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple, TypeAlias

from tunecheck_memory._model import Given, Score
from tunecheck_memory._scoring.base import NoExpectationError, UndecidedError, expected_text, last_reply, plain_words
from tunecheck_memory._scoring.directions import Move, moves

_ITEM = re.compile(r"[ \t]{0,3}(?:step\s+)?(\d{1,2})[.):]+[ \t]*(.*)", re.IGNORECASE)
_BULLET = re.compile(r"([ \t]*)[-•+*][ \t]+(.*)")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_ARROWS = re.compile(r"(?:→|⇒|➔|➜|⟶|-{1,2}>|–>|=>)")
_MOVING = re.compile(
    r"\b(?:go|going|head|heading|travel|travell?ing|walk|walking|drive|driving|mov(?:e|ing)|continu(?:e|ing)|proceed"
    r"|turn|take|journey|from (?:there|here)|direction|make your way|run|cycle|ride|follow|cross|return|backtrack|start"
    r"|then|next|finally|reach|arrive)\b|->",
    re.IGNORECASE,
)
_ASIDE = re.compile(
    r"\b(?:total|altogether|in all|overall distance|distance covered|puts you|brings you (?:back|to within|slightly)"
    r"|takes you (?:slightly|back|past)|you(?:'re| are| will be|'ll be| should be) (?:now )?(?:at|\d|about|approx))",
    re.IGNORECASE,
)
_BRACKETED = re.compile(r"\([^()\n]{0,300}\)")
_FACT = re.compile(
    r"(?:\b(?:is|are|was|lies|lie|sits|situated|located|being)|'s)\b(?:(?! to | then )[^.;:]){0,40}$", re.IGNORECASE
)
_NOT_TO = re.compile(
    r"(?:\bfrom|\bof|\bleav\w+|\bstart\w*(?: at| from| in)?|\bpast|\bvisit\w* |\bafter|\bvia)\s*(?:the\s+)?$", re.I
)
_RESTART = re.compile(
    r"\b(?:alternatively|another (?:route|option|way)|in summary|to summarize|to sum up|summary|so,? (?:the|your|in)"
    r"|breakdown|in short|more direct|the (?:complete|full|total|whole) (?:route|journey))\b",
    re.IGNORECASE,
)
_MOST_UNITS = 400
_MOST_MOVES = 60


class Place(NamedTuple):
    """Where a known place is named in a text; `number` is its place in the list."""

    number: int
    start: int
    end: int


class Places:
    """The names of all places that a route may name: the start first, the destination last."""

    def __init__(self, names: Sequence[str]) -> None:
        unique = list(dict.fromkeys(" ".join(name.split()).lower() for name in names))
        self.last = len(unique) - 1
        self._numbers = {name: number for number, name in enumerate(unique)}
        longest_first = sorted(unique, key=len, reverse=True)
        shapes = [r"\s+(?:the\s+)?".join(map(re.escape, name.split())) for name in longest_first]
        self._pattern = re.compile(rf"(?<!\w)(?:{'|'.join(shapes)})(?!\w)", re.IGNORECASE)

    def find(self, text: str) -> list[Place]:
        return [Place(self._number(match[0]), match.start(), match.end()) for match in self._pattern.finditer(text)]

    def _number(self, text: str) -> int:
        words = text.lower().split()
        bare = " ".join(word for word in words if word != "the")
        return self._numbers.get(" ".join(words), self._numbers.get(bare, 0))

    def masked(self, text: str) -> str:
        """The text with signs in place of names, as long as they: "West End" is not a direction."""
        return self._pattern.sub(lambda found: "§" * len(found[0]), text)


@dataclass(slots=True)
class Route:
    """Moves one after another; `complete` where each says distance and direction, `arrives` at the destination."""

    legs: list[Move] = field(default_factory=list)
    complete: bool = True
    arrives: bool = False
    at: int | None = None

    def displacement(self) -> tuple[float, float]:
        """Where it leads, east and north, in kilometers."""
        vectors = [leg.vector() for leg in self.legs]
        return (sum(east for east, _ in vectors), sum(north for _, north in vectors))


_Leg: TypeAlias = tuple[Move, int | None]
"""A move, and the place that it leads to, where that is said."""


def read_routes(text: str, places: Places) -> list[Route]:
    """All routes in a text, in order; a text that only tells where places lie has none."""
    routes: list[Route] = [Route()]
    for step, number in islice(_units(_ARROWS.sub(" -> ", text)), _MOST_UNITS):
        legs = _legs(step, places, routes[-1])
        begun = routes[-1].legs or not routes[-1].complete
        if begun and (number == 1 or _RESTART.search(step) or _starts_at(step, places)):
            routes.append(Route())
        for move, to in legs:
            if routes[-1].arrives:
                routes.append(Route())
            route = routes[-1]
            if move.is_complete:
                route.legs.append(move)
            else:
                route.complete = False
            route.at = route.at if to is None else to
            route.arrives = to == places.last
    return [route for route in routes if route.legs or not route.complete]


def _starts_at(text: str, places: Places) -> bool:
    """Whether it begins with the start: "Hospital -> …", "From the Hospital, …", "Hospital to Library: …"."""
    named = places.find(text)
    if not named or named[0].number != 0:
        return False
    before = text[: named[0].start].strip().lower()
    after = text[named[0].end :].lstrip().lower()
    begins = before in ("", "from", "from the", "the", "start at", "start at the", "-", "start from the")
    return begins and (before.startswith(("from", "start")) or after.startswith(("->", "to ", "to:", "(")))


def where_it_lies(text: str, places: Places) -> tuple[float, float] | None:
    """Where the destination lies from the start, in kilometers east and north, by what a text tells of places.

    For replies that say no more than "the Library is 4 km east of the Hospital, the Park …"; None where that is not
    enough to know.
    """
    known: dict[int, tuple[float, float]] = {0: (0.0, 0.0)}
    for step, _ in islice(_units(text), _MOST_UNITS):
        for about, base, (east, north) in _relations(step, places):
            if base in known and about not in known:
                known[about] = (known[base][0] + east, known[base][1] + north)
    return known.get(places.last)


def _relations(text: str, places: Places) -> Iterator[tuple[int, int, tuple[float, float]]]:
    for sentence in _SENTENCE_END.split(text):
        about, steps = None, Route()
        for each in _placed_moves(sentence, places):
            if not each.fact or not each.move.is_complete:
                continue
            about = each.about if each.about is not None else about
            steps.legs.append(each.move)
            if about is not None and each.base is not None:
                yield about, each.base, steps.displacement()
                about, steps = None, Route()


def _units(text: str) -> Iterator[tuple[str, int | None]]:
    """Each step of a list with its number, and each sentence of prose without one."""
    step: list[str] | None = None
    number: int | None = None
    blank = False
    for line in text.split("\n"):
        if not line.strip():
            blank = True
            continue
        item = _ITEM.fullmatch(line)
        bullet = _BULLET.fullmatch(line)
        words = bullet[2] if bullet else line
        if item is None and step is not None and (not blank or line[:2].isspace()):
            step.append(words)
        else:
            if step is not None:
                yield "\n".join(step), number
            if item is not None:
                step, number = [item[2]], int(item[1])
            else:
                step = None
                yield from ((sentence, None) for sentence in _SENTENCE_END.split(words.strip()) if sentence)
        blank = False
    if step is not None:
        yield "\n".join(step), number


class _PlacedMove(NamedTuple):
    """A move in a sentence; `fact` says that it tells where a place lies, `about` which, and `base` from where."""

    move: Move
    fact: bool
    to: int | None
    about: int | None
    base: int | None
    moving: bool


def _legs(text: str, places: Places, route: Route) -> list[_Leg]:
    text = _BRACKETED.sub(lambda found: " " if _ASIDE.search(found[0]) else found[0], text)
    placed = [each for sentence in _SENTENCE_END.split(text) for each in _placed_moves(sentence, places)]
    legs = [(each.move, each.to) for each in placed if not each.fact and each.move.is_complete]
    open_ = [each for each in placed if not each.fact and not each.move.is_complete]
    facts = [each for each in placed if each.fact]
    if not legs:
        return _from_facts(text, open_, facts, route, places)
    reached = {to for _, to in legs}
    for each in open_:
        # A direction that the step says again, with its distance, is not a leg of its own; one to elsewhere is.
        if each.move.eighths is not None and each.moving and each.to is not None and each.to not in reached:
            legs.insert(0, (each.move, each.to))
    if places.last not in reached:
        here = legs[-1][1]
        for each in facts:
            if each.move.is_complete and each.about == places.last and each.base is not None and each.base == here:
                return [*legs, (each.move, places.last)]
    return legs


def _from_facts(
    text: str, open_: list[_PlacedMove], facts: list[_PlacedMove], route: Route, places: Places
) -> list[_Leg]:
    """The leg of a step that says in two parts where it goes: "Head north to the Museum, which is 3 km away"."""
    ways = [each for each in open_ if each.move.eighths is not None and each.moving]
    known = [each for each in facts if each.move.is_complete]
    lengths = [each for each in (*open_, *facts) if each.move.kilometers is not None and not each.move.is_complete]
    goal = next((each.to for each in (*ways, *lengths) if each.to is not None), None)
    if known and (ways or _MOVING.search(text)):
        return [(known[0].move, known[0].to if goal is None else goal)]
    if goal is None:
        goal = _destination(text, reversed(places.find(text)))
    if not known and len(ways) == 1 and lengths:
        way, length = ways[0].move, lengths[0].move
        joined = Move(length.kilometers, way.eighths, min(way.start, length.start), max(way.end, length.end))
        return [(joined, goal)]
    if known and route.legs and known[0].about == places.last and known[0].base in (None, route.at):
        return [(known[0].move, places.last)]
    loose = ways or [each for each in lengths if not each.fact and each.moving and each.to is not None]
    return [(loose[0].move, goal)] if loose and goal is not None else []


def _destination(text: str, named: Iterable[Place]) -> int | None:
    """The first of these places that is not named as where one comes from ("leave the Park")."""
    goals = (place for place in named if not _NOT_TO.search(text[max(0, place.start - 30) : place.start]))
    return next((place.number for place in goals), None)


def _placed_moves(sentence: str, places: Places) -> Iterator[_PlacedMove]:
    aside = _ASIDE.search(sentence)
    sentence = sentence[: aside.start()] if aside else sentence
    masked = places.masked(sentence)
    named = places.find(sentence)[: 2 * _MOST_MOVES]
    all_moves = moves(masked)[:_MOST_MOVES]
    moving = _MOVING.search(masked) is not None
    fact = False
    for number, move in enumerate(all_moves):
        since = all_moves[number - 1].end if number else 0
        until = all_moves[number + 1].start if number + 1 < len(all_moves) else len(sentence)
        between = masked[since : move.start]
        # "… is 1 km north of the Park and 1 km south of the Museum" goes on telling where it lies.
        fact = _FACT.search(between) is not None or (fact and _MOVING.search(between) is None)
        before = [place for place in named if since <= place.start and place.end <= move.start]
        inside = [place for place in named if move.start <= place.start and place.end <= move.end]
        after = [place for place in named if move.end <= place.start and place.end <= until]
        about = before[-1].number if before else None
        goal = _destination(sentence, (*inside, *after, *reversed(before)))
        bracketed = "(" in sentence[max(0, move.start - 2) : move.start]
        if bracketed and before and not sentence[before[-1].end : move.start].strip(" (-:"):
            goal = about  # "the Park (3 km north)"
        yield _PlacedMove(move, fact, goal, about, after[0].number if after else None, moving)


_STEP = re.compile(r"From (.+?), go (.+?) to (.+?)\.?\s*")
_MOST_STEPS = 60
_LONGEST_STEP = 250
_NEAR_KM = 0.05


def score_directions(given: Given) -> Score:
    """The route in the reply leads from the start to the destination, whichever way it takes.

    A route that leaves out a distance or a direction leads nowhere.
    """
    reply, expected = last_reply(given), expected_text(given)
    steps = _expected_steps(expected)
    wanted = _displacement(steps)
    destination = steps[-1][3]
    names = [name for step in steps for name in (step[1], step[3]) if name.lower() != destination.lower()]
    places, text = Places([*names, destination]), plain_words(reply)
    routes = read_routes(text, places)
    lies = None if routes else where_it_lies(text, places)
    return _leads(routes, wanted) if lies is None else _compared(lies, wanted)


def _expected_steps(expected: str) -> list[re.Match[str]]:
    """The lines "From A, go 4km East to B." of what was expected."""
    lines = expected.split("\n")[:_MOST_STEPS]
    return [match for line in lines if len(line) <= _LONGEST_STEP and (match := _STEP.fullmatch(line)) is not None]


def _displacement(steps: Sequence[re.Match[str]]) -> tuple[float, float]:
    """Where the steps lead; each must say one way."""
    ways = [moves(step[2]) for step in steps]
    if not ways or any(len(way) != 1 or not way[0].is_complete for way in ways):
        raise NoExpectationError
    return Route([way[0] for way in ways]).displacement()


def _leads(routes: list[Route], wanted: tuple[float, float]) -> Score:
    if not routes:
        return Score(0.0, ("the reply gives no route",))
    whole = [route for route in routes if route.complete and route.legs]
    if not whole:
        return Score(0.0, ("a step of the route has no distance or no direction",), sure=False)
    route = next((route for route in whole if route.arrives), whole[0])
    return _compared(route.displacement(), wanted)


def _compared(said: tuple[float, float], wanted: tuple[float, float]) -> Score:
    east, north = said
    right = math.dist(said, wanted) < _NEAR_KM
    leads = f"the route leads {_shown(east, north)}"
    return Score(float(right), (leads if right else f"{leads}, not {_shown(*wanted)}",))


def _one_way(reply: str, step: re.Match[str]) -> Score:
    """One way with both its ends known: other ways in the reply, "the Mill lies west", are told from it."""
    wanted = _displacement([step])
    if step[1].lower() == step[3].lower():
        raise NoExpectationError
    places, text = Places([step[1], step[3]]), plain_words(reply)
    routes = read_routes(text, places)
    lies = where_it_lies(text, places)
    if any(route.complete and route.legs for route in routes):
        return _leads(routes, wanted)
    return _compared(lies, wanted) if lies is not None else _leads(_in_two_parts(text, places) or routes, wanted)


def _in_two_parts(text: str, places: Places) -> list[Route]:
    """A way whose direction and distance stand apart: "Direction: East. Distance: 4 km"."""
    routes = moves(places.masked(text))
    ways = {move.eighths for move in routes if move.eighths is not None}
    lengths = {move.kilometers for move in routes if move.kilometers is not None}
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


def score_location(given: Given) -> Score:
    """Where one place lies from another: the reply's directions and distances add up to the expected ones."""
    reply, expected = last_reply(given), expected_text(given)
    steps = _expected_steps(expected)
    if len(steps) == 1:
        return _one_way(reply, steps[0])
    wanted = [move for move in moves(plain_words(expected)) if move.is_complete]
    said = [move for move in moves(plain_words(reply)) if move.is_complete]
    if not wanted:
        raise UndecidedError("no direction and distance can be read from what was expected")
    if not said:
        return Score(0.0, ("the reply gives no direction with a distance",))
    there = Route(wanted).displacement()
    right = any(math.dist(route.displacement(), there) < _NEAR_KM for route in (Route(said), Route(said[-1:])))
    return Score(float(right), (f"the reply leads {_shown(*Route(said).displacement())}",))
