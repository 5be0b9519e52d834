"""The codes of faults and causes: the table `codes.toml`, and the codes that plug-ins add."""

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Literal, TypeAlias

import msgspec

from tunecheck.plugins import Code, codes

Side: TypeAlias = Literal["serving", "model"]
"""What has to change: how the model is served, or the model."""

CAUSE_METRIC = "cause."
"""Beginning of the metrics that hold a cause's share of all rows."""


class _Table(msgspec.Struct, frozen=True):
    causes: dict[str, Code]
    faults: dict[str, str]
    cause_of_fault: dict[str, str]


@cache
def _table() -> _Table:
    text = files(__package__).joinpath("codes.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), _Table)


def fault_titles() -> Mapping[str, str]:
    """Return the titles of the core's faults by code."""
    return _table().faults


def causes() -> Mapping[str, Code]:
    """Return every cause by its code: the core's in the order in which they are looked for, then plug-ins'."""
    return {**_table().causes, **{code: each for code, each in codes().items() if each.side}}


def cause_named(code: str) -> Code:
    """Return the cause of a code; a kind that is not listed stands in the title."""
    known = _table().causes.get(code) or causes().get(code)
    if known is not None:
        return known
    head, _, kind = code.partition(".")
    title = f"{head.replace('_', ' ')}: {kind.replace('_', ' ')}".rstrip(": ")
    return Code(title, "model", _table().causes["wrong_argument.other"].advice)


def cause_of_fault(code: str) -> str:
    """Return the code of the cause that a fault is."""
    return _table().cause_of_fault.get(code, code)


def place_of(code: str) -> int:
    """Return the place of a cause in the order in which they are looked for; last for one that is not listed."""
    return _places().get(code, len(_places()))


@cache
def _places() -> dict[str, int]:
    return {code: place for place, code in enumerate(_table().causes)}


def in_order(listed: Iterable[str]) -> list[str]:
    """Return codes in the order in which causes are looked for; those that are not listed last."""
    return sorted(listed, key=lambda code: (place_of(code), code))
