"""Travel, trading, vehicle and tickets against the reference: long random sessions, and arguments that break things."""

from __future__ import annotations

import pytest
from checks.simulator_differential import ground_truth_cases
from checks.simulator_services import (
    ambiguous_refusals,
    awkward_arguments,
    backend,
    call,
    differences,
    hostile_cases,
    random_services,
)

from tunecheck.plugins import JSON
from tunecheck.simulators import Simulator
from tunecheck_bfcl._services._ticket_api import TicketAPI
from tunecheck_bfcl._services._trading_bot import TradingBot
from tunecheck_bfcl._services._travel_api import TravelAPI
from tunecheck_bfcl._services._vehicle_control import VehicleControlAPI

SIMULATORS: list[type[Simulator]] = [TravelAPI, TradingBot, VehicleControlAPI, TicketAPI]

every_simulator = pytest.mark.parametrize("simulator", SIMULATORS, ids=lambda simulator: simulator.__name__)


@every_simulator
def test_many_random_calls_give_what_the_reference_gives(simulator: type[Simulator]) -> None:
    cases = list(random_services(simulator, calls=8_000, seed=2))
    assert differences(simulator, cases) == []
    assert ambiguous_refusals(simulator, cases) == []


@every_simulator
def test_hostile_arguments_are_errors_where_the_reference_errs(simulator: type[Simulator]) -> None:
    assert differences(simulator, hostile_cases(simulator)) == []


@every_simulator
def test_the_ground_truth_of_all_entries_gives_what_the_reference_gives(simulator: type[Simulator]) -> None:
    assert differences(simulator, ground_truth_cases(simulator)) == []


HOSTILE_IN: dict[str, dict[str, JSON]] = {
    "TicketAPI": {"current_user": "ada"},
    "TradingBot": {"authenticated": True, "market_status": "Open"},
    "TravelAPI": {"access_token": "tok", "token_expires_in": 5, "booking_record": {"b": {"travel_cost": 5}}},
    "VehicleControlAPI": {"brakePedalStatus": "pressed", "brakePedalForce": 1000.0},
}


@pytest.mark.parametrize("padded", [False, True])
@every_simulator
def test_hostile_arguments_are_answered(simulator: type[Simulator], padded: bool) -> None:
    for operation, arguments in awkward_arguments(simulator):
        service = backend(simulator, HOSTILE_IN[simulator.__name__], padded=padded)
        assert call(service, operation, **arguments).text
        assert service.state_texts()
