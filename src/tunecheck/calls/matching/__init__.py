"""Typed matching of calls: find the expected calls, and the arguments that differ, with place and kind.

_match has `match_calls` and makes the faults. It compares arguments with _values (policies, differences, and pairs of
the items of two lists), which classifies wrong values with _kinds.
"""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
