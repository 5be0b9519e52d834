"""A visit to a restaurant: order, be told that a dish is out, notice the wrong one, and recall the drink at the end."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, ClassVar

from tunecheck.memory._kind import Kind, Making, Scene
from tunecheck.memory._model import AskJudge, Definition, Points, Replied, Say, Step, Steps, Wait
from tunecheck.memory._restaurant.orders import OrderFailedError, Wanted, read_order, read_yes
from tunecheck.memory._wording import fill

if TYPE_CHECKING:
    from tunecheck._json import JSON
    from tunecheck.memory._wording import Wording

_MOST = 5.0
_MOST_CHARACTERS = 20_000
"""How much of a reply the judge is shown."""


class Restaurant(Kind):
    """A dialogue that a judge follows: its definitions are empty, each test decides as it goes.

    A point each for playing the guest and ordering a drink, for ordering dishes of the menu, for choosing others when
    one is out, for noticing that a wrong one is brought, and for recalling the drink. The first that fails is the end.

    The judge is asked with these purposes; each reply is one JSON object:

    * `restaurant_follows_role`: the waiter's `line`, the `reply` → `{"follows_role": bool}`
    * `restaurant_extraction`: `line`, `reply`, `menu` (as the guest saw it), `wanted` ("drinks" or "dishes") →
      `{"has_ordered_something": bool, "order": [{"is_drink", "item", "menu_nr", "menu_ref", "off_menu"}, …]}`
    * `restaurant_noticed`: `line`, `reply`, `ordered` and `served` (lists of dishes) → `{"noticed": bool}`
    * `restaurant_recalls`: `line`, `reply`, `drinks` (a list) → `{"recalls": bool}`
    """

    name: ClassVar[str] = "restaurant"
    title: ClassVar[str] = "Restaurant"
    resets: ClassVar[bool] = True
    consults: ClassVar[bool] = True

    def __init__(self) -> None:
        self.arguments = {}

    def check(self, wording: Wording) -> None:
        """See Kind: the menu must be there.

        Raises:
            ConfigurationError: its file cannot be read, or holds no menu.
        """
        menu = wording.restaurant.menu  # read when it is first asked for
        assert menu.dishes

    def definitions(self, count: int, making: Making) -> list[Definition]:
        """Empty scripts: everything is said as the visit goes."""
        return [Definition(self.title, str(example)) for example in range(count)]

    def steps(self, definition: Definition, scene: Scene) -> Steps:
        """The visit, which returns its points."""
        return _Visit(scene).steps()


class _Visit:
    """One visit: what was ordered so far, and the points for it."""

    def __init__(self, scene: Scene) -> None:
        self._random = scene.random
        self._words = scene.wording.restaurant
        self._menu = self._words.menu
        self._points = 0.0
        self._reasons: list[str] = []

    def steps(self) -> Steps:
        try:
            yield from self._visit()
        except OrderFailedError as failed:
            self._reasons.append(str(failed))
        return Points(self._points, _MOST, tuple(self._reasons))

    def _visit(self) -> Generator[Step, Replied, None]:
        yield Say(self._words.setup)
        yield Wait(percentage=20)
        drinks = yield from self._drinks()
        yield Wait(percentage=40)
        order = yield from self._dishes(drinks)
        yield Wait(percentage=60)
        out = yield from self._another(order)
        yield Wait(percentage=80)
        missing = yield from self._mixed_up(order, out)
        yield Wait(percentage=90)
        yield from self._same_again(missing, drinks)

    # -- the five acts

    def _drinks(self) -> Generator[Step, Replied, list[str]]:
        line, reply = yield from self._ask(self._words.menu_line, menu=self._menu.text)
        if not (yield from self._judged("follows_role", line=line, reply=reply)):
            raise OrderFailedError("The agent did not play the guest.")
        drinks = yield from self._ordered("drinks", line, reply)
        self._point(f"The agent played the guest and ordered {_listed(drinks)}.")
        return drinks

    def _dishes(self, drinks: Sequence[str]) -> Generator[Step, Replied, list[str]]:
        line, reply = yield from self._ask(self._words.drink_served, list=_listed(drinks))
        order = yield from self._ordered("dishes", line, reply)
        self._point(f"The agent ordered {_listed(order)}.")
        yield self._say(self._words.order_taken, list=_listed(order))
        return order

    def _another(self, order: list[str]) -> Generator[Step, Replied, str]:
        """A dish is out: the order has others in its place afterwards."""
        out = self._random.choice(order)
        line, reply = yield from self._ask(self._words.unavailable, item=out)
        others = yield from self._ordered("dishes", line, reply)
        if repeated := [dish for dish in others if dish in order]:
            raise OrderFailedError(f"The agent ordered {repeated[0]} again.")
        self._point("The agent ordered something else.")
        order.remove(out)
        order.extend(others)
        yield self._say(self._words.changed, list=_listed(others))
        return out

    def _mixed_up(self, order: Sequence[str], out: str) -> Generator[Step, Replied, str]:
        """A wrong dish is brought: which one it stands in for."""
        missing, served = self._swapped(order, out)
        line, reply = yield from self._ask(self._words.served, list=_listed(served))
        asked: dict[str, JSON] = {"line": line, "reply": reply, "ordered": list(order), "served": list(served)}
        if not (yield from self._judged("noticed", **asked)):
            raise OrderFailedError("The agent did not notice the wrong dish.")
        self._point("The agent noticed the wrong dish.")
        yield self._say(self._words.apology)
        return missing

    def _same_again(self, missing: str, drinks: Sequence[str]) -> Generator[Step, Replied, None]:
        line, reply = yield from self._ask(self._words.amended, item=missing)
        if not (yield from self._judged("recalls", line=line, reply=reply, drinks=list(drinks))):
            raise OrderFailedError("The agent did not recall its drink.")
        self._point("The agent recalled its drink.")

    def _swapped(self, order: Sequence[str], out: str) -> tuple[str, list[str]]:
        """A dish of the order, and the order with another of its section in its place."""
        shuffled = list(order)
        self._random.shuffle(shuffled)
        for dish in shuffled:
            entry, section = self._menu.like(dish) or ("", ())
            if others := [other for other in section if other not in (entry, out)]:
                served = list(order)
                served[served.index(dish)] = self._random.choice(others)
                return entry, served
        raise OrderFailedError("The menu has nothing that could be brought by mistake.")

    # -- what they are made of

    def _say(self, line: str, question: bool = False, **values: str) -> Say:
        return Say(fill(self._words.speaker, {"line": fill(line, values)}), question=question)

    def _ask(self, line: str, **values: str) -> Generator[Step, Replied, tuple[str, str]]:
        said = self._say(line, question=True, **values)
        replied = yield said
        return said.message, (replied.text or "")[:_MOST_CHARACTERS]

    def _judged(self, purpose: str, **values: JSON) -> Generator[Step, Replied, bool]:
        replied = yield AskJudge(f"restaurant_{purpose}", values)
        return read_yes(replied.text or "", purpose)

    def _ordered(self, wanted: Wanted, line: str, reply: str) -> Generator[Step, Replied, list[str]]:
        menu = self._menu
        replied = yield AskJudge(
            "restaurant_extraction", {"line": line, "reply": reply, "menu": menu.text, "wanted": wanted}
        )
        return read_order(replied.text or "", menu, wanted)

    def _point(self, reason: str) -> None:
        self._points += 1
        self._reasons.append(reason)


def _listed(items: Sequence[str]) -> str:
    """The items as in speech: "a, b and c"."""
    *before, last = items
    return f"{', '.join(before)} and {last}" if before else last
