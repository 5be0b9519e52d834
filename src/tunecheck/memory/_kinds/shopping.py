"""Shopping: items come onto a list and off it again, and the whole list is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import ClassVar

from tunecheck._json import JSON
from tunecheck.memory._kind import Kind, Making
from tunecheck.memory._kinds.arguments import whole
from tunecheck.memory._kinds.scripts import read_words, scripted_test
from tunecheck.memory._model import Definition

_ADDED = (
    "Put {count} × {item} on my shopping list.",
    "I need {count} × {item}, so add that to my shopping list.",
    "My shopping list should have {count} × {item} on it as well.",
)
_MORE = (
    "Put another {count} × {item} on my shopping list, in addition to what is there.",
    "I need {count} × {item} more than my shopping list says so far.",
)
_FEWER = (
    "Take {count} × {item} off my shopping list.",
    "I got {count} × {item} from a friend, so remove that many from my shopping list.",
)
_QUESTION = (
    "What is on my shopping list now? Answer with a JSON list that has one object for each item, with the keys `item` "
    "and `quantity` only. The quantity is what is left after all changes."
)

_REMOVES, _REPEATS = 0.25, 0.2
"""How often a line takes something off a list that is not empty, and how often it adds to what is on it."""

_MOST_AT_ONCE = 4


class Shopping(Kind):
    """`item_changes` additions and removals, and the question for the list; it never ends up empty."""

    name: ClassVar[str] = "shopping"
    title: ClassVar[str] = "Shopping"
    resets: ClassVar[bool] = True

    def __init__(self, *, item_changes: int = 3) -> None:
        self.item_changes = whole("item_changes", item_changes, least=1, most=200)
        self.arguments: Mapping[str, JSON] = {"item_changes": item_changes}

    def definition(self, example: str, making: Making) -> Definition:
        """See Kind."""
        random = making.random(self.title, example)
        shopping: dict[str, int] = {}
        statements = [_change(shopping, random, last=at == self.item_changes - 1) for at in range(self.item_changes)]
        expected: list[JSON] = [[item, count] for item, count in shopping.items()]
        return scripted_test(self, example, statements, [_QUESTION], expected)


def _change(shopping: dict[str, int], random: Random, *, last: bool) -> str:
    """Change the list, and say so."""
    drawn = random.random()
    if shopping and drawn < _REMOVES and not (last and len(shopping) == 1):
        return _remove(shopping, random)
    if shopping and drawn < _REMOVES + _REPEATS:
        return _add(shopping, random.choice(list(shopping)), random, _MORE)
    fresh = [item for item in read_words("groceries") if item not in shopping]
    if not fresh:
        return _add(shopping, random.choice(list(shopping)), random, _MORE)
    return _add(shopping, random.choice(fresh), random, _ADDED)


def _add(shopping: dict[str, int], item: str, random: Random, sentences: tuple[str, ...]) -> str:
    count = random.randint(1, _MOST_AT_ONCE)
    shopping[item] = shopping.get(item, 0) + count
    return random.choice(sentences).format(count=count, item=item)


def _remove(shopping: dict[str, int], random: Random) -> str:
    item = random.choice(list(shopping))
    count = random.randint(1, shopping[item])
    shopping[item] -= count
    if not shopping[item]:
        del shopping[item]
    return random.choice(_FEWER).format(count=count, item=item)
