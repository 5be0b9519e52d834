"""A restaurant visit: the agent orders, replaces a dish that is out, notices a wrong dish, and recalls its drink.

A model judges the visit's replies. A memory test without a judge model uses `WordJudge`, which is deterministic and
reads the replies with patterns. The stages of a visit, at shares of the memory span, each for a point:

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

import json
import re
from collections.abc import Generator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from tunecheck import ConfigurationError
from tunecheck.plugins import JSON, dumps
from tunecheck_memory import AskJudge, FinishedTest, GenerationContext, Kind, MemoryTest, Points, Say, Score
from tunecheck_memory._events import Outcome
from tunecheck_memory._kind import Replied, Scene, Step, Steps, Wait
from tunecheck_memory._kinds.replies import UndecidedError, plain_words, read_lenient
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
        raise _unusable("cannot be read", text) from None


def _unusable(problem: str, text: str) -> EndOfVisitError:
    """Return the error that ends the visit because the judge's reply has this problem.

    The message shows the reply's first 120 characters on one line.
    """
    line = " ".join(text[:400].split())
    shown = json.dumps(line[:120] + ("…" if len(line) > 120 else ""), ensure_ascii=False)
    return EndOfVisitError(f"The judge's reply {problem}: {shown}")


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
            raise _unusable(f"has no yes or no under {purpose!r}", text)

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


# -- a judge by words. The patterns read the reply in lower case.

# The most words of a sentence in which names of the menu are searched
_MOST_WORDS = 600

# Stage directions and labels are not speech: "*smiles*", "(nods)", "guest: "
_ASIDE = re.compile(
    r"(?m)\*[^*\n]{1,400}\*(?!\*)|\([^()\n]{0,200}(?:smil|nod|look|glanc|sip)[^()\n]{0,200}\)"
    r"|^ *(?:customer|guest|diner|me|you)\s*:"
)
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n+")
_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")

# The reply of an assistant or a waiter instead of a guest.
# "as an AI", "may I bring you", "would you like", "you might want to try", "we offer", "I would recommend"
_NO_GUEST = re.compile(
    r"\b(?:an? (?:\w+ )?(?:ai|language model|assistant|chatbot)\b(?! cook)|would you like\b|we (?:offer|have|serve)\b"
    r"|(?:can|could|may) i (?:help|assist|bring|offer|serve|suggest|interest)\b|you (?:may|might|can|could)\b"
    r"|i(?:'d| would)? (?:recommend|suggest)\b|feel free\b|let me know\b|unable to (?:order|eat|drink)\b)"
)

_ORDERS = re.compile(
    # "I'll have", "could we start with", but not "I would like to know" or "let me have a moment"
    r"\b(?:(?:i|we)(?:'ll| will| shall|'d| would|'m going to)|let me|let's|(?:can|could|may|might) (?:i|we))"
    r"(?: \w+){0,2}? (?:have|take|go (?:\w+ )?(?:with|for)|order|try|(?:start|stick) with|get|opt for|choose|pick|do"
    r"|like|love|prefer|enjoy|(?:change \w+(?: \w+)?|switch) to)\b"
    r"(?! (?:to (?:know|ask|see|look)|(?:an?|some|another|few) (?:\w+ )?(?:minutes?|moments?|time|look)))"
    # "please bring", "give me", "how about", "for my main"; "Maybe the soup", but not "Maybe the soup or the salad"
    r"|\b(?:please|could you) (?:bring|get|make)\b|\b(?:bring|give|get) (?:me|us)\b|\b(?:how|what) about\b"
    r"|\bi(?:'ve| have)? (?:want|decided on|chosen|order|settled on)\b|\b(?:make|put) (?:me|us|it|that)\b"
    r"|\bfor (?:the|my) (?:drink|appetizer|starter|main|dessert|first)\b|^(?:maybe|perhaps)\b(?!.* or )"
)

# "I'd still like the onion tart, as planned" orders nothing new.
_KEEPS = re.compile(r"\b(?:still|keep|as (?:originally )?(?:planned|ordered|before)|remain)\b")

# "instead of the goulash" names a dish that is not ordered.
_INSTEAD_OF = re.compile(r"\b(?:instead of|in place of|rather than)\b[^,.;!?]*")

# "Is the soup good?", "The paella sounds tempting"
_WEIGHS = re.compile(r"\?|\b(?:sounds?|looks?|tempting|delicious)\b")

_COMPLAINS = re.compile(
    # "a mix-up", "this is wrong"
    r"\b(?:mix(?:ed)?[- ]?up|mistaken?|misunderst\w+|confus\w+|error|wrong|incorrect|oversight|supposed to|actually)\b"
    # "I didn't order", "that's not what I asked for", "I had originally ordered", "where is my"
    r"|(?:n't|\bnot|\bnever)\b[^.?!]{0,40}\b(?:ordered|order|asked|requested|chose|wanted)\b"
    r"|\b(?:i|we|i'd|i've) (?:had |have |originally |specifically )*(?:ordered|asked for|requested|chose|expected)\b"
    r"|\b(?:where is|where's|what happened to|what about) (?:my|the)\b"
)

# "I don't remember", "I'm not quite sure", "I haven't had a drink yet"
_FORGOT = re.compile(r"(?:n't|\bnot|\bcannot)\b[^.?!]{0,30}\b(?:recall|remember|sure|certain)\b|\bforgot\b|\bhaven't\b")

# The name of an entry ends before its side dishes and its sorts: "Onion Tart" in "Onion Tart with Gruyere", "Tea" in
# "Tea (black or green)".
_NAME_END = re.compile(r"\s*(?:,|\(|\bwith\b|\bserved\b|\bin\b|\bon\b|\bover\b)", re.IGNORECASE)

# "number 14", "no. 14"
_NUMBER = re.compile(r"\b(?:number|no\.|option)\s*([0-9]{1,4})\b")

# "I'll take that" orders the entries of the sentence before.
_THAT = re.compile(r"\b(?:that|it|those|them|both)\b")

# Words that name neither a dish nor a drink.
_STOP_WORDS = frozenset(
    "a an and the of with in or de la al i i'll i'd we like have to please would for my me some then can could get you "
    "thank instead go take pot glass cup can bottle drink be that it this with also just".split()
)

# Sorts of drinks that exclude each other
_OPPOSITES = (
    ("sweetened", "unsweetened"), ("sparkling", "still"), ("red", "white"), ("black", "green"), ("clear", "cloudy"),
    ("hot", "iced"),
)  # fmt: skip
_LIKENESS = 65
"""Least token set ratio of a sentence and an entry's name, from 0 to 100."""


class WordJudge:
    """A judge that answers the four questions of a restaurant visit from the words of the reply.

    The answers have the form of a model's answers. Only the beginning of a long reply counts.

    * `follows_role`: a sentence orders something, or no words are those of an assistant or a waiter. A reply without
      words does not play the guest.
    * `extraction`: the entries of the menu in ordering sentences (see `_ordered_items`)
    * `noticed`: the reply complains, "I ordered the goulash"
    * `recalls`: the reply names all drinks, and has no word of forgetting
    """

    async def ask(self, request: AskJudge, *, key: str) -> Outcome:
        """Return the judgement as JSON; `key` has no effect."""
        return Outcome(0, self.judge(request))

    def judge(self, request: AskJudge) -> str:
        """Answer one question of a restaurant visit from the words of the reply; return the answer as JSON.

        Raises:
            ConfigurationError: Only a model can answer this question.
        """
        values = request.values
        # "#14" means "number 14"; otherwise # is a mark of emphasis, which `plain_words` removes.
        reply = _text(values, "reply")[:_MOST_REPLY].replace("**", "").replace("#", "number ").lower()
        reply = plain_words(_ASIDE.sub(" ", reply)).strip()
        answer: dict[str, JSON]
        match request.purpose:
            case "restaurant_follows_role":
                orders = any(map(_ORDERS.search, _SENTENCE_END.split(reply)))
                answer = {"follows_role": bool(_WORD.search(reply)) and (orders or not _NO_GUEST.search(reply))}
            case "restaurant_extraction":
                menu = Menu.of_text(_text(values, "menu"))
                order = _ordered_items(reply, menu, are_drinks=values.get("wanted") == "drinks")
                answer = {"has_ordered_something": bool(order), "order": [*order]}
            case "restaurant_noticed":
                answer = {"noticed": _COMPLAINS.search(reply) is not None}
            case "restaurant_recalls":
                # Judged as a whole: "I don't remember, was it coffee?" is a guess.
                listed = values.get("drinks")
                drinks = [each for each in listed if isinstance(each, str)] if isinstance(listed, list) else []
                recalls = bool(drinks) and not _FORGOT.search(reply) and all(_recalls(each, reply) for each in drinks)
                answer = {"recalls": recalls}
            case purpose:
                raise ConfigurationError(f"the question {purpose!r} needs a judge; name the judge's model with --judge")
        return dumps(answer).decode()


def _ordered_items(reply: str, menu: Menu, *, are_drinks: bool) -> list[dict[str, JSON]]:
    """Return the items that a reply orders, each in the form of the judge's answer.

    They are the entries of the menu in ordering sentences; without any, all entries in a brief reply. If there is no
    entry either, the words of the first ordering sentence are an item that is not on the menu.
    """
    entries = menu.drinks if are_drinks else menu.dishes
    # A name ends before "with" and the like: "onion tart" for "Onion Tart with Gruyere".
    names = {number: " ".join(_stems(_NAME_END.split(entry, maxsplit=1)[0])) for number, entry in entries.items()}
    order_texts, ordered, named = list[str](), list[int](), list[int]()
    previous: list[int] = []

    for sentence in filter(str.strip, _SENTENCE_END.split(reply)):
        text = _INSTEAD_OF.sub("", sentence)
        orders = _ORDERS.search(text) is not None or (bool(order_texts) and text.startswith(("and ", "also ", "plus ")))
        # "That" stands for the entries of the previous sentence: "The goulash sounds good. I'll take that."
        found = _named_entries(text, names) or (previous if orders and _THAT.search(text) else [])
        previous = [] if "?" in text else found
        named += found
        if orders and not _KEEPS.search(text):
            order_texts.append(text)
            ordered += found

    # A reply of a few words that weighs nothing is an order, too: "The soup, thanks."
    is_brief_order = len(_WORD.findall(reply)) <= 25 and not (_WEIGHS.search(reply) or _NO_GUEST.search(reply))
    ordered = ordered or (named if is_brief_order else [])
    if ordered:
        items = {number: _own_words(entries[number], reply) if are_drinks else entries[number] for number in ordered}
        return [_item(are_drinks, item, number, entries[number]) for number, item in items.items()]

    # An order of something else: "I'll have a pizza with ham" gives the item "pizza ham" without a number.
    words = next(filter(None, (_stems(_ORDERS.sub(" ", text)) for text in order_texts)), [])
    return [_item(are_drinks, " ".join(words[:12]))] if words else []


def _item(is_drink: bool, name: str, number: int | None = None, entry: str = "") -> dict[str, JSON]:
    """Return an ordered item in the form of the judge's answer; without a number, it is not on the menu."""
    return {"is_drink": is_drink, "item": name, "menu_nr": number, "menu_ref": entry, "off_menu": number is None}


def _named_entries(text: str, names: Mapping[int, str]) -> list[int]:
    """Return the numbers of the menu's entries that a text names, in the text's order, then numbers such as "no. 14".

    `names` are the entries' names by number. Each word of the text names at most one entry.
    """
    from rapidfuzz import fuzz, process  # loaded when used: 15 ms

    words = _stems(text)[:_MOST_WORDS]
    unused, positions = words, dict[int, int]()

    # The best name takes its words away, then the next best is searched among the others. Similar letters alone do not
    # suffice: "soap" is like "soup", but shares no word with it. `best` has the name, its similarity and its number.
    while best := process.extractOne(" ".join(unused), names, scorer=fuzz.token_set_ratio, score_cutoff=_LIKENESS):
        shared = set(best[0].split()) & set(unused)
        if not shared:
            break
        positions[best[2]] = min(map(words.index, shared))
        unused = [word for word in unused if word not in shared]

    written = [int(match[1]) for match in _NUMBER.finditer(text)]
    return [*sorted(positions, key=positions.__getitem__), *(number for number in written if number in names)]


def _own_words(entry: str, text: str) -> str:
    """Return an entry of the menu in the words of the guest's text: first those of its sorts, then those of its name.

    For "Apple juice (clear, cloudy)", the text "apple juice, cloudy" gives "cloudy apple juice". Return the entry if
    the guest uses none of its words.
    """
    name, _, sorts = entry.partition("(")
    words = list(dict.fromkeys(_stems(text)))
    chosen = [word for part in (sorts, name) for word in words if word in _stems(part)]
    return " ".join(chosen) or entry


def _recalls(drink: str, reply: str) -> bool:
    """Return True if the reply names the drink; its sort (red or white) may be missing, but not be the opposite.

    The last word is the drink itself: "tea" in "unsweetened iced tea".
    """
    name, words = _stems(drink), set(_stems(reply))
    if not name or name[-1] not in words:
        return False
    pairs = [*_OPPOSITES, *((second, first) for first, second in _OPPOSITES)]
    return not any(sort in name and opposite in words and sort not in words for sort, opposite in pairs)


def _stems(text: str) -> list[str]:
    """Return the words of a text that name things, in lower case and without a plural's s.

    "I'd like the stuffed peppers" gives ["stuffed", "pepper"].
    """
    words = [word for word in _WORD.findall(text.lower()) if word not in _STOP_WORDS]
    return [word[:-1] if len(word) > 3 and word[-1] == "s" and word[-2] != "s" else word for word in words]


def _text(values: Mapping[str, JSON], key: str) -> str:
    """Return a text among the values, or an empty text."""
    value = values.get(key)
    return value if isinstance(value, str) else ""
