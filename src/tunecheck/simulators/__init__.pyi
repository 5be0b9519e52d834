"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from ._backend import (
    Backend as Backend,
    Backends as Backends,
    OperationResult as OperationResult,
    failure as failure,
    find_simulator as find_simulator,
    holds_calls as holds_calls,
    result_text as result_text,
)
from ._base import (
    Operation as Operation,
    Simulator as Simulator,
    SimulatorError as SimulatorError,
    copy_json as copy_json,
    log_value as log_value,
    operations_of as operations_of,
    tool as tool,
    tool_definition as tool_definition,
)
