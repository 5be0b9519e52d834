"""Kinds that tell invented facts in one message, and ask for some of them much later: a country, a machine."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec

from tunecheck.memory._data import read_data
from tunecheck.memory._kind import Kind, Making
from tunecheck.memory._kinds.scripts import Fact, draw_values, scripted_test
from tunecheck.memory._model import Definition

_FACTS, _QUESTIONS = 10, 3


class _Country(msgspec.Struct, frozen=True):
    """What there is to say about a country: facts, words to choose from, and what gets an invented name."""

    opening: str
    names: tuple[str, ...]
    lists: dict[str, tuple[str, ...]]
    facts: tuple[Fact, ...]


class DelayedRecall(Kind):
    """Ten facts in one message, then three questions, far apart."""

    name = "delayed_recall"
    title = "Delayed Recall"
    resets = True

    def definition(self, example: str, making: Making) -> Definition:
        random = making.random(self.title, example)
        country = read_data("country", _Country)
        values = draw_values(random, country.lists, country.names)
        facts = [fact.with_values(values) for fact in random.sample(country.facts, _FACTS)]
        told = "\n".join([country.opening.format(**values), *(fact.fact for fact in facts)])
        asked = random.sample(facts, _QUESTIONS)
        return scripted_test(self, example, [told], [fact.question for fact in asked], [fact.answer for fact in asked])


_STEPS, _MANUAL_RULES = 6, 4

_NEXT = "When working the {machine}: what do I do right after this step: “{step}”?"
_FIRST = "When working the {machine}: what is the very first step?"


class _Manual(msgspec.Struct, frozen=True):
    """What manuals are made of: steps in any order, and rules for what may happen."""

    opening: str
    lists: dict[str, tuple[str, ...]]
    steps: tuple[str, ...]
    rules: tuple[Fact, ...]


class InstructionRecall(Kind):
    """Six numbered steps and four rules in one message, then a question about a step and two about rules."""

    name = "instruction_recall"
    title = "Instruction Recall"
    resets = True

    def definition(self, example: str, making: Making) -> Definition:
        random = making.random(self.title, example)
        manual = read_data("manual", _Manual)
        values = draw_values(random, manual.lists, ("maker",))
        machine = f"{values['maker']} {values['machine']}"
        # Each step draws its own words: "turn the red dial" twice in one manual would make the next step ambiguous.
        steps = [step.format(**draw_values(random, manual.lists, ())) for step in random.sample(manual.steps, _STEPS)]
        values["machine"] = machine
        rules = [rule.with_values(values) for rule in random.sample(manual.rules, _MANUAL_RULES)]
        asked = [_about_steps(random, machine, steps), *random.sample(rules, 2)]
        random.shuffle(asked)
        lines = [manual.opening.format(machine=machine), *_numbered(steps), *(rule.fact for rule in rules)]
        questions, answers = [fact.question for fact in asked], [fact.answer for fact in asked]
        return scripted_test(self, example, ["\n".join(lines)], questions, list(answers))


def _numbered(steps: Sequence[str]) -> list[str]:
    return [f"{number}. {step}" for number, step in enumerate(steps, 1)]


def _about_steps(random: Random, machine: str, steps: Sequence[str]) -> Fact:
    at = random.randrange(len(steps))
    if at == 0:
        return Fact("", _FIRST.format(machine=machine), steps[0])
    return Fact("", _NEXT.format(machine=machine, step=steps[at - 1]), steps[at])
