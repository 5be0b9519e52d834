"""Kinds in which the user says something that changes, and asks what holds now: colours, names, a shopping list."""

from random import Random
from typing import ClassVar

from tunecheck._json import JSON
from tunecheck_memory._data import read_words
from tunecheck_memory._kind import Kind, Making
from tunecheck_memory._kinds.scripts import scripted_test, whole
from tunecheck_memory._model import Definition

_COLOUR_STATEMENTS = (
    "These days the colour I like best is {colour}.",
    "If you ask me for my favourite colour, it is {colour}.",
    "No other colour comes close to {colour}: that is my favourite one.",
    "Please note that my favourite colour is {colour}.",
    "When I get to choose a colour, I always choose {colour}.",
)
_COLOUR_QUESTION = "Which colour is my favourite one at the moment?"


class Colours(Kind):
    """`colour_changes` statements, each of another colour, and the question for the current one."""

    name = "colours"
    title = "Colours"

    def __init__(self, *, colour_changes: int = 3) -> None:
        self.colour_changes = whole("colour_changes", colour_changes, least=1, most=len(read_words("colours")))
        self.arguments = {"colour_changes": colour_changes}

    def definition(self, example: str, making: Making) -> Definition:
        random = making.random(self.title, example)
        colours = random.sample(read_words("colours"), self.colour_changes)
        statements = [random.choice(_COLOUR_STATEMENTS).format(colour=colour) for colour in colours]
        return scripted_test(self, example, statements, [_COLOUR_QUESTION], [colours[-1]])


USER_NAME = "name of the user"
"""The topic of tests in which the user gives a name."""

_NAME_STATEMENTS = (
    "From now on my name is {name}.",
    "You may call me {name}, that is my name.",
    "I go by the name of {name}.",
    "Please address me as {name}, as that is what I am called.",
    "Let me introduce myself: {name} is my name.",
)


class _NamesKind(Kind):
    """Base of the kinds in which the user gives `name_changes` names."""

    topics = frozenset({USER_NAME})
    _question: ClassVar[str]
    _asks_all = False

    def __init__(self, *, name_changes: int = 3) -> None:
        self.name_changes = whole("name_changes", name_changes, least=1, most=len(read_words("first_names")))
        self.arguments = {"name_changes": name_changes}

    def definition(self, example: str, making: Making) -> Definition:
        random = making.random(self.title, example)
        names = random.sample(read_words("first_names"), self.name_changes)
        statements = [random.choice(_NAME_STATEMENTS).format(name=name) for name in names]
        return scripted_test(self, example, statements, [self._question], names if self._asks_all else names[-1:])


class Names(_NamesKind):
    """The question for the current name."""

    name = "names"
    title = "Names"
    _question = "By which name should you call me now?"


class NameList(_NamesKind):
    """The question for all names, as a JSON list."""

    name = "name_list"
    title = "NameList"
    resets = True
    _question = "List every name that I have called myself so far, and no other, as a JSON list of texts."
    _asks_all = True


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
_SHOPPING_QUESTION = (
    "What is on my shopping list now? Answer with a JSON list that has one object for each item, with the keys `item` "
    "and `quantity` only. The quantity is what is left after all changes."
)

_REMOVES, _REPEATS = 0.25, 0.2
"""How often a line takes something off a list that is not empty, and how often it adds to what is on it."""

_MOST_AT_ONCE = 4


class Shopping(Kind):
    """`item_changes` additions and removals, and the question for the list; it never ends up empty."""

    name = "shopping"
    title = "Shopping"
    resets = True

    def __init__(self, *, item_changes: int = 3) -> None:
        self.item_changes = whole("item_changes", item_changes, least=1, most=200)
        self.arguments = {"item_changes": item_changes}

    def definition(self, example: str, making: Making) -> Definition:
        random = making.random(self.title, example)
        shopping: dict[str, int] = {}
        statements = [_change(shopping, random, last=at == self.item_changes - 1) for at in range(self.item_changes)]
        expected: list[JSON] = [[item, count] for item, count in shopping.items()]
        return scripted_test(self, example, statements, [_SHOPPING_QUESTION], expected)


def _change(shopping: dict[str, int], random: Random, *, last: bool) -> str:
    """Change the list, and say so."""
    drawn = random.random()
    if shopping and drawn < _REMOVES and not (last and len(shopping) == 1):
        item = random.choice(list(shopping))
        count = random.randint(1, shopping[item])
        shopping[item] -= count
        if not shopping[item]:
            del shopping[item]
        return random.choice(_FEWER).format(count=count, item=item)
    fresh = [item for item in read_words("groceries") if item not in shopping]
    repeats = not fresh or (bool(shopping) and drawn < _REMOVES + _REPEATS)
    item = random.choice(list(shopping) if repeats else fresh)
    count = random.randint(1, _MOST_AT_ONCE)
    shopping[item] = shopping.get(item, 0) + count
    return random.choice(_MORE if repeats else _ADDED).format(count=count, item=item)
