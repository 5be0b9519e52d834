"""Shared parts of the tests of restaurant visits: scripted guests, judged by recorded replies or a judge."""

import json
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tunecheck_memory import (
    AskJudge,
    MemoryTest,
    Points,
    Replied,
    Restaurant,
    Say,
    Scene,
    SessionWording,
    Step,
    Wait,
    load_wording,
)

GUEST_WORDS = (
    "Of course.",
    "A pot of green tea, please.",
    "I'll have the beef goulash.",
    "Thank you.",
    "What a pity. Then I'd like the lamb shank.",
    "Thank you.",
    "Excuse me, I ordered the lamb shank.",
    "No harm done.",
    "I was having green tea.",
)
"""A guest who orders from our menu, and remembers."""

Answer = Callable[[AskJudge], str]


@dataclass
class Visit:
    """The result of a visit; `points` is None where the guest's replies ran out before its end."""

    steps: list[Step] = field(default_factory=list)
    points: Points | None = None

    @property
    def said(self) -> list[str]:
        return [step.message for step in self.steps if isinstance(step, Say)]

    @property
    def asked(self) -> list[AskJudge]:
        return [step for step in self.steps if isinstance(step, AskJudge)]

    @property
    def waits(self) -> list[float]:
        return [step.percentage for step in self.steps if isinstance(step, Wait)]

    @property
    def total(self) -> float:
        assert self.points is not None
        return self.points.points

    @property
    def last_reason(self) -> str:
        assert self.points is not None
        return self.points.reasons[-1]


def visit(
    replies: Iterable[str],
    answers: Answer | Iterable[str],
    *,
    seed: str = "Restaurant - 0",
    wording: SessionWording | None = None,
) -> Visit:
    """A whole visit: the guest gives these replies, in order; the judge these answers, or what `answers` makes."""
    scene = Scene(lambda: 0, random.Random(seed), wording or load_wording())
    steps = Restaurant().steps(MemoryTest("Restaurant", "0"), scene)
    made, guest = Visit(), iter(replies)
    answer = answers if callable(answers) else _next_of(iter(answers))
    try:
        step = next(steps)
        while True:
            made.steps.append(step)
            text = answer(step) if isinstance(step, AskJudge) else None
            if isinstance(step, Say) and (text := next(guest, None)) is None:
                return made
            step = steps.send(Replied(text, 0, 0))
    except StopIteration as end:
        made.points = end.value
    return made


def _next_of(answers: Iterator[str]) -> Answer:
    return lambda _: next(answers)


# -- a judge's answers


def said_yes(purpose: str, yes: bool = True) -> str:
    return json.dumps({purpose: yes})


def drink(item: str, number: int | None = None) -> dict[str, Any]:
    return {"is_drink": True, "item": item, "menu_nr": number, "menu_ref": "", "off_menu": number is None}


def dish(number: object, item: str = "that", off_menu: bool = False) -> dict[str, Any]:
    return {"is_drink": False, "item": item, "menu_nr": number, "menu_ref": "", "off_menu": off_menu}


def order(*items: dict[str, Any]) -> str:
    return json.dumps({"has_ordered_something": bool(items), "order": items})


def ordered(item: str = "coffee", *dishes: int, instead: int = 2) -> list[str]:
    """The answers of a visit without a mishap of the guest's."""
    others = order(dish(instead))
    first = order(*(dish(number) for number in dishes or (1,)))
    return [
        said_yes("follows_role"), order(drink(item)), first, others, said_yes("noticed"), said_yes("recalls"),
    ]  # fmt: skip


nothing = order()


def friendly(request: AskJudge) -> str:
    """The answer of a judge to whom every guest orders tea and the first dish that is left, and forgets nothing."""
    if request.purpose != "restaurant_extraction":
        return said_yes(request.purpose.removeprefix("restaurant_"))
    if request.values["wanted"] == "drinks":
        return order(drink("tea"))
    sold_out = load_wording().restaurant.menu.dishes[1] in str(request.values["line"])
    return order(dish(2 if sold_out else 1))


def reference_replays(shared: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((shared / "ltm" / "restaurant_replays.json").read_text("utf-8"))
    return rows
