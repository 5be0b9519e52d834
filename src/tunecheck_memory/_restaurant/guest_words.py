"""A guest's words: clause by clause, which of them order something, and which dishes and drinks they name.

All work is linear in the text, of which only so much is looked at.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

_MOST = 8_000
"""Characters that are looked at: no guest says more at a table."""

_QUOTES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "\u00a0": " ", "é": "e", "É": "E"})
_STAGE = re.compile(r"\*[^*\n]{1,400}\*(?!\*)|\([^()\n]{0,200}(?:smil|nod|look|glanc|sip)[^()\n]{0,200}\)")
_BLANKS = re.compile(r"[ \t\r\f\v]+")
_BOLD = re.compile(r"\*\*|__|`")
_LABEL = re.compile(r"^ *(?:customer|guest|diner|me|you)\s*:\s*", re.IGNORECASE | re.MULTILINE)
_OTHERS_TURN = re.compile(r"^ *(?:waiter|waitress|server)\s*:", re.IGNORECASE | re.MULTILINE)
_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
_END = re.compile(r"(?<=[.!?;])\s+|\n+")
_BULLET = re.compile(r" *(?:[-•*]|[0-9]{1,2}[.)])\s+")

_HOW = r"(?:(?:also|just|still|really|please|probably|simply|definitely|rather|actually|then|instead|kindly)\s+)*"
_GET = (
    r"(?:have|take|go(?: ahead)?(?: and)?(?: \w+)? (?:with|for)|order|try|start(?: off)? with|begin with|get|opt for"
    r"|choose|pick|do|stick with|switch to|change (?:it |that |my (?:\w+ )?order )?to|enjoy|settle (?:on|for))"
)
_ORDERS = re.compile(
    rf"\b(?:(?:i|we)(?:'ll| will| shall|'m going to| am going to|'m gonna)|let me|let's) {_HOW}{_GET}\b"
    rf"|\b(?:i|we)(?:'d| would) {_HOW}(?:like|love|prefer|be happy with|{_GET})\b"
    rf"|\b(?:can|could|may|might) (?:i|we) {_HOW}(?:swap|{_GET})\b"
    rf"|\b(?:can|could) you {_HOW}(?:bring|get|make)\b"
    rf"|\b(?:i|we) {_HOW}(?:want|choose|order|pick)\b"
    r"|\b(?:i've|i have|we've) (?:decided on|chosen|settled on|picked)\b"
    r"|\b(?:bring|give|get|serve) (?:me|us)\b|\b(?:make|put) (?:me|us|it|that)\b"
    r"|\b(?:i'm|i am) in the mood for\b|\b(?:how|what) about\b|\bmy order (?:is|will be|would be)\b"
    r"|^(?:maybe|perhaps)\b(?! something)(?!.* or )"
    r"|\b(?:as )?for (?:the |my |an? )?(?:drink|appetizer|starter|soup|main|entree|dessert|side|first|second)\b"
)
"""What a guest begins an order with."""

_NO_ORDER = re.compile(
    r"\b(?:like|love|want|need|take|have|get) (?:to (?:know|ask|hear|see|look|think|thank|point|clarify)"
    r"|(?:an?|some|another|few) (?:\w+ ){0,2}(?:look|minutes?|moments?|time|questions?|recommendations?|seconds?))\b"
)
"""What begins as an order does, and is none."""

_GOES_ON = re.compile(r"(?:and|also|plus|as well as|along with)\b")
_IN_PLACE = re.compile(r"\b(?:instead of|in place of|rather than|in lieu of)\b[^,.;!?]*")
_KEEPS = re.compile(r"\b(?:still|keep|as (?:originally )?(?:planned|ordered|before)|remain|in addition to)\b")


@dataclass(frozen=True, slots=True)
class Clause:
    """One sentence or line in lower case.

    `orders`: it asks for something, which `wanted` begins with; `keeps`: for what was ordered before; `asks`: it is a
    question.
    """

    text: str
    wanted: str
    orders: bool
    keeps: bool
    asks: bool


def spoken(reply: str) -> str:
    """What the guest says: without stage directions, emphasis, speaker's labels, and what he has the waiter say."""
    text = _BLANKS.sub(" ", reply[:_MOST].translate(_QUOTES))
    other = _OTHERS_TURN.search(text)
    if other is not None and text[: other.start()].strip():
        text = text[: other.start()]
    return _LABEL.sub("", _BOLD.sub("", _STAGE.sub(" ", text))).strip()


def words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def stem(word: str) -> str:
    """The word without a plural's s."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def clauses(said: str) -> list[Clause]:
    """The sentences and lines of what was said; the items of a list order as the line above it does."""
    listed: list[Clause] = []
    listing = False
    for piece in filter(str.strip, _END.split(said)):
        bullet = _BULLET.match(piece)
        text = _IN_PLACE.sub("", piece.lower())
        listing = listing and bullet is not None
        cue = _cue(text)
        follows = bool(listed) and listed[-1].orders and _GOES_ON.match(text) is not None
        orders = cue is not None or follows or listing
        wanted = text[cue.end() :] if cue is not None else text
        listed.append(Clause(text, wanted, orders, bool(_KEEPS.search(text)), "?" in text))
        listing = listing or (orders and text.rstrip().endswith(":"))
    return listed


def _cue(text: str) -> re.Match[str] | None:
    """What the order begins with, if the clause orders something."""
    for cue in _ORDERS.finditer(text):
        other = _NO_ORDER.search(text, cue.start())
        if other is None or other.start() >= cue.end():
            return cue
    return None


_ENOUGH = 0.6
"""Share of what an entry's name weighs from which on it counts as named."""

_MOST_WORDS = 600
_MOST_NAME = 500
_MOST_STARTS = 2_000
_TAIL = re.compile(r"\s*(?:,|\(|\bwith\b|\bserved\b|\bin\b|\bon\b|\bover\b|\bdrizzled\b)", re.IGNORECASE)
_SMALL = frozenset("a an and the of with in on or de la al alla served over style by".split())
_NUMBER = re.compile(r"(?:\bnumber|\bno\.|\bnr\.?|#|\bitem|\boption)\s*([0-9]{1,4})\b")


_Mention: TypeAlias = tuple[float, int, int, int]
"""An entry named in a text: less the weight, the first word that names it, its number, and where its words end."""


class Dishes:
    """Entries to be looked for, by their numbers.

    A name is what stands before "with", "served" and the like. Most of its words name it, the rarer the better; so does
    its last alone where no other entry has that word ("the goulash").
    """

    def __init__(self, entries: Mapping[int, str]) -> None:
        self._names = {number: _dish_words(_TAIL.split(entry, maxsplit=1)[0]) for number, entry in entries.items()}
        self._tails = {number: frozenset(_dish_words(entry)) for number, entry in entries.items()}
        spread = Counter(word for name in self._names.values() for word in set(name))
        self._weights = {word: 1 / math.sqrt(count) for word, count in spread.items()}
        everywhere = Counter(word for tail in self._tails.values() for word in tail)
        self._telling = {number: name[-1] for number, name in self._names.items() if name and everywhere[name[-1]] == 1}
        self._by_word: dict[str, list[int]] = {}
        for number, name in self._names.items():
            for word in dict.fromkeys(name):
                self._by_word.setdefault(word, []).append(number)

    def named(self, text: str) -> list[int]:
        """The numbers of the entries that are named, in the order of the text; each word names one entry at most."""
        said = [stem(word) for word in words(text)[:_MOST_WORDS]]
        taken = [False] * len(said)
        starts: dict[int, int] = {}
        places = ((number, place) for place, word in enumerate(said) for number in self._by_word.get(word, ()))
        mentions = (self._mention(number, said, place) for number, place in islice(places, _MOST_STARTS))
        for _, start, number, end in sorted(mention for mention in mentions if mention is not None):
            if not any(taken[start:end]):
                taken[start:end] = [True] * (end - start)
                starts[start] = number
        named = [starts[start] for start in sorted(starts)]
        named += [number for match in _NUMBER.finditer(text.lower()) if (number := int(match[1])) in self._names]
        return list(dict.fromkeys(named))

    def roughly(self, said: str) -> int | None:
        """The entry that has every word of this in its name, and little more: "the chicken"; None if there is none."""
        wanted = set(_dish_words(said[:_MOST_NAME]))
        fits = [
            (sum(self._weights[word] for word in name), number)
            for number, name in self._names.items()
            if wanted and wanted <= set(name)
        ]
        return min(fits)[1] if fits else None

    def _mention(self, number: int, said: Sequence[str], start: int) -> _Mention | None:
        name = self._names[number]
        wanted = set(name)
        last, weight = start, 0.0
        for place in range(start, min(len(said), start + len(name) + 1)):
            if said[place] in wanted:
                wanted.discard(said[place])
                weight += self._weights[said[place]]
                last = place
        told = self._telling.get(number) in said[start : last + 1]
        if not told and weight < _ENOUGH * sum(self._weights[word] for word in set(name)):
            return None
        tail = self._tails[number]
        more = sum(1 for word in said[last + 1 : last + 2 + 2 * len(tail)] if word in tail)
        return (-weight - more / 100, start, number, last + 1)


def _dish_words(text: str) -> list[str]:
    return [stem(word) for word in words(text) if word not in _SMALL]


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
_MOST_DRINK_WORDS = 600


class Drinks:
    """The drinks of a menu by their numbers; an entry may name its sorts in parentheses."""

    def __init__(self, entries: Mapping[int, str]) -> None:
        self._heads: dict[str, list[int]] = {}
        self._words = {number: _drink_words(entry) for number, entry in entries.items()}
        for number, entry in entries.items():
            names = [_PARENTHESIS.sub(" ", entry), *",".join(_PARENTHESIS.findall(entry)).split(",")]
            for at, name in enumerate(map(_drink_words, names)):
                if name and (at == 0 or name[-1] not in _SORTS):  # a sort alone, "(red, white)", is not a drink
                    self._heads.setdefault(name[-1], []).append(number)

    def named(self, clause: str) -> list[tuple[str, int | None]]:
        """The drinks that a clause names, in its order, each with its number in the menu, if it has one."""
        said = words(clause)[:_MOST_DRINK_WORDS]
        return list(dict.fromkeys(self._named([stem(word) for word in said], said)))

    def _named(self, stems: Sequence[str], said: Sequence[str]) -> Iterator[tuple[str, int | None]]:
        for place, head in enumerate(stems):
            if not self._is_head(head) or (place + 1 < len(stems) and self._is_head(stems[place + 1])):
                continue
            before = stems[place - 1] if place else ""  # the word before says which one: "soft drink"
            if head in _GENERIC and not any(before in self._words[number] for number in self._heads[head]):
                continue
            start = place
            while start and (stems[start - 1] in _SORTS or self._is_head(stems[start - 1])):
                start -= 1
            after = [word for word in said[place + 1 : place + 2] if word in _SORTS]
            name = {*stems[start : place + 1], *after}
            fits = [(-len(name & set(self._words[number])), number) for number in self._heads.get(head, ())]
            yield " ".join([*after, *said[start : place + 1]]), min(fits)[1] if fits else None

    def _is_head(self, word: str) -> bool:
        return word in self._heads or word in _EVERYWHERE


def is_recalled(drink: str, reply: str) -> bool:
    """Whether a reply names a drink that was ordered: its sort may be left out, and must not be another."""
    name, said = _drink_words(drink), {stem(word) for word in words(reply)}
    heads = [word for word in name if word in _EVERYWHERE] or [word for word in name if word not in _SORTS] or name
    pairs = [*_OPPOSITES, *((other, own) for own, other in _OPPOSITES)]
    swapped = any(own in name and other in said and own not in said for own, other in pairs)
    return bool(heads) and all(head in said for head in heads) and not swapped


def _drink_words(text: str) -> list[str]:
    return [word for word in map(stem, words(text)) if word not in _VESSELS]
