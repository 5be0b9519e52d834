"""Function calls as data: one shape for all of them, the matching of calls, and the wire formats they are written in.

`tunecheck.formats`, one layer up, reads calls; `read_calls` and `read_python_calls` are found here too.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from tunecheck.calls._model import FunctionCall, Reading
from tunecheck.calls._python_text import bind_positional
from tunecheck.calls._writing import FORMATS, canonical_text, write_calls

if TYPE_CHECKING:
    from tunecheck.formats._reading import read_calls, read_python_calls

_READERS = ("read_calls", "read_python_calls")

__all__ = [
    "FORMATS",
    "FunctionCall",
    "Reading",
    "bind_positional",
    "canonical_text",
    "read_calls",
    "read_python_calls",
    "write_calls",
]


def __getattr__(name: str) -> object:
    """Load a reader of calls from the room above."""
    if name not in _READERS:
        raise AttributeError(f"module 'tunecheck.calls' has no attribute {name!r}")
    value: object = getattr(import_module("tunecheck.formats._reading"), name)
    return value
