"""Figures and defaults of the built-in services: prices, places, rates, accounts and configurations.

scripts/tabulate_bfcl_figures.py writes the figures to figures.json. Services share the loaded figures, so each service
copies the figures and the configuration that it keeps.
"""

import functools
import json
import random
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, ClassVar, cast

from tunecheck import DataError
from tunecheck.plugins import JSON
from tunecheck.simulators import Simulator, SimulatorError, copy_json

_NAMES = {
    dict: "an object", list: "a list", int: "a whole number", str: "text", bool: "true or false", type(None): "null",
}  # fmt: skip


@functools.cache
def figures() -> Mapping[str, Any]:
    """Return the figures of each service by name: `trading`, `travel`, `vehicle`. Callers must not change them."""
    content = files("tunecheck_bfcl").joinpath("_services", "figures.json").read_bytes()
    return cast("Mapping[str, Any]", json.loads(content))


def refuse_if(condition: object, reason: str) -> None:
    """Refuse an operation with this reason, which the model sees, if the condition is true.

    Raises:
        SimulatorError: the condition is true.
    """
    if condition:
        raise SimulatorError(reason)


class ConfiguredService(Simulator):
    """A service with the configuration as state. `data` contains the configuration without the seed.

    `defaults` has all keys of the configuration with their default values. Values of the keys in `exact` must have the
    type of the default. Other values must have this type only if it is a list or an object. If `padded`, the state
    contains whether answers are padded.
    """

    bounded: ClassVar[bool] = True
    exact: ClassVar[frozenset[str]] = frozenset({"random_seed"})
    padded: ClassVar[bool] = True
    defaults: Mapping[str, Any]

    def load(self, config: Mapping[str, JSON], *, long_context: Mapping[str, JSON] | None = None) -> None:
        """Set `data` to the configuration with the defaults for missing keys, and seed the random numbers.

        Keys without a default are left out. `long_context` are the constants that make results long, None for normal
        ones.

        Raises:
            DataError: a value that is checked has another type than its default.
        """
        self.data = {name: copy_json(config.get(name, default)) for name, default in self.defaults.items()}

        for name, value in self.data.items():
            kind = type(self.defaults[name])
            # A list or object of another type would break operations; other values are only shown or compared.
            is_checked = name in self.exact or kind in (dict, list)

            if is_checked and type(value) is not kind:
                found = _NAMES.get(type(value), type(value).__name__)
                path = f"initial_config.{type(self).__name__}.{name}"
                raise DataError(f"{path} must be {_NAMES.get(kind, kind.__name__)}, not {found}")

        self._seed = self.data.pop("random_seed", 0)
        self._padding: Mapping[str, Any] | None = long_context

    @functools.cached_property
    def _random(self) -> random.Random:
        """The random numbers; made at the first use, because most conversations need none."""
        return random.Random(self._seed)

    def entry(self, part: str, key: object, reason: str) -> dict[str, Any]:
        """Return the object under a key of `data[part]`, not a copy; if the key is missing, refuse with this reason."""
        refuse_if(key not in self.data[part], reason)
        return cast("dict[str, Any]", self.data[part][key])

    def state(self) -> dict[str, object]:
        """Return the configuration without the seed, and whether answers are padded."""
        return {**self.data, "long_context": self._padding is not None} if self.padded else self.data

    def _extra(self, key: str, constant: str) -> dict[str, Any]:
        """Return a copy of a constant that makes results long, under this key; nothing for normal results."""
        return {} if self._padding is None else {key: copy_json(self._padding[constant])}
