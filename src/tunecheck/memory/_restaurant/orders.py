"""What a judge says of a guest's words, read as data: an order, or yes and no. Nothing in it is trusted."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Literal

from tunecheck._json import JSON
from tunecheck.memory._goodai.lenient_json import read_lenient
from tunecheck.memory._restaurant.menu import Menu

Wanted = Literal["drinks", "dishes"]

_MOST_ITEMS = 50
_MOST_CHARACTERS = 300
_NUMBER = re.compile(r"\s*#?([0-9]{1,6})\.?\s*\Z")


class OrderFailedError(Exception):
    """The guest's words take the test to its end; the text is the reason."""


def read_yes(text: str, key: str) -> bool:
    """Whether the judge answered yes under this key.

    Raises:
        OrderFailedError: there is no such answer in it.
    """
    value = _object(text).get(key)
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in ("true", "yes", "false", "no"):
        raise OrderFailedError(f"The judge's reply has no yes or no under {key!r}: {_shown(text)}")
    return word in ("true", "yes")


def read_order(text: str, menu: Menu, wanted: Wanted) -> list[str]:
    """What the guest ordered by the judge's reply: drinks by their names, dishes by their entries in the menu.

    Raises:
        OrderFailedError: nothing was ordered, or what there is not, or the reply cannot be read.
    """
    reply = _object(text)
    items = reply.get("order")
    if not isinstance(items, list) or not isinstance(reply.get("has_ordered_something"), bool):
        raise OrderFailedError(f"The judge's reply is no order: {_shown(text)}")
    if len(items) > _MOST_ITEMS:
        raise OrderFailedError(f"The judge lists {len(items):,} items, and {_MOST_ITEMS} at most are read.")
    if not items or reply["has_ordered_something"] is False:
        raise OrderFailedError("Nothing was ordered.")
    return [_named(item, menu, wanted, text) for item in items]


def _named(item: JSON, menu: Menu, wanted: Wanted, text: str) -> str:
    if not isinstance(item, dict) or not isinstance(item.get("is_drink"), bool):
        raise OrderFailedError(f"The judge's reply is no order: {_shown(text)}")
    name = str(item.get("item") or "").strip()[:_MOST_CHARACTERS]
    if item["is_drink"] != (wanted == "drinks"):
        asked = "something to drink" if wanted == "drinks" else "something to eat"
        raise OrderFailedError(f"Asked for {asked}, the agent ordered {name or 'something else'}.")
    return _drink(name, text) if wanted == "drinks" else _dish(item, name, menu)


def _drink(name: str, text: str) -> str:
    if not name:
        raise OrderFailedError(f"The judge's reply names no drink: {_shown(text)}")
    return name


def _dish(item: Mapping[str, JSON], name: str, menu: Menu) -> str:
    if item.get("off_menu") is True and not (name and menu.has(name)):
        raise OrderFailedError(f"{name or 'What was ordered'} is not on the menu.")
    entry = menu.dishes.get(_number(item.get("menu_nr")))
    if entry is None:
        raise OrderFailedError(f"{name or 'What was ordered'} has no number among the menu's dishes.")
    return entry


def _number(value: JSON) -> int:
    """The number, or 0, which no dish has."""
    if isinstance(value, bool):
        return 0
    if isinstance(value, float):
        return int(value) if value.is_integer() else 0
    if isinstance(value, int):
        return value
    matched = _NUMBER.match(value) if isinstance(value, str) and len(value) < 40 else None
    return int(matched[1]) if matched else 0


def _object(text: str) -> Mapping[str, JSON]:
    try:
        value = read_lenient(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise OrderFailedError(f"The judge's reply cannot be read: {_shown(text)}")
    return value


def _shown(text: str) -> str:
    line = " ".join(text[:400].split())
    return json.dumps(line[:120] + ("…" if len(line) > 120 or len(text) > 400 else ""), ensure_ascii=False)
