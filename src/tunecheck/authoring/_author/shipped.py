"""What comes with Tunecheck to author from: samples of the built-in services, and plain values for any parameter."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.resources import files
from typing import cast

from tunecheck import _yaml
from tunecheck._describe import converted
from tunecheck._json import JSON
from tunecheck.simulators._base import Simulator


@functools.cache
def _shipped() -> dict[str, JSON]:
    text = files("tunecheck.authoring._author").joinpath("shipped.yaml").read_bytes()
    return cast("dict[str, JSON]", _yaml.loads(text, "shipped.yaml"))


def configurations() -> Mapping[str, dict[str, JSON]]:
    """By simulator, what conversations start from."""
    return converted(_shipped()["configurations"], dict[str, dict])  # type: ignore[type-arg]  # of JSON


def values_by_word() -> Mapping[str, list[JSON]]:
    """What a parameter may be given whose name has a word."""
    return converted(_shipped()["by_word"], dict[str, list])  # type: ignore[type-arg]  # of JSON


def request_values(classes: Mapping[str, type[Simulator]]) -> dict[str, list[JSON]]:
    """What users give for the parameters of these simulators, as far as anything is known."""
    operations = {name: each for simulator in classes.values() for name, each in simulator.operations().items()}
    known = converted(_shipped()["values"], dict[str, list])  # type: ignore[type-arg]  # of JSON
    own = configurations().keys() & classes.keys()
    parameters = {parameter for each in operations.values() for parameter in each.parameters}
    return {
        name: values
        for name, values in known.items()
        if own and (name.partition(".")[0] in operations if "." in name else name in parameters)
    }
