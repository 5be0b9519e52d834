"""Colours: the favourite colour changes several times, and the last one counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tunecheck._json import JSON
from tunecheck.memory._kind import Kind, Making
from tunecheck.memory._kinds.arguments import whole
from tunecheck.memory._kinds.scripts import read_words, scripted_test
from tunecheck.memory._model import Definition

_STATEMENTS = (
    "These days the colour I like best is {colour}.",
    "If you ask me for my favourite colour, it is {colour}.",
    "No other colour comes close to {colour}: that is my favourite one.",
    "Please note that my favourite colour is {colour}.",
    "When I get to choose a colour, I always choose {colour}.",
)
_QUESTION = "Which colour is my favourite one at the moment?"


class Colours(Kind):
    """`colour_changes` statements, each of another colour, and the question for the current one."""

    name: ClassVar[str] = "colours"
    title: ClassVar[str] = "Colours"

    def __init__(self, *, colour_changes: int = 3) -> None:
        self.colour_changes = whole("colour_changes", colour_changes, least=1, most=len(read_words("colours")))
        self.arguments: Mapping[str, JSON] = {"colour_changes": colour_changes}

    def definition(self, example: str, making: Making) -> Definition:
        """See Kind."""
        random = making.random(self.title, example)
        colours = random.sample(read_words("colours"), self.colour_changes)
        statements = [random.choice(_STATEMENTS).format(colour=colour) for colour in colours]
        return scripted_test(self, example, statements, [_QUESTION], [colours[-1]])
