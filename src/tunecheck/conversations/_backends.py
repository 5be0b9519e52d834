"""Makes the simulators of each attempt; their classes are looked for once, which takes longer than a whole turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tunecheck._json import JSON
from tunecheck.simulators._backend import Backend, find_simulator
from tunecheck.simulators._base import Simulator
from tunecheck.simulators._long_context import LongContext


class Backends:
    """Simulators by name. `time_limit_s` is after how long one of their calls is given up."""

    def __init__(self, *, time_limit_s: float = 10) -> None:
        self._time_limit_s = time_limit_s
        self._classes: dict[str, type[Simulator]] = {}

    def start(self, names: Sequence[str], config: Mapping[str, JSON], long_context: LongContext | None) -> Backend:
        """A backend of an attempt's own, each simulator loaded from its part of the configuration.

        Raises:
            PluginError: a name that is no simulator, or two that offer the same operation.
            DataError: a configuration that cannot be used.
        """
        classes = {name: self.find(name) for name in names}
        return Backend.of(classes, config, long_context=long_context, time_limit_s=self._time_limit_s)

    def find(self, name: str) -> type[Simulator]:
        """The class of a simulator.

        Raises:
            PluginError: there is none of that name.
        """
        found = self._classes.get(name)
        if found is None:
            found = self._classes[name] = find_simulator(name)
        return found
