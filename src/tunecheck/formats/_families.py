"""The known model families, as `families.toml` describes them: marks of thoughts and calls, and shapes of calls."""

import functools
import re
import tomllib
from importlib.resources import files
from typing import Any

import msgspec

from tunecheck.formats._profiles import Profile, TextShape, Thought, ToolPrompt
from tunecheck.formats._shapes import AnyOf, GlaiveCalls, JsonCalls, NamedCalls, PythonCalls, PythonTagCalls
from tunecheck.formats._tagged import BracedCalls, TaggedCalls, TreeCalls

ANSWERS = ("<|start|>assistant<|channel|>final<|message|>", "<|channel|>final<|message|>", "<|START_RESPONSE|>")
"""Marks before the answer itself, which may follow reasoning."""

_KINDS: dict[str, type[TextShape]] = {
    "json": JsonCalls,
    "named": NamedCalls,
    "python": PythonCalls,
    "python_tag": PythonTagCalls,
    "glaive": GlaiveCalls,
    "tagged": TaggedCalls,
    "tree": TreeCalls,
    "braced": BracedCalls,
}


class ServerParsers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tool parsers of vLLM and SGLang for a family, or only for its texts that match `when`.

    `guess`: other families use the same format.
    """

    vllm: str
    sglang: str = ""
    when: str = ""
    guess: bool = False


class _Family(msgspec.Struct, forbid_unknown_fields=True):
    """A family in families.toml. `only_by_name`: the family is never recognised by its marks."""

    prompt: ToolPrompt
    shapes: tuple[dict[str, Any], ...] = ({"kind": "json"},)
    marks: tuple[str, ...] = ()
    closes: tuple[str, ...] = ()
    thoughts: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    inside: bool = False
    sure: bool = True
    several: bool = True
    closed: bool = False
    only_by_name: bool = False
    servers: tuple[ServerParsers, ...] = ()


class _FamilyTable(msgspec.Struct, forbid_unknown_fields=True):
    thoughts: dict[str, Thought]
    families: dict[str, _Family]


@functools.cache
def _table() -> _FamilyTable:
    text = files(__package__).joinpath("families.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), _FamilyTable)


def all_thoughts() -> tuple[Thought, ...]:
    """Return the marks of reasoning of all families."""
    return tuple(_table().thoughts.values())


def families_with_marks() -> tuple[Profile, ...]:
    """Return the families that are recognised by their marks, in the order in which they are tried."""
    return tuple(family(name) for name, each in _table().families.items() if not each.only_by_name)


@functools.cache
def family(name: str) -> Profile:
    """Return the profile of the family of that name."""
    table = _table()
    described = table.families[name]
    shapes = tuple(map(_shape, described.shapes))
    fields = msgspec.structs.asdict(described)
    del fields["shapes"], fields["only_by_name"], fields["servers"]
    fields["thoughts"] = tuple(table.thoughts[each] for each in described.thoughts)
    return Profile(name, shapes[0] if len(shapes) == 1 else AnyOf(shapes), **fields)


def server_parsers(name: str, text: str) -> ServerParsers | None:
    """Return the servers' parsers for a text in this family's format, or None if none is known."""
    found = _table().families.get(name)
    return next((each for each in found.servers if re.search(each.when, text)), None) if found else None


def known_server_parsers() -> list[ServerParsers]:
    """Return the parsers of all families."""
    return [each for family in _table().families.values() for each in family.servers]


def _shape(described: dict[str, Any]) -> TextShape:
    fields = {key: value for key, value in described.items() if key != "kind"}
    return msgspec.convert(fields, _KINDS[described["kind"]], dec_hook=_pattern)


def _pattern(kind: type, value: object) -> re.Pattern[str]:
    assert isinstance(value, str)
    return re.compile(value)


def __getattr__(name: str) -> Profile:
    """Return a family's profile. The plug-in registry uses names with underscores for dots."""
    found = next((each for each in _table().families if each.replace(".", "_") == name), None)
    if found is None:
        raise AttributeError(name)
    return family(found)
