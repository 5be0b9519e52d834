"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from ._model import (
    FORMATS as FORMATS,
    MAX_CALLS as MAX_CALLS,
    MAX_CHARACTERS as MAX_CHARACTERS,
    MAX_DEPTH as MAX_DEPTH,
    FunctionCall as FunctionCall,
    Reading as Reading,
    UnreadableError as UnreadableError,
    bind_positional as bind_positional,
    canonical_text as canonical_text,
    decode as decode,
    plain_name as plain_name,
    positional_count as positional_count,
    quoted as quoted,
    tool_name as tool_name,
    write_calls as write_calls,
)
from ._python_text import PythonScanner as PythonScanner
from ._schemas import (
    TOOL_COLUMNS as TOOL_COLUMNS,
    FunctionDefinition as FunctionDefinition,
    ToolDefinitions as ToolDefinitions,
)
from .matching import named_arguments as named_arguments
