"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from ._backend import (
    Backend as Backend,
    Backends as Backends,
    Operation as Operation,
    OperationResult as OperationResult,
    Simulator as Simulator,
    SimulatorError as SimulatorError,
    copy_json as copy_json,
    failure as failure,
    holds_calls as holds_calls,
    log_value as log_value,
    operations_of as operations_of,
    result_text as result_text,
    tool as tool,
    tool_definition as tool_definition,
)
