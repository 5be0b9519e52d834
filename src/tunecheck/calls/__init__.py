"""Function calls as data: one shape for all of them, and the wire formats they come and go in."""

from tunecheck.calls._formats.reading import read_calls, read_python_calls
from tunecheck.calls._formats.writing import FORMATS, canonical_text, write_calls
from tunecheck.calls._model import FunctionCall, Reading
from tunecheck.calls._python_text import bind_positional

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
