"""The mistakes of a simulated fine-tune: each turns a right answer into a wrong one of its kind, where it applies."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from types import MappingProxyType
from typing import TypeAlias

from tunecheck._json import JSON
from tunecheck.calls._model import FunctionCall
from tunecheck.endpoints._simulated.paraphrase import paraphrase
from tunecheck.endpoints._simulated.wordforms import (
    as_number_text,
    converted_number,
    other_date_or_time,
    shifted_date_or_time,
)

MAX_DEPTH = 20
"""How deep into arguments and schemas a mistake looks; real ones stay below ten."""

Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """What the model says: text, calls, or both."""

    text: str | None = None
    calls: tuple[FunctionCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Situation:
    """What a mistake may draw on: the last thing said to the model, and each function's parameter schema."""

    said: str = ""
    functions: Mapping[str, Mapping[str, JSON]] = field(default_factory=dict)

    @classmethod
    def of(cls, messages: Sequence[Mapping[str, JSON]], tools: Sequence[Mapping[str, JSON]] | None) -> Situation:
        """The situation of a chat request; what cannot be read in it is left out."""
        said = [text for message in messages if isinstance(text := message.get("content"), str)]
        return cls(said[-1][-2000:] if said else "", dict(_functions(tools or ())))


Mistake: TypeAlias = Callable[[Draft, Situation, Random], Draft | None]
"""A wrong answer made of a right one; None where this mistake cannot be made."""


def number_as_string(draft: Draft, _: Situation, rng: Random) -> Draft | None:
    """A number among the arguments becomes text: 5 is "5"."""
    return _change_one(draft, rng, lambda _, value: as_number_text(value))


def number_conversion(draft: Draft, _: Situation, rng: Random) -> Draft | None:
    """A number is given in another unit: 5 percent as 0.05, 250000 as 250 thousand."""
    return _change_one(draft, rng, lambda path, value: converted_number(value, is_rate=_is_rate(path)))


def date_format(draft: Draft, _: Situation, rng: Random) -> Draft | None:
    """A date or a time is written in another format: 2026-03-05 as March 5, 2026, or 14:30 as 2:30 PM."""
    return _change_one(draft, rng, lambda _, value: other_date_or_time(value, rng))


def wrong_argument(draft: Draft, situation: Situation, rng: Random) -> Draft | None:
    """One value is another one of its type: another choice of its enum, a number beside it, other words."""
    places = [place for place in _places(draft) if _is_changeable(place[2])]
    if not places:
        return None
    index, path, value = rng.choice(places)
    schema = _schema_at(situation.functions.get(draft.calls[index].name, {}), path)
    other = _another(value, schema, situation.said, rng)
    return None if other is None else _with_value(draft, index, path, other)


def missing_argument(draft: Draft, situation: Situation, rng: Random) -> Draft | None:
    """An argument is left out, a required one where the schema says which those are."""
    places = [(index, name) for index, call in enumerate(draft.calls) for name in call.arguments]
    required = [(index, name) for index, name in places if name in _required(situation, draft.calls[index].name)]
    if not places:
        return None
    index, gone = rng.choice(required or places)
    arguments = {name: value for name, value in draft.calls[index].arguments.items() if name != gone}
    return _with_arguments(draft, index, arguments)


def extra_argument(draft: Draft, situation: Situation, rng: Random) -> Draft | None:
    """An argument is added that nobody asked for: an optional one of the schema, else one the function has not."""
    index = rng.randrange(len(draft.calls))
    call = draft.calls[index]
    properties = _object(situation.functions.get(call.name, {}).get("properties"))
    free = [name for name, schema in properties.items() if name not in call.arguments and isinstance(schema, dict)]
    if free:
        name = rng.choice(free)
        schema = _object(properties[name])
        value = _invented(schema, situation.said, rng)
        # A default given explicitly would be no mistake.
        value = _another(value, schema, situation.said, rng) if value == schema.get("default", ...) else value
    else:
        name, value = rng.choice([pair for pair in _UNASKED if pair[0] not in call.arguments] or [("note", "none")])
    return _with_arguments(draft, index, {**call.arguments, name: value})


def wrong_function(draft: Draft, situation: Situation, rng: Random) -> Draft | None:
    """Another of the functions on offer is called, else one whose name is nearly right."""
    index = rng.randrange(len(draft.calls))
    call = draft.calls[index]
    name = rng.choice([other for other in situation.functions if other != call.name] or [_near_miss(call.name)])
    return _with_call(draft, index, replace(call, name=name))


def answered_instead_of_called(draft: Draft, _: Situation, rng: Random) -> Draft | None:
    """The model talks where it should have called."""
    subject = re.sub(r"[_.\W]+", " ", draft.calls[0].name).strip() or "do that"
    return Draft(text=rng.choice(_REFUSALS).format(subject=subject))


def called_instead_of_answered(draft: Draft, situation: Situation, rng: Random) -> Draft | None:
    """The model calls one of the functions on offer where it should have answered."""
    if not situation.functions:
        return None
    name = rng.choice(list(situation.functions))
    arguments = _invented({**situation.functions[name], "type": "object"}, situation.said, rng)
    return Draft(calls=(FunctionCall(name, _object(arguments)),))


def reworded(draft: Draft, _: Situation, rng: Random) -> Draft | None:
    """A text answer says the same in other words."""
    text = paraphrase(draft.text or "", rng)
    return None if text is None else replace(draft, text=text)


CALL_MISTAKES: Mapping[str, Mistake] = MappingProxyType(
    {
        "number_as_string": number_as_string,
        "number_conversion": number_conversion,
        "date_format": date_format,
        "wrong_argument": wrong_argument,
        "missing_argument": missing_argument,
        "extra_argument": extra_argument,
        "wrong_function": wrong_function,
        "answered_instead_of_called": answered_instead_of_called,
    }
)
"""Mistakes of a row whose ground truth calls, by the name of their rate."""

ANSWER_MISTAKES: Mapping[str, Mistake] = MappingProxyType(
    {"called_instead_of_answered": called_instead_of_answered, "paraphrase": reworded}
)
"""Mistakes of a row whose ground truth is text."""

_REFUSALS = (
    "I'm sorry, but I can't {subject} at the moment. Is there anything else I can help you with?",
    "Of course! Before I {subject}, could you give me a few more details?",
    "I'm afraid I don't have the ability to {subject}. You could try a website or an app for that.",
    "Sure, I have taken care of that for you.",
)
_UNASKED: tuple[tuple[str, JSON], ...] = (("language", "en"), ("limit", 10), ("verbose", False), ("format", "json"))
_VERBS = (("get", "fetch"), ("search", "find"), ("calculate", "compute"), ("create", "make"), ("generate", "create"))
_WORD = re.compile(r"[^\W\d_]{4,}")
_NAME = re.compile(r"(?<=[\w,;] )[A-ZÀ-Þ][^\W\d_]{2,}")  # a capital within a sentence, not at its beginning
_RATE = re.compile(r"rate|percent|ratio|interest|tip|tax|discount", re.IGNORECASE)


def _change_one(draft: Draft, rng: Random, change: Callable[[Path, JSON], JSON]) -> Draft | None:
    changes = [(index, path, change(path, value)) for index, path, value in _places(draft)]
    possible = [each for each in changes if each[2] is not None]
    return _with_value(draft, *rng.choice(possible)) if possible else None


def _places(draft: Draft) -> Iterator[tuple[int, Path, JSON]]:
    for index, call in enumerate(draft.calls):
        for path, value in _leaves(call.arguments):
            yield index, path, value


def _leaves(value: JSON, path: Path = ()) -> Iterator[tuple[Path, JSON]]:
    if len(path) > MAX_DEPTH:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    else:
        yield path, value


def _is_rate(path: Path) -> bool:
    return any(isinstance(step, str) and _RATE.search(step) for step in path)


def _with_value(draft: Draft, index: int, path: Path, value: JSON) -> Draft:
    return _with_arguments(draft, index, _object(_replaced(draft.calls[index].arguments, path, value)))


def _replaced(value: JSON, path: Path, new: JSON) -> JSON:
    if not path:
        return new
    if isinstance(value, dict):
        return {key: _replaced(item, path[1:], new) if key == path[0] else item for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, path[1:], new) if at == path[0] else item for at, item in enumerate(value)]
    return value


def _with_arguments(draft: Draft, index: int, arguments: dict[str, JSON]) -> Draft:
    return _with_call(draft, index, replace(draft.calls[index], arguments=arguments))


def _with_call(draft: Draft, index: int, call: FunctionCall) -> Draft:
    return replace(draft, calls=(*draft.calls[:index], call, *draft.calls[index + 1 :]))


def _is_changeable(value: JSON) -> bool:
    return value is not None and (not isinstance(value, str) or any(map(str.isalnum, value)))


def _another(value: JSON, schema: Mapping[str, JSON], said: str, rng: Random) -> JSON:
    choices = schema.get("enum")
    others = [choice for choice in choices if choice != value] if isinstance(choices, list) else []
    if others:
        return rng.choice(others)
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + rng.choice((1, 2)) if abs(value) < 2**53 else 0
    return _other_text(value, said, rng) if isinstance(value, str) else None


def _other_text(text: str, said: str, rng: Random) -> str:
    shifted = shifted_date_or_time(text, rng)
    if shifted is not None:
        return shifted
    words = text.split()
    if len(words) > 2:
        return " ".join(words[:-1] if rng.random() < 0.5 else words[1:])
    known = {word.casefold() for word in words}
    others = [word for word in _NAME.findall(said) if word.casefold() not in known]
    return rng.choice(others) if others else _mistyped(text, rng)


def _mistyped(text: str, rng: Random) -> str:
    """One letter is doubled: never only a matter of case or spacing."""
    at = rng.choice([index for index, letter in enumerate(text) if letter.isalnum()])
    return text[: at + 1] + text[at:]


def _invented(schema: Mapping[str, JSON], said: str, rng: Random, depth: int = 0) -> JSON:
    """A value that a schema allows, as far as its type, choices and required properties say."""
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        return rng.choice(choices)
    match schema.get("type"):
        case "integer" | "number":
            return rng.randint(1, 10)
        case "boolean":
            return rng.random() < 0.5
        case "array" if depth < MAX_DEPTH:
            return [_invented(_object(schema.get("items")), said, rng, depth + 1)]
        case "object" if depth < MAX_DEPTH:
            return _invented_object(schema, said, rng, depth)
    return str(rng.choice(_NAME.findall(said) or _WORD.findall(said) or ["example"]))


def _invented_object(schema: Mapping[str, JSON], said: str, rng: Random, depth: int) -> JSON:
    properties = _object(schema.get("properties"))
    names = [name for name in _names(schema.get("required")) if name in properties]
    return {name: _invented(_object(properties[name]), said, rng, depth + 1) for name in names}


def _near_miss(name: str) -> str:
    for verb, other in _VERBS:
        if name.startswith(verb):
            return other + name[len(verb) :]
    return f"get_{name}"


def _functions(tools: Sequence[Mapping[str, JSON]]) -> Iterator[tuple[str, Mapping[str, JSON]]]:
    for tool in tools:
        function = _object(tool.get("function")) or tool
        name = function.get("name")
        if isinstance(name, str):
            yield name, _object(function.get("parameters"))


def _schema_at(schema: Mapping[str, JSON], path: Path) -> Mapping[str, JSON]:
    for step in path:
        inner = _object(schema.get("properties")).get(step) if isinstance(step, str) else schema.get("items")
        schema = _object(inner)
    return schema


def _required(situation: Situation, name: str) -> list[str]:
    return _names(situation.functions.get(name, {}).get("required"))


def _names(value: JSON) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _object(value: JSON) -> dict[str, JSON]:
    return value if isinstance(value, dict) else {}
