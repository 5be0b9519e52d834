"""How to think: the user states a rule of thumb, and much later a problem to solve by it.

The rules are invented, so that common sense gives another answer. Their texts are data; the answers are computed here.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, TypeAlias

import msgspec

from tunecheck_memory import GenerationContext, Kind, MemoryTest, scripted_test
from tunecheck_memory._kinds.scripts import read_data, read_words

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_OPENING = "I want you to think in a way of my own about a certain sort of question. {rule} Keep to it from now on."


class _Rule(msgspec.Struct, frozen=True):
    """The templates of a rule, its problem and the answer; a draw takes one of the `choices`."""

    rule: str
    problem: str
    answer: str
    choices: tuple[Any, ...]


class HowToThink(Kind):
    """The user states a rule, and later asks for the solution of a problem by this rule."""

    name = "how_to_think"
    title = "How to think"
    judged = True
    judge_prompt = "memory_how_to_think"

    def definition(self, example: str, making: GenerationContext) -> MemoryTest:
        """Return a test of a random rule: the rule, and later a problem with the solution that the rule gives."""
        random = making.random(self.title, example)
        name, draw = random.choice([*_RULES.items()])
        texts = read_data("rules", dict[str, _Rule])[name]
        values = draw(random, texts.choices)
        rule, problem, answer = (each.format(**values) for each in (texts.rule, texts.problem, texts.answer))
        return scripted_test(self, example, [_OPENING.format(rule=rule)], [problem], [answer])


_Values: TypeAlias = Mapping[str, object]
"""The values of the templates, with the solution."""


def _budget(random: Random, things: Sequence[Any]) -> _Values:
    """Draw a purchase; its total includes a reserve in percent and is rounded up to a multiple of `step`."""
    reserve, step = random.choice((10, 20, 30, 50)), random.choice((10, 20, 50, 100))
    price, count, thing = random.randint(3, 60), random.randint(3, 12), random.choice(things)
    total = -(-price * count * (100 + reserve) // (100 * step)) * step
    return {"reserve": reserve, "step": step, "price": price, "count": count, "thing": thing, "total": total}


def _deadline(random: Random, tasks: Sequence[Any]) -> _Values:
    """Draw a task of some working days, two days off in the week, and a first day; the solution is the last day."""
    off = sorted(random.sample(range(7), 2))
    start = random.choice([day for day in range(7) if day not in off])
    length, task = random.randint(2, 9), random.choice(tasks)
    day, worked = start, 1
    while worked < length:
        day += 1
        worked += day % 7 not in off
    off_days = [DAYS[each] for each in off]
    return {"off": off_days, "start": DAYS[start], "length": length, "task": task, "end": DAYS[day % 7]}


def _estimate(random: Random, subjects: Sequence[Any]) -> _Values:
    """Draw five estimates, shuffled; the solution is the mean of all but the lowest and the highest."""
    middle, apart = random.randint(20, 80), random.randint(1, 12)
    estimates = [middle - apart, middle, middle + apart]
    estimates += [middle - apart - random.randint(5, 15), middle + apart + random.randint(16, 90)]
    random.shuffle(estimates)
    return {"estimates": ", ".join(map(str, estimates)), "middle": middle, "what": random.choice(subjects)}


def _pick(random: Random, kinds: Sequence[Any]) -> _Values:
    """Draw four offers with different values; the solution is the one with the second lowest value."""
    measure, most, unit, thing = random.choice(kinds)
    names = random.sample(read_words("last_names"), 4)
    offers = dict(zip(names, random.sample(range(20, 400), 4), strict=True))
    listed = ", ".join(f"{name} ({value} {unit})" for name, value in offers.items())
    second = sorted(offers, key=offers.__getitem__)[1]
    return {"measure": measure, "most": most, "thing": thing, "offers": listed, "second": second}


def _tip(random: Random, payers: Sequence[Any]) -> _Values:
    """Draw a bill that a group splits; the payer pays half of what each of the others pays."""
    people, share, payer = random.randint(3, 7), random.randint(6, 30), random.choice(payers)
    return {"people": people, "share": share, "payer": payer, "bill": share * (2 * people - 1)}


def _packing(random: Random, things: Sequence[Any]) -> _Values:
    """Draw things to pack: some for each night, and spare ones for every three nights begun."""
    thing, each = random.choice(things), random.randint(1, 4)
    spare, nights = random.randint(1, 5), random.randint(2, 12)
    total = each * nights + spare * -(-nights // 3)
    return {"thing": thing, "each": each, "spare": spare, "nights": nights, "total": total}


def _order(random: Random, known: Sequence[Any]) -> _Values:
    """Draw tasks; the solution is the first or the last of them in alphabetical order, from A to Z or from Z to A."""
    *tasks, last = random.sample(known, 4)
    place, backwards = random.choice((("first", True), ("first", False), ("last", True), ("last", False)))
    ordered = sorted([*tasks, last], reverse=backwards)
    answer = ordered[0 if place == "first" else -1]
    way = "from Z to A" if backwards else "from A to Z"
    return {"tasks": ", ".join(tasks), "last": last, "place": place, "way": way, "answer": answer}


def _temperature(random: Random, _: Sequence[Any]) -> _Values:
    """Draw a temperature and a wind speed; it feels some degrees colder for each full `per` of wind speed."""
    per, less = random.choice((5, 10, 20)), random.randint(1, 3)
    temperature, wind = random.randint(2, 25), random.choice((10, 20, 40, 60))
    degrees, felt = f"{less} degree{'s' if less > 1 else ''}", temperature - less * (wind // per)
    return {"per": per, "degrees": degrees, "temperature": temperature, "wind": wind, "felt": felt}


_RULES: Mapping[str, Callable[[Random, Sequence[Any]], _Values]] = {
    "budget": _budget, "deadline": _deadline, "estimate": _estimate, "pick": _pick, "tip": _tip, "packing": _packing,
    "order": _order, "temperature": _temperature,
}  # fmt: skip
"""The functions that draw a problem and solve it, by the names of their texts."""
