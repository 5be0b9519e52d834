"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from ..calls import Reading as Reading
from ._families import server_parsers as server_parsers
from ._profiles import Profile as Profile, Thought as Thought, ToolPrompt as ToolPrompt
from ._reading import (
    AUTO as AUTO,
    RowCache as RowCache,
    begin_row as begin_row,
    cached_per_row as cached_per_row,
    cached_reading as cached_reading,
    cached_tools as cached_tools,
    choose_profile as choose_profile,
    read_calls as read_calls,
    read_python_calls as read_python_calls,
    thought_of as thought_of,
    tools_of as tools_of,
    without_thoughts as without_thoughts,
)
from ._shapes import AnyOf as AnyOf, JsonCalls as JsonCalls, NamedCalls as NamedCalls, PythonCalls as PythonCalls
from ._tagged import TaggedCalls as TaggedCalls
