"""Function calls as data: the shape that all of them have, tool definitions, writing, and typed matching.

_model (a call, a reading) is used by all; _schemas reads tool definitions; _strict_json and _python_text read values;
_writing writes calls in wire formats; `tunecheck.calls.matching` compares them. `tunecheck.formats`, one layer up,
reads calls.
"""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
