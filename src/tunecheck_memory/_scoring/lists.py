"""Tests whose answer is a list in JSON: all names given, the items of a shopping list."""

import re

from tunecheck._json import JSON
from tunecheck_memory._lenient_json import read_lenient
from tunecheck_memory._model import Given, Score
from tunecheck_memory._scoring.base import NoExpectationError, declines, expected_texts, last_reply

MAX_ITEMS = 2_000
"""Longest list that is compared."""

_ESCAPED = re.compile(r'[\[{]\s*(?:\{\s*)?\\"')
"""A list whose quotes are all escaped, as within a text."""

_LIST = re.compile(r"[\[{].*[\]}]", re.DOTALL)
_EXAMPLE = re.compile(
    r"\b(?:example|sample|hypothetical(?:ly)?|placeholders?|template|made.up|assum\w+|imagin\w+|suppos\w+"
    r"|how to express|(?:would|might|could) look|general list|format)\b",
    re.IGNORECASE,
)


def score_name_list(given: Given) -> Score:
    """Names in a JSON list: the share of right ones, of as many as there are in the longer of both lists."""
    reply, expected = last_reply(given), expected_texts(given)
    said = _inner_list(_read(reply))
    said = [_alone(each) for each in said] if isinstance(said, list) else said
    if not isinstance(said, (list, dict)):
        return Score(0.0, ("the reply is not a JSON list",))
    wanted = [name.strip().lower() for name in expected]
    # An object's names count, as the benchmark's loop over it does.
    named = [name.strip().lower() if isinstance(name, str) else "" for name in list(said)[:MAX_ITEMS]]
    if not wanted and not named:
        return Score(1.0, ("both are empty",))
    there, right = set(named), set(wanted)
    missing = [name[:80] for name in wanted if name not in there]
    extra = [name[:80] or "something that is not text" for name in named if name not in right]
    reasons = [f"not expected: {name}" for name in extra[:20]]
    reasons.append(f"not named: {', '.join(missing[:20])}" if missing else "all expected names are there")
    return Score((len(wanted) - len(missing)) / max(len(wanted), len(named)), tuple(reasons))


def score_shopping(given: Given) -> Score:
    """A shopping list: a third for items that are there, a third for quantities, a third for no item too many.

    An expected item is in one of the reply whose name holds its name ("toilet paper rolls"). An item counts once, with
    the sum of its quantities.
    """
    reply, expected = last_reply(given), expected_quantities(given)
    said = _said_items(reply)
    if said is None:
        return Score(0.0, ('the reply is not a JSON list of objects with "item" and "quantity"',))
    if not expected:
        return Score(float(not said), ("the list is empty" if not said else f"{len(said)} items, none expected",))
    if example := _is_example(reply):
        return Score(0.0, (f"the list is an example: {example!r}",), sure=False)
    present, quantities, extra = _count_items(expected, said)
    count = len(expected)
    return Score(
        (present / count + quantities / count + (extra == 0)) / 3,
        (f"{present} of {count} items, {quantities} of {count} quantities, {extra or 'no'} item(s) too many",),
    )


def _count_items(expected: dict[str, JSON], said: list[tuple[str, JSON]]) -> tuple[int, int, int]:
    """Count expected items in the reply, those in the right quantity, and items that are not expected.

    The longest expected name that an item's name holds is the one that it means.
    """
    amounts: dict[str, list[JSON]] = {}
    extra = 0
    for name, quantity in said:
        meant = max((each for each in expected if each in name), key=len, default=None)
        if meant is None:
            extra += 1
        else:
            amounts.setdefault(meant, []).append(quantity)
    return len(amounts), sum(_same_amount(expected[name], each) for name, each in amounts.items()), extra


def _same_amount(wanted: JSON, amounts: list[JSON]) -> bool:
    if len(amounts) == 1:
        return wanted == amounts[0] and not isinstance(amounts[0], bool)
    total = 0.0
    for amount in amounts:
        if isinstance(amount, bool) or not isinstance(amount, (int, float)) or abs(amount) > 1e9:
            return False
        total += amount
    return wanted == total


def expected_quantities(given: Given) -> dict[str, JSON]:
    if not isinstance(given.expected, (list, tuple)) or len(given.expected) > MAX_ITEMS:
        raise NoExpectationError
    quantities: dict[str, JSON] = {}
    for each in given.expected:
        if not isinstance(each, (list, tuple)) or len(each) != 2 or not isinstance(each[0], str) or not each[0].strip():
            raise NoExpectationError
        quantities[each[0].strip().lower()] = each[1]
    if len(quantities) < len(given.expected):
        raise NoExpectationError
    return quantities


def _said_items(reply: str) -> list[tuple[str, JSON]] | None:
    said = _inner_list(_read(reply))
    if not isinstance(said, list) or len(said) > MAX_ITEMS:
        return None
    items: list[tuple[str, JSON]] = []
    for each in said:
        if not isinstance(each, dict) or not isinstance(each.get("item"), str) or "quantity" not in each:
            return None
        items.append((str(each["item"]).lower(), each["quantity"]))
    return items


def _read(reply: str) -> JSON:
    """Return the JSON value in a reply, also one that is a text within JSON or has escaped quotes; None without one."""
    try:
        said = read_lenient(reply.replace('\\"', '"') if _ESCAPED.search(reply) else reply)
        return read_lenient(said) if isinstance(said, str) else said
    except ValueError:
        return None


def _inner_list(said: JSON) -> JSON:
    """The list in an object around it: `{"shopping_list": […]}`."""
    lists = [each for each in said.values() if isinstance(each, list)] if isinstance(said, dict) else []
    return lists[0] if len(lists) == 1 else said


def _alone(entry: JSON) -> JSON:
    """The text in an object that has no more: `{"name": "Ann"}`."""
    return next(iter(entry.values())) if isinstance(entry, dict) and len(entry) == 1 else entry


def _is_example(reply: str) -> str:
    """What says that a list is made up, if anything does."""
    around = _LIST.sub(" ", reply)
    found = _EXAMPLE.search(around) if declines(around) else None
    return found[0] if found else ""
