"""Distances and directions in a text: "head east for 4 kilometers", "2 km NW", "half a mile to the south"."""

import math
import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

_EIGHTHS = {"e": 0, "ne": 1, "n": 2, "nw": 3, "w": 4, "sw": 5, "s": 6, "se": 7}
_UNITS = {"k": 1.0, "m": 0.001, "mi": 1.609344}
_WORDS = {
    "a": 1, "an": 1, "one": 1, "another": 1, "single": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6,
    "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "fifteen": 15, "twenty": 20,
    "half a": 0.5, "half": 0.5, "a half": 0.5,
}  # fmt: skip
_FRACTIONS = {"½": 0.5, "¼": 0.25, "¾": 0.75}

_NUMBER = (
    r"(?P<figure>\d{1,6}(?:[.,]\d{1,6})?\s?[½¼¾]?|[½¼¾]"
    rf"|\b(?:{'|'.join(sorted(_WORDS, key=len, reverse=True))})\b(?:\s(?:more|further|additional|extra|other|single))?)"
)
_UNIT = r"(?P<unit>k(?:ilo)?met(?:er|re)s?|kilos?|kms?\b|k\b|met(?:er|re)s?|m\b|miles?|mi\b|block(?:s)?\b|units?\b)"
_DISTANCE = rf"{_NUMBER}(?:\s(?:more|further|additional|extra|full))?[\s-]?{_UNIT}"
_WAY = (
    r"(?P<way>\b(?:north|south)[\s-]?(?:east|west)(?:ward(?:s)?|erly|bound)?\b"
    r"|\b(?:north|south|east|west)(?:ward(?:s)?|erly|bound)?\b)"
)
_SHORT = r"(?P<short>\b(?:NE|NW|SE|SW|[NSEW])\b(?!['.]\w))"
_ARROW = r"(?P<arrow>[↑↓⬆⬇↗↘↙↖])"
_MARK = re.compile(rf"(?P<distance>{_DISTANCE})|{_WAY}|{_ARROW}", re.IGNORECASE)
_SHORT_MARK = re.compile(_SHORT)
_BARE_NUMBER = re.compile(r"(?<![\d.,])(\d{1,4})(?![\d.,])\s?(?=(?:north|south|east|west)|[NSEW]\b)", re.IGNORECASE)
_ARROWS = {"↑": 2, "⬆": 2, "↓": 6, "⬇": 6, "↗": 1, "↘": 7, "↙": 5, "↖": 3}

_FILLER = re.compile(
    r"[\s(]*(?:(?:due|to|the|in|a|an|towards?|heading|going|straight|directly|direction|directions|further|more|away"
    r"|for|about|approximately|approx\.?|around|roughly|another|exactly|just|of|distance|some|only|nearly|by|over"
    r"|traveling|travelling|walking|it's|is|then)[\s(]*)*",
    re.IGNORECASE,
)
_LOOSE = re.compile(r"[\s,:;()\[\]–—-]*")


class Move(NamedTuple):
    """A distance in a direction, and where it stands in the text; one of both is None where the text does not say it.

    The direction is in eighths of a turn from east.
    """

    kilometers: float | None
    eighths: int | None
    start: int
    end: int

    @property
    def is_complete(self) -> bool:
        return self.kilometers is not None and self.eighths is not None

    def vector(self) -> tuple[float, float]:
        """East and north, in kilometers; nothing where it is not complete."""
        if self.kilometers is None or self.eighths is None:
            return (0.0, 0.0)
        angle = self.eighths * math.pi / 4
        return (self.kilometers * math.cos(angle), self.kilometers * math.sin(angle))


def _marks(text: str) -> list[Move]:
    """All distances and directions of a text, each by itself, in order."""
    marked = [mark for match in _MARK.finditer(text) if (mark := _mark(match)) is not None]
    taken = {mark.start for mark in marked}
    for match in _BARE_NUMBER.finditer(text):
        if match.start() not in taken:
            marked.append(Move(float(match[1]), None, match.start(), match.end(1)))
    distances = sorted((mark for mark in marked if mark.eighths is None), key=lambda mark: mark.start)
    for match in _SHORT_MARK.finditer(text):
        short = Move(None, _EIGHTHS[match[0].lower()], match.start(), match.end())
        if _is_near(short, distances, text):
            marked.append(short)
    return sorted(marked, key=lambda mark: mark.start)


def _mark(match: re.Match[str]) -> Move | None:
    if match["distance"] is not None:
        unit = match["unit"].lower()
        size = _UNITS["mi" if unit.startswith("mi") else "m" if unit.startswith("m") else "k"]
        number = _number(re.sub(r"\s(?:more|further|additional|extra|other|single)$", "", match["figure"].lower()))
        return None if number is None else Move(number * size, None, match.start(), match.end())
    if match["arrow"] is not None:
        return Move(None, _ARROWS[match["arrow"]], match.start(), match.end())
    word = match["way"].lower()
    letters = "".join(name[0] for name in ("north", "south", "east", "west") if name in word)
    return Move(None, _EIGHTHS[letters], match.start(), match.end())


def _number(text: str) -> float | None:
    text = text.strip()
    if text in _WORDS:
        return float(_WORDS[text])
    fraction = _FRACTIONS.get(text[-1:], 0.0)
    figure = text[:-1].strip() if fraction else text
    try:
        return fraction + (float(figure.replace(",", ".")) if figure else 0.0)
    except ValueError:
        return None


def _is_near(mark: Move, distances: Sequence[Move], text: str) -> bool:
    """Whether a single letter stands next to a distance: else it is an initial or a name."""
    at = bisect_left(distances, mark.start, key=lambda each: each.start)
    for each in distances[max(0, at - 1) : at + 1]:
        gap = text[each.end : mark.start] if each.end <= mark.start else text[mark.end : each.start]
        if len(gap) <= 3 and _LOOSE.fullmatch(gap):
            return True
    return False


def moves(text: str) -> list[Move]:
    """The distances of a text, each with the direction that belongs to it, and what is left without the other."""
    marked = _marks(text)
    pairs: list[Move] = []
    waiting: Move | None = None  # a direction whose distance may follow
    at = 0
    while at < len(marked):
        mark, *rest = marked[at : at + 3]
        is_direction = mark.eighths is not None
        goes_on = not is_direction and _goes_on(waiting, mark, rest, text)
        if waiting is not None and (is_direction or goes_on):
            pairs.append(waiting)
        if is_direction:
            waiting = mark
        elif goes_on:
            pairs.append(Move(mark.kilometers, rest[0].eighths, mark.start, rest[0].end))
            waiting, at = None, at + 1
        else:
            pairs.append(Move(mark.kilometers, waiting.eighths, waiting.start, mark.end) if waiting else mark)
            waiting = None
        at += 1
    return [*pairs, waiting] if waiting is not None else pairs


def _goes_on(before: Move | None, distance: Move, rest: Sequence[Move], text: str) -> bool:
    """Whether a distance belongs to a direction after it, and not to the one before it."""
    if not rest or rest[0].eighths is None:
        return False
    if before is None:
        return True
    after, following = rest[0], rest[1:]
    gap = text[distance.end : after.start]
    tight_after = _FILLER.fullmatch(gap) is not None
    tight_before = _FILLER.fullmatch(text[before.end : distance.start]) is not None
    if tight_after and tight_before:  # "north 3 km east 4 km"
        next_is_distance = bool(following) and following[0].eighths is None
        return not (next_is_distance and _FILLER.fullmatch(text[after.end : following[0].start]))
    return tight_after or (not tight_before and _LOOSE.fullmatch(gap) is not None)
