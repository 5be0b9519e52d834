"""What the built-in services know and start from: prices, places, rates and default accounts, and configurations.

The figures in figures.json are tabulated by scripts/tabulate_bfcl_figures.py. Those who read them do not change them:
what a service keeps of them, or of its configuration, is a copy.
"""

import functools
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, TypeVar

import msgspec

from tunecheck import DataError
from tunecheck.plugins import JSON, loads
from tunecheck.simulators import copied

_Value = TypeVar("_Value")

_NAMES = {dict: "an object", list: "a list", int: "a whole number", str: "text", bool: "true or false"}


class TradingFigures(msgspec.Struct, frozen=True):
    """The stock market: symbols by company, symbols by sector, and the account and prices of a fresh start."""

    current_time: str
    defaults: dict[str, Any]
    sectors: dict[str, tuple[str, ...]]
    symbols: dict[str, str]


class Token(msgspec.Struct, frozen=True):
    """What the travel service grants who authenticates; `expires_in` has no unit."""

    expires_in: int
    type: str


class Failures(msgspec.Struct, frozen=True):
    """What the travel service answers about a traveller it does not verify; `another` is a template of both names."""

    another: str
    child: str
    foreigner: str
    no_date: str


class TravelFigures(msgspec.Struct, frozen=True):
    """Flights: airports, the airport of each city, base fares in US dollars, and what multiplies them."""

    airports: tuple[str, ...]
    dollar_buys: dict[str, int | float]
    class_factors: dict[str, float]
    cities: dict[str, str]
    even_date_factor: float
    fares: tuple[tuple[str, str, float], ...]
    fiscal_year: str
    support_reply: str
    token: Token
    verification_failures: Failures


class VehicleFigures(msgspec.Struct, frozen=True):
    """Roads and the car of a fresh start; distances are in kilometres between two zip codes, either way."""

    defaults: dict[str, Any]
    distances: tuple[tuple[str, str, float], ...]
    liters_per_gallon: float
    gallons_per_liter: float
    tire_shop: str
    zip_codes: dict[str, str]
    unknown_zip_code: str


class Figures(msgspec.Struct, frozen=True):
    """All of figures.json."""

    trading: TradingFigures
    travel: TravelFigures
    vehicle: VehicleFigures


@functools.cache
def figures() -> Figures:
    text = files("tunecheck_bfcl").joinpath("_services", "figures.json").read_bytes()
    return msgspec.convert(loads(text), Figures)


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
