"""Find requests that no call carries out: operations in the imperative, and quoted texts that no call contains."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tunecheck_authoring._audit.dialogue import Dialogue, argument_values, texts_in
from tunecheck_authoring._audit.findings import AuditFinding, Certainty, found
from tunecheck_authoring._audit.given import KnownValues, quotes, words
from tunecheck_authoring._audit.values import is_placeholder, resembles
from tunecheck_authoring._author.wording import words_of

_CLAUSE = re.compile(r"[.!?;\n—–]+\s+|,\s+|\s+(?:and|then|but|to)\s+")
_POLITE = re.compile(
    r"^\W*(?:(?:please|kindly|then|also|and|now|next|finally|lastly|additionally|just|so|afterwards?|once done|"
    r"go ahead and|could you|can you|would you|will you|i (?:want|need|would like) (?:you )?to|i'd like (?:you )?to|"
    r"let's|make sure to|be sure to|remember to|don't forget to|to|me|help me)\b\W*)*",
    re.IGNORECASE,
)
_READS = frozenset(
    "get list show view find search check display estimate calculate compute retrieve read fetch is has verify ls cat "
    "pwd tail head grep wc sort diff du cd count".split()
)
_NO_OBJECT = frozenset("to by of for on in with from the and based all id".split())
_TAKES_BACK = re.compile(r"\b(?:changed my mind|no,? wait|on second thought|scratch that|i meant)\b", re.IGNORECASE)
_MOST_APART = 3
_MOST_QUOTES = 200
"""A request with more quotations is a document; calls use parts of it."""
_SHORTEST = 3


def request_findings(dialogue: Dialogue) -> Iterator[AuditFinding]:
    """Yield requests that neither their turn nor its neighbours carry out, and quotations that no call uses."""
    yield from _find_unused(dialogue)
    if dialogue.is_conversation:
        for turn, asked in enumerate(dialogue.asked):
            yield from _find_unanswered(dialogue, turn, asked)


def _find_unanswered(dialogue: Dialogue, turn: int, asked: str) -> Iterator[AuditFinding]:
    calls = dialogue.of_turn(turn)
    if any(call.changes for call in calls) or (not calls and dialogue.of_turn(turn + 1)):  # asked back, then done
        return
    beside = {call.name for at in (turn - 1, turn, turn + 1) for call in dialogue.of_turn(at)}
    verbs = {_parts(name)[0] for name in beside}
    for clause in _CLAUSE.split(asked):
        own = words(_POLITE.sub("", clause))
        for name in dialogue.tools:
            verb, *objects = _parts(name)
            if own[:1] != [verb] or verb in _READS or verb in verbs or name in beside:
                continue
            if _names_one(objects, own[1:]):
                evidence = f"the user says {clause.strip()!r}, {name} is on offer, and no call here changes anything"
                yield found(dialogue.name, "unanswered_request", evidence, turn, fix=f"call {name}?")
                return


def _names_one(objects: list[str], said: list[str]) -> bool:
    """True if one of an operation's objects follows its verb closely in the request."""
    nouns = {noun for noun in objects if noun not in _NO_OBJECT}
    near = said[: _MOST_APART + 1]
    return not nouns or any(word in nouns or word.removesuffix("s") in nouns for word in near)


def _parts(name: str) -> list[str]:
    """Return the words of a function's name after its last dot."""
    return words_of(name.rpartition(".")[2]) or [name]


def _find_unused(dialogue: Dialogue) -> Iterator[AuditFinding]:
    """Yield quoted texts that no argument, no result and no configuration contains."""
    if not dialogue.calls or dialogue.is_source:
        return
    of_calls = KnownValues()
    for call in dialogue.calls:
        of_calls.add([*call.right.accepted.values(), call.result, call.name])
    used = KnownValues()
    used.add([dialogue.start, *((call.right.accepted, call.result, call.name) for call in dialogue.calls)])
    places = {*_places(dialogue.start)}
    values = [value for call in dialogue.calls for _, each in argument_values(call.right) for value in each]
    texts = {value for value in values if isinstance(value, str) and len(value) > 2}
    for turn, asked in enumerate(dialogue.asked):
        kept = _TAKES_BACK.split(asked, maxsplit=1)[-1]  # a request may take back its first part
        quoted = dict.fromkeys(quotes(kept))
        for quote in quoted if len(quoted) <= _MOST_QUOTES else ():
            is_all = 2 * len(quote) > len(asked)  # the whole request is a quotation
            is_missed = quote in places and not of_calls.has_text(quote)
            if dialogue.of_turn(turn) and not is_all and (is_missed or not _is_used(quote, used, texts, dialogue)):
                evidence = f"the user quotes {quote!r}, which no call has"
                certainty: Certainty = "likely" if dialogue.is_conversation else "look"
                yield found(dialogue.name, "unused_text", evidence, turn, certainty=certainty)


def _places(value: object) -> Iterator[str]:
    """Yield the names of what holds other things in a state, as folders do."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            if isinstance(each, Mapping) and any(isinstance(inner, Mapping) for inner in each.values()):
                yield str(name)
            yield from _places(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _places(each)


def _is_used(quote: str, used: KnownValues, texts: set[str], dialogue: Dialogue) -> bool:
    """True if a call contains the quotation, one of its words, or the answer of a reading call to it.

    Placeholders (`xxx`) and names of functions count as used. Nearly quoted texts are another kind of finding.
    """
    if len(quote) < _SHORTEST or is_placeholder(quote) or dialogue.tools.spelled(quote) is not None:
        return True
    if any(used.has_text(part) for part in (quote, *words(quote)) if len(part) > 2):
        return True
    if any(resembles(text, quote) for text in texts):
        return True
    answers = dialogue.look_up([quote, *quote.split()[:1]])
    return any(not texts.isdisjoint(texts_in(answer)) for answer in answers)
