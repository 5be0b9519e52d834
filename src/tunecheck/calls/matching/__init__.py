"""Typed matching of calls: find the expected calls, and the arguments that differ, with place and kind.

_match has `match_calls` and makes the faults. It compares arguments with _values (policies and differences), which
classifies wrong values with _kinds. Both pair the items of two lists with _pairing.
"""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
