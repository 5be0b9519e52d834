"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from ._model import FunctionCall as FunctionCall, Reading as Reading, plain_name as plain_name, tool_name as tool_name
from ._python_text import (
    PythonScanner as PythonScanner,
    bind_positional as bind_positional,
    positional_count as positional_count,
)
from ._schemas import (
    TOOL_COLUMNS as TOOL_COLUMNS,
    FunctionDefinition as FunctionDefinition,
    ToolDefinitions as ToolDefinitions,
)
from ._strict_json import (
    MAX_CALLS as MAX_CALLS,
    MAX_CHARACTERS as MAX_CHARACTERS,
    MAX_DEPTH as MAX_DEPTH,
    UnreadableError as UnreadableError,
    decode as decode,
    quoted as quoted,
)
from ._writing import FORMATS as FORMATS, canonical_text as canonical_text, write_calls as write_calls
from .matching import named_arguments as named_arguments
