"""What comes with Tunecheck to author from: samples of the built-in services, and plain values for any parameter."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from importlib.resources import files
from typing import Any

import msgspec

from tunecheck.plugins import JSON, converted, parse_yaml


class Shipped(msgspec.Struct, frozen=True):
    """The content of `shipped.yaml`.

    `configurations` are what conversations start from, by simulator, and `values` what users give for the parameters
    of these. `by_word` and `by_format` are values for parameters whose name has a word, or whose schema a format.
    `notes` are the parts of the lines that make a context long; `personas` say who users are.
    """

    configurations: dict[str, dict[str, Any]]
    values: dict[str, list[Any]]
    by_word: dict[str, list[Any]]
    by_format: dict[str, list[Any]]
    notes: dict[str, list[str]]
    personas: dict[str, str]


@functools.cache
def shipped() -> Shipped:
    text = files("tunecheck_authoring._author").joinpath("shipped.yaml").read_bytes()
    return converted(parse_yaml(text, "shipped.yaml"), Shipped)


def request_values(classes: Collection[str]) -> Mapping[str, list[JSON]]:
    """What users give for the parameters of the built-in simulators, where one of these is among them."""
    return shipped().values if shipped().configurations.keys() & {*classes} else {}
