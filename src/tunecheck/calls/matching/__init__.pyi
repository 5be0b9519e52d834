"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from .._model import as_value as as_value
from ._kinds import KINDS as KINDS
from ._match import (
    Match as Match,
    Pair as Pair,
    argument_faults as argument_faults,
    call_faults as call_faults,
    match_calls as match_calls,
    named_arguments as named_arguments,
    schema_faults as schema_faults,
)
from ._values import (
    Difference as Difference,
    MatchPolicy as MatchPolicy,
    assign as assign,
    first_value as first_value,
    first_values as first_values,
    may_be_left_out as may_be_left_out,
)
