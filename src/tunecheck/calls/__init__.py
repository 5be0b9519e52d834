"""Function calls as data: the common shape, tool definitions, writing, and typed matching.

    _model         calls and readings, exact JSON values, calls in wire formats
    _schemas       tool definitions, their schemas, validation
    _python_text   calls and literals in Python's syntax
    matching       compare calls

`tunecheck.formats`, one layer up, reads calls.
"""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
