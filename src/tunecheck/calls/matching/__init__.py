"""Typed matching of calls: find the expected ones, and the arguments that differ, with place and kind.

_match (the entry: `match_calls`, faults) uses _pairing (which calls go together) and _values (policies,
differences);
_kinds names how a wrong value is wrong.
"""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
