"""The kinds `locations` and `locations_directions`: a town on a grid, and the way between its places.

Tests are made of a random walk through the town. A reply is scored by where it leads, in kilometers east and north of
the start. The first of these readings that applies counts:

1. **A route** whose moves all have a distance and a direction: "1. Go 4 km east. 2. Go 2 km north." If the reply has
   several, the first that ends at the destination counts, else the first.
2. **A position** of the destination: "The Library is 4 km east of the Mill."
3. **Two parts**, if the reply has one direction and one distance in all: "Direction: East. Distance: 4 km".
4. **An incomplete route**, "Go east to the Mill": the score is 0, and not sure. Without any route, it is 0.

A route is read in four stages:

* `_marks`: each distance ("4 km") and each direction ("east") in the text
* `moves`: a distance joined with its direction, "head east for 4 kilometers" or "2 km NW"
* `_placed_moves`: the place to which a move leads; a statement of a position ("is 4 km east of") is not a move
* `read_routes`: the moves of all steps. A step is an item of a numbered list, or a sentence of other text. A new route
  begins after a move to the destination.

Terms: a *move* is complete if it has a distance and a direction. A *fact* is a statement of a position. A place is its
number in the list of places, from 0 for the start; the destination is the last.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import islice, pairwise
from random import Random
from typing import NamedTuple, TypeAlias

import msgspec

from tunecheck_memory import FinishedTest, GenerationContext, Kind, MemoryTest, Score, scripted_test
from tunecheck_memory._kinds.replies import NoExpectationError, expected_text, last_reply, plain_words
from tunecheck_memory._kinds.scripts import draw_line, read_line, read_words, whole

LONGEST_TOWN = 40
"""The most places of one town; the list of names has 55."""

_LONGEST_LEG = 5
"""The longest way between two places of a walk in kilometers, unless all nearer points are taken."""

_NEAR_KM = 0.05
"""The largest distance between the point that a route leads to and the destination."""

# Expected routes are also read from data sets of others; these limits bound the time that the pattern takes. The first
# is a number of lines, the second a number of characters.
_MOST_STEPS = 60
_LONGEST_STEP = 250

_STEP = re.compile(r"From (?P<start>.+?), go (?P<move>.+?) to (?P<end>.+?)\.?\s*")
"""A line of an expected route, as `Leg.instruction` writes it: "From Mill, go 4km East to Chapel."."""


class TownPoint(NamedTuple):
    """A point of the town, or a way: kilometers east (`x`) and north (`y`) of the start."""

    x: float
    y: float

    def moved(self, way: TownPoint, times: int = 1) -> TownPoint:
        """Return the point that is reached from here by going a way this many times."""
        return TownPoint(self.x + times * way.x, self.y + times * way.y)


_START = TownPoint(0, 0)

_DIRECTIONS: Mapping[str, TownPoint] = {
    "North": TownPoint(0, 1), "East": TownPoint(1, 0), "South": TownPoint(0, -1), "West": TownPoint(-1, 0),
}  # fmt: skip
"""The way of one kilometer in each direction."""

_OPPOSITE = {"North": "South", "South": "North", "East": "West", "West": "East"}


class Leg(NamedTuple):
    """The way from one place to the next: kilometres in a direction."""

    start: str
    kilometres: int
    direction: str
    end: str

    @property
    def back(self) -> Leg:
        """The way back: the same distance in the opposite direction."""
        return Leg(self.end, self.kilometres, _OPPOSITE[self.direction], self.start)

    def told(self, random: Random, message: str) -> str:
        """Draw a wording of this message, with {start}, {kilometres}, {direction} and {end} filled into it."""
        return draw_line(random, message, **self._replace(direction=self.direction.lower())._asdict())

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

        The first of these readings counts: a complete route, a stated position of the destination, one direction and
        one distance. An incomplete route scores 0, and the score is not sure.

        Raises:
            UndecidedError: the row has no reply, or the expected answer is no route.
        """
        # "2½ km" and "½ km" become "2.5 km" and "0.5 km".
        reply = re.sub("([0-9]?)½", lambda half: f"{half[1] or 0}.5", plain_words(last_reply(given)))
        steps = _expected_steps(expected_text(given))
        expected, destination = _displacement(steps), steps[-1]["end"]

        # The destination must be the last of the places, and it may occur earlier on the way.
        names = [name for step in steps for name in step.group("start", "end") if name.lower() != destination.lower()]
        if not names:
            raise NoExpectationError

        places = Places([*names, destination])
        routes = read_routes(reply, places)
        complete = [route for route in routes if route.complete and route.legs]

        position = None if complete else stated_position(reply, places)
        candidates = complete or (_read_two_parts(reply, places) if position is None else [])
        if candidates:
            position = next((route for route in candidates if route.arrives), candidates[0]).displacement()
        if position is not None:
            return _score_position(position, expected)

        if not routes:
            return Score(0.0, ("the reply gives no route",))
        return Score(0.0, ("a step of the route has no distance or no direction",), sure=False)


def walk(random: Random, places: int) -> list[Leg]:
    """Draw a walk through this many places; no point is used twice.

    Places are at most 5 km apart unless all near points are taken.
    """
    position, used, legs = _START, {_START}, list[Leg]()
    for start, end in pairwise(random.sample(read_words("places"), places)):
        # The near points may all be taken: then look 5 km farther.
        free, longest = list[tuple[str, int]](), 0
        while not free:
            longest += _LONGEST_LEG
            near = [(direction, kilometres) for direction in _DIRECTIONS for kilometres in range(1, longest + 1)]
            free = [move for move in near if position.moved(_DIRECTIONS[move[0]], move[1]) not in used]

        direction, kilometres = random.choice(free)
        position = position.moved(_DIRECTIONS[direction], kilometres)
        used.add(position)
        legs.append(Leg(start, kilometres, direction, end))
    return legs


class Locations(TownKind):
    """The user tells of `known_locations` places along a walk, and asks for the way from one back to the one before."""

    name = "locations"
    title = "Locations"

    def definition(self, example: str, making: GenerationContext) -> MemoryTest:
        """Return a test with the places of a random walk, and the question for the way back between two of them."""
        random = making.random(self.title, example)
        legs = walk(random, self.known_locations)
        statements = [leg.told(random, "place seen from another") for leg in legs]

        way_back = random.choice(legs).back
        question = read_line("way back", start=way_back.start, end=way_back.end)
        return scripted_test(self, example, statements, [question], [way_back.instruction()])


class LocationsDirections(TownKind):
    """The user tells of `known_locations` places, each seen from the one before, and asks for the way through all."""

    name = "locations_directions"
    title = "Locations Directions"

    def definition(self, example: str, making: GenerationContext) -> MemoryTest:
        """Return a test with the places of a random walk, and the question for the whole way from first to last."""
        random = making.random(self.title, example)
        legs = walk(random, self.known_locations)

        first = read_line("first place of a walk", start=legs[0].start)
        statements = [first, *(leg.told(random, "next place of a walk") for leg in legs)]
        question = read_line("whole way", start=legs[0].start, end=legs[-1].end)
        return scripted_test(self, example, statements, [question], ["\n".join(leg.instruction() for leg in legs)])


def _expected_steps(expected: str) -> list[re.Match[str]]:
    """Return the matches of the expected lines "From A, go 4km East to B."; other lines are ignored.

    The GoodAI benchmark's expected routes begin with "(Just an example, if exact instructions are followed)".
    """
    lines = [line for line in expected.split("\n")[:_MOST_STEPS] if len(line) <= _LONGEST_STEP]
    return [match for match in map(_STEP.fullmatch, lines) if match is not None]


def _displacement(steps: Sequence[re.Match[str]]) -> TownPoint:
    """Return the point to which the expected steps lead from the start.

    Raises:
        NoExpectationError: There is no step, or one is not a single move with distance and direction.
    """
    moves_by_step = [moves(step["move"]) for step in steps]
    if not steps or any(len(found) != 1 or not found[0].is_complete for found in moves_by_step):
        raise NoExpectationError
    return Route([found[0] for found in moves_by_step]).displacement()


def _score_position(reached: TownPoint, expected: TownPoint) -> Score:
    """Score 1 if the reply leads to within 50 m of the expected point, else 0."""
    reason = f"the route leads {_position_text(reached)}"
    if math.dist(reached, expected) < _NEAR_KM:
        return Score(1.0, (reason,))
    return Score(0.0, (f"{reason}, not {_position_text(expected)}",))


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


def _position_text(point: TownPoint) -> str:
    """Return a point as text, such as "3 km east and 1 km north"; "nowhere" for the start."""
    parts = []
    for kilometers, forward, backward in ((point.x, "east", "west"), (point.y, "north", "south")):
        if rounded := round(kilometers, 2):
            parts.append(f"{abs(rounded):g} km {backward if rounded < 0 else forward}")
    return " and ".join(parts) or "nowhere"


# -- distances and directions

# Directions in eighths of a turn from east, counterclockwise
_EIGHTHS = {"e": 0, "ne": 1, "n": 2, "nw": 3, "w": 4, "sw": 5, "s": 6, "se": 7}
_UNITS = {"mi": 1.609344, "m": 0.001}
"""The kilometers of a unit, by the beginning of its name; the longer beginning first."""

# "a" and "another" are numbers here: "walk a kilometer east, then another kilometer"
_WORDS = {
    "a": 1, "an": 1, "one": 1, "another": 1, "single": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6,
    "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "fifteen": 15, "twenty": 20,
    "half a": 0.5, "half": 0.5, "a half": 0.5,
}  # fmt: skip

# "4", "1,5", "half a"
_NUMBER = rf"(?P<figure>\d{{1,6}}(?:[.,]\d{{1,6}})?|\b(?:{'|'.join(sorted(_WORDS, key=len, reverse=True))})\b)"

# A number of blocks or units counts as a number of kilometers.
_UNIT = r"(?P<unit>k(?:ilo)?met(?:er|re)s?|kilos?|kms?\b|k\b|met(?:er|re)s?|m\b|miles?|mi\b|block(?:s)?\b|units?\b)"

# "4 km", "5-km", "3 more miles", "two blocks"
_DISTANCE = rf"{_NUMBER}(?:\s(?:more|further|additional|extra|other|single|full))?[\s-]?{_UNIT}"

# "north-east", "southwards", "easterly", "westbound"
_WAY = r"(?P<way>\b(?:(?:north|south)[\s-]?(?:east|west)|north|south|east|west)(?:wards?|erly|bound)?\b)"

# ASCII only: without it, "s" and "i" would also match letters that `lower` does not turn into them ("ſ", "İ").
_MARK = re.compile(rf"(?P<distance>{_DISTANCE})|{_WAY}", re.IGNORECASE | re.ASCII)

# "NE" and "N" next to a distance, "3 km N" and "N two km", but neither "Mr. N is at home" nor the initials of "N.Y."
# Capitals count: "e" and "s" are no directions.
_LETTERS = r"\b(NE|NW|SE|SW|[NSEW])\b(?!['.]\w)"
_GAP = r"[\s,:;()\[\]–—-]{0,3}"
_NEAR = f"(?i:{re.sub('[?]P<[a-z]+>', '?:', _DISTANCE)})"
_SHORT_MARK = re.compile(rf"{_NEAR}{_GAP}{_LETTERS}|{_LETTERS}{_GAP}(?={_NEAR})", re.ASCII)

_FILLER = re.compile(
    r"[\s(]*(?:(?:due|to|the|in|a|an|towards?|heading|going|straight|directly|direction|directions|further|more|away"
    r"|for|about|approximately|approx\.?|around|roughly|another|exactly|just|of|distance|some|only|nearly|by|over"
    r"|traveling|travelling|walking|it's|is|then)[\s(]*)*",
    re.IGNORECASE,
)


class Move(NamedTuple):
    """A distance in a direction, and its place in the text; distance or direction is None if the text lacks it.

    The direction is in eighths of a turn from east, counterclockwise.
    """

    kilometers: float | None
    eighths: int | None
    start: int
    end: int

    @property
    def is_complete(self) -> bool:
        """True if the move has a distance and a direction."""
        return self.kilometers is not None and self.eighths is not None

    def vector(self) -> TownPoint:
        """Return the point to which the move leads from the start; the start if the move is incomplete."""
        if self.kilometers is None or self.eighths is None:
            return _START
        angle = self.eighths * math.pi / 4
        return TownPoint(self.kilometers * math.cos(angle), self.kilometers * math.sin(angle))


def _marks(text: str) -> list[Move]:
    """Return each distance and each direction of a text as a separate, incomplete move, in order.

    "Go east 4 km" gives two: one with the direction east, one with the distance 4.
    """
    marks = [_mark(match) for match in _MARK.finditer(text)]
    for match in _SHORT_MARK.finditer(text):
        assert match.lastindex is not None  # the letters' group
        marks.append(Move(None, _EIGHTHS[match[match.lastindex].lower()], *match.span(match.lastindex)))
    return sorted(marks, key=lambda mark: mark.start)


def _mark(match: re.Match[str]) -> Move:
    """Return a matched distance or direction as an incomplete move."""
    if match["distance"] is not None:
        unit, figure = match["unit"].lower(), match["figure"].lower()
        size = next((size for beginning, size in _UNITS.items() if unit.startswith(beginning)), 1.0)
        number = _WORDS[figure] if figure in _WORDS else float(figure.replace(",", "."))
        return Move(number * size, None, match.start(), match.end())

    # The first letters in this order are the keys of _EIGHTHS: "ne", not "en".
    word = match["way"].lower()
    letters = "".join(name[0] for name in ("north", "south", "east", "west") if name in word)
    return Move(None, _EIGHTHS[letters], match.start(), match.end())


def moves(text: str) -> list[Move]:
    """Return the moves of a text: each distance with its direction, and each distance or direction that is alone.

    A distance joins the direction before it ("east 4 km") or after it ("4 km east"). "Go north 3 km south" gives a
    direction alone (north), and 3 km south.
    """
    marks, pairs = deque(_marks(text)), list[Move]()
    direction: Move | None = None  # the last direction, as long as it lacks a distance

    while marks:
        mark = marks.popleft()
        joins_next = False
        if mark.eighths is None and marks and marks[0].eighths is not None:
            # If directions stand on both sides, the one after counts if only joining words are between.
            joins_next = direction is None or _FILLER.fullmatch(text[mark.end : marks[0].start]) is not None

        if direction is not None and (mark.eighths is not None or joins_next):
            pairs.append(direction)

        if mark.eighths is not None:
            direction = mark
            continue
        if joins_next:
            after = marks.popleft()
            mark = Move(mark.kilometers, after.eighths, mark.start, after.end)
        elif direction is not None:
            mark = Move(mark.kilometers, direction.eighths, direction.start, mark.end)
        pairs.append(mark)
        direction = None

    return [*pairs, direction] if direction is not None else pairs


# -- steps, places and routes

# "1. ", "Step 2: ", "12) "
_ITEM = re.compile(r"\s{0,3}(?:step\s+)?\d{1,2}[.):]+\s*", re.IGNORECASE)

# A line break before an item, or a blank line before a line that is not indented
_BLOCK_END = re.compile(r"\n(?=[ \t]{0,3}(?:step[ \t]+)?\d{1,2}[.):])|\n[ \t]{0,20}\n(?!\s)", re.IGNORECASE)

# The space after "Go 1.5 km.", but not the full stop inside the number
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")

# A sentence with one of these words tells of motion, so its moves are legs of the route.
_MOVING = re.compile(
    r"\b(?:(?:go|head|travell?|walk)(?:ing)?|(?:driv|mov|continu)(?:e|ing)|proceed|turn|take|journey|direction"
    r"|from (?:there|here)|make your way|run|cycle|ride|follow|cross|return|backtrack|start|then|next|finally|reach"
    r"|arrive)\b|[-=–]>|[→⇒➔➜⟶]",
    re.IGNORECASE,
)

# From these words on, a sentence sums up the route, or says where it has led: "a total of 7 km", "this puts you 3 km
# east of the start", "you are now at". Distances there are not moves.
_ASIDE = re.compile(
    r"\b(?:total|altogether|in all|overall distance|distance covered|puts you|brings you (?:back|to within|slightly)"
    r"|takes you (?:slightly|back|past)|you(?:'re| are| will be|'ll be| should be) (?:now )?(?:at|\d|about|approx))",
    re.IGNORECASE,
)

# "(3 km north)" stays part of its sentence, "(7 km in all)" is left out.
_BRACKETED = re.compile(r"\([^()\n]{0,300}\)")

# The words before the distance in a statement of a position: "The Library is about "
_FACT = re.compile(
    r"(?:\b(?:is|are|was|lies|lie|sits|situated|located|being)|'s)\b(?:(?! to | then )[^.;:]){0,40}$", re.IGNORECASE
)

# The words before a place that is not a destination: "from the ", "north of ", "past the "
_NOT_TO = re.compile(
    r"(?:\bfrom|\bof|\bleav\w+|\bstart\w*(?: at| from| in)?|\bpast|\bvisit\w* |\bafter|\bvia)\s*(?:the\s+)?$", re.I
)

# The most steps of a reply, and the most moves of a sentence, that are read
_MOST_UNITS = 400
_MOST_MOVES = 60


class RoutePlace(NamedTuple):
    """A known place in a text; `number` is its index in the list of places."""

    number: int
    start: int
    end: int


class Places:
    """The names of all places of a route: the start first, the destination last."""

    def __init__(self, names: Sequence[str]) -> None:
        """Build one pattern that finds all names."""
        unique = list(dict.fromkeys(" ".join(name.split()).lower() for name in names))
        self.last = len(unique) - 1
        """The number of the destination."""
        self._numbers = {name: number for number, name in enumerate(unique)}

        # The longest name first, or "Mill" would hide "Mill Street".
        longest_first = sorted(unique, key=len, reverse=True)
        shapes = [r"\s+".join(map(re.escape, name.split())) for name in longest_first]
        self._pattern = re.compile(rf"(?<!\w)(?:{'|'.join(shapes)})(?!\w)", re.IGNORECASE)

    def find(self, text: str) -> list[RoutePlace]:
        """Return the places that a text names, in order."""
        matches = self._pattern.finditer(text)
        return [
            RoutePlace(self._numbers.get(" ".join(match[0].lower().split()), 0), *match.span()) for match in matches
        ]

    def masked(self, text: str) -> str:
        """Return the text with signs in place of the places' names, because "West End" is not a direction.

        Positions in the text do not change.
        """
        return self._pattern.sub(lambda found: "§" * len(found[0]), text)


class Route(msgspec.Struct):
    """A sequence of moves: `complete` if each has distance and direction, `arrives` if it ends at the destination.

    `legs` has the complete moves only.
    """

    legs: list[Move] = msgspec.field(default_factory=list)
    complete: bool = True
    arrives: bool = False

    def displacement(self) -> TownPoint:
        """Return the point to which the route leads from the start."""
        return reduce(TownPoint.moved, (leg.vector() for leg in self.legs), _START)


_Leg: TypeAlias = tuple[Move, int | None]
"""A move, and the place that it leads to, if the text names it."""


def read_routes(text: str, places: Places) -> list[Route]:
    """Return all routes that a text describes, in order; statements of where places lie are not routes."""
    routes: list[Route] = [Route()]
    for step in islice(_units(text), _MOST_UNITS):
        for move, goal in _legs(step, places, routes[-1]):
            if routes[-1].arrives:  # the text goes on with another way to the destination, or beyond it
                routes.append(Route())

            route = routes[-1]
            if move.is_complete:
                route.legs.append(move)
            else:
                route.complete = False
            route.arrives = goal == places.last
    return [route for route in routes if route.legs or not route.complete]


def stated_position(text: str, places: Places) -> TownPoint | None:
    """Return the position of the destination relative to the start.

    The position follows from statements such as "the Library is 4 km east of the Hospital", in an order that begins at
    the start. Return None if the text does not state enough of them.
    """
    # The start is the first place, at the origin. Each statement about a known place adds another.
    known = {0: _START}
    for step in islice(_units(text), _MOST_UNITS):
        for place, base, offset in _relations(step, places):
            if base in known and place not in known:
                known[place] = known[base].moved(offset)
    return known.get(places.last)


def _relations(text: str, places: Places) -> Iterator[tuple[int, int, TownPoint]]:
    """Yield each stated position: a place, the place from which it is measured, and the way between them.

    Several moves may state one position: "the Library is 4 km east and 1 km north of the Mill".
    """
    for sentence in _SENTENCE_END.split(text):
        about, steps = None, Route()
        for each in _placed_moves(sentence, places):
            if each.fact and each.move.is_complete:
                # Moves add up until one names the place from which they are measured.
                about = about if each.about is None else each.about
                steps.legs.append(each.move)
                if about is not None and each.base is not None:
                    yield about, each.base, steps.displacement()
                    about, steps = None, Route()


def _units(text: str) -> Iterator[str]:
    """Yield each step of a numbered list, and each sentence of other text.

    A step continues on the lines after it. After a blank line, only indented lines continue it.
    """
    for block in _BLOCK_END.split(text):
        item = _ITEM.match(block)
        if item is not None:
            yield block[item.end() :]
        else:
            yield from filter(None, _SENTENCE_END.split(block.strip()))


class _PlacedMove(NamedTuple):
    """A move in a sentence, to the place `goal`; `moving` is True if the sentence has a word of motion.

    If `fact` is True, it is no motion: it states the position of the place `about` relative to the place `base`. Places
    are numbers in the list of places, None if the sentence names none.
    """

    move: Move
    fact: bool
    goal: int | None
    about: int | None
    base: int | None
    moving: bool


def _legs(text: str, places: Places, route: Route) -> list[_Leg]:
    """Return the moves of one step, each with the place to which it leads.

    If no move is complete, one is combined from incomplete moves and facts. `route` is the route so far.
    """
    # An aside cuts off the rest of its sentence. One in brackets, "(a total of 7 km)", is removed, so the rest stays.
    text = _BRACKETED.sub(lambda found: " " if _ASIDE.search(found[0]) else found[0], text)
    placed = [each for sentence in _SENTENCE_END.split(text) for each in _placed_moves(sentence, places)]

    legs = [(each.move, each.goal) for each in placed if not each.fact and each.move.is_complete]
    incomplete = [each for each in placed if not each.fact and not each.move.is_complete]
    facts = [each for each in placed if each.fact]

    if not legs:
        return _leg_from_facts(text, incomplete, facts, route, places)

    reached = {goal for _, goal in legs}
    for each in incomplete:
        # "Head north to the Mill" has no distance. It becomes a leg if no complete leg leads to the Mill. It comes
        # first, because the complete legs decide where the step ends.
        if each.move.eighths is not None and each.moving and each.goal is not None and each.goal not in reached:
            legs.insert(0, (each.move, each.goal))

    # If no leg leads to the destination, its position may be the last leg, measured from the place of the leg before:
    # "Go 2 km east to the Chapel, and the Library is 3 km north of the Chapel".
    if places.last not in reached:
        last_reached = legs[-1][1]
        for each in facts if last_reached is not None else ():
            if each.move.is_complete and each.about == places.last and each.base == last_reached:
                return [*legs, (each.move, places.last)]
    return legs


def _leg_from_facts(
    text: str, incomplete: list[_PlacedMove], facts: list[_PlacedMove], route: Route, places: Places
) -> list[_Leg]:
    """Return the one move of a step without a complete move, from its incomplete moves and its facts.

    The first of these rules that applies counts:

    1. A stated position in a step of motion: "Go to the Library. It is 3 km north of the Chapel."
    2. One direction and a distance, apart: "Head north to the Library. The Library is 3 km away."
    3. The position of the route's destination, after a move: "The Library is 3 km north of the Chapel."
    4. An incomplete move to a place: "Head north to the Library."

    `incomplete` are the step's incomplete moves, `facts` its statements of positions. Return an empty list if they give
    no move.
    """
    directions = [each for each in incomplete if each.move.eighths is not None and each.moving]
    positions = [each for each in facts if each.move.is_complete]
    lengths = [each for each in (*incomplete, *facts) if each.move.kilometers is not None and not each.move.is_complete]
    goal = next((each.goal for each in (*directions, *lengths) if each.goal is not None), None)

    if positions and (directions or _MOVING.search(text)):
        return [(positions[0].move, positions[0].goal if goal is None else goal)]
    if not positions and len(directions) == 1 and lengths:
        way, length = directions[0].move, lengths[0].move
        joined = Move(length.kilometers, way.eighths, min(way.start, length.start), max(way.end, length.end))
        return [(joined, goal)]
    if positions and route.legs and positions[0].about == places.last:
        return [(positions[0].move, places.last)]

    moves_to_goal = directions or [each for each in lengths if not each.fact and each.moving and each.goal is not None]
    return [(moves_to_goal[0].move, goal)] if moves_to_goal and goal is not None else []


def _destination(text: str, named: Iterable[RoutePlace]) -> int | None:
    """Return the number of the first of these places that can be a destination, or None.

    Words directly before a place, such as "leave the" or "past", rule it out.
    """
    goals = (place for place in named if not _NOT_TO.search(text[max(0, place.start - 30) : place.start]))
    return next((place.number for place in goals), None)


def _placed_moves(sentence: str, places: Places) -> Iterator[_PlacedMove]:
    """Yield the moves of a sentence, each with the places to which it leads or whose position it states.

    A move leads to the first place inside it; else to the first place after it and before the next move; else to the
    nearest place before it.
    """
    aside = _ASIDE.search(sentence)
    sentence = sentence[: aside.start()] if aside else sentence
    masked = places.masked(sentence)  # "Go to North Street" has no direction
    named = places.find(sentence)[: 2 * _MOST_MOVES]
    all_moves = moves(masked)[:_MOST_MOVES]

    moving = _MOVING.search(masked) is not None
    fact = False

    for number, move in enumerate(all_moves):
        # The places around a move: from the end of the move before it to the beginning of the next one.
        since = all_moves[number - 1].end if number else 0
        until = all_moves[number + 1].start if number + 1 < len(all_moves) else len(sentence)

        between = masked[since : move.start]
        # "… is 1 km north of the Park and 1 km south of the Museum" states two facts.
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
