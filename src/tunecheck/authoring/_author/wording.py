"""What a user says to have calls made, from what their functions do: plain requests, in several voices."""

from __future__ import annotations

import re

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_CLAUSE_END = re.compile(r"[:;(]|\.(?:\s|$)")
_NO_VERB = frozenset(
    "a an the this that these it all any some endpoint api operation function method request resource".split()
)


def words_of(name: str) -> list[str]:
    """The words in a name: `orderId` and `order_id` are `order` and `id`."""
    return [word.lower() for word in _WORD.findall(name)]


def phrase(name: str) -> str:
    """A name as people say it: `order_id` is "order id"."""
    return " ".join(words_of(name)) or name


def request_of(name: str, description: str) -> str:
    """What a function does, as a request: "cancel an order"; from its description, else from its name."""
    clause = _CLAUSE_END.split(description.strip(), maxsplit=1)[0].strip()
    clause = re.sub(r"^(this (function|tool|method|endpoint|api) )?(will |can |is used to )?", "", clause, flags=re.I)
    first, _, rest = clause.partition(" ")
    if not rest or first.lower() in _NO_VERB or not first.isalpha():
        return phrase(name)
    verb = _imperative(first.lower() if not first.isupper() else first)
    return f"{verb} me {rest}" if verb in ("tell", "show", "give") and not rest.startswith("me ") else f"{verb} {rest}"


def _imperative(verb: str) -> str:
    """`returns` is "return"; what ends in no third person's s stays."""
    if verb.endswith("ies") and len(verb) > 4:
        return f"{verb[:-3]}y"
    if re.search(r"(ss|x|zz|ch|sh)es$", verb):
        return verb[:-2]
    return verb[:-1] if verb.endswith("s") and not verb.endswith(("ss", "us", "is")) else verb
