"""Values of evaluators' parameters in a run's rows, by the mapping that the run was made with."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from tunecheck._errors import ConfigurationError
from tunecheck._files import RunFile
from tunecheck._json import JSON
from tunecheck.pipeline._mapping import Constant, Mapped, parse_mapping

ValueReader: TypeAlias = Callable[[Mapping[str, JSON], Mapping[str, JSON]], JSON]
"""From a row's data and target columns to a value."""


def value_reader(manifest: RunFile, parameter: str, columns: Sequence[str]) -> ValueReader:
    """Return a function that finds a parameter's value: by the run's mapping, else in a column of its name."""
    mapped = next(_mapped(manifest, parameter), None)
    if mapped is None:
        return lambda data, target: next((each[key] for key in columns for each in (target, data) if key in each), None)
    if isinstance(mapped, Constant):
        value = mapped.value
        return lambda data, target: value
    reference = mapped
    return lambda data, target: reference.value_in(data, target)  # type: ignore[return-value]  # rows hold JSON


def _mapped(manifest: RunFile, parameter: str) -> Iterator[Mapped]:
    layers = manifest.mapping
    for name in dict.fromkeys(["default", *layers]):
        if parameter in layers.get(name, {}):
            try:
                yield from parse_mapping({parameter: layers[name][parameter]}, name).values()
            except ConfigurationError:  # written by another version
                continue
