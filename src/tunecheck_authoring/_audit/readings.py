"""Requests with two readings: a value that an answer gives among others, with nothing said of which is meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tunecheck._json import JSON
from tunecheck_authoring._audit.dialogue import Dialogue, TruthCall, texts_in
from tunecheck_authoring._audit.findings import AuditFinding, found
from tunecheck_authoring._audit.given import numbers, shortens, words
from tunecheck_authoring._audit.reruns import Reruns

_CHOOSES = frozenset(
    "first second third last latest recent newest oldest initial previous earlier next all each every any both either "
    "other highest lowest cheapest top bottom most least best biggest largest smallest longest shortest new just "
    "random arbitrary one".split()
)
"""Words that tell which of several is meant."""


def reading_findings(dialogue: Dialogue, reruns: Reruns) -> Iterator[AuditFinding]:
    """Of each call, the first value with another that would do as well: as much was said of it, and it works."""
    for at, call in enumerate(dialogue.calls):
        said = words(" ".join(dialogue.asked[: call.turn + 1]))
        known = {*said, *(f"{each:.15g}" for text in dialogue.asked[: call.turn + 1] for each in numbers(text))}
        asked = [text for text in dialogue.asked[: call.turn + 1] if text]  # a turn without words adds a function
        if asked and _CHOOSES.isdisjoint(words(asked[-1])):
            finding = next(_of_call(dialogue, reruns, at, call, known), None)
            if finding is not None:
                yield finding


def _of_call(dialogue: Dialogue, reruns: Reruns, at: int, call: TruthCall, said: set[str]) -> Iterator[AuditFinding]:
    earlier = dialogue.calls[:at]
    used = {text for each in earlier for text in texts_in([*each.right.accepted.values()])}
    for parameter, [value, *_] in call.right.accepted.items():
        names = isinstance(value, (str, int)) and not isinstance(value, bool)  # one thing among others, as ids do
        if not names or str(value) in used or _is_said(str(value), said):
            continue
        for other in _as_good(value, [*(each.result for each in reversed(earlier)), dialogue.start], said):
            if reruns.are_used_up:
                return
            made = replace(reruns.played[at].call, arguments={**call.right.call.arguments, parameter: other})
            outcome = reruns.outcome({at: made})
            if not any(each is not None and each.error for each in outcome.results[at:]) and not outcome.is_as(
                reruns.whole, but_for={}
            ):
                evidence = f"{parameter} of {call.name} is {value!r}; {other!r} is given beside it, and works as well"
                yield found(dialogue.name, "two_readings", evidence, call.turn)
                return


def _as_good(value: JSON, sources: Sequence[object], said: set[str]) -> Iterator[JSON]:
    """What stands beside a value, with nothing said of it and not of that, where the value was given last."""
    for source in sources:
        if str(value) in texts_in(source):
            for own, others in _beside(value, source):
                yield from (other for other, about in others if about & said >= own & said)
            return


def _beside(value: JSON, source: object) -> Iterator[tuple[set[str], list[tuple[JSON, set[str]]]]]:
    """The words about a value, and others of its kind with the words about them: of a list, or records by their ids."""
    if isinstance(source, Mapping):
        if value in source and all(isinstance(each, Mapping) for each in source.values()):
            keyed = {key: _words([key, each]) for key, each in source.items()}
            yield keyed.pop(value), [*keyed.items()]
        for each in source.values():
            yield from _beside(value, each)
    elif isinstance(source, (list, tuple)):
        if value in source:
            others = [each for each in source if type(each) is type(value) and each != value]
            yield _words(value), [(each, _words(each)) for each in others]
        records = [each for each in source if isinstance(each, Mapping)]
        for record in records:
            for key in [key for key, own in record.items() if own == value and type(own) is type(value)]:
                yield _words(record), [(each[key], _words(each)) for each in records if each.get(key, value) != value]
        for each in source:
            yield from _beside(value, each)


def _is_said(text: str, said: set[str]) -> bool:
    """Whether one of its words was said, or a name that it is short for."""
    own = _words(text)
    return not own.isdisjoint(said) or any(shortens(one, other) for one in own for other in said)


def _words(value: object) -> set[str]:
    return {word for text in texts_in(value) for word in words(text)}
