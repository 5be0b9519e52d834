"""Tests whose answer is a list in JSON: all names given, the items of a shopping list."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tunecheck._json import JSON
from tunecheck.memory._lenient_json import read_lenient
from tunecheck.memory._model import Given, Score
from tunecheck.memory._scoring.base import Undecided, Verdict, expected_texts, last_reply
from tunecheck.memory._scoring.single import NO_EXPECTATION, NO_REPLY

MAX_ITEMS = 2_000
"""Longest list that is compared."""


def score_name_list(given: Given, compat: bool) -> Verdict:
    """Names in a JSON list: the right ones, of as many as there are in the longer of both lists.

    The reference divides by zero where both lists are empty; by default that is right.
    """
    reply, expected = last_reply(given), expected_texts(given)
    if reply is None or expected is None:
        return NO_REPLY if reply is None else NO_EXPECTATION
    said = _list(reply)
    if said is None:
        return Score(0.0, ("the reply is no JSON list",))
    wanted = [name.strip().lower() for name in expected]
    named = [name.strip().lower() if isinstance(name, str) else "" for name in said]
    if not wanted and not named:
        return (
            Undecided("the reference breaks off: both lists are empty") if compat else Score(1.0, ("both are empty",))
        )
    there = set(named)
    found = sum(name in there for name in wanted)
    return Score(found / max(len(wanted), len(named)), tuple(_name_reasons(wanted, named)))


def _name_reasons(wanted: list[str], named: list[str]) -> list[str]:
    there, right = set(named), set(wanted)
    missing = [name[:80] for name in wanted if name not in there][:20]
    extra = [name[:80] or "something that is no text" for name in named if name not in right][:20]
    reasons = [f"not expected: {name}" for name in extra]
    return [*reasons, f"not named: {', '.join(missing)}" if missing else "all expected names are there"]


def _list(reply: str) -> list[JSON] | None:
    """The list in a reply; of an object its names, as iterating over it gives them."""
    try:
        said = read_lenient(reply)
    except ValueError:
        return None
    return list(said)[:MAX_ITEMS] if isinstance(said, (list, dict)) else None


# -- shopping


@dataclass(frozen=True, slots=True)
class _Item:
    name: str
    quantity: JSON


def score_shopping(given: Given, compat: bool) -> Verdict:
    """A shopping list: a third for items that are there, a third for quantities, a third for no item too many.

    An expected item is in one of the reply whose name holds its name ("toilet paper rolls"). The reference counts an
    item as often as it is listed, beyond 1; by default an item counts once, with the sum of its quantities.
    """
    reply, expected = last_reply(given), _expected_items(given)
    if reply is None or expected is None:
        return NO_REPLY if reply is None else NO_EXPECTATION
    said = _said_items(reply)
    if said is None:
        return Score(0.0, ('the reply is no JSON list of objects with "item" and "quantity"',))
    if not expected:
        return _empty_list(said, compat)
    return _as_reference(expected, said) if compat else _once_each(expected, said)


def _empty_list(said: list[_Item], compat: bool) -> Verdict:
    if compat:
        return Undecided("the reference breaks off: nothing was expected")
    return Score(float(not said), ("the list is empty" if not said else f"{len(said)} items, none expected",))


def _as_reference(expected: list[_Item], said: list[_Item]) -> Score:
    present = quantities = 0
    extra = 0
    for item in said:
        match = next((each for each in expected if each.name in item.name), None)
        present += match is not None
        quantities += match is not None and match.quantity == item.quantity
        extra += match is None
    return _thirds(present, quantities, extra, len(expected))


def _once_each(expected: list[_Item], said: list[_Item]) -> Score:
    found: dict[str, list[JSON]] = {}
    extra = 0
    for item in said:
        match = _best(item, expected)
        if match is None:
            extra += 1
        else:
            found.setdefault(match.name, []).append(item.quantity)
    wanted = {item.name: item for item in expected}
    quantities = sum(_same_amount(wanted[name].quantity, amounts) for name, amounts in found.items())
    return _thirds(len(found), quantities, extra, len(wanted))


def _best(item: _Item, expected: list[_Item]) -> _Item | None:
    """The expected item that is meant: the longest name that the reply's holds."""
    held = [each for each in expected if each.name in item.name]
    return max(held, key=lambda each: len(each.name), default=None)


def _same_amount(wanted: JSON, amounts: list[JSON]) -> bool:
    if len(amounts) == 1:
        return wanted == amounts[0] and not isinstance(amounts[0], bool)
    total = 0.0
    for amount in amounts:
        if isinstance(amount, bool) or not isinstance(amount, (int, float)) or abs(amount) > 1e9:
            return False
        total += amount
    return wanted == total


def _thirds(present: int, quantities: int, extra: int, count: int) -> Score:
    score = (present / count + quantities / count + (extra == 0)) / 3
    return Score(
        score,
        (f"{present} of {count} items, {quantities} of {count} quantities, {extra or 'no'} item(s) too many",),
    )


def _expected_items(given: Given) -> list[_Item] | None:
    if not isinstance(given.expected, (list, tuple)) or len(given.expected) > MAX_ITEMS:
        return None
    items: list[_Item] = []
    for each in given.expected:
        if not isinstance(each, (list, tuple)) or len(each) != 2 or not isinstance(each[0], str) or not each[0].strip():
            return None
        items.append(_Item(each[0].strip().lower(), each[1]))
    twice = Counter(item.name for item in items)
    return items if all(count == 1 for count in twice.values()) else None


def _said_items(reply: str) -> list[_Item] | None:
    try:
        said = read_lenient(reply)
    except ValueError:
        return None
    if not isinstance(said, list) or len(said) > MAX_ITEMS:
        return None
    items: list[_Item] = []
    for each in said:
        if not isinstance(each, dict) or not isinstance(each.get("item"), str) or "quantity" not in each:
            return None
        items.append(_Item(str(each["item"]).lower(), each["quantity"]))
    return items
