"""Kinds with a JSON list as the answer: all names of the user, the items of a shopping list."""

import re
from random import Random
from typing import Any

import msgspec

from tunecheck.plugins import JSON, convert_value, real_number
from tunecheck_memory import FinishedTest, GenerationContext, Kind, MemoryTest, Score, read_lenient, scripted_test
from tunecheck_memory._kinds.replies import NoExpectationError, declines, expected_texts, last_reply
from tunecheck_memory._kinds.scripts import read_line, read_lines, read_words, whole
from tunecheck_memory._kinds.statements import NamesKind


class NameList(NamesKind):
    """The user gives several names, and asks for all of them as a JSON list."""

    name = "name_list"
    title = "NameList"
    resets = True
    _question = "List every name that I have called myself so far, and no other, as a JSON list of texts."
    _asks_all = True

    def score(self, given: FinishedTest) -> Score | None:
        """Score the number of right names divided by the length of the longer list, the reply's or the expected one."""
        items = _inner_list(_read(last_reply(given)))
        if isinstance(items, list):  # `{"name": "Ann"}` counts as "Ann"
            items = [next(iter(each.values())) if isinstance(each, dict) and len(each) == 1 else each for each in items]
        if not isinstance(items, (list, dict)):
            return Score(0.0, ("the reply is not a JSON list",))
        expected = [name.strip().lower() for name in expected_texts(given)]
        # An object's keys count as names: the GoodAI benchmark iterates over the object.
        actual = [name.strip().lower() if isinstance(name, str) else "" for name in list(items)[:MAX_ITEMS]]
        if not expected and not actual:
            return Score(1.0, ("both are empty",))
        actual_names, expected_names = set(actual), set(expected)
        missing = [name[:80] for name in expected if name not in actual_names]
        extra = [name[:80] or "something that is not text" for name in actual if name not in expected_names]
        reasons = [f"not expected: {name}" for name in extra[:20]]
        reasons.append(f"not named: {', '.join(missing[:20])}" if missing else "all expected names are in the reply")
        return Score((len(expected) - len(missing)) / max(len(expected), len(actual)), tuple(reasons))


_ADDED = read_lines("shopping added")
_MORE = read_lines("shopping more")
_FEWER = read_lines("shopping fewer")
_SHOPPING_QUESTION = read_line("shopping list")

_REMOVES, _REPEATS = 0.25, 0.2
"""The probability that a line removes an item, and that it adds to an item on the list."""

_MOST_AT_ONCE = 4


class Shopping(Kind):
    """The user makes `item_changes` additions and removals, and asks for the list, which is never empty."""

    name = "shopping"
    title = "Shopping"
    resets = True

    def __init__(self, *, item_changes: int = 3) -> None:
        self.item_changes = whole("item_changes", item_changes, least=1, most=200)

    def definition(self, example: str, making: GenerationContext) -> MemoryTest:
        """Return a test with random changes of a shopping list, and the question for the list."""
        random = making.random(self.title, example)
        shopping: dict[str, int] = {}
        statements = [_change(shopping, random, last=at == self.item_changes - 1) for at in range(self.item_changes)]
        expected: list[JSON] = [[item, count] for item, count in shopping.items()]
        return scripted_test(self, example, statements, [_SHOPPING_QUESTION], expected)

    def score(self, given: FinishedTest) -> Score | None:
        """Score a shopping list: a third each for present items, right quantities, and no extra items.

        An expected item is present if the name of a listed item contains its name: "toilet paper rolls" is toilet
        paper. An item counts once, with the sum of its quantities.
        """
        reply, expected = last_reply(given), expected_quantities(given)
        items = _listed_items(reply)
        if items is None:
            return Score(0.0, ('the reply is not a JSON list of objects with "item" and "quantity"',))
        if not expected:
            return Score(float(not items), (f"{len(items)} items, none expected" if items else "the list is empty",))
        if example := _example_word(reply):
            return Score(0.0, (f"the list is an example: {example!r}",), sure=False)
        present, quantities, extra = _count_items(expected, items)
        count = len(expected)
        return Score(
            (present / count + quantities / count + (extra == 0)) / 3,
            (f"{present} of {count} items, {quantities} of {count} quantities, {extra or 'no'} extra item(s)",),
        )


def _change(shopping: dict[str, int], random: Random, *, last: bool) -> str:
    """Change the shopping list at random; return the message that tells the agent of the change.

    The `last` change never empties the list.
    """
    drawn = random.random()
    if shopping and drawn < _REMOVES and not (last and len(shopping) == 1):
        item = random.choice(list(shopping))
        count = random.randint(1, shopping[item])
        shopping[item] -= count
        if not shopping[item]:
            del shopping[item]
        return random.choice(_FEWER).format(count=count, item=item)
    new_items = [item for item in read_words("groceries") if item not in shopping]
    repeats = not new_items or (bool(shopping) and drawn < _REMOVES + _REPEATS)
    item = random.choice(list(shopping) if repeats else new_items)
    count = random.randint(1, _MOST_AT_ONCE)
    shopping[item] = shopping.get(item, 0) + count
    return random.choice(_MORE if repeats else _ADDED).format(count=count, item=item)


MAX_ITEMS = 2_000
"""The most items of a list that are compared."""


_ESCAPED = re.compile(r'[\[{]\s*(?:\{\s*)?\\"')
"""A list with escaped quotes, as within a string."""


_LIST = re.compile(r"[\[{].*[\]}]", re.DOTALL)


_EXAMPLE = re.compile(
    r"\b(?:example|sample|hypothetical(?:ly)?|placeholders?|template|made.up|assum\w+|imagin\w+|suppos\w+"
    r"|how to express|(?:would|might|could) look|general list|format)\b",
    re.IGNORECASE,
)


def _count_items(expected: dict[str, JSON], items: list[tuple[str, JSON]]) -> tuple[int, int, int]:
    """Count the expected items in the reply, those with the right quantity, and the unexpected items.

    A listed item counts as the longest expected name that its own name contains.
    """
    amounts: dict[str, list[JSON]] = {}
    extra = 0
    for name, quantity in items:
        expected_name = max((each for each in expected if each in name), key=len, default=None)
        if expected_name is None:
            extra += 1
        else:
            amounts.setdefault(expected_name, []).append(quantity)
    return len(amounts), sum(_same_amount(expected[name], each) for name, each in amounts.items()), extra


def _same_amount(expected: JSON, amounts: list[JSON]) -> bool:
    """Return True if the amounts listed for an item add up to the expected amount."""
    numbers = [number for each in amounts if (number := real_number(each)) is not None and abs(number) <= 1e9]
    return len(numbers) == len(amounts) and expected == sum(numbers)


def expected_quantities(given: FinishedTest) -> dict[str, JSON]:
    """Return the expected quantity of each item, by name in lower case.

    Raises:
        NoExpectationError: The test does not state them, or an item occurs twice.
    """
    try:
        pairs = convert_value(given.expected, list[tuple[str, Any]])
    except msgspec.ValidationError:
        raise NoExpectationError from None
    quantities: dict[str, JSON] = {name.strip().lower(): quantity for name, quantity in pairs}
    if len(quantities) < len(pairs) or len(pairs) > MAX_ITEMS or "" in quantities:
        raise NoExpectationError
    return quantities


def _listed_items(reply: str) -> list[tuple[str, JSON]] | None:
    """Return (name, quantity) of each listed item; None if the reply is not such a list, or lists too many."""
    try:
        items = convert_value(_inner_list(_read(reply)), list[_Listed])
    except msgspec.ValidationError:
        return None
    return [(each.item.lower(), each.quantity) for each in items] if len(items) <= MAX_ITEMS else None


class _Listed(msgspec.Struct):
    item: str
    quantity: Any


def _read(reply: str) -> JSON:
    """Return the JSON value in a reply; it may be JSON text inside JSON, or have escaped quotes. None without JSON."""
    try:
        value = read_lenient(reply.replace('\\"', '"') if _ESCAPED.search(reply) else reply)
        return read_lenient(value) if isinstance(value, str) else value
    except ValueError:
        return None


def _inner_list(value: JSON) -> JSON:
    """Return the list in an object that contains exactly one (`{"shopping_list": […]}`); else the value itself."""
    lists = [each for each in value.values() if isinstance(each, list)] if isinstance(value, dict) else []
    return lists[0] if len(lists) == 1 else value


def _example_word(reply: str) -> str:
    """Return the word that marks the list of a declining reply as an example; "" if there is none."""
    text = _LIST.sub(" ", reply)
    match = _EXAMPLE.search(text) if declines(text) else None
    return match[0] if match else ""
