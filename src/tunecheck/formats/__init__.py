"""How models write calls and thoughts: wire formats of APIs, and what each model family emits as text.

A family is a `Profile`: its marks, and the shape in which calls stand behind them. Those that are known stand as tables
in `_families`; a file in the workspace's folder `formats`, or an entry point `tunecheck.formats`, adds another. All
reading of calls goes through `read_calls`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from tunecheck.calls import Reading
from tunecheck.formats._choosing import AUTO, chosen
from tunecheck.formats._reading import read_calls, read_python_calls, thought_of, tools_of, without_thoughts

if TYPE_CHECKING:
    from tunecheck.formats._profiles import Profile, Thought
    from tunecheck.formats._prompts import ToolPrompt
    from tunecheck.formats._shapes import AnyOf, JsonCalls, NamedCalls, PythonCalls
    from tunecheck.formats._tagged import TaggedCalls

_HOMES = {
    **dict.fromkeys(("Profile", "Thought"), "tunecheck.formats._profiles"),
    "ToolPrompt": "tunecheck.formats._prompts",
    **dict.fromkeys(("AnyOf", "JsonCalls", "NamedCalls", "PythonCalls"), "tunecheck.formats._shapes"),
    "TaggedCalls": "tunecheck.formats._tagged",
}

__all__ = [
    "AUTO",
    "AnyOf",
    "JsonCalls",
    "NamedCalls",
    "Profile",
    "PythonCalls",
    "Reading",
    "TaggedCalls",
    "Thought",
    "ToolPrompt",
    "chosen",
    "read_calls",
    "read_python_calls",
    "thought_of",
    "tools_of",
    "without_thoughts",
]


def __getattr__(name: str) -> object:
    """Load what a profile is made of: only who writes one needs it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tunecheck.formats' has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    return value
