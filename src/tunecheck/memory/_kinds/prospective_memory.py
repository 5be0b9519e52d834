"""Prospective memory: a saying is to be appended to one of the replies that come after the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from tunecheck._json import JSON
from tunecheck.memory._kind import Kind, Making
from tunecheck.memory._kinds.scripts import read_words, scripted_test
from tunecheck.memory._model import Definition

FEWEST, MOST = 2, 8
"""The reply that must hold the saying is one of these; the one to the instruction counts as the first."""

_QUESTIONS = (
    "When you answer the messages that follow, put the saying by {author} at the end of your {nth} reply. "
    "Your reply to this very message counts as number one.",
    "I want you to close your {nth} reply, counted from here with the one to this message as the first, with the "
    "saying by {author}. Leave it out of all other replies.",
)


class ProspectiveMemory(Kind):
    """A saying, then the order to append it to the Nth reply; a callback counts the replies."""

    name: ClassVar[str] = "prospective_memory"
    title: ClassVar[str] = "Prospective Memory"
    resets: ClassVar[bool] = True

    def __init__(self) -> None:
        self.arguments: Mapping[str, JSON] = {}

    def definitions(self, count: int, making: Making) -> list[Definition]:
        """See Kind."""
        return [self._definition(str(number), making) for number in range(count)]

    def is_over(self, definition: Definition, replies: Sequence[str]) -> bool:
        """Once the reply that must hold the saying was given, whatever the earlier ones held."""
        return len(replies) >= expected_reply(definition)

    def _definition(self, example: str, making: Making) -> Definition:
        random = making.random(self.title, example)
        saying = random.choice(read_words("sayings"))
        author = f"{random.choice(read_words('first_names'))} {random.choice(read_words('last_names'))}"
        number = random.randint(FEWEST, MOST)
        question = random.choice(_QUESTIONS).format(author=author, nth=ordinal(number))
        made = scripted_test(self, example, [f"“{saying}” — {author}"], [question], [[saying, author, number]])
        return replace(made, uses_callback=True)


def expected_reply(definition: Definition) -> int:
    """The number of the reply that must hold the saying, from 1; 1 where the definition does not say."""
    expected = definition.expected[0] if definition.expected else None
    number = expected[-1] if isinstance(expected, list) and expected else None
    return number if isinstance(number, int) else 1


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, …"""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number % 100 not in (11, 12, 13) else "th"
    return f"{number}{ending}"
