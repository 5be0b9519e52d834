"""What a simulator is: a small stateful service whose operations a model calls as tools.

    class Counter(Simulator):
        def load(self, config, *, long_context=None):
            self.value = int(config.get("value", 0))

        def state(self):
            return {"value": self.value}

        @tool
        def add(self, amount: int = 1) -> dict[str, int]:
            '''Add to the counter.

            Args:
                amount: How much to add.
            '''
            self.value += amount
            return {"value": self.value}

A new instance is made and loaded for every attempt at a conversation, and thrown away afterwards: an instance is never
shared, so it needs no locks and may keep everything in plain attributes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, TypeVar

from tunecheck._json import JSON
from tunecheck.simulators._operations import TOOL_MARK, Operation, operations_of, tool_definition

if TYPE_CHECKING:
    from tunecheck.simulators._long_context import LongContext

_Method = TypeVar("_Method", bound=Callable[..., object])


class SimulatorError(Exception):
    """An operation that cannot be done: its text is what the model is told, as `{"error": text}`."""


def tool(method: _Method) -> _Method:
    """Mark a method as an operation that a model may call, under the method's own name.

    The tool definition comes from its typed parameters and its docstring: the first paragraph describes the
    operation, and each line `name: text` below `Args:` one parameter. A parameter without a default is required.
    """
    setattr(method, TOOL_MARK, True)
    return method


class Simulator:
    """Base of all simulators. Subclasses give `load`, `state` and methods marked with `tool`.

    An operation gets its arguments as plain JSON values; they are bound to its parameters by name or position, but
    their types are not checked: a model may pass anything. What it returns is shown to the model: text as it is, a
    dict as JSON, anything else as Python writes it. It refuses with `SimulatorError`; any other exception is an
    error result too. Arguments and what it returns may be kept or handed out by others: copy what must not change.
    """

    bounded: ClassVar[bool] = False
    """Whether every operation is known to end soon, whatever its arguments; then calls need no watched thread."""

    def load(self, config: Mapping[str, JSON], *, long_context: LongContext | None = None) -> None:
        """Start from this configuration; what is kept of it is copied.

        `config` is empty where the data has none for this simulator. `long_context` holds the constants that pad
        states and answers in rows that ask for long context, else None.

        Raises:
            DataError: the configuration cannot be used; the text says where and why.
        """

    def state(self) -> dict[str, object]:
        """The state that is compared after each turn: plain data by name, sets allowed.

        It may refer to the live state: callers compare it and do not change it.
        """
        return {}

    def state_text(self) -> dict[str, JSON]:
        """The state as an inference log shows it: a copy, JSON where the value has such a form, else its text."""
        return {name: shown(value) for name, value in self.state().items()}

    @classmethod
    def operations(cls) -> Mapping[str, Operation]:
        """The operations by name: those of the class in the order they are written, then those it inherits."""
        return operations_of(cls)  # type: ignore[arg-type]  # classes are hashable, whatever mypy says

    @classmethod
    def tool_definitions(cls) -> list[dict[str, JSON]]:
        """One OpenAI tool (`{"type": "function", "function": {"name", "description", "parameters"}}`) an operation."""
        return [tool_definition(operation) for operation in cls.operations().values()]


def shown(value: object) -> JSON:
    """A value of a state as a log shows it: a copy through JSON, or its text where JSON has no form for it."""
    try:
        copy: JSON = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return str(value)
    return copy
