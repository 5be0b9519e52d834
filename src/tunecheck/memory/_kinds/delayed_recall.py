"""Delayed recall: facts about a country that does not exist, and questions about some of them much later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from tunecheck._json import JSON
from tunecheck.memory._kind import Kind, Making
from tunecheck.memory._kinds.content import FactTemplate, draw_values, told_facts
from tunecheck.memory._kinds.scripts import read_data, scripted_test
from tunecheck.memory._model import Definition

_FACTS, _QUESTIONS = 10, 3


class _Country(msgspec.Struct, frozen=True):
    """What there is to say about a country: facts, words to choose from, and what gets an invented name."""

    opening: str
    names: tuple[str, ...]
    lists: dict[str, tuple[str, ...]]
    facts: tuple[FactTemplate, ...]


class DelayedRecall(Kind):
    """Ten facts in one message, then three questions, far apart."""

    name: ClassVar[str] = "delayed_recall"
    title: ClassVar[str] = "Delayed Recall"
    resets: ClassVar[bool] = True

    def __init__(self) -> None:
        self.arguments: Mapping[str, JSON] = {}

    def definition(self, example: str, making: Making) -> Definition:
        """See Kind."""
        random = making.random(self.title, example)
        country = read_data("country", _Country)
        values = draw_values(random, country.lists, country.names)
        facts = told_facts(random.sample(country.facts, _FACTS), values)
        told = "\n".join([country.opening.format(**values), *(fact.fact for fact in facts)])
        asked = random.sample(facts, _QUESTIONS)
        return scripted_test(self, example, [told], [fact.question for fact in asked], [fact.answer for fact in asked])
