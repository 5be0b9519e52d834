"""Values in results and states, and values that a user gives for a parameter."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from types import MappingProxyType
from typing import cast

from tunecheck.plugins import JSON
from tunecheck_authoring._author.wording import singular, words_of
from tunecheck_authoring._author.world import Function, Schema, World, load_shipped

Place = tuple["str | int", ...]
Held = Mapping[str, Sequence[JSON]]
"""Values that services hold, by the places in lists and objects that they fit."""

# The examples in a description: `"Buy" or 'Sell'`, `as 2024-09-30`.
_QUOTED = re.compile(r'"([^"]{1,40})"|(?<!\w)\'([^\'\s]{1,40})\'(?!\w)')
_AS = re.compile(r"\bas ([A-Z0-9][\w:/.+-]{2,25})")
_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
_MOST_PLACES = 2_000
_OF_WHAT_IS_HELD = 0.7
_PLAIN: dict[str, list[JSON]] = {
    "string": ["north wing", "second shelf", "blue folder"],
    "integer": [2, 3, 7, 12],
    "number": [2, 4.5, 12, 30],
    "boolean": [True, False],
}


@dataclass(frozen=True, slots=True)
class Atom:
    """A value without parts: `path` is its place, `pattern` the place of all values of its kind.

    In a pattern, `*` means each item and `@` the keys.
    """

    pattern: str
    path: Place
    value: str | int | float


def atoms(value: object) -> list[Atom]:
    """Return the values in a result or a state that may be arguments, at most `_MOST_PLACES`.

    Empty texts and booleans are left out.
    """
    return [*islice(_atoms(value, "", ()), _MOST_PLACES)]


def _atoms(value: object, pattern: str, path: Place) -> Iterator[Atom]:
    """Yield the single values inside a value, with their patterns and paths. The keys of tables are values, too.

    A pattern is the place of all values of one kind: `*` means any item and `@` any key of a table.
    """
    if isinstance(value, Mapping):
        table = _is_table(value)
        for key, item in value.items():
            name = key if isinstance(key, (str, int)) else str(key)
            if table and name != "":
                yield Atom(f"{pattern}.@", (*path, name), name)
            yield from _atoms(item, _below(pattern, "*" if table else str(name)), (*path, name))
    elif isinstance(value, (list, tuple)):
        for at, item in enumerate(value):
            yield from _atoms(item, _below(pattern, "*"), (*path, at))
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool) and value != "":
        yield Atom(pattern, path, value)


def _below(pattern: str, step: str) -> str:
    """Return the pattern of a child; nested items of one kind (folders in folders) share a pattern."""
    return pattern if step == "*" and pattern.endswith(".*") else f"{pattern}.{step}"


def _is_table(value: Mapping[object, object]) -> bool:
    """True if the keys name items, such as ids, not fields: all items are objects, or a key is not a field's name."""
    held = len(value) > 1 and all(isinstance(item, Mapping) for item in value.values())
    return held or any(not isinstance(key, str) or re.match(r"[^a-zA-Z_]|[A-Z][a-z]*$|.*[. ]", key) for key in value)


def fits(schema: Schema, value: JSON) -> bool:
    """True if a value is in a parameter's enum or, without an enum, has its type."""
    kind = schema.get("type")
    if "enum" in schema:
        return value in cast("list[JSON]", schema["enum"])
    if not isinstance(kind, str) or kind not in _KINDS:
        return True
    return isinstance(value, _KINDS[kind]) and (isinstance(value, bool) == (kind == "boolean"))


def places_in(name: str, schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield the places of single values inside a list or object, such as `relations.*.from`, with their schemas."""
    inner: dict[str, Schema] = {}
    if schema.get("type") == "array":
        inner = {f"{name}.*": {"description": schema.get("description"), **cast("Schema", schema.get("items") or {})}}
    elif schema.get("type") == "object":
        properties = cast("Mapping[str, Schema]", schema.get("properties") or {})
        inner = {f"{name}.{key}": each for key, each in properties.items()}
    for place, each in inner.items():
        yield from places_in(place, each) if each.get("type") in ("array", "object") else [(place, each)]


def free_values(
    world: World, function: Function, parameter: str, random: Random, held: Held = MappingProxyType({})
) -> Sequence[JSON]:
    """Return values that a user may give for a parameter: those of the world file, else plausible ones.

    `held` are values that the services hold, by the places inside the parameter that they fit.
    """
    schema = function.parameters[parameter]
    for name in (f"{function.name}.{parameter}", parameter):
        known = [value for value in world.values(name) if fits(schema, value)]
        if known:
            return known
    return plain_values(parameter, schema, random, function.name, held)


def plain_values(
    place: str, schema: Schema, random: Random, function: str = "", held: Held = MappingProxyType({})
) -> Sequence[JSON]:
    """Return plausible values for a place, such as `relations.*.from`, according to its last name and its schema.

    Values in `held` for the place are often used instead.
    """
    if held.get(place) and random.random() < _OF_WHAT_IS_HELD:
        return held[place]
    # The last name counts: `from` in `relations.*.from`, and its singular in `names.*`.
    *_, last = (part for part in place.split(".") if part != "*")
    name = singular(last) if place.endswith(".*") else last
    if isinstance(schema.get("enum"), list):
        return cast("list[JSON]", schema["enum"])
    description = str(schema.get("description") or "") if schema.get("type") == "string" else ""
    described: list[JSON] = [double or single for double, single in _QUOTED.findall(description)]
    described = described or [*_AS.findall(description)]
    by_format = load_shipped().by_format.get(str(schema.get("format")), [])
    # The first source with a fitting value wins; the most specific sources come first.
    known: list[Sequence[JSON]] = [[schema.get("example")], as_list(schema.get("examples")), by_format, described]
    of = [f"{singular(each)} " for each in words_of(function)]
    words = [each for word in words_of(name) for each in (word, singular(word))]
    known += (load_shipped().by_word.get(about + word, []) for about in (*of, "") for word in words)
    for values in known:
        fitting = [value for value in values if value is not None and fits(schema, value)]
        if fitting:
            return fitting
    return _values_by_type(place, schema, random, function, held)


def as_list(value: JSON) -> list[JSON]:
    """Return the value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def _values_by_type(place: str, schema: Schema, random: Random, function: str, held: Held) -> Sequence[JSON]:
    """Return values of the schema's type. Numbers respect its limits; lists and objects get plausible parts."""
    kind = schema.get("type")
    if kind == "array":
        items = cast("Schema", schema.get("items") or {})
        choices = plain_values(f"{place}.*", items, random, function, held)
        return [random.sample([*choices], min(2, len(choices))) for _ in range(3)]
    if kind == "object":
        properties = cast("Mapping[str, Schema]", schema.get("properties") or {})
        required = {str(each) for each in as_list(schema.get("required"))}
        chosen = [key for key in properties if key in required] or [*properties][:2]
        made: dict[str, JSON] = {}
        for key in chosen:
            values = plain_values(f"{place}.{key}", properties[key], random, function, held)
            fresh = [each for each in values if each not in made.values()]
            # If every value is used already, leave out `held`, which would offer the same values again.
            made[key] = random.choice(fresh or plain_values(key, properties[key], random, function))
        return [made]
    if kind in ("integer", "number") and ("minimum" in schema or "maximum" in schema):
        least, most = schema.get("minimum"), schema.get("maximum")
        lower = least if isinstance(least, (int, float)) else None
        upper = most if isinstance(most, (int, float)) else None
        if lower is None:
            lower = 0 if upper is None or upper >= 0 else upper - 50
        if upper is None:
            upper = lower + 50
        low, high = math.ceil(lower), math.floor(upper)
        if kind == "number" and low > high:  # no whole number lies between the limits
            return [random.uniform(lower, upper) for _ in range(3)]
        return [random.randint(low, max(low, high)) for _ in range(3)]
    return _PLAIN.get(str(kind), _PLAIN["string"])


def others(value: JSON, schema: Schema) -> list[JSON]:
    """Return wrong values for an argument that are close to the right one and have its type.

    They test whether a row notices a mistake.
    """
    if isinstance(schema.get("enum"), list):
        allowed = [each for each in as_list(schema["enum"]) if each != value][:3]
        return [*allowed[:1], *([f"{value} 2"] if isinstance(value, str) else []), *allowed[1:]]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, (int, float)):
        return [value + 1]
    if isinstance(value, str):
        return [f"{value} 2"]
    if isinstance(value, list):
        last = [[*value[:-1], other] for other in (others(value[-1], {}) if value else [])]
        return [*([value[:-1]] if len(value) > 1 else []), *last]
    if isinstance(value, dict):
        changed = [{**value, key: other} for key, each in value.items() for other in others(each, {})]
        return [*changed, *({name: value[name] for name in value if name != key} for key in value if len(value) > 1)]
    return []
