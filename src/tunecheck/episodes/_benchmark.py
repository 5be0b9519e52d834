"""Benchmarks with their own prompts, call formats and judgement; plug-ins register them as dialects.

A run follows the benchmark of `compat`, if it names one. Otherwise, a row in text mode follows the benchmark that
`owns` it. The texts for models are read from the user's copy of the benchmark; none are part of this package.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck._errors import DataError, PluginError
from tunecheck._json import JSON
from tunecheck.plugins import discover, find

if TYPE_CHECKING:
    from tunecheck._targets import Row
    from tunecheck.episodes._dialects import Dialect, Wording
    from tunecheck.episodes._playing import Services
    from tunecheck.episodes._scenario import Offer
    from tunecheck.episodes._state_check import StateCheck
    from tunecheck.formats._profiles import Profile

_KIND = "dialects"


class BenchmarkDialect(ABC):
    """A benchmark's way of running conversations; a plug-in registers a subclass under a value of `compat`.

    Args:
        data: the user's copy of the benchmark, if not in the usual place.
    """

    def __init__(self, data: Path | None = None) -> None:
        self.data = data

    @classmethod
    @abstractmethod
    def owns(cls, category: object, check: object) -> bool:
        """Return True for the benchmark's own rows, by their columns `category` and `check`."""

    @abstractmethod
    def wording(self) -> Wording:
        """Return the texts that the benchmark sends to models, read from the user's copy.

        Raises:
            DataError: there is no copy; the message says how to get one.
        """

    @abstractmethod
    def long_context(self) -> Mapping[str, JSON]:
        """Return the texts and lists that extend the simulators' data in rows with long context.

        Raises:
            DataError: there is no copy; the message says how to get one.
        """

    @abstractmethod
    def tools_dialect(self, offer: Offer, wording: Wording) -> Dialect:
        """Return the object that prompts a model and reads its calls as the benchmark does, with OpenAI tools."""

    @abstractmethod
    def text_dialect(
        self, row: Row, offer: Offer, wording: Wording, profile: Profile | None, *, exact: bool
    ) -> Dialect:
        """Return the dialect that describes functions and reads calls in text, as the benchmark does.

        With `exact`, calls are read exactly as the benchmark does. Otherwise calls in other formats are read as well,
        and written in the benchmark's format.
        """

    @abstractmethod
    def state_check(self, services: Services) -> StateCheck:
        """Return the check that judges conversations by the benchmark's own rules."""


def find_benchmark(name: str) -> type[BenchmarkDialect]:
    """Return the class of benchmark that a plug-in registered under this value of `compat`.

    Raises:
        PluginError: no benchmark is registered under this name, or its class is not a `BenchmarkDialect`.
    """
    found = find(_KIND, name)
    if not (isinstance(found, type) and issubclass(found, BenchmarkDialect)):
        raise PluginError(f"the plug-in for compat {name!r} must be a subclass of tunecheck.episodes.BenchmarkDialect")
    return found


def benchmark_of(values: Mapping[str, object]) -> str | None:
    """Return the name of the installed benchmark that claims a row with these columns; None if no benchmark does."""
    category, check = values.get("category"), values.get("check")
    if not isinstance(category, str) or check is None:
        return None
    return next((name for name, each in _benchmarks() if each.owns(category, check)), None)


def registered_constants(data: Path | None = None) -> Mapping[str, JSON]:
    """Return the long-context constants of the first installed benchmark, read from its copy in `data`.

    None means the usual place.

    Raises:
        DataError: no such benchmark is installed, or there is no copy of its data.
    """
    for _, benchmark in _benchmarks():
        return benchmark(data).long_context()
    raise DataError("a row needs a benchmark's long-context texts: install the benchmark's plug-in")


@cache
def _benchmarks() -> tuple[tuple[str, type[BenchmarkDialect]], ...]:
    """Return the installed benchmarks, each with its name."""
    return tuple((plugin.name, find_benchmark(plugin.name)) for plugin in discover(_KIND))
