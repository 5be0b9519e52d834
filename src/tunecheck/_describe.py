"""Values from files and callers read as the types that describe them; what does not fit is one line for a person.

What people write by hand (endpoint definitions, sidecars, configurations) is a subclass of `Written`. The path of a
mistake, its value and a near miss of an unknown key stand in the error, and the line of a YAML file:

    class Limits(Written, frozen=True, kw_only=True):
        concurrency: Annotated[int, msgspec.Meta(ge=1)] = 16

    limits = read_as(document.value, Limits, document.where)
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, TypeVar, cast

import msgspec

from tunecheck._errors import ConfigurationError
from tunecheck._json import converted, dumps
from tunecheck._messages import did_you_mean

T = TypeVar("T")

Where: TypeAlias = "str | Callable[..., str]"
"""What an error begins with: a name, or a function from the path of a value to where it stands (`Document.where`)."""

_Path: TypeAlias = tuple[str | int, ...]

_PLACE = re.compile(r" - at (`key` in )?`\$(.*)`$", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_EXPECTED = re.compile(r"Expected `(?P<types>[^`]+)`(?P<bound>[^,]*)(?:, got .*)?$")
_NAMED = re.compile(r"Object (contains unknown|missing required) field `(.*)`$", re.DOTALL)
_WORDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
}
_BOUNDS = {">=": "of at least", "<=": "of at most", ">": "above", "<": "below"}
_MOST_SHOWN = 40
_MOST_OF_A_WORD = 12
_MOST_MISTAKES = 100
_GONE = object()


class Written(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Base of what describes a mapping that a person writes: an unknown key is a mistake, never ignored."""


def read_as(
    value: object, kind: type[T], where: Where, *, error: type[ConfigurationError] = ConfigurationError, above: str = ""
) -> T:
    """The value as an instance of `kind`, a Struct or any other type that msgspec reads.

    `above` is the dotted path of the value itself, where it is a part of a larger one.

    Raises:
        ConfigurationError: (or `error`) the value does not fit; names where, which key, what was expected.
    """
    try:
        return converted(value, kind)
    except msgspec.ValidationError as mistake:
        path, problem = _mistake(str(mistake), value, kind)
    around = tuple(above.split(".")) if above else ()
    begin = where if isinstance(where, str) else where(*around, *path)
    shown = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in (*around, *path)).lstrip(".")
    raise error(f"{begin}: {shown}: {problem}" if shown else f"{begin}: {problem}") from None


def read_fitting(value: object, kind: type[T], where: str) -> T:
    """The same of a file of ours that somebody may have changed: parts that do not fit are passed over.

    Raises:
        ConfigurationError: nothing of it fits.
    """
    for _ in range(_MOST_MISTAKES):
        try:
            return converted(value, kind)
        except msgspec.ValidationError as mistake:
            path, problem = _mistake(str(mistake), value, kind)
        if not path or "…" in path:
            break
        value = _replaced(value, path, {} if problem.startswith("must be a mapping") else _GONE)
    return read_as(value, kind, where)


def one_of(value: T, known: Sequence[T], name: str) -> T:
    """The value of a parameter that takes one of several words.

    Raises:
        ConfigurationError: it is none of them.
    """
    if value in known:
        return value
    given = str(value)[:100]
    raise ConfigurationError(f"{name}: there is no {given!r}{did_you_mean(given, map(str, known))}")


def shown_value(value: object) -> str:
    """A value in a message: short, and never a long text's content."""
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= _MOST_SHOWN else f"a text of {len(value)} characters"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list" if value else "an empty list"
    try:
        return dumps(value).decode()[:_MOST_SHOWN]
    except TypeError:
        return f"a {type(value).__name__}"


def _mistake(message: str, value: object, kind: object) -> tuple[_Path, str]:
    """The path of what msgspec refuses, and the problem in our words."""
    place = _PLACE.search(message)
    said = message[: place.start()] if place else message
    path = _path(place[2], message, value, kind) if place else ()
    there = _at(value, path)
    if place and place[1]:
        odd = next((key for key in there if not isinstance(key, str)), None) if isinstance(there, dict) else None
        return path, f"the key {odd!r} must be a text"
    named = _NAMED.match(said)
    if named is not None:
        return _about_key(path, named[2], there, kind, missing=named[1].startswith("missing"))
    if said.startswith("Invalid enum value"):
        known = sorted({str(each) for each in _choices(kind, path)})
        near = did_you_mean(there, known) if isinstance(there, str) else ""
        return path, f"{_shown_at(path, there)} is none of {', '.join(known)}{near if 'did you mean' in near else ''}"
    expected = _EXPECTED.match(said)
    return (
        path,
        f"must be {_range(kind, path) or _wanted(expected)}, not {_shown_at(path, there)}" if expected else said,
    )


def _shown_at(path: _Path, value: object) -> str:
    """A value in a message; below `auth` not what may be a secret in the wrong place."""
    if "auth" in path and isinstance(value, str) and len(value) > _MOST_OF_A_WORD:
        return f"a text of {len(value)} characters"
    return shown_value(value)


def _about_key(path: _Path, key: str, named: object, kind: object, *, missing: bool) -> tuple[_Path, str]:
    if missing:
        return path, f"{key} is missing"
    known = {field.encode_name for each in _types_at(kind, path) for field in getattr(each, "fields", ())}
    given = {str(each) for each in named} if isinstance(named, dict) else set()
    return (*path, key), f"unknown key{did_you_mean(key, known - given)}"


def _wanted(expected: re.Match[str]) -> str:
    types = expected["types"].split(" | ")
    if "float" in types and "int" in types:
        types.remove("int")
    words = [_WORDS.get(each, each) for each in types if each != "null"] or ["null"]
    bound = expected["bound"].strip()
    sign, _, limit = bound.partition(" ")
    if bound.startswith("matching regex '\\\\S"):
        return f"{' or '.join(words)} that is not blank"
    if bound == "of length >= 1":
        return f"{' or '.join(words)} that is not empty"
    return " or ".join(words) + (f" {_BOUNDS.get(sign, sign)} {limit.removesuffix('.0')}" if bound else "")


def _range(kind: object, path: _Path) -> str | None:
    """A number that has bounds on both sides, in words."""
    for each in _types_at(kind, path):
        if isinstance(each, (msgspec.inspect.IntType, msgspec.inspect.FloatType)) and each.le is not None:
            word = _WORDS["int" if isinstance(each, msgspec.inspect.IntType) else "float"]
            if each.ge is not None:
                return f"{word} from {each.ge} to {each.le}"
            if each.gt is not None:
                return f"{word} above {each.gt} and up to {each.le}"
    return None


def _path(text: str, message: str, value: object, kind: object) -> _Path:
    """The path that msgspec names; it says `[...]` for a key of the writer's choice, which is looked for."""
    path: _Path = ()
    for name, index in _STEP.findall(text):
        if index != "...":
            path = (*path, int(index) if index else name)
            continue
        mapping = _at(value, path)
        keys = list(mapping) if isinstance(mapping, dict) else []
        guilty = (key for key in keys if _refused(_replaced(value, path, {key: mapping[key]}), kind) == message)  # type: ignore[index]
        path = (*path, str(next(guilty, "…")))
    return path


def _refused(value: object, kind: object) -> str:
    try:
        converted(value, cast("type[object]", kind))
    except msgspec.ValidationError as mistake:
        return str(mistake)
    return ""


def _replaced(value: object, path: _Path, part: object) -> object:
    """The value with another part at this path."""
    if not path:
        return part
    if part is _GONE and len(path) == 1:
        items = value.items() if isinstance(value, dict) else enumerate(value)  # type: ignore[arg-type]
        kept = {key: item for key, item in items if key != path[0]}
        return kept if isinstance(value, dict) else [*kept.values()]
    copy = dict(value) if isinstance(value, dict) else list(value)  # type: ignore[call-overload]
    copy[path[0]] = _replaced(copy[path[0]], path[1:], part)
    return copy


def _at(value: object, path: _Path) -> object:
    for step in path:
        try:
            value = value[step]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _types_at(kind: object, path: _Path) -> Iterator[msgspec.inspect.Type]:
    """The types that a description has at this path: several, where it leaves a choice."""
    yield from _below(msgspec.inspect.type_info(kind), path)


def _below(kind: msgspec.inspect.Type, path: _Path) -> Iterator[msgspec.inspect.Type]:
    inspect = msgspec.inspect
    if isinstance(kind, inspect.Metadata):
        yield from _below(kind.type, path)
    elif isinstance(kind, inspect.UnionType):
        for each in kind.types:
            yield from _below(each, path)
    elif not path:
        yield kind
    elif isinstance(kind, (inspect.ListType, inspect.VarTupleType)):
        yield from _below(kind.item_type, path[1:])
    elif isinstance(kind, inspect.DictType):
        yield from _below(kind.value_type, path[1:])
    else:
        for field in getattr(kind, "fields", ()):
            if field.encode_name == path[0]:
                yield from _below(field.type, path[1:])


def _choices(kind: object, path: _Path) -> Iterator[object]:
    for each in _types_at(kind, path):
        yield from (member.value for member in each.cls) if isinstance(each, msgspec.inspect.EnumType) else ()
        yield from getattr(each, "values", ())
