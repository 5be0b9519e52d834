"""Kinds with statements that change, and a question for the current state: colours, names, and a shopping list.

**Colours**: the reply must settle on the last colour. Example: "You initially said brown, then cream, but most recently
red."

1. Split the reply into sentences, and these into clauses: "initially said brown", "then cream", "most recently red".
2. Leave out a colour that its clause denies: "not red".
3. Give each other colour the sum of these weights:

   * +2 if the clause has a word of the present ("now", "most recently");
   * +1 if the clause has "then" or "later", because the last change is the current state;
   * +1 if the clause is about the favourite, or follows such a clause with "then" or "later";
   * −2 if the clause has a word of the past ("initially", "used to");
   * −2 if the colour changed to another one ("blue" in "from blue to red").

4. The reply settles on the colour with the highest weight: brown has −2, cream 1, red 2. If several colours have the
   highest weight, the score is 0; it is not sure if the expected colour is one of them.

Only the order of the sums matters. One word of the present outweighs "then" and the favourite alone. A colour of the
past stays below a colour without any of these words, even if its clause is about the favourite (−2 + 1 < 0).

**Names**: the last name must be in the reply as a whole word, neither denied nor told only of the past. The list of all
names scores by the share of right names.

**Shopping list**: a third of the score each for items, quantities, and the absence of other items.
"""

import math
import re
from collections.abc import Iterator
from random import Random
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from tunecheck.plugins import JSON, convert_value, real_number
from tunecheck_memory import FinishedTest, GenerationContext, Kind, MemoryTest, Score, read_lenient, scripted_test
from tunecheck_memory._kinds import replies
from tunecheck_memory._kinds.scripts import draw_line, read_line, read_words, whole

# -- patterns for colours and names. Each has a text that it matches, and one that it does not.

# Replies name more colours than these tests draw. An expected colour that is missing here counts, too.
_COLOUR_NAMES = (
    "amber|apricot|aqua|aquamarine|azure|beige|black|blue|bronze|brown|burgundy|chartreuse|copper|coral|cream|crimson"
    "|cyan|emerald|fuchsia|gold|golden|gray|green|grey|indigo|ivory|jade|khaki|lavender|lilac|lime|magenta|maroon|mauve"
    "|mint|navy|ochre|olive|orange|orchid|peach|periwinkle|pink|plum|purple|red|rose|ruby|rust|salmon|sapphire|scarlet"
    "|sienna|silver|tan|teal|turquoise|ultramarine|vermilion|violet|white|yellow"
)

_SENTENCE_END = re.compile(r"[.!?;\n]+")
"""The full stop in "Red. Not blue", but not the comma in "red, not blue"."""

# Between two colours, these words begin a new clause. The weights of clauses have patterns of their own below.
_TIME_WORDS = (
    r"then|later|finally|lastly|now|currently|most recently|more recently|previously|formerly|originally|initially"
    r"|at first|before that|used to"
)

_CLAUSE_END = re.compile(
    # a conjunction of contrast, a bracket, or a comma, unless the comma is inside a list of colours
    rf",? but\b|,? however\b|,? although\b|[()]|, (?!(?:(?:and|or|even|also) )?(?:{_COLOUR_NAMES})\b)"
    # a space before a word of time ("and is now red"), with a colour within the next 40 characters of the clause
    rf"|,?(?: and| before)? (?=(?:(?:is|was|it is|it's|it was|and) )?(?:{_TIME_WORDS})\b"
    rf"[^.!?;,()\n]{{0,40}}\b(?:{_COLOUR_NAMES})\b)",
    re.IGNORECASE,
)
"""The end of a clause: " and" in "cream and then red", but no comma or "and" in the list "cream, red and blue"."""

_CURRENT_WORDS = re.compile(
    r"\b(?:most recent(?:ly)?|latest|lastly|current(?:ly)?|now|actual(?:ly)?|final(?:ly)?|still|updated|single answer"
    r"|as of|last (?:time|one|update|mentioned|said|told))\b",
    re.I,
)
"""A clause on the present: "most recently red", but not "recently red"."""

_PAST_WORDS = re.compile(
    r"\b(?:(?:initial|original|previous)(?:ly)?|formerly|first|used to|at some point|before that|in the past)\b", re.I
)
"""A clause on the past: "before that red", but not "red as before"."""

_LATER_WORDS = re.compile(r"\bthen\b|\blater\b", re.I)
"""A clause that follows another one in time: "then red", but not "lately red"."""

_FAVOURITE = re.compile(r"\bfavou?rite(?: colou?r)?\b(?! colou?rs| shades)", re.I)
"""A clause on the favourite: "your favorite color is red", but not "your favourite colours are red and blue"."""

_LEFT_BEHIND = re.compile(rf"\W+(?:(?:and|then|later|finally)\W+)*to\W+(?:\w+\W+){{0,2}}?(?:{_COLOUR_NAMES})\b", re.I)
"""The text after a colour that changed to another one: " to red" after "from blue", but not " and red".

Up to two words may stand before the new colour: " to a deep red".
"""

_PAST_LEAD = re.compile(
    # a word of the past, or a change ("it changed from "), at most 30 characters before the name
    r"\b(?:previous(?:ly)?|former(?:ly)?|original(?:ly)?|initial(?:ly)?|at first|first|used to|before that|earlier|once"
    r"|(?:chang|switch)\w*[^.!?;\n]{0,30}\bfrom)\b[^.!?;,()\n]{0,30}$",
    re.IGNORECASE,
)
"""The text before a name of the past: "you used to be ", but not "you used to be Ann, you are "."""

_PAST_TAIL = re.compile(r"[^,.!?;()\n]{0,12}\b((?:previous|former|original|initial)ly|before|at first|earlier)\b", re.I)
"""The text after a name of the past: " was it before", but not " is your name, as I said before"."""

_PRESENT_BEGINS = re.compile(r"\b(?:now|currently|but|most recently|these days|today)\b", re.I)
"""The end of words on the past: "now" in "once Ann, now Bob", but not "know"."""

_MOST_PARTS = 400
"""The most sentences of a reply and the most clauses of a sentence; a last part holds the rest.

The limit bounds the time for hostile replies.
"""

# The weights are explained at the top of the module.
_CLAUSE_WEIGHTS = ((_CURRENT_WORDS, 2), (_PAST_WORDS, -2), (_LATER_WORDS, 1))
_FAVOURITE_WEIGHT, _LEFT_BEHIND_WEIGHT = 1, -2


class Colours(Kind):
    """The user names `colour_changes` favourite colours one after another, and asks for the current one."""

    name = "colours"
    title = "Colours"

    def __init__(self, *, colour_changes: int = 3) -> None:
        self.colour_changes = whole("colour_changes", colour_changes, least=1, most=len(read_words("colours")))

    def definition(self, example: str, making: GenerationContext) -> MemoryTest:
        """Return a test with random colours as favourites, one after another, and the question for the current one."""
        random = making.random(self.title, example)
        colours = random.sample(read_words("colours"), self.colour_changes)
        statements = [draw_line(random, "favourite colour", colour=colour) for colour in colours]
        question = "Which colour is my favourite one at the moment?"
        return scripted_test(self, example, statements, [question], [colours[-1]])

    def score(self, given: FinishedTest) -> Score | None:
        """Score 1 if the reply says that the last colour is the favourite.

        The colour must be a word and not denied. If a reply names several colours, it must settle on this one: it calls
        this one the favourite, or uses words such as "most recently" and "initially". A list of colours without a
        choice, such as "blue and red", scores 0, and the rules are not sure.

        Raises:
            UndecidedError: the row has no reply, or its expected answer has another form.
        """
        reply, colour = replies.last_reply(given), replies.expected_text(given)
        wanted = colour.strip().lower()
        weighed = list(_named_colours(replies.plain_words(reply), wanted))

        if all(name != wanted for name, _ in weighed):
            return Score(0.0, (f"the reply does not say {wanted!r}",))

        highest = max(weight for _, weight in weighed)
        chosen = {name for name, weight in weighed if weight == highest}
        if chosen == {wanted}:
            return Score(1.0, (f"the reply says {wanted!r}",))

        # Several colours share the highest weight, or another colour has it. Only the first case is open to a judge.
        shown = ", ".join(sorted(chosen)[:8])
        return Score(0.0, (f"the reply names {shown} without choosing {wanted!r}",), sure=wanted not in chosen)


USER_NAME = "name of the user"
"""The topic of tests with names of the user."""


class NamesKind(Kind):
    """Base of the kinds in which the user gives `name_changes` names."""

    topics = frozenset({USER_NAME})
    _question: ClassVar[str]
    _asks_all = False

    def __init__(self, *, name_changes: int = 3) -> None:
        self.name_changes = whole("name_changes", name_changes, least=1, most=len(read_words("first_names")))

    def definition(self, example: str, making: GenerationContext) -> MemoryTest:
        """Return a test with random names of the user, one after another, and a question for the last or for all."""
        random = making.random(self.title, example)
        names = random.sample(read_words("first_names"), self.name_changes)
        statements = [draw_line(random, "name", name=name) for name in names]
        return scripted_test(self, example, statements, [self._question], names if self._asks_all else names[-1:])


class Names(NamesKind):
    """The user changes names, and asks for the current one."""

    name = "names"
    title = "Names"
    _question = "By which name should you call me now?"

    def score(self, given: FinishedTest) -> Score | None:
        """Score 1 if the reply has the last name as a separate word ("Ann" is not in "Joanna").

        A name that the reply denies ("no longer Bob") or only tells of the past ("previously Bob") does not count. If
        the reply has the name only so, the rules are not sure.

        Raises:
            UndecidedError: the row has no reply, or its expected answer has another form.
        """
        text, name = replies.plain_words(replies.last_reply(given)), replies.expected_text(given)
        matches = [*replies.find_words(name.strip(), text)]
        counts = any(not replies.is_denied(text, *match.span()) and not _is_past(text, match) for match in matches)
        # If the name is in the reply, but only denied or told of the past, the rules are not sure.
        return replace(replies.score_mention(name, counts), sure=counts or not matches)


def _is_past(text: str, word: re.Match[str]) -> bool:
    """Return True if a text says that the word was true in the past: "you used to be Bob", "you were Bob before".

    A word of the present ends words on the past: in "once Ann, now Bob", only Ann is past.
    """
    lead = _PRESENT_BEGINS.split(text[max(0, word.start() - 80) : word.start()])[-1]
    follows = _PRESENT_BEGINS.split(text[word.end() : word.end() + 30])[0]
    return _PAST_LEAD.search(lead) is not None or _PAST_TAIL.match(follows) is not None


def _named_colours(reply: str, expected: str) -> Iterator[tuple[str, int]]:
    """Yield each colour that a reply does not deny, with a weight: the colour of the present has the highest one.

    Words of the present and the favourite add to the weight, words of the past and a change to another colour take from
    it. The `expected` colour counts even if it is not among the known ones.

    Examples: "Your favourite colour was cream and then red." gives cream 1, red 2. "Your favourite went from blue to
    cyan and then to red." gives blue −1, cyan 1, red 2.
    """
    colours = re.compile(rf"\b(?:{_COLOUR_NAMES}|{re.escape(expected)})\b", re.I)

    for sentence in _SENTENCE_END.split(reply, _MOST_PARTS):
        favourite = False
        for clause in _CLAUSE_END.split(sentence, _MOST_PARTS):
            # "was cream and then red": the second clause continues the statement on the favourite.
            favourite = _FAVOURITE.search(clause) is not None or (favourite and _LATER_WORDS.search(clause) is not None)
            weight = sum(points for words, points in _CLAUSE_WEIGHTS if words.search(clause))
            weight += _FAVOURITE_WEIGHT if favourite else 0

            for match in colours.finditer(clause):
                if not replies.is_denied(clause, *match.span()):
                    is_left_behind = _LEFT_BEHIND.match(clause, match.end()) is not None
                    yield match[0].lower(), weight + (_LEFT_BEHIND_WEIGHT if is_left_behind else 0)


class NameList(NamesKind):
    """The user gives several names, and asks for all of them as a JSON list."""

    name = "name_list"
    title = "NameList"
    resets = True
    _question = "List every name that I have called myself so far, and no other, as a JSON list of texts."
    _asks_all = True

    def score(self, given: FinishedTest) -> Score | None:
        """Score the number of right names divided by the length of the longer list, the reply's or the expected one.

        Expected Ann and Ben: `["Ann"]` scores 1/2, and `["Ann", "Ben", "Cem", "Dan"]` scores 2/4.
        Two empty lists score 1. A reply that is neither a JSON list nor an object scores 0.

        Raises:
            UndecidedError: the row has no reply, or its expected answer has another form.
        """
        items = _inner_list(_read_json(replies.last_reply(given)))
        if isinstance(items, list):  # `{"name": "Ann"}` counts as "Ann"
            items = [next(iter(item.values())) if isinstance(item, dict) and len(item) == 1 else item for item in items]
        if not isinstance(items, (list, dict)):
            return Score(0.0, ("the reply is not a JSON list",))

        expected = [name.strip().lower() for name in replies.expected_texts(given)]
        # An object's keys count as names: the GoodAI benchmark iterates over the object.
        actual = [name.strip().lower() if isinstance(name, str) else "" for name in list(items)[:MAX_ITEMS]]

        if not expected and not actual:
            return Score(1.0, ("both are empty",))

        actual_names, expected_names = set(actual), set(expected)
        missing = [name[:80] for name in expected if name not in actual_names]
        extra = [name[:80] or "something that is not text" for name in actual if name not in expected_names]

        # A reason shows at most 20 names of at most 80 characters.
        reasons = [f"not expected: {name}" for name in extra[:20]]
        reasons.append(f"not named: {', '.join(missing[:20])}" if missing else "all expected names are in the reply")
        return Score((len(expected) - len(missing)) / max(len(expected), len(actual)), tuple(reasons))


# -- the shopping list

_REMOVES, _REPEATS = 0.25, 0.2
"""The probability that a line removes an item, and that it adds to an item on the list; other lines add a new item."""

_MOST_AT_ONCE = 4
"""The most pieces of an item that one line adds."""


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
        shopping: dict[str, int] = {}  # changed by each statement
        statements = [_change(shopping, random, last=left == 1) for left in range(self.item_changes, 0, -1)]
        expected: list[JSON] = [[item, count] for item, count in shopping.items()]
        return scripted_test(self, example, statements, [read_line("shopping list")], expected)

    def score(self, given: FinishedTest) -> Score | None:
        """Score a shopping list: a third each for present items, right quantities, and no extra items.

        An expected item is present if the name of a listed item contains its name: "toilet paper rolls" is toilet
        paper. An item counts once, with the sum of its quantities.

        Expected 2 soap, 1 milk and 3 leek: a list of 2 soap bars, 9 milk and 3 leek scores (3/3 + 2/3 + 1) / 3 = 0.89.
        An extra item in a right list costs its whole third: 0.67. If a declining reply shows an example list, the score
        is 0, and the rules are not sure.

        Raises:
            UndecidedError: the row has no reply, or its expected answer has another form.
        """
        reply, expected = replies.last_reply(given), expected_quantities(given)
        items = _listed_items(reply)
        if items is None:
            return Score(0.0, ('the reply is not a JSON list of objects with "item" and "quantity"',))

        if not expected:
            return Score(float(not items), (f"{len(items)} items, none expected" if items else "the list is empty",))
        # A model without memory may show how such a list could look; some of its items may be right by chance.
        if example := _example_word(reply):
            return Score(0.0, (f"the list is an example: {example!r}",), sure=False)

        present, quantities, extra = _count_items(expected, items)
        count = len(expected)
        return Score(
            (present / count + quantities / count + (0 if extra else 1)) / 3,
            (f"{present} of {count} items, {quantities} of {count} quantities, {extra or 'no'} extra item(s)",),
        )


def _change(shopping: dict[str, int], random: Random, *, last: bool) -> str:
    """Change the shopping list (pieces by item) at random; return the message that tells the agent of the change.

    The `last` change never empties the list, because the question asks what is on it.
    """
    drawn = random.random()
    if shopping and drawn < _REMOVES and not (last and len(shopping) == 1):
        item = random.choice(list(shopping))
        count = random.randint(1, shopping[item])
        shopping[item] -= count
        if not shopping[item]:
            del shopping[item]
        return draw_line(random, "shopping fewer", count=count, item=item)

    new_items = [item for item in read_words("groceries") if item not in shopping]
    repeats = not new_items or (bool(shopping) and drawn < _REMOVES + _REPEATS)

    item = random.choice(list(shopping) if repeats else new_items)
    count = random.randint(1, _MOST_AT_ONCE)
    shopping[item] = shopping.get(item, 0) + count
    return draw_line(random, "shopping more" if repeats else "shopping added", count=count, item=item)


MAX_ITEMS = 2_000
"""The most items of a list that are compared; each listed item is compared with each expected one."""


_ESCAPED = re.compile(r'[\[{]\s*(?:\{\s*)?\\"')
r"""The beginning of a list with escaped quotes, as within a string: `[\"Ann\"` or `[{\"item\"`."""


_LIST = re.compile(r"[\[{].*[\]}]", re.DOTALL)
"""The JSON in a reply with other text, from its first opening bracket to its last closing one."""


# "Here is an example", "a made-up list", "it might look like this"; counts only if the reply declines to answer
_EXAMPLE = re.compile(
    r"\b(?:example|sample|hypothetical(?:ly)?|placeholders?|template|made.up|assum\w+|imagin\w+|suppos\w+"
    r"|how to express|(?:would|might|could) look|general list|format)\b",
    re.IGNORECASE,
)


def _count_items(expected: dict[str, JSON], items: list[tuple[str, JSON]]) -> tuple[int, int, int]:
    """Count the expected items in the reply, those with the right quantity, and the unexpected items.

    A listed item counts as the longest expected name that its own name contains: if milk and oat milk are expected,
    "oat milk, 1 l" is oat milk. The quantities of an item add up. If a quantity is not a number, or is beyond ±1e9,
    the sum is NaN.
    """
    amounts: dict[str, float] = {}
    extra = 0
    for name, quantity in items:
        expected_name = max((each for each in expected if each in name), key=len, default=None)
        if expected_name is None:
            extra += 1
        else:
            amount = real_number(quantity)
            if amount is None or abs(amount) > 1e9:  # a larger integer may not be added to a decimal
                amount = math.nan
            amounts[expected_name] = amounts.get(expected_name, 0) + amount

    return len(amounts), sum(expected[name] == amount for name, amount in amounts.items()), extra


def expected_quantities(given: FinishedTest) -> dict[str, JSON]:
    """Return the expected quantity of each item, by name in lower case.

    Raises:
        NoExpectationError: The test does not state them, an item occurs twice or has no name, or there are too many.
    """
    pairs = replies.expected_as(list[tuple[str, Any]], given)
    quantities: dict[str, JSON] = {name.strip().lower(): quantity for name, quantity in pairs}

    if len(quantities) < len(pairs) or len(pairs) > MAX_ITEMS or "" in quantities:
        raise replies.NoExpectationError
    return quantities


def _listed_items(reply: str) -> list[tuple[str, JSON]] | None:
    """Return (name, quantity) of each listed item; None if the reply is not such a list, or lists too many."""
    try:
        items = convert_value(_inner_list(_read_json(reply)), list[_Listed])
    except msgspec.ValidationError:
        return None
    return [(each.item.lower(), each.quantity) for each in items] if len(items) <= MAX_ITEMS else None


class _Listed(msgspec.Struct):
    """An item of a shopping list in a reply."""

    item: str
    quantity: Any


def _read_json(reply: str) -> JSON:
    """Return the JSON value in a reply; it may be JSON text inside JSON, or have escaped quotes. None without JSON."""
    try:
        # Models escape the quotes of a whole list, with or without a string around it.
        value = read_lenient(reply.replace('\\"', '"') if _ESCAPED.search(reply) else reply)
        return read_lenient(value) if isinstance(value, str) else value
    except ValueError:
        return None


def _inner_list(value: JSON) -> JSON:
    """Return the list in an object that contains exactly one (`{"shopping_list": […]}`); else the value itself."""
    lists = [each for each in value.values() if isinstance(each, list)] if isinstance(value, dict) else []
    return lists[0] if len(lists) == 1 else value


def _example_word(reply: str) -> str:
    """Return the word that marks the list of a declining reply as an example; "" if there is none.

    "I have no access to your list. Here is an example: […]" gives "example".
    """
    text = _LIST.sub(" ", reply)  # item names, such as "sample", do not count
    match = _EXAMPLE.search(text) if replies.declines(text) else None
    return match[0] if match else ""
