"""What comes with Tunecheck to author from: samples of the built-in services, and plain values for any parameter."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from importlib.resources import files
from typing import cast

from tunecheck import _yaml
from tunecheck.plugins import JSON, converted


@functools.cache
def _shipped() -> dict[str, JSON]:
    text = files("tunecheck_authoring._author").joinpath("shipped.yaml").read_bytes()
    return cast("dict[str, JSON]", _yaml.loads(text, "shipped.yaml"))


@functools.cache
def configurations() -> Mapping[str, dict[str, JSON]]:
    """By simulator, what conversations start from."""
    return converted(_shipped()["configurations"], dict[str, dict])  # type: ignore[type-arg]  # of JSON


@functools.cache
def values_by_word() -> Mapping[str, list[JSON]]:
    """What a parameter may be given whose name has a word."""
    return converted(_shipped()["by_word"], dict[str, list])  # type: ignore[type-arg]  # of JSON


def values_by_format() -> Mapping[str, list[JSON]]:
    """What a parameter may be given whose schema has a format."""
    return converted(_shipped()["by_format"], dict[str, list])  # type: ignore[type-arg]  # of JSON


def request_values(classes: Collection[str]) -> Mapping[str, list[JSON]]:
    """What users give for the parameters of the built-in simulators, where one of these is among them."""
    own = configurations().keys() & {*classes}
    return converted(_shipped()["values"], dict[str, list]) if own else {}  # type: ignore[type-arg]  # of JSON


@functools.cache
def notes() -> Mapping[str, list[str]]:
    """What makes a context long: the parts of its lines."""
    return converted(_shipped()["notes"], dict[str, list[str]])


def personas() -> Mapping[str, str]:
    """Who users are, by name."""
    return converted(_shipped()["personas"], dict[str, str])
