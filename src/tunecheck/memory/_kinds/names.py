"""Names: the user goes by several names, one after the other, and the last one counts."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import ClassVar

from tunecheck._json import JSON
from tunecheck.memory._kind import Kind, Making
from tunecheck.memory._kinds.arguments import whole
from tunecheck.memory._kinds.scripts import read_words, scripted_test
from tunecheck.memory._model import Definition

USER_NAME = "name of the user"
"""The topic of tests in which the user gives a name."""

_STATEMENTS = (
    "From now on my name is {name}.",
    "You may call me {name}, that is my name.",
    "I go by the name of {name}.",
    "Please address me as {name}, as that is what I am called.",
    "Let me introduce myself: {name} is my name.",
)
_QUESTION = "By which name should you call me now?"


def say_names(random: Random, count: int) -> tuple[list[str], list[str]]:
    """Different names, and a sentence for each in which the user gives it."""
    names = random.sample(read_words("first_names"), count)
    return names, [random.choice(_STATEMENTS).format(name=name) for name in names]


class Names(Kind):
    """`name_changes` names, and the question for the current one."""

    name: ClassVar[str] = "names"
    title: ClassVar[str] = "Names"
    topics: ClassVar[frozenset[str]] = frozenset({USER_NAME})

    def __init__(self, *, name_changes: int = 3) -> None:
        self.name_changes = whole("name_changes", name_changes, least=1, most=len(read_words("first_names")))
        self.arguments: Mapping[str, JSON] = {"name_changes": name_changes}

    def definition(self, example: str, making: Making) -> Definition:
        """See Kind."""
        names, statements = say_names(making.random(self.title, example), self.name_changes)
        return scripted_test(self, example, statements, [_QUESTION], [names[-1]])
