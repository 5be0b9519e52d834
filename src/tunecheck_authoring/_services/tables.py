"""Services with their operations in a table: in the class or in a JSON file beside it."""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from tunecheck import DataError
from tunecheck.plugins import JSON, loads, read_regular
from tunecheck.simulators import Operation, Simulator, copied, operations_of, tool_definition

_MOST_BYTES = 64 << 20


class TableSimulator(Simulator):
    """Base of services with a table of functions. The class's own methods go before functions of the same name."""

    bounded: ClassVar[bool] = True
    tables: ClassVar[Path | None] = None
    """A JSON file with the class's tables by name, as `datasets author` writes it."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__dict__.get("tables") is not None:
            for name, table in _read_tables(cls).items():
                setattr(cls, name, table)

    @classmethod
    def from_json(cls, content: Mapping[str, JSON]) -> Mapping[str, object]:
        """Return the class attributes that a file of tables describes."""
        return content

    @classmethod
    def functions(cls) -> Mapping[str, Mapping[str, JSON]]:
        """Return by name the `description` of each function and the JSON Schema of its `parameters`."""
        return {}

    def answer(self, name: str, arguments: dict[str, JSON]) -> JSON:
        """Answer a call of a function of the table.

        Raises:
            SimulatorError: The call cannot be done.
        """
        raise NotImplementedError

    @classmethod
    def operations(cls) -> Mapping[str, Operation]:
        """Return the class's own methods and the functions of its table."""
        return _operations(cls)  # type: ignore[arg-type]  # classes are hashable, whatever mypy says

    @classmethod
    def tool_definitions(cls) -> list[dict[str, JSON]]:
        own, functions = operations_of(cls), cls.functions()  # type: ignore[arg-type]
        return [
            tool_definition(operation) if name in own else _definition(name, functions[name])
            for name, operation in cls.operations().items()
        ]


def _read_tables(simulator: type[TableSimulator]) -> Mapping[str, object]:
    path = simulator.tables
    try:
        content = loads(read_regular(path, _MOST_BYTES)) if path is not None else {}
        return simulator.from_json(content if isinstance(content, dict) else {})
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: cannot be read as the tables of a service: {error}") from None


@functools.cache
def _operations(simulator: type[TableSimulator]) -> Mapping[str, Operation]:
    made: dict[str, Operation] = {}
    for name, function in simulator.functions().items():
        schema = function.get("parameters")
        content = schema if isinstance(schema, dict) else {}
        properties, required = content.get("properties"), content.get("required")
        names = (*properties,) if isinstance(properties, dict) else ()
        needed = tuple(str(each) for each in required) if isinstance(required, list) else ()
        made[name] = Operation(name, functools.partial(_call, name), names, needed, len(names))
    return types.MappingProxyType({**made, **operations_of(simulator)})  # type: ignore[arg-type]


def _call(name: str, simulator: TableSimulator, /, **arguments: JSON) -> JSON:
    return simulator.answer(name, arguments)


def _definition(name: str, content: Mapping[str, JSON]) -> dict[str, JSON]:
    parameters = content.get("parameters", {"type": "object", "properties": {}})
    function: dict[str, JSON] = {
        "name": name,
        "description": content.get("description", ""),
        "parameters": copied(parameters),
    }
    return {"type": "function", "function": function}
