"""Which drinks are named in a guest's words: those of the menu, and what is drunk everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from tunecheck.memory._spoken import stem, words

_EVERYWHERE = frozenset(
    "water tea coffee espresso cappuccino latte milk juice lemonade soda cola coke sprite beer ale lager cider wine "
    "champagne prosecco cocktail margarita mojito martini whiskey whisky gin vodka rum smoothie milkshake kombucha "
    "cocoa".split()
)
_SORTS = frozenset(
    "iced ice hot cold chilled sparkling still mineral tap tonic sweetened unsweetened sweet green black herbal mint "
    "peppermint chamomile white red rose house draft light dark domestic imported orange apple grape cranberry ginger "
    "pineapple tomato diet decaf fresh freshly squeezed clear cloudy english earl grey lemon berry mango".split()
)
_OPPOSITES = (
    ("sweetened", "unsweetened"), ("sparkling", "still"), ("red", "white"), ("black", "green"), ("clear", "cloudy"),
    ("hot", "iced"), ("domestic", "imported"),
)  # fmt: skip
_GENERIC = frozenset("drink beverage refreshment".split())
_VESSELS = frozenset("a an the of and or with some by etc pot glass bottle cup can pint mug selection your".split())
_PARENTHESIS = re.compile(r"\(([^()]*)\)")
_MOST_WORDS = 600


class Drinks:
    """The drinks of a menu by their numbers; an entry may name its sorts in parentheses."""

    def __init__(self, entries: Mapping[int, str]) -> None:
        self._heads: dict[str, list[int]] = {}
        self._words = {number: _content(entry) for number, entry in entries.items()}
        for number, entry in entries.items():
            names = [_PARENTHESIS.sub(" ", entry), *",".join(_PARENTHESIS.findall(entry)).split(",")]
            for own, name in enumerate(names):
                self._add(number, _content(name), always=own == 0)

    def _add(self, number: int, name: Sequence[str], *, always: bool) -> None:
        if name and (always or name[-1] not in _SORTS):
            self._heads.setdefault(name[-1], []).append(number)

    def named(self, clause: str) -> list[tuple[str, int | None]]:
        """The drinks that a clause names, in its order, each with its number in the menu, if it has one."""
        said = words(clause)[:_MOST_WORDS]
        return list(dict.fromkeys(self._named([stem(word) for word in said], said)))

    def _named(self, stems: Sequence[str], said: Sequence[str]) -> Iterator[tuple[str, int | None]]:
        for place, head in enumerate(stems):
            if not self._is_head(head) or (place + 1 < len(stems) and self._is_head(stems[place + 1])):
                continue
            if head in _GENERIC and not self._is_told_apart(head, stems[place - 1] if place else ""):
                continue
            start = place
            while start and (stems[start - 1] in _SORTS or self._is_head(stems[start - 1])):
                start -= 1
            after = [word for word in said[place + 1 : place + 2] if word in _SORTS]
            yield " ".join([*after, *said[start : place + 1]]), self._number(head, {*stems[start : place + 1], *after})

    def _is_told_apart(self, head: str, before: str) -> bool:
        """Whether the word before says which ("soft drink")."""
        return any(before in self._words[number] for number in self._heads[head])

    def _is_head(self, word: str) -> bool:
        return word in self._heads or word in _EVERYWHERE

    def _number(self, head: str, name: set[str]) -> int | None:
        numbers = self._heads.get(head, ())
        return max(numbers, key=lambda number: (len(name & set(self._words[number])), -number), default=None)


def is_recalled(drink: str, reply: str) -> bool:
    """Whether a reply names a drink that was ordered: its sort may be left out, and must not be another."""
    name, said = _content(drink), {stem(word) for word in words(reply)}
    heads = [word for word in name if word in _EVERYWHERE] or [word for word in name if word not in _SORTS] or name
    return bool(heads) and all(head in said for head in heads) and not any(_swapped(name, said))


def _swapped(name: Sequence[str], said: set[str]) -> Iterator[bool]:
    for pair in _OPPOSITES:
        for own, other in (pair, pair[::-1]):
            yield own in name and other in said and own not in said


def _content(text: str) -> list[str]:
    return [word for word in map(stem, words(text)) if word not in _VESSELS]
