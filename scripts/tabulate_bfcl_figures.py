"""Tabulate the figures that BFCL's simulators answer with, by asking a running copy of them.

    python scripts/tabulate_bfcl_figures.py DATA > src/tunecheck_bfcl/_services/figures.json

Run it with a python that can import `bfcl_eval` (tests/bfcl_reference.py makes one); DATA is the folder of its data,
whose words are tried as names of cities, companies and sectors. Fresh instances are looked at and their operations are
called; where an operation compares its argument with one name after another, an argument that listens learns the
names. No source is read.
"""

# ruff: noqa: ANN401, D103 - the reference is not typed, and this prints what it finds

from __future__ import annotations

import contextlib
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

ODD_DATE = "2024-05-02"  # the sum of its digits is odd: fares are at their base
EVEN_DATE = "2024-05-01"
PLACE = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
VEHICLE_KEYS = {
    "engine_state": "engineState",
    "_parkingBrakeForce": "parkingBrakeForce",
    "_slopeAngle": "slopeAngle",
    "_brakePedalForce": "brakePedalForce",
}
"""How a configuration names the attributes that go by another name in an instance."""

DERIVED = {"_api_description", "_random", "long_context", "remainingUnlockedDoors"}
GUESSES = ["Automobile", *(f"{name} {kind}" for name in ("Alpha", "Neptune") for kind in ("Tech", "Systems", "Corp"))]
"""Names that no entry mentions but whose symbols stand in the default market."""


class Listener:
    """An argument that equals nothing and remembers what it was compared with."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, *, answer: bool = False) -> None:
        self.heard: list[Any] = []
        self.answer = answer

    def __eq__(self, other: object) -> bool:
        self.heard.append(other)
        return self.answer


def simulator(module: str, name: str, config: dict[str, Any] | None = None, *, long_context: bool = False) -> Any:
    made = getattr(import_module(f"{PLACE}.{module}"), name)()
    made._load_scenario(config or {}, long_context=long_context)
    return made


def names_tried(data: Path) -> list[str]:
    """Every run of one to three words in the multi-turn data, in a stable order."""
    paths = [*data.rglob("*multi_turn_*.json"), *data.glob("multi_turn_func_doc/*.json")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(paths))
    words = re.findall(r"[A-Za-z0-9&.']+", text)
    runs = (words[start : start + count] for count in (1, 2, 3) for start in range(len(words)))
    found = {" ".join(run) for run in runs}
    return sorted(found | {name.strip(".'") for name in found} | set(GUESSES))


def answered(ask: Callable[[str], Any], names: Iterable[str], nothing: Any) -> dict[str, Any]:
    """What is known about those names about which anything is known."""
    answers = {name: ask(name) for name in names}
    return {name: answer for name, answer in answers.items() if answer != nothing}


def trading(names: list[str]) -> dict[str, Any]:
    market = simulator("trading_bot", "TradingBot")
    defaults = {name: value for name, value in vars(market).items() if name not in DERIVED}
    symbols = answered(lambda name: market.get_symbol_by_name(name)["symbol"], names, "Stock not found")
    return {
        "current_time": market.get_current_time()["current_time"],
        "defaults": defaults,
        "sectors": answered(lambda name: market.get_available_stocks(name)["stock_list"], names, []),
        "symbols": dict(sorted(symbols.items())),
    }


def travel(names: list[str]) -> dict[str, Any]:
    agency = simulator("travel_booking", "TravelAPI")
    airports = agency.list_all_airports()
    return {
        "airports": airports,
        "dollar_buys": rates(agency, names),
        "class_factors": class_factors(agency),
        "cities": answered(lambda name: agency.get_nearest_airport_by_city(name)["nearest_airport"], names, "Unknown"),
        "even_date_factor": cost(agency, "SFO", "LAX", EVEN_DATE) / cost(agency, "SFO", "LAX"),
        "fares": fares(),
        "fiscal_year": agency.get_budget_fiscal_year()["budget_fiscal_year"],
        "support_reply": support_reply(),
        "token": token(),
        "verification_failures": verification_failures(),
    }


def cost(agency: Any, start: str, end: str, date: str = ODD_DATE, travel_class: str = "economy") -> float:
    (found,) = agency.get_flight_cost(start, end, date, travel_class)["travel_cost_list"]
    return float(found)


def class_factors(agency: Any) -> dict[str, float]:
    base = cost(agency, "SFO", "LAX")
    return {name: cost(agency, "SFO", "LAX", ODD_DATE, name) / base for name in ("economy", "business", "first")}


def rates(agency: Any, names: list[str]) -> dict[str, float]:
    """How much of each currency one US dollar buys; whole numbers are told apart by what they do to a text."""
    found: dict[str, float] = {}
    for currency in (name for name in names if re.fullmatch("[A-Z]{3}", name)):
        with contextlib.suppress(ValueError):  # no such currency
            found[currency] = agency.compute_exchange_rate("USD", currency, 1.0)["exchanged_value"]
            with contextlib.suppress(TypeError):  # no whole number
                agency.compute_exchange_rate("USD", currency, "1")
                found[currency] = int(found[currency])
    return found


def fares() -> list[list[Any]]:
    """The base price of each route, in the order in which a long-context instance lists them."""
    agency = simulator("travel_booking", "TravelAPI", long_context=True)
    listed = agency.get_flight_cost("SFO", "LAX", ODD_DATE, "economy")["travel_cost_list"]
    routes = [key.split("|")[:2] for key in agency._flight_cost_lookup]
    if len(routes) != len(listed):
        raise SystemExit(f"{len(listed)} prices for {len(routes)} routes")
    found = [[start, end, price] for (start, end), price in zip(routes, listed, strict=True)]
    plain = simulator("travel_booking", "TravelAPI")
    if any(cost(plain, start, end) != price for start, end, price in found):
        raise SystemExit("a route's price is not the one listed for it")
    return found


def support_reply() -> str:
    agency = simulator("travel_booking", "TravelAPI", {"booking_record": {"1": {}}})
    return str(agency.contact_customer_support("1", "?")["customer_support_message"])


def verification_failures() -> dict[str, str]:
    """What is answered about another traveller, a child, a foreigner, and a birthday that is none."""
    user = {"user_first_name": "{known_first}", "user_last_name": "{known_last}"}
    agency = simulator("travel_booking", "TravelAPI", user)

    def failure(birthday: str, passport: str, first: str = "{known_first}", last: str = "{known_last}") -> str:
        return str(agency.verify_traveler_information(first, last, birthday, passport)["verification_failure"])

    return {
        "another": failure("1990-01-01", "US1", "{first}", "{last}"),
        "child": failure("9990-01-01", "US1"),
        "foreigner": failure("1990-01-01", "FR1"),
        "no_date": failure("?", "US1"),
    }


def token() -> dict[str, Any]:
    answer = simulator("travel_booking", "TravelAPI").authenticate_travel("", "", "", "", "", "")
    return {"expires_in": answer["expires_in"], "type": answer["token_type"]}


def vehicle() -> dict[str, Any]:
    car = simulator("vehicle_control", "VehicleControlAPI")
    defaults = {VEHICLE_KEYS.get(name, name): value for name, value in vars(car).items() if name not in DERIVED}
    listener = Listener()
    unknown = car.get_zipcode_based_on_city(listener)["zipcode"]
    return {
        "defaults": defaults,
        "distances": distances(car),
        "liters_per_gallon": car.gallon_to_liter(1.0)["liter"],
        "gallons_per_liter": car.liter_to_gallon(1.0)["gallon"],
        "tire_shop": car.find_nearest_tire_shop()["shopLocation"],
        "zip_codes": {city: car.get_zipcode_based_on_city(city)["zipcode"] for city in dict.fromkeys(listener.heard)},
        "unknown_zip_code": unknown,
    }


def distances(car: Any) -> list[list[Any]]:
    """Kilometres between two zip codes, the same both ways."""
    listener = Listener()
    car.estimate_distance(listener, Listener())
    pairs = itertools.combinations(dict.fromkeys(listener.heard), 2)
    answers = ((*pair, car.estimate_distance(*pair).get("distance")) for pair in pairs)
    return [[start, end, far] for start, end, far in answers if far is not None]


def main(data: str) -> None:
    names = names_tried(Path(data))
    tables = {"trading": trading(names), "travel": travel(names), "vehicle": vehicle()}
    text = json.dumps(tables, indent=1, ensure_ascii=False)
    short = re.compile(r"\[\s+([^][{}]{1,400}?)\s+\]")  # lists of a few values go on one line
    print(short.sub(lambda found: "[" + re.sub(r",\s+", ", ", found[1]) + "]", text))


if __name__ == "__main__":
    main(sys.argv[1])
