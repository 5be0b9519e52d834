"""How to think: the user states a rule of thumb, and much later a problem to solve by it.

The rules are invented, so that common sense gives another answer. The answers are computed here.
"""

from collections.abc import Callable
from random import Random
from typing import TypeAlias

from tunecheck_memory import Definition, GenerationContext, Kind, scripted_test
from tunecheck_memory._kinds.scripts import read_words

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_OPENING = "I want you to think in a way of my own about a certain sort of question. {rule} Keep to it from now on."


_Rule: TypeAlias = tuple[str, str, str]
"""A rule, a problem, and its answer."""


class HowToThink(Kind):
    """The user states a rule, and later asks for the solution of a problem by this rule."""

    name = "how_to_think"
    title = "How to think"
    judged = True
    judge_prompt = "memory_how_to_think"

    def definition(self, example: str, making: GenerationContext) -> Definition:
        random = making.random(self.title, example)
        rule, problem, answer = random.choice(_RULES)(random)
        return scripted_test(self, example, [_OPENING.format(rule=rule)], [problem], [answer])


def _budget(random: Random) -> _Rule:
    reserve, step = random.choice((10, 20, 30, 50)), random.choice((10, 20, 50, 100))
    price, count = random.randint(3, 60), random.randint(3, 12)
    thing = random.choice(("chairs", "lamps", "paint pots", "tents", "microphones", "flower boxes", "printers"))
    exact = price * count * (100 + reserve)
    total = -(-exact // (100 * step)) * step
    return (
        f"When you work out what something costs me, add {reserve}% to the sum as a reserve, and then round the result "
        f"up to the next full {step} euros.",
        f"What will {count} {thing} at {price} euros each cost me? Give the amount.",
        f"{total} euros",
    )


def _deadline(random: Random) -> _Rule:
    off = sorted(random.sample(range(7), 2))
    start = random.choice([day for day in range(7) if day not in off])
    length = random.randint(2, 9)
    task = random.choice(("repair the roof", "print the posters", "tune the piano", "dig the pond", "paint the fence"))
    day, worked = start, 1
    while worked < length:
        day += 1
        worked += day % 7 not in off
    return (
        "When you count working days for me, the first day of work counts as day one, and "
        f"{DAYS[off[0]]} and {DAYS[off[1]]} never count: on these nobody works. All other days of the week do count.",
        f"They begin to {task} on a {DAYS[start]} and need {length} working days. On which day of the week is the last "
        "day of work?",
        DAYS[day % 7],
    )


def _estimate(random: Random) -> _Rule:
    middle = random.randint(20, 80)
    apart = random.randint(1, 12)
    inner = [middle - apart, middle, middle + apart]
    estimates = [*inner, min(inner) - random.randint(5, 15), max(inner) + random.randint(16, 90)]
    random.shuffle(estimates)
    what = random.choice(("hours for the move", "guests at the party", "kilometres of the hike", "jars of jam"))
    return (
        "When I give you several estimates, leave out the lowest and the highest one, and take the mean of the others.",
        f"Five friends estimate the {what}: {', '.join(map(str, estimates))}. Which number do we work with?",
        str(middle),
    )


def _pick(random: Random) -> _Rule:
    measure, most, unit, thing = random.choice(
        (
            ("price", "cheapest", "euros", "tent"),
            ("price", "cheapest", "euros", "bicycle"),
            ("weight", "lightest", "decagrams", "rucksack"),
            ("weight", "lightest", "decagrams", "suitcase"),
            ("way to the station", "closest", "minutes on foot", "flat"),
            ("way to the station", "closest", "minutes on foot", "garage"),
        )
    )
    names = random.sample(read_words("last_names"), 4)
    values = random.sample(range(20, 400), 4)
    offers = ", ".join(f"{name} ({value} {unit})" for name, value in zip(names, values, strict=True))
    answer = sorted(zip(values, names, strict=True))[1][1]
    return (
        f"When I choose between several {thing}s, the {measure} decides, but I never take the {most} one, for there "
        f"is a catch with that. I take the one that comes next after it.",
        f"Here are four {thing}s, by the names of their sellers: {offers}. Which {thing} do I take?",
        answer,
    )


def _tip(random: Random) -> _Rule:
    people, share = random.randint(3, 7), random.randint(6, 30)
    payer = random.choice(("the youngest", "the eldest", "the host", "whoever came last", "the tallest"))
    bill = share * (2 * people - 1)
    return (
        f"When a bill is shared among friends, {payer} pays half of what each of the others pays.",
        f"There are {people} of us, and the bill comes to {bill} euros. How much does {payer} pay?",
        f"{share} euros",
    )


def _packing(random: Random) -> _Rule:
    thing = random.choice(("shirts", "pairs of socks", "sandwiches", "bottles of water", "towels"))
    each, spare, nights = random.randint(1, 4), random.randint(1, 5), random.randint(2, 12)
    return (
        f"When I pack for a journey, I take {each} {thing} for each night, and {spare} more for every three nights or "
        "part of them.",
        f"I am going away for {nights} nights. How many {thing} do I pack?",
        str(each * nights + spare * -(-nights // 3)),
    )


def _order(random: Random) -> _Rule:
    tasks = random.sample(("call Vera", "buy screws", "water the ferns", "book a train", "mend the gate",
                           "feed the hens", "answer the mayor", "polish the boots"), 4)  # fmt: skip
    first, backwards = random.choice((("first", True), ("first", False), ("last", True), ("last", False)))
    ordered = sorted(tasks, reverse=backwards)
    way = "from Z to A" if backwards else "from A to Z"
    return (
        f"When I do not know in which order to do things, I go through them by the alphabet, {way}.",
        f"Today I have to {', '.join(tasks[:-1])} and {tasks[-1]}. Which of these do I do {first}?",
        ordered[0] if first == "first" else ordered[-1],
    )


def _temperature(random: Random) -> _Rule:
    per, less = random.choice((5, 10, 20)), random.randint(1, 3)
    temperature, wind = random.randint(2, 25), random.choice((10, 20, 40, 60))
    felt = temperature - less * (wind // per)
    return (
        f"When you tell me how cold it feels, take {less} degree{'s' if less > 1 else ''} off the temperature for each "
        f"full {per} km/h of wind.",
        f"It has {temperature} degrees and a wind of {wind} km/h. How cold does it feel?",
        f"{felt} degrees",
    )


_RULES: tuple[Callable[[Random], _Rule], ...] = (
    _budget, _deadline, _estimate, _pick, _tip, _packing, _order, _temperature
)  # fmt: skip
