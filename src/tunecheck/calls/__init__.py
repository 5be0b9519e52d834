"""Function calls as data: the common shape, tool definitions, writing, and typed matching.

    _model         a call, a reading
    _schemas       tool definitions, their schemas, validation
    _strict_json   exact values of JSON
    _python_text   calls and literals in Python's syntax
    _writing       calls in wire formats
    matching       compare calls

`tunecheck.formats`, one layer up, reads calls.
"""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
