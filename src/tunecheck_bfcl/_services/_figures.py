"""Figures and defaults of the built-in services: prices, places, rates, accounts and configurations.

The figures in figures.json are tabulated by scripts/tabulate_bfcl_figures.py. Those who read them do not change them:
what a service keeps of them, or of its configuration, is a copy.
"""

import functools
import json
import random
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, ClassVar

from tunecheck import DataError
from tunecheck.plugins import JSON
from tunecheck.simulators import Simulator, copy_json

_NAMES = {
    dict: "an object",
    list: "a list",
    int: "a whole number",
    str: "text",
    bool: "true or false",
    type(None): "null",
}


@functools.cache
def figures() -> Mapping[str, Any]:
    """Return the figures of each service by name: `trading`, `travel`, `vehicle`."""
    figures: Mapping[str, Any] = json.loads(files("tunecheck_bfcl").joinpath("_services", "figures.json").read_bytes())
    return figures


class ConfiguredService(Simulator):
    """A service with its configuration as its state: `data` holds all of it but the seed.

    `exact` names the keys whose values must have the type of their default; others must if that is a list or an object.
    `padded`: the state says whether answers are padded.
    """

    bounded: ClassVar[bool] = True
    exact: ClassVar[frozenset[str]] = frozenset({"random_seed"})
    padded: ClassVar[bool] = True

    def start(
        self, config: Mapping[str, JSON], defaults: Mapping[str, Any], padding: Mapping[str, JSON] | None = None
    ) -> None:
        """Start from the configuration, and from the defaults for what it leaves out.

        Raises:
            DataError: A value has another type.
        """
        self.data = {name: copy_json(config.get(name, default)) for name, default in defaults.items()}
        for name, value in self.data.items():
            kind = type(defaults[name])
            checked = name in self.exact or kind in (dict, list)
            if checked and not (isinstance(value, kind) and isinstance(value, bool) == (kind is bool)):
                found = _NAMES.get(type(value), type(value).__name__)
                place = f"initial_config.{type(self).__name__}.{name}"
                raise DataError(f"{place} is {found}; {_NAMES.get(kind, kind.__name__)} is needed")
        self._random = random.Random(self.data.pop("random_seed", 0))
        self._padding = padding

    def state(self) -> dict[str, object]:
        """Return all that the configuration holds, and whether answers are padded."""
        return {**self.data, "long_context": self._padding is not None} if self.padded else self.data
