"""Typed matching of calls: which were made as expected, which arguments differ, where and how.

_match (the entry: `match_calls`, faults) uses _pairing (which calls go together) and _values (policies, differences);
_kinds and _dates_and_times name how a wrong value is wrong.
"""

from tunecheck.calls.matching._kinds import KINDS
from tunecheck.calls.matching._match import (
    Match,
    Pair,
    argument_faults,
    as_value,
    call_faults,
    match_calls,
    named_arguments,
    schema_faults,
)
from tunecheck.calls.matching._pairing import assign
from tunecheck.calls.matching._values import Difference, MatchPolicy, PolicyOptions

__all__ = [
    "KINDS",
    "Difference",
    "Match",
    "MatchPolicy",
    "Pair",
    "PolicyOptions",
    "argument_faults",
    "as_value",
    "assign",
    "call_faults",
    "match_calls",
    "named_arguments",
    "schema_faults",
]
