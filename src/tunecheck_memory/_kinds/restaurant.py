"""A restaurant visit: the agent orders, replaces a dish that is out, notices a wrong dish, and recalls its drink.

A model judges the visit's replies. The stages of a visit, at shares of the memory span, each for a point:

| at | the waiter | asked of the judge |
|---|---|---|
| 20% | shows the menu, and asks for a drink | `follows_role`, then `extraction` of drinks |
| 40% | serves the drink, and asks for dishes | `extraction` of dishes |
| 60% | says that one dish is sold out | `extraction` of dishes; none may be ordered already |
| 80% | serves the dishes, one of them wrong | `noticed` |
| 90% | brings the right dish, and asks for the drink of the beginning | `recalls` |

The first failure ends the visit. The stages are those of the GoodAI benchmark.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from tunecheck.plugins import JSON
from tunecheck_memory import AskJudge, FinishedTest, GenerationContext, Kind, MemoryTest, Points, Say, Score
from tunecheck_memory._kind import Replied, Scene, Step, Steps, Wait
from tunecheck_memory._kinds.replies import UndecidedError, read_lenient
from tunecheck_memory._wording import Menu, fill

Wanted = Literal["drinks", "dishes"]

# The name of an ordered item in the judge's reply: not blank, cut to this number of characters
_Name: TypeAlias = Annotated[str, Meta(pattern=r"\S")]
_MOST_NAME = 300
_T = TypeVar("_T")


class EndOfVisitError(Exception):
    """The visit to the restaurant ends early; the message is the reason."""


class _Item(msgspec.Struct, frozen=True):
    """An item of the order in the judge's reply."""

    is_drink: bool
    item: _Name
    menu_nr: int | None = None
    off_menu: bool | None = None


class _Order(msgspec.Struct, frozen=True):
    """The order in the judge's reply."""

    has_ordered_something: bool
    order: list[_Item]


def _read_reply(text: str, form: type[_T]) -> _T:
    """Return the judge's reply in this form; numbers may also be written as text, such as `"12"`.

    Raises:
        EndOfVisitError: the reply has another form.
    """
    try:
        return msgspec.convert(read_lenient(text), form, strict=False)
    except ValueError:
        raise EndOfVisitError(f"The judge's reply cannot be read: {text!r:.120}") from None


def read_order(text: str, menu: Menu, wanted: Wanted) -> list[str]:
    """Return the order in the judge's reply: drinks by name, dishes by their entries in the menu.

    `wanted` is the sort of items for which the waiter asked.

    Raises:
        EndOfVisitError: Nothing was ordered, an item is not acceptable, or the reply cannot be read.
    """
    reply = _read_reply(text, _Order)
    if not (reply.order and reply.has_ordered_something):
        raise EndOfVisitError("Nothing was ordered.")
    return [_name_item(item, menu, wanted) for item in reply.order]


def _name_item(item: _Item, menu: Menu, wanted: Wanted) -> str:
    """Return the name of a drink, or the menu's entry of a dish.

    Raises:
        EndOfVisitError: The item is a drink instead of a dish, a dish instead of a drink, or not on the menu.
    """
    name = item.item.strip()[:_MOST_NAME]
    if item.is_drink != (wanted == "drinks"):
        request = "something to drink" if wanted == "drinks" else "something to eat"
        raise EndOfVisitError(f"Asked for {request}, the agent ordered {name}.")

    if item.is_drink:
        return name

    # `off_menu` alone does not decide: a name that the menu's text contains is accepted.
    if item.off_menu and name.lower() not in menu.text.lower():
        raise EndOfVisitError(f"{name} is not on the menu.")

    entry = menu.dishes.get(item.menu_nr or 0)  # the menu counts from 1
    if entry is None:
        raise EndOfVisitError(f"The menu has no dish number for {name}.")
    return entry


# One point for each stage
_MOST_POINTS = 5.0
_MOST_REPLY = 20_000
"""The most characters of a reply that the judge sees."""


class Restaurant(Kind):
    """A dialogue that a judge follows. Definitions are empty: each test chooses its next step from the replies.

    The top of the module lists the stages. The judge's purposes, each with a reply of one JSON object:

    * `restaurant_follows_role`: the waiter's `line`, the `reply` → `{"follows_role": bool}`
    * `restaurant_extraction`: `line`, `reply`, `menu` (as the guest saw it), `wanted` ("drinks" or "dishes") →
      `{"has_ordered_something": bool, "order": [{"is_drink", "item", "menu_nr", "menu_ref", "off_menu"}, …]}`
    * `restaurant_noticed`: `line`, `reply`, `ordered` and `served` (lists of dishes) → `{"noticed": bool}`
    * `restaurant_recalls`: `line`, `reply`, `drinks` (a list) → `{"recalls": bool}`
    """

    name = "restaurant"
    title = "Restaurant"
    resets = True
    consults = True

    def score(self, given: FinishedTest) -> Score | None:
        """Raise UndecidedError, because a visit counts its points itself while it runs; this test has none."""
        raise UndecidedError("the row has no `points`, which the restaurant test counts while running; run it again")

    def definition(self, example: str, making: GenerationContext) -> MemoryTest:
        """Return an empty script: the messages depend on the replies."""
        return MemoryTest(self.title, example)

    def steps(self, definition: MemoryTest, scene: Scene) -> Steps:
        """Run a visit with the wording and the menu of the scene."""
        return _Visit(scene).steps()


class _Visit:
    """One visit to the restaurant: the points so far, and their reasons."""

    def __init__(self, scene: Scene) -> None:
        """Prepare a visit with the scene's wording and menu, and no points."""
        self._random = scene.random
        self._words = scene.wording.restaurant
        self._menu = self._words.menu
        self._points = 0.0
        self._reasons: list[str] = []

    def steps(self) -> Steps:
        """Run the whole visit: yield its messages, waits and questions to the judge; return the points and reasons.

        The first failure ends the visit; each stage before it has earned a point.
        """
        words = self._words
        try:
            yield Say(words.setup)
            yield Wait(percentage=20)

            # The drink that the last stage asks for
            line, reply = yield from self._ask(words.menu_line, menu=self._menu.text)
            yield from self._ask_judge("follows_role", "The agent did not play the guest.", line=line, reply=reply)
            drinks = yield from self._take_order("drinks", line, reply)
            self._point(f"The agent played the guest and ordered {_join_items(drinks)}.")
            yield Wait(percentage=40)

            # The dishes
            line, reply = yield from self._ask(words.drink_served, list=_join_items(drinks))
            order = yield from self._take_order("dishes", line, reply)
            self._point(f"The agent ordered {_join_items(order)}.")
            yield self._say(words.order_taken, list=_join_items(order))
            yield Wait(percentage=60)

            # One of the dishes is sold out, and the agent must choose another.
            sold_out = self._random.choice(order)
            line, reply = yield from self._ask(words.unavailable, item=sold_out)
            others = yield from self._take_order("dishes", line, reply)
            if repeated := [dish for dish in others if dish in order]:
                raise EndOfVisitError(f"The agent ordered {repeated[0]} again.")
            self._point("The agent ordered something else.")
            order.remove(sold_out)
            order.extend(others)
            yield self._say(words.changed, list=_join_items(others))
            yield Wait(percentage=80)

            # One of the dishes is replaced by another of its section, and the agent must notice.
            missing, served = self._swap_dish(order, sold_out)
            line, reply = yield from self._ask(words.served, list=_join_items(served))
            failed = "The agent did not notice the wrong dish."
            yield from self._ask_judge("noticed", failed, line=line, reply=reply, ordered=[*order], served=[*served])
            self._point("The agent noticed the wrong dish.")
            yield self._say(words.apology)
            yield Wait(percentage=90)

            # The agent must name the drink again, after 70% of the memory span.
            line, reply = yield from self._ask(words.amended, item=missing)
            failed = "The agent did not recall its drink."
            yield from self._ask_judge("recalls", failed, line=line, reply=reply, drinks=[*drinks])
            self._point("The agent recalled its drink.")
        except EndOfVisitError as error:
            self._reasons.append(str(error))
        return Points(self._points, _MOST_POINTS, tuple(self._reasons))

    def _swap_dish(self, order: Sequence[str], sold_out: str) -> tuple[str, list[str]]:
        """Choose a dish of the order that the waiter replaces by mistake; return its entry, and the served dishes.

        It is replaced by another dish of its section, but not by the one that is sold out.

        Raises:
            EndOfVisitError: No section has another dish.
        """
        # The order is shuffled, because its first dish with a replacement is taken.
        shuffled = list(order)
        self._random.shuffle(shuffled)

        for dish in shuffled:
            entry, section = self._menu.entry_with(dish) or ("", ())
            if others := [other for other in section if other not in (entry, sold_out)]:
                served = list(order)
                served[served.index(dish)] = self._random.choice(others)
                return entry, served
        raise EndOfVisitError("The menu has no other dish that could be brought by mistake.")

    def _say(self, line: str, question: bool = False, **values: str) -> Say:
        """Return a message in the waiter's words, with values in its line; see `Say` for `question`."""
        return Say(fill(self._words.speaker, {"line": fill(line, values)}), question=question)

    def _ask(self, line: str, **values: str) -> Generator[Step, Replied, tuple[str, str]]:
        """As the waiter, ask the agent `line` with its values; return the message and the beginning of the reply."""
        message = self._say(line, question=True, **values)
        replied = yield message
        return message.message, (replied.text or "")[:_MOST_REPLY]

    def _ask_judge(self, purpose: str, failed: str, **values: JSON) -> Generator[Step, Replied, None]:
        """Ask the judge a question of yes or no; `purpose` is the question's name, and the key of the answer.

        Raises:
            EndOfVisitError: The answer is no (with `failed` as the reason), or cannot be read.
        """
        replied = yield AskJudge(f"restaurant_{purpose}", values)
        text = replied.text or ""
        answer = _read_reply(text, dict[str, Any]).get(purpose)

        if answer is False:
            raise EndOfVisitError(failed)
        if answer is not True:
            raise EndOfVisitError(f"The judge's reply has no yes or no under {purpose!r}: {text!r:.120}")

    def _take_order(self, wanted: Wanted, line: str, reply: str) -> Generator[Step, Replied, list[str]]:
        """Let the judge read the order in the agent's reply, and return the ordered items.

        The waiter has asked for the `wanted` items with the message `line`.

        Raises:
            EndOfVisitError: The order is not acceptable.
        """
        values: dict[str, JSON] = {"line": line, "reply": reply, "menu": self._menu.text, "wanted": wanted}
        replied = yield AskJudge("restaurant_extraction", values)
        return read_order(replied.text or "", self._menu, wanted)

    def _point(self, reason: str) -> None:
        """Count a point, and note its reason."""
        self._points += 1
        self._reasons.append(reason)


def _join_items(items: Sequence[str]) -> str:
    """Return the items as in speech: "a, b and c"."""
    *before, last = items
    return f"{', '.join(before)} and {last}" if before else last
