"""What the built-in services know and start from: prices, places, rates and default accounts, and configurations.

The figures in figures.json are tabulated by scripts/tabulate_bfcl_figures.py. Those who read them do not change them:
what a service keeps of them, or of its configuration, is a copy.
"""

import functools
import json
import random
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, ClassVar, TypeVar

from tunecheck import DataError
from tunecheck.plugins import JSON
from tunecheck.simulators import Simulator, copied

_Value = TypeVar("_Value")

_NAMES = {dict: "an object", list: "a list", int: "a whole number", str: "text", bool: "true or false"}


@functools.cache
def figures() -> Mapping[str, Any]:
    """Return the figures of each service by name: `trading`, `travel`, `vehicle`."""
    figures: Mapping[str, Any] = json.loads(files("tunecheck_bfcl").joinpath("_services", "figures.json").read_bytes())
    return figures


class ConfiguredService(Simulator):
    """A service whose state is its configuration: `data` holds it, the seed apart."""

    bounded: ClassVar[bool] = True

    def start(
        self, config: Mapping[str, JSON], defaults: Mapping[str, Any], padding: Mapping[str, JSON] | None
    ) -> None:
        """Start from the configuration, and from the defaults for what it leaves out."""
        self.data = started(type(self).__name__, config, defaults)
        self._random = random.Random(self.data.pop("random_seed"))
        self._padding = padding

    def state(self) -> dict[str, object]:
        """Return all that the configuration holds, and whether answers are padded."""
        return {**self.data, "long_context": self._padding is not None}


def started(owner: str, config: Mapping[str, JSON], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of each default, or of what the configuration holds in its place; what else that holds is left out."""
    values = {name: copied(config.get(name, default)) for name, default in defaults.items()}
    for name, value in values.items():
        default = defaults[name]
        kind = type(default) if isinstance(default, (dict, list)) else None
        needed = int if name == "random_seed" else kind
        if needed and not isinstance(value, needed):
            raise DataError(f"initial_config.{owner}.{name} is a {type(value).__name__}; {_NAMES[needed]} is needed")
    return values


def taken(config: Mapping[str, JSON], simulator: str, key: str, default: _Value) -> _Value:
    """A copy of what the configuration has under a key, or of the default, whose type it must have."""
    value = config.get(key, default)
    if not isinstance(value, type(default)) or (isinstance(value, bool) and not isinstance(default, bool)):
        needed = _NAMES.get(type(default), type(default).__name__)
        raise DataError(f"initial_config.{simulator}.{key} is {_NAMES.get(type(value), 'null')}; {needed} is needed")
    return copied(value)
