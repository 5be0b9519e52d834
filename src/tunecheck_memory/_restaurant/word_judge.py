"""A judge of restaurant visits that goes by words alone: no model, the same answer every time."""

import re
from collections.abc import Iterator, Mapping, Sequence

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, dumps
from tunecheck_memory._menu import Menu
from tunecheck_memory._model import AskJudge
from tunecheck_memory._restaurant.guest_words import Clause, Dishes, Drinks, clauses, is_recalled, spoken, words

_NO_GUEST = re.compile(
    r"\b(?:i'm|i am|as) (?:just |only )?an? (?:\w+ )?"
    r"(?:ai|artificial|language model|virtual|digital|assistant|chatbot)\b"
    r"|\bi (?:can't|cannot|can not|don't|do not|am not able to|am unable to)(?: \w+)? "
    r"(?:physically|order|drink|eat|consume|have the (?:ability|capability)|have preferences|take your order)\b"
    r"|\bi (?:can|could) (?:help|assist|suggest|recommend|offer|provide)|\bhow (?:can|may) i (?:help|assist|further)\b"
    r"|\b(?:may i suggest|i'd recommend|i would recommend|i recommend|i suggest|i'd suggest)\b"
    r"|\b(?:would you like|do you prefer|are you looking|what would you|let me know (?:what|which|your|if you'd))\b"
    r"|\byou (?:may|might|can|could) (?:also |want to |like to |wish to )*"
    r"(?:enjoy|choose|try|consider|order|select|have)\b|\b(?:we|our restaurant) (?:offer|have|serve)\b"
    r"|\b(?:i'll|i will|i can) (?:\w+ )?(?:serve|bring|get) (?:it |you\b|that )"
    r"|\b(?:can|could|may) i (?:get|bring|offer|interest|serve|help) you\b|\bfeel free\b"
)
_COMPLAINS = re.compile(
    r"\b(?:mix-?up|mixed up|mix up|mistake|mistaken|misunderst\w+|confusion|confused|error|wrong|incorrect|oversight)\b"
    r"|\b(?:didn't|did not|don't (?:think|believe|recall|remember)|never|not (?:what|the))\b[^.?!]{0,40}\b"
    r"(?:order|ordered|asked|ask|requested|chose|wanted)\b"
    r"|\b(?:i|we|i'd|i've|we'd|i had)\s+(?:had |have |actually |originally |previously |specifically )*"
    r"(?:ordered|asked for|requested|chose|was expecting|expected|changed)\b"
    r"|\b(?:where is|where's|what happened to|what about) (?:my|the)\b|\bsupposed to\b|\bwas told\b|\bactually,"
)
_FORGOT = re.compile(
    r"\b(?:don't|do not|didn't|did not|can't|cannot|couldn't|not|no longer)\b[^.?!]{0,30}"
    r"\b(?:recall|remember|sure|certain|have (?:any|a|the) (?:record|memory|information))\b"
    r"|\b(?:forgot|forgotten|haven't (?:had|ordered)|have not (?:had|ordered)|didn't (?:have|order) (?:a|any))\b"
)
_PRAISES = re.compile(r"\b(?:sounds?|looks?|seems?|tempting|delicious|tasty|lovely|wonderful|available)\b")
_THAT = re.compile(r"\b(?:that|it|those|them|both)\b")
_FILLER = frozenset(
    "a an the my me i i'll i'd we will would like have please and to for with some of start thank thanks you that it "
    "this then also just order go get take one as is in case can could may so be main course appetizer entree instead "
    "or if then there any some something else other another one option dish "
    "dessert starter drink meal okay ok sure let's let try love want".split()
)


class WordJudge:
    """Answers the four questions of a restaurant visit from the words of the reply.

    Its replies have the form that a model's have. Where a reply orders what was asked for, anything else in it is
    passed over. Work is bounded: of a long reply the beginning is looked at.
    """

    async def ask(self, request: AskJudge, *, key: str) -> str:
        """The judgement as JSON; `key` is not needed."""
        return self.judge(request)

    def judge(self, request: AskJudge) -> str:
        values = request.values
        said = spoken(_text(values, "reply"))
        answer: dict[str, JSON]
        match request.purpose:
            case "restaurant_follows_role":
                orders = any(clause.orders for clause in clauses(said))
                answer = {"follows_role": bool(words(said)) and (orders or not _NO_GUEST.search(said.lower()))}
            case "restaurant_extraction":
                order = _order(clauses(said), Menu.of_text(_text(values, "menu")), values.get("wanted") == "drinks")
                answer = {"has_ordered_something": bool(order), "order": [*order]}
            case "restaurant_noticed":
                answer = {"noticed": bool(_COMPLAINS.search(said.lower()))}
            case "restaurant_recalls":
                listed = values.get("drinks")
                drinks = [drink for drink in listed if isinstance(drink, str)] if isinstance(listed, list) else []
                known = bool(drinks) and all(is_recalled(drink, said) for drink in drinks)
                answer = {"recalls": known and not _FORGOT.search(said.lower())}
            case purpose:
                raise ConfigurationError(
                    f"the question {purpose!r} cannot be answered by words alone: give a model with --judge"
                )
        return dumps(answer).decode()


def _order(said: Sequence[Clause], menu: Menu, drinks_wanted: bool) -> list[dict[str, JSON]]:
    drinks = [_item(name, menu, number, drink=True) for name, number in _ordered_drinks(said, menu).items()]
    dishes = list(_ordered_dishes(said, menu))
    return (drinks or dishes) if drinks_wanted else (dishes or drinks)


def _ordered_drinks(said: Sequence[Clause], menu: Menu) -> dict[str, int | None]:
    drinks = Drinks(menu.drinks)
    ordered = [drink for clause in said if clause.orders for drink in drinks.named(clause.text)]
    if not ordered and _is_brief(said):
        ordered = [drink for clause in said for drink in drinks.named(clause.text)]
    return dict(ordered)


def _ordered_dishes(said: Sequence[Clause], menu: Menu) -> Iterator[dict[str, JSON]]:
    dishes = Dishes(menu.dishes)
    named = [dishes.named(clause.text) for clause in said]
    ordered = [number for place in _ordering(said, named) for number in named[place]]
    if not ordered and _is_brief(said):
        ordered = [number for numbers in named for number in numbers]
    others = [] if ordered else list(_in_other_words(said))
    ordered += [number for other in others if (number := dishes.roughly(other)) is not None]
    for number in dict.fromkeys(ordered):
        yield _item(menu.dishes[number], menu, number)
    yield from (_item(other, menu, None) for other in others[:1] if not ordered)


def _ordering(said: Sequence[Clause], named: Sequence[Sequence[int]]) -> Iterator[int]:
    """The places of the clauses whose dishes are ordered: by themselves, or by the next ("I'll take that")."""
    for place, clause in enumerate(said):
        if clause.orders and not clause.keeps:
            if named[place]:
                yield place
            elif place and named[place - 1] and not said[place - 1].asks and _THAT.search(clause.text):
                yield place - 1


def _in_other_words(said: Sequence[Clause]) -> Iterator[str]:
    """What is ordered in other words than the menu's."""
    for clause in said:
        if clause.orders and not clause.keeps:
            wanted = words(clause.wanted) if set(words(clause.wanted)) - _FILLER else words(clause.text)
            if rest := [word for word in wanted if word not in _FILLER]:
                yield " ".join(rest[:12])


def _is_brief(said: Sequence[Clause]) -> bool:
    """Whether it is so short that what it names is what it orders."""
    brief = sum(len(words(clause.text)) for clause in said) <= 25
    return brief and not any(
        clause.asks or _PRAISES.search(clause.text) or _NO_GUEST.search(clause.text) for clause in said
    )


def _item(name: str, menu: Menu, number: int | None, *, drink: bool = False) -> dict[str, JSON]:
    entry = menu.entries[number - 1] if number is not None else ""
    return {"is_drink": drink, "item": name, "menu_nr": number, "menu_ref": entry, "off_menu": number is None}


def _text(values: Mapping[str, JSON], key: str) -> str:
    value = values.get(key)
    return value if isinstance(value, str) else ""
