"""Read values from files and callers as typed objects; a value that does not fit raises a one-line error.

Descriptions of files that people write (endpoint definitions, sidecars, configurations) are subclasses of `Written`.
The error text has the line of a YAML file, the path of the value, and a similar known key:

    class Limits(Written, frozen=True, kw_only=True):
        concurrency: Annotated[int, msgspec.Meta(ge=1)] = 16

    limits = read_as(document.value["limits"], Limits, document.where, above="limits")

For wrong values, the errors are:

    {"concurrency": "4"}    model.yaml, line 4: limits.concurrency: must be a whole number, not a text
    {"concurrency": 0}      model.yaml, line 4: limits.concurrency: must be a whole number of at least 1
    {"concurency": 4}       model.yaml, line 4: limits.concurency: unknown key; did you mean 'concurrency'?

msgspec checks the values. This module turns its messages into these sentences.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias, TypeVar

import msgspec

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, convert_value, dumps
from tunecheck._messages import did_you_mean

T = TypeVar("T")

Where: TypeAlias = "str | Callable[..., str]"
"""Beginning of an error: a name, or a function from the path of a value to its place (`Document.where`)."""

KeyPath: TypeAlias = tuple[str | int, ...]


class Document(msgspec.Struct, frozen=True):
    """A document, such as a YAML file: its value, and the line of each part by path."""

    name: str
    value: JSON
    lines: Mapping[KeyPath, int]

    def where(self, *path: str | int) -> str:
        """Return `file.yaml, line 4` for the value at this path, or for the closest enclosing value."""
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.name}, line {self.lines[path]}" if path in self.lines else self.name


_PLACE = re.compile(r" - at (?P<of_key>`key` in )?`\$(?P<path>.*)`$", re.DOTALL)
"""Matches the end of "Expected `int`, got `str` - at `$.limits.concurrency`": the path of the value or its mapping."""

# A step of such a path: `.concurrency`, `[0]`, or `[...]` for any key of a mapping.
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
# "Object contains unknown field `concurency`", "Object missing required field `url`"
_KEY = re.compile(r"Object (contains unknown|missing required) field `(.*?)`", re.DOTALL)
# "Invalid enum value 'keys'"
_INVALID = re.compile(r"Invalid enum value '?(.*?)'?$", re.DOTALL)
# "Expected `int`, got `str`", "Expected `int` >= 1", "Expected `int | null`, got `float`"
_EXPECTED = re.compile(r"Expected `(.*?)`(.*?)(?:, got `?(.*?)`?)?", re.DOTALL)
# msgspec's limits and types, in words.
_LIMITS = {
    f"<= {sys.float_info.max!r}": "that is finite",
    "length >=": "length at least",
    "length <=": "length at most",
    ">=": "of at least",
    "<=": "of at most",
    ">": "above",
    "<": "below",
}
_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
}
# Limits of a value that an error shows, in characters: any value, and one below `auth`, which may be a secret.
_MOST_SHOWN = 40
_MOST_OF_A_WORD = 12


class Written(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Base of mappings that people write: unknown keys raise an error."""


def read_as(
    value: object, kind: type[T], where: Where, *, error: type[ConfigurationError] = ConfigurationError, above: str = ""
) -> T:
    """Return the value as an instance of `kind`, a Struct or any other type that msgspec supports.

    `where` is the value's place for errors, or a function that returns the place of a path inside the value. `above` is
    the dotted path of the value inside a larger value. `error` is the class of the error to raise.

    Raises:
        ConfigurationError: the value does not fit; the text names the place, the key and the expected type.
    """
    try:
        return convert_value(value, kind)
    except msgspec.ValidationError as mistake:
        problem = str(mistake)

    # msgspec's message ends with the path of a value inside another one: "Expected `int`, got `str` - at
    # `$.limits.concurrency`" has the text "Expected `int`, got `str`" and the steps ["limits", "concurrency"].
    path_match = _PLACE.search(problem)
    text = problem if path_match is None else problem[: path_match.start()]
    inner = "" if path_match is None else path_match["path"]
    steps = [int(index) if index.isdigit() else name or index for name, index in _STEP.findall(inner)]

    # For an unknown or missing key, the path leads to the mapping, and the text names the key.
    key_match = _KEY.match(text)
    key_names = [] if key_match is None else [key_match[2]]
    path = "".join([above, inner, *(f".{name}" for name in key_names)]).lstrip(".")
    # If a key itself has a wrong type, msgspec gives the path of its mapping.
    is_about_key = path_match is not None and path_match["of_key"]
    key_path = f"{'a key of ' if is_about_key else ''}{path}: " if path else ""

    place = where if isinstance(where, str) else where(*filter(None, above.split(".")), *steps, *key_names)
    problem = _in_words(text, path, [*_below(msgspec.inspect.type_info(kind), steps)])
    raise error(f"{place}: {key_path}{problem}") from None


def _in_words(text: str, path: str, types: Sequence[msgspec.inspect.Type]) -> str:
    """Return msgspec's message `text` in plain words; for an unknown key or word, with a similar known one.

    `path` is the value's path, and `types` are the types that it may have. A value of more than 40 characters is not
    shown. Below `auth`, where it may be a secret, the limit is 12.
    """
    if key := _KEY.match(text):
        known = [field.encode_name for kind in types for field in getattr(kind, "fields", ())]
        return "is missing" if key[1] == "missing required" else f"unknown key{did_you_mean(key[2], known)}"

    if invalid := _INVALID.match(text):
        is_short = len(invalid[1]) <= (_MOST_OF_A_WORD if "auth" in path else _MOST_SHOWN)
        known = [str(word) for kind in types for word in getattr(kind, "values", ())]
        value = repr(invalid[1]) if is_short else f"a value of {len(invalid[1])} characters"
        return f"{value} is unknown{did_you_mean(invalid[1], known)}"

    if expected := _EXPECTED.fullmatch(text):
        wanted = " or ".join(_TYPES.get(name, name) for name in expected[1].split(" | ") if name != "null")
        limit = expected[2].removesuffix(".0")  # msgspec writes the limit 1 of a float as 1.0
        for sign, words in _LIMITS.items():
            limit = limit.replace(sign, words)
        given = f", not {({**_TYPES, 'float': 'a decimal'}).get(expected[3], expected[3])}" if expected[3] else ""
        return f"must be {wanted}{limit}{given}"
    return text


def _below(kind: msgspec.inspect.Type, steps: Sequence[str | int]) -> Iterator[msgspec.inspect.Type]:
    """Yield the types at the path `steps` inside a type; a union yields each of its types.

    The path ["limits", "concurrency"] in a config with `limits: Limits` gives the type of `concurrency` in Limits. The
    types of a mapping's values and of a list's items are the same for every key and index.
    """
    inspect = msgspec.inspect

    # Metadata and unions add no step to the path.
    if isinstance(kind, inspect.Metadata):
        yield from _below(kind.type, steps)
    elif isinstance(kind, inspect.UnionType):
        for member in kind.types:
            yield from _below(member, steps)
    elif not steps:
        yield kind
    elif isinstance(kind, (inspect.ListType, inspect.VarTupleType)):
        yield from _below(kind.item_type, steps[1:])
    elif isinstance(kind, inspect.DictType):
        yield from _below(kind.value_type, steps[1:])
    else:  # a Struct has fields; other types have no inner values
        for field in getattr(kind, "fields", ()):
            if field.encode_name == steps[0]:
                yield from _below(field.type, steps[1:])


def read_fitting(value: object, kind: type[T], where: str) -> T:
    """Return a value as an instance of `kind`, without the parts that do not fit.

    For example, a user may have edited a file and given one key a wrong value. `where` is the value's place for errors.

    Raises:
        ConfigurationError: the value does not fit even without these parts.
    """

    def fits(part: object) -> bool:
        """Return True if `part`, the value with all or some of its entries, can be converted to `kind`."""
        try:
            convert_value(part, kind)
        except msgspec.ValidationError:
            return False
        return True

    kept = _fitting(value, fits)
    return read_as(kept[0] if kept else value, kind, where)


def _fitting(value: object, fits: Callable[[object], bool]) -> list[object]:
    """Return a list with one item, the value without the parts that do not fit; an empty list if the rest does not fit.

    `fits` tells whether a value fits as a whole. This function passes it each part inside its containers, without their
    other parts: for {"tags": {"a": "x", "b": 5}}, the parts {"tags": {"a": "x"}} and {"tags": {"b": 5}}. If only texts
    fit, the result is [{"tags": {"a": "x"}}].
    """
    if fits(value):
        return [value]

    def entry_fits(key: object, part: object) -> bool:
        return fits({key: part})

    kept: dict[object, object] | list[object]
    if isinstance(value, dict):
        fitting = {key: _fitting(part, partial(entry_fits, key)) for key, part in value.items()}
        kept = {key: parts[0] for key, parts in fitting.items() if parts}
    elif isinstance(value, list):
        kept = [part for item in value for part in _fitting(item, lambda part: fits([part]))]
    else:
        return []
    return [kept] if fits(kept) else []


def one_of(value: T, known: Sequence[T], parameter: str) -> T:
    """Return the value of a parameter that must be one of several words.

    Raises:
        ConfigurationError: the value is not among the known words.
    """
    if value in known:
        return value

    given = str(value)[:100]
    raise ConfigurationError(f"{parameter}: {given!r} is unknown{did_you_mean(given, map(str, known))}")


def shown_value(value: object) -> str:
    """Return a value for a message: a short text or number as JSON, else its type or length, such as "a list"."""
    if isinstance(value, (dict, list, tuple)):
        return "a mapping" if isinstance(value, dict) else "a list"
    try:
        text = dumps(value).decode()
    except TypeError:
        return f"a {type(value).__name__}"
    return text if len(text) <= _MOST_SHOWN else f"a value of {len(text)} characters"
