"""Typed matching of calls: find the expected calls, and the arguments that differ, with place and kind.

_match (`match_calls` and faults) uses _pairing (which calls belong together) and _values (policies and differences);
_kinds classifies wrong values.
"""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
