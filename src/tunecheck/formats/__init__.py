"""How models write calls and thoughts: wire formats of APIs, and what each model family emits as text.

A family is a `Profile`: its marks, and the shape in which calls stand behind them. Those that are known stand as tables
in `_families`; a file in the workspace's folder `formats`, or an entry point `tunecheck.formats`, adds another. All
reading of calls goes through `read_calls`.
"""

from tunecheck.formats._profiles import Profile, Thought
from tunecheck.formats._prompts import ToolPrompt
from tunecheck.formats._reading import read_calls
from tunecheck.formats._shapes import AnyOf, JsonCalls, NamedCalls, PythonCalls
from tunecheck.formats._tagged import TaggedCalls

__all__ = [
    "AnyOf",
    "JsonCalls",
    "NamedCalls",
    "Profile",
    "PythonCalls",
    "TaggedCalls",
    "Thought",
    "ToolPrompt",
    "read_calls",
]
