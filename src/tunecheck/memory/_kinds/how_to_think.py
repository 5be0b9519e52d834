"""How to think: a rule of thumb of the user's own, and much later a problem that is to be solved by it.

The rules are invented, so that common sense alone gives another answer; each problem's answer is worked out here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tunecheck.memory._data import read_words
from tunecheck.memory._kind import Kind, Making
from tunecheck.memory._kinds.scripts import scripted_test
from tunecheck.memory._model import Definition

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_OPENING = "I want you to think in a way of my own about a certain sort of question. {rule} Keep to it from now on."


@dataclass(frozen=True, slots=True)
class Rule:
    """A way of thinking, a problem for it, and the answer that it leads to."""

    rule: str
    problem: str
    answer: str


class HowToThink(Kind):
    """A rule, then a problem that is to be solved by it."""

    name = "how_to_think"
    title = "How to think"

    def definition(self, example: str, making: Making) -> Definition:
        random = making.random(self.title, example)
        rule = random.choice(_RULES)(random)
        return scripted_test(self, example, [_OPENING.format(rule=rule.rule)], [rule.problem], [rule.answer])


def _budget(random: Random) -> Rule:
    """Costs with a reserve, rounded up."""
    reserve, step = random.choice((10, 20, 30, 50)), random.choice((10, 20, 50, 100))
    price, count = random.randint(3, 60), random.randint(3, 12)
    thing = random.choice(("chairs", "lamps", "paint pots", "tents", "microphones", "flower boxes", "printers"))
    exact = price * count * (100 + reserve)
    total = -(-exact // (100 * step)) * step
    return Rule(
        f"When you work out what something costs me, add {reserve}% to the sum as a reserve, and then round the result "
        f"up to the next full {step} euros.",
        f"What will {count} {thing} at {price} euros each cost me? Give the amount.",
        f"{total} euros",
    )


def _deadline(random: Random) -> Rule:
    """Working days, of which two are none."""
    off = sorted(random.sample(range(7), 2))
    start = random.choice([day for day in range(7) if day not in off])
    length = random.randint(2, 9)
    task = random.choice(("repair the roof", "print the posters", "tune the piano", "dig the pond", "paint the fence"))
    day, worked = start, 1
    while worked < length:
        day += 1
        worked += day % 7 not in off
    return Rule(
        "When you count working days for me, the first day of work counts as day one, and "
        f"{DAYS[off[0]]} and {DAYS[off[1]]} never count: on these nobody works. All other days of the week do count.",
        f"They begin to {task} on a {DAYS[start]} and need {length} working days. On which day of the week is the last "
        "day of work?",
        DAYS[day % 7],
    )


def _estimate(random: Random) -> Rule:
    """The mean of estimates, the extremes left out."""
    middle = random.randint(20, 80)
    apart = random.randint(1, 12)
    inner = [middle - apart, middle, middle + apart]
    estimates = [*inner, min(inner) - random.randint(5, 15), max(inner) + random.randint(16, 90)]
    random.shuffle(estimates)
    what = random.choice(("hours for the move", "guests at the party", "kilometres of the hike", "jars of jam"))
    return Rule(
        "When I give you several estimates, leave out the lowest and the highest one, and take the mean of the others.",
        f"Five friends estimate the {what}: {', '.join(map(str, estimates))}. Which number do we work with?",
        str(middle),
    )


def _pick(random: Random) -> Rule:
    """The second best by one measure."""
    measure, most, unit, things = random.choice(
        (
            ("price", "cheapest", "euros", ("tent", "tents")),
            ("price", "cheapest", "euros", ("bicycle", "bicycles")),
            ("weight", "lightest", "decagrams", ("rucksack", "rucksacks")),
            ("weight", "lightest", "decagrams", ("suitcase", "suitcases")),
            ("way to the station", "closest", "minutes on foot", ("flat", "flats")),
            ("way to the station", "closest", "minutes on foot", ("garage", "garages")),
        )
    )
    names = random.sample(read_words("last_names"), 4)
    values = random.sample(range(20, 400), 4)
    offers = ", ".join(f"{name} ({value} {unit})" for name, value in zip(names, values, strict=True))
    answer = sorted(zip(values, names, strict=True))[1][1]
    return Rule(
        f"When I choose between several {things[1]}, the {measure} decides, but I never take the {most} one, for there "
        f"is a catch with that. I take the one that comes next after it.",
        f"Here are four {things[1]}, by the names of their sellers: {offers}. Which {things[0]} do I take?",
        answer,
    )


def _tip(random: Random) -> Rule:
    """Shares of a bill, of which one person pays less."""
    people, share = random.randint(3, 7), random.randint(6, 30)
    payer = random.choice(("the youngest", "the eldest", "the host", "whoever came last", "the tallest"))
    bill = share * (2 * people - 1)
    return Rule(
        f"When a bill is shared among friends, {payer} pays half of what each of the others pays.",
        f"There are {people} of us, and the bill comes to {bill} euros. How much does {payer} pay?",
        f"{share} euros",
    )


def _packing(random: Random) -> Rule:
    """So many for each night, and some more for bad weather."""
    thing = random.choice(("shirts", "pairs of socks", "sandwiches", "bottles of water", "towels"))
    each, spare, nights = random.randint(1, 4), random.randint(1, 5), random.randint(2, 12)
    return Rule(
        f"When I pack for a journey, I take {each} {thing} for each night, and {spare} more for every three nights or "
        "part of them.",
        f"I am going away for {nights} nights. How many {thing} do I pack?",
        str(each * nights + spare * -(-nights // 3)),
    )


def _order(random: Random) -> Rule:
    """What to do first, by letters."""
    tasks = random.sample(("call Vera", "buy screws", "water the ferns", "book a train", "mend the gate",
                           "feed the hens", "answer the mayor", "polish the boots"), 4)  # fmt: skip
    first, backwards = random.choice((("first", True), ("first", False), ("last", True), ("last", False)))
    ordered = sorted(tasks, reverse=backwards)
    way = "from Z to A" if backwards else "from A to Z"
    return Rule(
        f"When I do not know in which order to do things, I go through them by the alphabet, {way}.",
        f"Today I have to {', '.join(tasks[:-1])} and {tasks[-1]}. Which of these do I do {first}?",
        ordered[0] if first == "first" else ordered[-1],
    )


def _temperature(random: Random) -> Rule:
    """How warm it feels with wind."""
    per, less = random.choice((5, 10, 20)), random.randint(1, 3)
    temperature, wind = random.randint(2, 25), random.choice((10, 20, 40, 60))
    felt = temperature - less * (wind // per)
    return Rule(
        f"When you tell me how cold it feels, take {less} degree{'s' if less > 1 else ''} off the temperature for each "
        f"full {per} km/h of wind.",
        f"It has {temperature} degrees and a wind of {wind} km/h. How cold does it feel?",
        f"{felt} degrees",
    )


_RULES: tuple[Callable[[Random], Rule], ...] = (
    _budget, _deadline, _estimate, _pick, _tip, _packing, _order, _temperature
)  # fmt: skip
