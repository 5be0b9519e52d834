"""Function calls as data: the shape that all of them have, tool definitions, writing, and typed matching.

_model (a call, a reading) is used by all; _schemas reads tool definitions; _strict_json and _python_text read values;
_writing writes calls in wire formats; `tunecheck.calls.matching` compares them. `tunecheck.formats`, one layer up,
reads calls.
"""

from tunecheck.calls._model import FunctionCall, Reading, plain_name, tool_name
from tunecheck.calls._python_text import bind_positional, positional_count
from tunecheck.calls._schemas import TOOL_COLUMNS, FunctionDefinition, ToolDefinitions
from tunecheck.calls._strict_json import MAX_CHARACTERS, UnreadableError, quoted
from tunecheck.calls._writing import FORMATS, canonical_text, write_calls

__all__ = [
    "FORMATS",
    "MAX_CHARACTERS",
    "TOOL_COLUMNS",
    "FunctionCall",
    "FunctionDefinition",
    "Reading",
    "ToolDefinitions",
    "UnreadableError",
    "bind_positional",
    "canonical_text",
    "plain_name",
    "positional_count",
    "quoted",
    "tool_name",
    "write_calls",
]
