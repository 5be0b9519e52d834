"""Values of a simulator's configuration, taken as copies of the type that is needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from tunecheck._errors import DataError
from tunecheck._json import JSON
from tunecheck.simulators._figures import copied

_Value = TypeVar("_Value")

_NAMES = {dict: "an object", list: "a list", int: "a whole number", str: "text", bool: "true or false"}


def taken(config: Mapping[str, JSON], simulator: str, key: str, default: _Value) -> _Value:
    """A copy of what the configuration has under a key, or of the default, whose type it must have.

    Raises:
        DataError: it is of another type.
    """
    value = config.get(key, default)
    if not isinstance(value, type(default)) or (isinstance(value, bool) and not isinstance(default, bool)):
        needed = _NAMES.get(type(default), type(default).__name__)
        raise DataError(f"initial_config.{simulator}.{key} is {_NAMES.get(type(value), 'null')}; {needed} is needed")
    return copied(value)
