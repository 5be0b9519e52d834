"""Word requests for calls from the descriptions of their functions, in several voices.

A function's description becomes a request (`request_of`), and a call's arguments become labels and texts
(`details_of`). A voice joins both to a sentence:

| step | example |
|---|---|
| description | `Cancels the specified order. Returns its status.` |
| first clause | `Cancels the specified order` |
| without needless words | `Cancels the order` |
| verb in the imperative | `cancel the order` |
| arguments | `(("order id", "7"),)` |
| voice `plain` | `Please cancel the order, with order id 7.` |
| voice `brief` | `Cancel the order (order id: 7).` |
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from tunecheck.plugins import JSON

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
"""The words of a name: `HTTP`, `Server` and `2` of `HTTPServer2`, `pet` and `Id` of `petId`."""
_CLAUSE_END = re.compile(r"[:;(]|\.(?:\s|$)")
"""The end of a description's first clause; the dot in `api.example.org` is none."""
_NEEDLESS = re.compile(
    r"\b(?:(an?|the) (?:specified|specific|given|particular|certain|single)|multiple|one or more|specified|specific)"
    r" (?=\w)| simultaneously\b",
    re.IGNORECASE,
)
"""Words about parameters, or about how many items may be given: "the specified order", "one or more files"."""
_INTRODUCTION = re.compile(r"^(this (function|tool|method|endpoint|api) )?(will |can |(is )?used to )?", re.IGNORECASE)
"""Words before the verb: "This function is used to cancel an order"."""
# The second of two verbs: "creates or updates a file".
_EITHER = re.compile(r"^(\w+) or \w+(?= )")
_OTHER_WAY = re.compile(r",? or (?:\w+ly )?[a-z]+ (?:an?|the|all|any) .*$")
"""A second action of a function: "create a file or overwrite an existing file"."""
# A parameter of this name needs a noun after it: "from field".
_PREPOSITIONS = frozenset("after as at before by for from in of on since to until via with".split())
# Labels that need "are": "tags", but not "status", "address" and "analysis".
_PLURAL = re.compile(r"[^isu]s$")
# Methods of HTTP stay in capitals, as descriptions write them.
_METHODS = frozenset("GET POST PUT PATCH DELETE LIST".split())
# First words of descriptions that do not begin with a verb.
_NO_VERB = frozenset(
    "a an the this that these it all any some endpoint api operation function method request resource".split()
)


def words_of(name: str) -> list[str]:
    """Return the words in a name: `order` and `id` for `orderId` and `order_id`."""
    return [word.lower() for word in _WORD.findall(name)]


def phrase(name: str) -> str:
    """Return a name as people say it: "order id" for `order_id`, "value a" for `a`, "from field" for `from`."""
    if len(name) == 1:
        return f"value {name}"
    return f"{name} field" if name in _PREPOSITIONS else " ".join(words_of(name)) or name


def request_of(name: str, description: str, *, chooses: bool = False) -> str:
    """Return a request for a function, such as "cancel an order", from its description or else its name.

    If the description names several actions, the request asks for the first. It keeps all if `chooses` is True: then a
    parameter decides among them.
    """
    clause = _CLAUSE_END.split(description.strip(), maxsplit=1)[0].strip()
    clause = _NEEDLESS.sub(_without_needless, _INTRODUCTION.sub("", clause))
    if not chooses:
        clause = _OTHER_WAY.sub("", _EITHER.sub(r"\1", clause))

    first, _, rest = clause.partition(" ")
    if not rest or first.lower() in _NO_VERB or not first.isalpha():
        return phrase(name)
    if rest.startswith("of "):  # "Settings of the shop" names the result, not the action
        return f"show me the {first.lower()} {rest}"

    verb = singular(first.lower() if not first.isupper() or first in _METHODS else first)
    if first.lower() == "returns" and "return" not in words_of(name):  # it describes the result; nothing is given back
        verb = "show"

    asks_me = verb in ("tell", "show", "give", "get") and first not in _METHODS and not rest.startswith("me ")
    return f"{verb} me {rest}" if asks_me else f"{verb} {rest}"


def _without_needless(found: re.Match[str]) -> str:
    """Return the replacement for needless words: their article, as `a` or `an` for the next word, or "" without one.

    "a specific order" becomes "an order", and "multiple files" becomes "files".
    """
    article, following = found[1] or "", found.string[found.end() : found.end() + 1]
    if article.lower() in ("a", "an"):
        return f"{article[0]}{'n' if following in 'aeio' else ''} "
    return f"{article} " if article else ""


def singular(word: str) -> str:
    """Return a word without the s of a plural or a third person: "entity" for `entities`, "return" for `returns`."""
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if re.search(r"(ss|x|zz|(?<!\bca)ch|sh)es$", word):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


class Ask(msgspec.Struct, frozen=True):
    """One request, with a label and a text for each of its parameters."""

    request: str
    details: tuple[tuple[str, str], ...] = ()


Voice: TypeAlias = Callable[[Sequence[Ask], bool], str]
"""Words several requests; the second argument is True if they are done one after another."""


def _plain(asks: Sequence[Ask], in_order: bool) -> str:
    """Word requests as "Please cancel an order, with order id 7. Then …", one after another if `in_order`."""
    texts = [ask.request + _details(ask, _with_label, ", with ") for ask in asks]
    return f"Please {('. Then ' if in_order else '. Please also ').join(texts)}."


def _polite(asks: Sequence[Ask], in_order: bool) -> str:
    """Word requests as "Could you cancel an order? The order id is 7.", one after another if `in_order`."""
    texts = [f"{ask.request}?{_details_sentence(ask)}" for ask in asks]
    return "Could you " + (" After that, could you " if in_order else " Could you also ").join(texts)


def _brief(asks: Sequence[Ask], in_order: bool) -> str:
    """Word requests as "Cancel an order (order id: 7).", one after another if `in_order`."""
    texts = [ask.request + _details(ask, "{}: {}".format, " (", ")", "; ") for ask in asks]
    text = ("; then " if in_order else "; and ").join(texts)
    return f"{text[:1].upper()}{text[1:]}."


def _needing(asks: Sequence[Ask], in_order: bool) -> str:
    """Word requests as "I need you to cancel an order. The order id is 7.", one after another if `in_order`."""
    texts = [f"need you to {ask.request}.{_details_sentence(ask)}" for ask in asks]
    return "I " + (" After that, I " if in_order else " I also ").join(texts)


def _chatty(asks: Sequence[Ask], in_order: bool) -> str:
    """Word requests as "Here's what I need: cancel an order. Use 7 as the order id.", in order if `in_order`."""
    texts = [f"{ask.request}.{_details(ask, '{1} as the {0}'.format, ' Use ', '.')}" for ask in asks]
    between = " Once that's done, " if in_order else " And while you're at it, "
    return "Here's what I need: " + between.join(texts)


VOICES: dict[str, Voice] = {"plain": _plain, "polite": _polite, "brief": _brief, "needing": _needing, "chatty": _chatty}


def voice_of(name: str) -> Voice:
    """Return the voice of this name; personas, which have other names, get the plain one."""
    return VOICES.get(name, _plain)


def _details(ask: Ask, say: Callable[[str, str], str], before: str, after: str = "", between: str | None = None) -> str:
    """Return a request's parameters in words between `before` and `after`, or an empty text without parameters.

    `say` words one parameter from its label and value. The words are joined by `between`; None gives a list in prose.
    """
    texts = [say(label, value) for label, value in ask.details]
    return f"{before}{_join_texts(texts) if between is None else between.join(texts)}{after}" if texts else ""


def _details_sentence(ask: Ask) -> str:
    """Return the parameters as a sentence, `The order id is 7.`, or an empty text without parameters."""
    return f" The {format_values(ask.details)}." if ask.details else ""


def _join_texts(texts: Sequence[str]) -> str:
    """Return the texts as a list in prose: `a, b and c`."""
    return " and ".join([", ".join(texts[:-1]), *texts[-1:]] if len(texts) > 1 else texts)


def format_values(details: Sequence[tuple[str, str]]) -> str:
    """Return a statement of values: `name is "Ida", the year is 2026 and the tags are "a" and "b"`."""
    first, *others = [f"{label} {'are' if _PLURAL.search(label) else 'is'} {value}" for label, value in details]
    return _join_texts([first, *(f"the {each}" for each in others)])


def format_targets(details: Sequence[tuple[str, str]]) -> str:
    """Return the new values of parameters: `the name "Ida" and the year 2026`."""
    return _join_texts([f"the {label} {text}" for label, text in details])


def _with_label(label: str, value: str) -> str:
    """Return "order id 7", or "the id you got as the order id" for a described value."""
    return f"{value} as the {label}" if value.startswith("the ") else f"{label} {value}"


def details_of(values: Mapping[str, JSON], texts: Mapping[str, str] | None = None) -> tuple[tuple[str, str], ...]:
    """Return a label and a text for each argument: its own text if it has one, else its value.

    An object, or a list with one object, gives a pair for each entry: `{"to": {"city": "Rome", "zip": 155}}` gives
    `(("city", '"Rome"'), ("zip", "155"))`. Equal labels get the argument's name: "city of the origin".
    """
    found: list[tuple[str, str, str]] = []  # argument, label and text
    for name, value in values.items():
        entries = None if texts and name in texts else _entries(value)
        if entries is None:
            found.append((name, _label(name, value), texts[name] if texts and name in texts else value_text(value)))
        else:
            found += [(name, _label(key, each), value_text(each)) for key, each in entries.items()]

    labels = Counter(label for _, label, _ in found)
    return tuple(
        (f"{label} of the {phrase(name)}" if labels[label] > 1 and label != phrase(name) else label, text)
        for name, label, text in found
    )


def _entries(value: JSON) -> Mapping[str, JSON] | None:
    """Return the entries of an object, or of a list with one object, to be said one by one; None for other values."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, dict) and value else None


def _label(name: str, value: JSON) -> str:
    """Return a value's label: a boolean is a "setting", and the label of a list with one item is in the singular."""
    label = phrase(name)
    if isinstance(value, bool):
        return f"{label} setting"
    if isinstance(value, list) and len(value) == 1:
        *before, last = label.split()
        return " ".join([*before, singular(last)])
    return label


def value_text(value: JSON) -> str:
    """Return a value as a user writes it: texts in quotes."""
    match value:
        case bool():
            return "true" if value else "false"
        case None:
            return "nothing"
        case str():
            return f'"{value}"'
        case list():
            introduction = "one with " if any(isinstance(each, dict) for each in value) else ""
            return _join_texts([f"{introduction}{value_text(each)}" for each in value]) or "an empty list"
        case dict():
            return _join_texts([f"{_label(key, each)} {value_text(each)}" for key, each in value.items()])
    return str(value)


def place_text(path: Sequence[str | int]) -> str:
    """Describe a place in a result: "order id", "timezone of the target", "id of the first item of the list".

    Each number in the path, which is the index of an item of a list, is described as the first item.
    """
    parts: list[str] = []
    for step in path:
        if isinstance(step, str):
            parts.append(phrase(step))
        else:
            parts.append(_first_of(parts.pop() if parts else ""))
    return " of the ".join(reversed(parts)) or "answer"


def _first_of(things: str) -> str:
    """Return "first order line" for "order lines"; without a plural "first item of the stock list"."""
    *first_words, last = things.split() or [""]
    singular_form = singular(last)
    if singular_form == last:
        return f"first item of the {things}{'' if last == 'list' else ' list'}" if things else "first item of the list"
    return " ".join(["first", *first_words, singular_form])


def mentions_value(value: JSON, words: str) -> bool:
    """True if a text contains all parts of a value; upper and lower case do not matter.

    Booleans and null are not checked: there are too many ways to say them. The number 1200 may be written `1200` or
    `1,200`. The number 7 is not in `17`, `7.5` and `0.7`.
    """
    match value:
        case bool() | None:
            return True
        case list():
            return all(mentions_value(each, words) for each in value)
        case dict():
            return all(mentions_value(each, words) for each in value.values())
        case str():
            return value.lower() in words.lower()
    spellings = {str(value), f"{value:g}", f"{value:,}"}
    return any(re.search(rf"(?<![\d.]){re.escape(text)}(?!\.?\d)", words) for text in spellings)
