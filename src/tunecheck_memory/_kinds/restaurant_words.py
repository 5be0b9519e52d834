"""A deterministic judge of restaurant visits that uses words instead of a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rapidfuzz import fuzz, process

from tunecheck import ConfigurationError
from tunecheck.plugins import JSON, dumps
from tunecheck_memory import AskJudge
from tunecheck_memory._effects import Outcome
from tunecheck_memory._wording import Menu

_MOST = 20_000
_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u00a0": " "})
_ASIDE = re.compile(r"\*[^*\n]{1,400}\*(?!\*)|\([^()\n]{0,200}(?:smil|nod|look|glanc|sip)[^()\n]{0,200}\)|\*\*|__|`")
_LABEL = re.compile(r"^ *(?:customer|guest|diner|me|you)\s*:\s*", re.IGNORECASE | re.MULTILINE)
_END = re.compile(r"(?<=[.!?;])\s+|\n+")
_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")

_NO_GUEST = re.compile(
    r"\b(?:i'm|i am|as) (?:\w+ )?an? (?:\w+ )?(?:ai|language model|virtual|digital|assistant|chatbot)\b(?! cook)"
    r"|\bi (?:can't|cannot|don't|do not|am unable to)(?: \w+)? (?:physically|order|drink|eat|consume|have)\b"
    r"|\b(?:how (?:can|may) i|(?:can|could|may) i (?:get|bring|offer|serve|help|interest) you|may i suggest|feel free"
    r"|i (?:can|could) (?:help|assist|suggest|recommend|offer)|i(?:'d| would)? (?:recommend|suggest)"
    r"|would you like|do you prefer|what would you|let me know (?:what|which|if)"
    r"|you (?:may|might|can|could) (?:also |want to |like to )*(?:enjoy|choose|try|consider|order|have)"
    r"|(?:we|our restaurant) (?:offer|have|serve))\b"
)
_ORDERS = re.compile(
    r"\b(?:(?:i|we)(?:'ll| will| shall|'d| would|'m going to)|let me|let's|(?:can|could|may|might) (?:i|we))"
    r"(?: \w+){0,2}? (?:have|take|go (?:\w+ )?(?:with|for)|order|try|start with|get|opt for|choose|pick|do|like|love"
    r"|prefer|enjoy|stick with|switch to|change \w+ (?:\w+ )?to)\b(?! (?:to (?:know|ask|see|look)|(?:an?|some|another"
    r"|few) (?:\w+ )?(?:minutes?|moments?|time|look|recommendations?)))"
    r"|\b(?:could you|please) (?:bring|get|make)\b|\bi(?:'ve| have)? (?:want|decided on|chosen|order|settled on)\b"
    r"|\b(?:bring|give|get) (?:me|us)\b|\b(?:make|put) (?:me|us|it|that)\b|\b(?:how|what) about\b"
    r"|^(?:maybe|perhaps)\b(?!.* or )"
    r"|\bfor (?:the|my) (?:drink|appetizer|starter|main|dessert|first)\b"
)
_GOES_ON = re.compile(r"(?:and|also|plus|as well as|along with)\b")
_KEEPS = re.compile(r"\b(?:still|keep|as (?:originally )?(?:planned|ordered|before)|remain)\b")
_IN_PLACE = re.compile(r"\b(?:instead of|in place of|rather than)\b[^,.;!?]*")
_PRAISES = re.compile(r"\b(?:sounds?|looks?|seems?|tempting|delicious|lovely|wonderful|available)\b")
_COMPLAINS = re.compile(
    r"\b(?:mix(?:ed)?[- ]?up|mistaken?|misunderst\w+|confus\w+|error|wrong|incorrect|oversight|supposed to|actually)\b"
    r"|\b(?:didn't|did not|don't (?:think|believe|recall)|never|not (?:what|the))\b[^.?!]{0,40}\b"
    r"(?:order|ordered|asked|requested|chose|wanted)\b"
    r"|\b(?:i|we|i'd|i've) (?:had |have |originally |specifically )*(?:ordered|asked for|requested|chose|expected)\b"
    r"|\b(?:where is|where's|what happened to|what about) (?:my|the)\b"
)
_FORGOT = re.compile(
    r"\b(?:don't|didn't|do not|did not|can't|cannot|couldn't|not)\b[^.?!]{0,30}\b(?:recall|remember|sure|certain)\b"
    r"|\b(?:forgot|haven't (?:had|ordered)|didn't (?:have|order) (?:a|any))\b"
)
_NAME_END = re.compile(r"\s*(?:,|\(|\bwith\b|\bserved\b|\bin\b|\bon\b|\bover\b)", re.IGNORECASE)
_NUMBER = re.compile(r"(?:\bnumber|\bno\.|#|\boption)\s*([0-9]{1,4})\b")
_THAT = re.compile(r"\b(?:that|it|those|them|both)\b")
_SMALL = frozenset(
    "a an and the of with in or de la al i i'll i'd we like have to please would for my me some then can could get you "
    "thank instead go take pot glass cup can bottle drink be that it this with also just".split()
)
_OPPOSITES = (
    ("sweetened", "unsweetened"), ("sparkling", "still"), ("red", "white"), ("black", "green"), ("clear", "cloudy"),
    ("hot", "iced"),
)  # fmt: skip
_LIKENESS = 65
"""Least token set ratio of a sentence and an entry's name, from 0 to 100."""

_MOST_WORDS = 600


class WordJudge:
    """A judge that answers the four questions of a restaurant visit from the words of the reply.

    The answers have the form of a model's answers. Only the beginning of a long reply counts.
    """

    async def ask(self, request: AskJudge, *, key: str) -> Outcome:
        """Return the judgement as JSON; `key` has no effect."""
        return Outcome(0, self.judge(request))

    def judge(self, request: AskJudge) -> str:
        """Answer one question of a restaurant visit from the words of the reply; return the answer as JSON.

        Raises:
            ConfigurationError: Only a model can answer this question.
        """
        values, said = request.values, _spoken_words(_text(request.values, "reply"))
        answer: dict[str, JSON]
        match request.purpose:
            case "restaurant_follows_role":
                orders = any(map(_ORDERS.search, _END.split(said)))
                answer = {"follows_role": bool(_WORD.search(said)) and (orders or not _NO_GUEST.search(said))}
            case "restaurant_extraction":
                order = _order(said, Menu.of_text(_text(values, "menu")), values.get("wanted") == "drinks")
                answer = {"has_ordered_something": bool(order), "order": [*order]}
            case "restaurant_noticed":
                answer = {"noticed": _COMPLAINS.search(said) is not None}
            case "restaurant_recalls":
                listed = values.get("drinks")
                drinks = [drink for drink in listed if isinstance(drink, str)] if isinstance(listed, list) else []
                recalled = bool(drinks) and all(_recalls(drink, said) for drink in drinks)
                answer = {"recalls": recalled and not _FORGOT.search(said)}
            case purpose:
                raise ConfigurationError(
                    f"the question {purpose!r} cannot be answered by comparing text: give a judge model with --judge"
                )
        return dumps(answer).decode()


def _spoken_words(reply: str) -> str:
    """Return what the guest says in a reply: lower case, without stage directions, emphasis and labels such as
    "Guest:".
    """
    text = re.sub(r"[ \t\r\f\v]+", " ", reply[:_MOST].translate(_QUOTES))
    return _LABEL.sub("", _ASIDE.sub(" ", text)).strip().lower()


def _order(said: str, menu: Menu, drinks: bool) -> list[dict[str, JSON]]:
    """Return the items that a reply orders, each in the form of the judge's answer.

    They are the entries of the menu in ordering sentences; without any, all entries in a brief reply; else one item
    that is not on the menu.
    """
    names = _Names(menu.drinks if drinks else menu.dishes)
    sentences = [*_sentences(said, names)]
    ordering = [sentence for sentence in sentences if sentence.orders]
    brief = len(_WORD.findall(said)) <= 25 and not re.search(rf"\?|{_PRAISES.pattern}|{_NO_GUEST.pattern}", said)
    numbers = [number for sentence in ordering for number in sentence.entries]
    numbers = numbers or [number for sentence in sentences if brief for number in sentence.entries]
    if numbers:
        return [
            _item(names.said(number, said) if drinks else "", menu, number, drinks) for number in dict.fromkeys(numbers)
        ]
    others = [" ".join(_stems(_ORDERS.sub(" ", sentence.text))[:12]) for sentence in ordering]
    return [_item(other, menu, None, drinks) for other in others if other][:1]


def _item(name: str, menu: Menu, number: int | None, drink: bool) -> dict[str, JSON]:
    entry = menu.numbered[number][1] if number is not None else ""
    return {"is_drink": drink, "item": name or entry, "menu_nr": number, "menu_ref": entry, "off_menu": number is None}


@dataclass(frozen=True, slots=True)
class _Sentence:
    """One sentence: its text, True if it orders something new, and the numbers of the menu's entries in it."""

    text: str
    orders: bool
    entries: Sequence[int]


def _sentences(said: str, names: _Names) -> Iterator[_Sentence]:
    """Yield the sentences of a reply with the menu's entries in them; an order continues in a sentence that begins with
    "and".
    """
    before = _Sentence("", False, ())
    for piece in filter(str.strip, _END.split(said)):
        text = _IN_PLACE.sub("", piece)
        orders = bool(_ORDERS.search(text)) or (before.orders and bool(_GOES_ON.match(text)))
        entries = names.find(text)
        if orders and not entries and "?" not in before.text and _THAT.search(text):
            entries = list(before.entries)  # "The goulash sounds good. I'll take that."
        before = _Sentence(text, orders and not _KEEPS.search(text), entries)
        yield before


class _Names:
    """The names of menu entries: the words before "with" and the like."""

    def __init__(self, entries: Mapping[int, str]) -> None:
        """Take the menu's entries by number, and keep the significant words of each name."""
        self._entries = entries
        self._names = {
            number: " ".join(_stems(_NAME_END.split(entry, maxsplit=1)[0])) for number, entry in entries.items()
        }

    def find(self, text: str) -> list[int]:
        """Return the numbers of the menu's entries that a text names, in its order; then those that it has as numbers.

        Each word of the text names at most one entry.
        """
        words = _stems(text)[:_MOST_WORDS]
        left, places = words, dict[int, int]()
        while best := process.extractOne(
            " ".join(left), self._names, scorer=fuzz.token_set_ratio, score_cutoff=_LIKENESS
        ):
            name, _, number = best
            if not (shared := set(name.split()) & set(left)):
                break
            places[number] = min(map(words.index, shared))
            left = [word for word in left if word not in shared]
        numbered = [int(match[1]) for match in _NUMBER.finditer(text)]
        return [*sorted(places, key=places.__getitem__), *(number for number in numbered if number in self._entries)]

    def said(self, number: int, text: str) -> str:
        """Return an entry of the menu in the guest's own words: first the sort, which the menu has in brackets, then
        the name.
        """
        name, _, sorts = self._entries[number].partition("(")
        words = list(dict.fromkeys(_stems(text)))
        chosen = [word for part in (sorts, name) for word in words if word in _stems(part)]
        return " ".join(chosen)


def _recalls(drink: str, said: str) -> bool:
    """Return True if the reply names the drink; its sort (red or white) may be missing, but not be the opposite."""
    name, words = _stems(drink), set(_stems(said))
    pairs = [*_OPPOSITES, *((other, own) for own, other in _OPPOSITES)]
    swapped = any(own in name and other in words and own not in words for own, other in pairs)
    return bool(name) and name[-1] in words and not swapped


def _stems(text: str) -> list[str]:
    """Return the words of a text that name things, in lower case and without a plural's s."""
    words = [word for word in _WORD.findall(text.lower()) if word not in _SMALL]
    return [word[:-1] if len(word) > 3 and word[-1] == "s" and word[-2] != "s" else word for word in words]


def _text(values: Mapping[str, JSON], key: str) -> str:
    value = values.get(key)
    return value if isinstance(value, str) else ""
