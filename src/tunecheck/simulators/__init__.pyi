"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from ._backend import (
    Backend as Backend,
    Backends as Backends,
    OperationResult as OperationResult,
    failure as failure,
    find_simulator as find_simulator,
    holds_calls as holds_calls,
)
from ._base import (
    Simulator as Simulator,
    SimulatorError as SimulatorError,
    copied as copied,
    shown as shown,
    tool as tool,
)
from ._recorded import Recorded as Recorded, RecordedCall as RecordedCall, Recording as Recording
from ._resources import Action as Action, Resource as Resource, Resources as Resources, made_key as made_key
