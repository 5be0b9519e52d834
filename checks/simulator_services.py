"""Differential tests of the services (tickets, trading, travel, vehicle): their world, awkward starts, the comparison.

differences(TravelAPI, random_services(TravelAPI, calls=3_000, seed=1))     # [] where both agree
ambiguous_refusals(TravelAPI, cases)                                         # [] where each wording has its twin
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

from checks import simulator_differential
from checks.simulator_differential import Case, long_context, random_cases, replay_reference
from checks.simulator_reference_replay import digest

from tunecheck.calls import FunctionCall
from tunecheck.simulators import Backend, OperationResult, Simulator

__all__ = [
    "ambiguous_refusals",
    "awkward_arguments",
    "backend",
    "call",
    "differences",
    "hostile_cases",
    "random_services",
]

Values = dict[str, Callable[..., Any]]

PLACES = ["Rivermist", "San Francisco", "Autumnville", "Tokyo", "Atlantis"]
AIRPORTS = ["SFO", "LAX", "JFK", "RMS", "LAX", "SFO", "PVG", "XXX"]
DATES = [
    "2024-05-01",
    "2024-05-02",
    "2024-12-24",
    "2023-01-31",
    "2024-9-3",
    "1990-02-29",
    "1990-01-31",
    "2015-06-30",
    "",
    "?",
]
STOCKS = ["AAPL", "GOOG", "TSLA", "ZETA", "XTC", "NONE"]
ZIPS = ["83214", "74532", "94016", "08540", "00000"]
DOORS = ["driver", "passenger", "rear_left", "rear_right", "trunk"]
CURRENCIES = ["USD", "RMB", "EUR", "JPY", "MXN", "XYZ"]


def one_of(*values: Any) -> Callable[..., Any]:
    return lambda chance, *_: copy.deepcopy(chance.choice(values))


def own(attribute: str, *others: Any) -> Callable[..., Any]:
    """What the simulator itself holds there: a key, an item, or the value; now and then something else."""

    def draw(chance: random.Random, simulator: Simulator) -> Any:
        held = getattr(simulator, attribute, None)
        known = list(held) if isinstance(held, (dict, list)) else [held]
        return copy.deepcopy(chance.choice(known if known and chance.random() < 0.8 else others))

    return draw


def ticket(chance: random.Random, simulator: Simulator) -> Any:
    held = getattr(simulator, "ticket_queue", [])
    known = [each["id"] for each in held if isinstance(each, dict) and "id" in each]
    return chance.choice(known or [1, 2, 3])


def some_of(values: Sequence[str]) -> Callable[..., Any]:
    return lambda chance, *_: [chance.choice(values) for _ in range(chance.randint(0, 4))]


VALUES: Values = {
    # tickets
    "ticket_id": ticket,
    "priority": one_of(0, 1, 3, 5, 6, 2.5),
    "updates": one_of({"status": "Open"}, {"title": "t", "priority": 9}, {"title": None}, {"id": 1, "x": 2}),
    "status": one_of("open", "Closed", "Resolved", "None"),
    # trading
    "symbol": own("stocks", *STOCKS),
    "stock": own("stocks", *STOCKS),
    "stocks": some_of(STOCKS),
    "order_type": one_of("Buy", "Sell", "buy", "hold"),
    "order_id": own("orders", 12345, 12446, "12345", 5),
    "amount": one_of(1, 1, 2, 2, 10, 0, -1, 100.5, 1e9),
    "price": one_of(1, 1.5, 10.25, 0, 227.16),
    "name": one_of("Apple", "Zeta Corp", "apple"),
    "sector": one_of("Technology", "Automobile", "Health"),
    "start_date": one_of(*DATES, None),
    "end_date": one_of("2024-09-02", *DATES, None),
    # travel
    "access_token": own("access_token", "tok", "x", None),
    "card_id": own("credit_card_list", "1", "9"),
    "card_number": one_of("1", "4111"),
    "booking_id": own("booking_record", "b", "zz", None),
    "travel_from": one_of("SFO", "SFO", "SFO", "LAX", "LAX", *AIRPORTS),
    "travel_to": one_of("BOS", "BOS", "RMS", "RMS", *AIRPORTS),
    "travel_date": one_of(*DATES[:4], *DATES),
    "travel_class": one_of("economy", "economy", "business", "first", "First"),
    "date_of_birth": one_of(*DATES),
    "passport_number": one_of("US1", "FR1", ""),
    "first_name": own("user_first_name", "Ada"),
    "last_name": own("user_last_name", "Ada"),
    "location": one_of(*PLACES),
    "base_currency": one_of(*CURRENCIES, "USD", "USD"),
    "target_currency": one_of(*CURRENCIES, "USD", "USD"),
    "value": one_of(1, 0.1, 12.345, -3, "5", 1e300),
    "insurance_cost": one_of(0, 10.5, 50, 5000),
    "budget_limit": one_of(0, 0, 100, 500.0, "7", "?"),
    # vehicle
    "unlock": one_of(False, False, False, True),
    "city": one_of(*PLACES),
    "cityA": one_of(*ZIPS),
    "cityB": one_of(*ZIPS),
    "door": one_of(DOORS[:4], DOORS[:4], DOORS[1:3], DOORS[:1] * 2, [], DOORS[2:]),
    "pedalPosition": one_of(1, 1, 1.0, 1.0, 1.0, 0, 0.3, 1.5, -1, True),
    "ignitionMode": one_of("START", "START", "START", "STOP", "start"),
    "fuelAmount": one_of(0, 5, 10.5, 60, -1),
    "speed": one_of(0, 50, 65, 52, 120.0, 125, "55"),
    "fanSpeed": one_of(0, 50, 100, 101, -1),
    "distance": one_of(0, 100, 205.5, 1000),
    "option": one_of("fuel", "doors", "climate", "parkingBrake", "brakePedal", "tires"),
}
"""How a parameter is drawn in half of the cases, whichever simulator it belongs to."""

_FLIGHT = {"travel_date": "2024-05-01", "travel_from": "SFO", "travel_to": "LAX", "travel_class": "economy"}
_TRAVELLER = {"access_token": "tok", "user_first_name": "Ada", "user_last_name": "Byron"}
_RICH = {"balance": 90000.0}
_LOCKED = dict.fromkeys(DOORS[:4], "locked")

AWKWARD: dict[str, list[dict[str, Any]]] = {
    "TicketAPI": [
        {"ticket_queue": [{"id": 1}, {"id": 2, "status": "Open"}], "current_user": "u"},
        {"ticket_queue": [{"id": 1, "status": None, "created_by": "u"}], "current_user": "u", "ticket_counter": 7},
        {"ticket_queue": [{"status": "Open"}], "current_user": ""},
        {"ticket_counter": "7", "current_user": "u"},
        {"ticket_counter": None, "current_user": ["u"]},
        {"ticket_queue": [1], "current_user": "u"},
    ],
    "TradingBot": [
        {"authenticated": True, "market_status": "Open", "account_info": {}},
        {"authenticated": True, "market_status": "Open", "account_info": {"balance": "5"}},
        {"authenticated": True, "market_status": "open", "stocks": {"AAPL": {}, "GOOG": {"price": 5}}},
        {"authenticated": 1, "orders": {"5": {}, "05": {"status": "completed"}, "order_type": "Buy", "x": {"a": 1}}},
        {"authenticated": True, "order_counter": None, "watch_list": ["AAPL", "AAPL", "NONE"]},
        {"authenticated": True, "market_status": "Open", "transaction_history": [{"timestamp": "?"}]},
        {"authenticated": True, "market_status": "Open", "transaction_history": [{}], "random_seed": 5},
        {"authenticated": True, "transaction_history": [{"timestamp": "2024-05-02 00:00:00", "amount": 1}]},
    ],
    "TravelAPI": [
        {**_TRAVELLER, "token_expires_in": 5, "credit_card_list": {"1": _RICH, "poor": {"balance": 1}, "2": {}}},
        {**_TRAVELLER, "token_expires_in": 0, "credit_card_list": {"1": _RICH}},
        {**_TRAVELLER, "credit_card_list": {"1": _RICH, "2": {"balance": "9"}}, "budget_limit": 5000},
        {
            **_TRAVELLER,
            "token_expires_in": 5,
            "random_seed": 8,
            "budget_limit": 100.0,
            "credit_card_list": {"1": {"balance": 5000}, "2": {"balance": 300}},
            "booking_record": {
                "b": {**_FLIGHT, "card_id": "1", "travel_cost": 400.0, "transaction_id": "7"},
                "b2": {"card_id": "9", "travel_cost": 5},
            },
        },
        {**_TRAVELLER, "budget_limit": "5", "credit_card_list": {"1": _RICH, "2": _RICH}, "booking_record": {"b": {}}},
        {"user_first_name": "Ada", "user_last_name": "Byron", "booking_record": {"b": _FLIGHT}},
    ],
    "VehicleControlAPI": [
        {"doorStatus": _LOCKED, "brakePedalStatus": "pressed", "brakePedalForce": 1000, "fuelLevel": 20},
        {"doorStatus": _LOCKED, "brakePedalStatus": "pressed", "brakePedalForce": 1000.0, "fuelLevel": -1},
        {"doorStatus": _LOCKED, "brakePedalStatus": "pressed", "brakePedalForce": 999, "fuelLevel": None},
        {"doorStatus": {"driver": "ajar", "passenger": "locked"}, "engineState": "running", "random_seed": 4},
        {"doorStatus": {}, "engineState": "running", "fuelLevel": "5", "parkingBrakeForce": 3.5, "slopeAngle": 4},
        {"engineState": None, "frontLeftTirePressure": 40, "rearLeftTirePressure": 20.5},
        {"rearRightTirePressure": "flat", "remainingUnlockedDoors": 1, "destination": None},
    ],
}
"""Starts that no entry has: what is missing, of another type, or at a limit."""


def random_services(simulator: type[Simulator], *, calls: int, seed: int) -> Iterator[Case]:
    """Random cases, two thirds from the data's starts and one third from awkward ones; some in long context."""
    awkward = calls // 3
    yield from random_cases(simulator, calls=calls - awkward, seed=seed, values=VALUES, with_long_context=True)
    with mock.patch.object(simulator_differential, "_starts", AWKWARD.__getitem__):
        yield from random_cases(simulator, calls=awkward, seed=seed, values=VALUES, with_long_context=True)


def differences(simulator: type[Simulator], cases: Sequence[Case], *, at_most: int = 5) -> list[str]:
    """What differs between the reference and ours, each with the calls that led there; empty where nothing does."""
    found: list[str] = []
    for case, reference in zip(cases, _replayed(cases), strict=True):
        if reference["load_error"]:
            found.append(f"the reference cannot load {case['config']}: {reference['load_error']}")
            continue
        started = backend(simulator, case["config"], padded=case["long_context"])
        for number, (theirs, ours) in enumerate(zip(reference["results"], _called(started, case), strict=True)):
            problem = _problem(theirs, *ours)
            if problem:
                calls = "\n  ".join(f"{name}({arguments})" for name, arguments, _ in case["calls"][: number + 1])
                found.append(f"{json.dumps(case['config'])[:1000]}\n  {calls}\n  {problem}")
                break
    return found[:at_most]


def ambiguous_refusals(simulator: type[Simulator], cases: Sequence[Case]) -> list[str]:
    """Refusals that read the same on one side only: two of theirs that are one of ours, or one that is two.

    Results are compared as text, so a verdict may depend on whether two refusals read the same.
    """
    pairs: set[tuple[str, str]] = set()
    cases = [case for case in cases if not case["long_context"]]
    for case, reference in zip(cases, _replayed(cases), strict=True):
        started = backend(simulator, case["config"], padded=case["long_context"])
        for theirs, (ours, _) in zip(reference["results"], _called(started, case), strict=True):
            if theirs["error"] and theirs["text"].startswith(("{", "[")) and "Must be one of" not in theirs["text"]:
                pairs.add((theirs["text"], ours.text))
    by_theirs, by_ours = dict(pairs), {ours: theirs for theirs, ours in pairs}
    return [f"{theirs}  ~  {ours}" for theirs, ours in pairs if by_theirs[theirs] != ours or by_ours[ours] != theirs]


def backend(simulator: type[Simulator], config: dict[str, Any], *, padded: bool = False) -> Backend:
    """A backend with this one simulator, in long context or not."""
    made = simulator()
    made.load(copy.deepcopy(config), long_context=long_context() if padded else None)
    return Backend({simulator.__name__: made})


def call(started: Backend, name: str, /, **arguments: Any) -> OperationResult:
    """One call by keyword."""
    return started.call(FunctionCall(name, arguments))


def awkward_arguments(simulator: type[Simulator]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Calls of every operation with each parameter, and all of them, set to what no caller should send."""
    hostile: list[Any] = [
        None,
        True,
        float("nan"),
        float("inf"),
        10**400,
        10**4000,
        -(10**400),
        1e308,
        "x" * 100_000,
        "9" * 4_000,
        "\x00\ud800",
        "{0.__class__}{symbol}%s",
        [],
        [[[]]],
        ["x"] * 1_000,
        {},
        {"a": {"b": [None]}},
    ]
    loaded = simulator()
    loaded.load({})
    for name, operation in simulator.operations().items():
        for value in hostile:
            yield name, dict.fromkeys(operation.parameters, value)
            for parameter in operation.parameters:
                usual = {each: VALUES.get(each, one_of("a"))(random.Random(1), loaded) for each in operation.parameters}
                yield name, {**usual, parameter: value}


def hostile_cases(simulator: type[Simulator]) -> list[Case]:
    """Each of these calls from a fresh start, and from an awkward one in which somebody is logged in."""
    name = simulator.__name__
    return [
        {"class": name, "config": config, "long_context": False, "calls": [[operation, arguments, []]]}
        for operation, arguments in awkward_arguments(simulator)
        for config in ({}, AWKWARD[name][0])
    ]


def _replayed(cases: Sequence[Case]) -> list[dict[str, Any]]:
    return replay_reference(cases, "simulator_services_replay.py")


def _called(started: Backend, case: Case) -> Iterator[tuple[OperationResult, str]]:
    """Each call's result, and a digest of the state after it."""
    for name, arguments, positional in case["calls"]:
        given = {str(place): value for place, value in enumerate(positional)} | arguments
        result = started.call(FunctionCall(name, copy.deepcopy(given)))
        yield result, digest(started.states()[case["class"]])


def _problem(theirs: dict[str, Any], ours: OperationResult, state: str) -> str:
    if theirs["error"] != ours.error or (not ours.error and theirs["text"] != ours.text):
        told = f"reference: {'ERROR ' * theirs['error']}{theirs['text'][:1000]}"
        return f"{told}\n  ours: {'ERROR ' * ours.error}{ours.text[:1000]}"
    return "" if theirs["state"] == state else "the states differ"
