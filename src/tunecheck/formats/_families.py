"""The known model families, as `families.toml` describes them: marks of thoughts and calls, and shapes of calls."""

import functools
import re
import tomllib
from importlib.resources import files
from typing import Any

import msgspec

from tunecheck.formats._profiles import Profile, TextShape, Thought
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


@functools.cache
def _table() -> dict[str, dict[str, Any]]:
    """Return the content of families.toml: `thoughts` and `families`, each by name.

    A family has the fields of a `Profile`, with its thoughts by name and its shapes as a list. It also has the parsers
    of its `servers`, and `only_by_name` if it is never recognised by its marks.
    """
    return tomllib.loads(files(__package__).joinpath("families.toml").read_text("utf-8"))


def all_thoughts() -> tuple[Thought, ...]:
    """Return the marks of reasoning of all families."""
    return msgspec.convert([*_table()["thoughts"].values()], tuple[Thought, ...])


def families_with_marks() -> tuple[Profile, ...]:
    """Return the families that are recognised by their marks, in the order in which they are tried."""
    return tuple(family(name) for name, fields in _table()["families"].items() if "only_by_name" not in fields)


@functools.cache
def family(name: str) -> Profile:
    """Return the profile of the family of that name."""
    fields = _table()["families"][name]
    shapes = fields.get("shapes", [{"kind": "json"}])
    thoughts = [_table()["thoughts"][thought] for thought in fields.get("thoughts", ())]
    profile = {**fields, "name": name, "shape": shapes, "thoughts": thoughts}
    return msgspec.convert(profile, Profile, dec_hook=_convert_part)


def _convert_part(kind: type, value: Any) -> object:  # noqa: ANN401 - from a TOML file
    """Return a part of a profile that msgspec does not know: the shape of a list of tables, or a pattern of a text."""
    if kind is not TextShape:
        return re.compile(value)
    shapes = [msgspec.convert(fields, _KINDS[fields["kind"]], dec_hook=_convert_part) for fields in value]
    return shapes[0] if len(shapes) == 1 else AnyOf(tuple(shapes))


def server_parsers(name: str, text: str) -> ServerParsers | None:
    """Return the servers' parsers for a text in this family's format, or None if none is known."""
    return next((parsers for parsers in _parsers_of(name) if re.search(parsers.when, text)), None)


def known_server_parsers() -> list[ServerParsers]:
    """Return the parsers of all families."""
    return [parsers for name in _table()["families"] for parsers in _parsers_of(name)]


def _parsers_of(name: str) -> tuple[ServerParsers, ...]:
    """Return the servers' parsers for this family; empty if none is known, or if there is no such family."""
    return msgspec.convert(_table()["families"].get(name, {}).get("servers", ()), tuple[ServerParsers, ...])


def __getattr__(name: str) -> Profile:
    """Return a family's profile. The plug-in registry uses names with underscores for dots."""
    for known in _table()["families"]:
        if known.replace(".", "_") == name:
            return family(known)
    raise AttributeError(name)
