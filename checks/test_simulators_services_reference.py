"""Travel, trading, vehicle and tickets against the reference: long random sessions, and arguments that break things."""

from __future__ import annotations

import pytest
from tests.simulator_services import ambiguous_refusals, differences, hostile_cases, random_services

from tunecheck.simulators._base import Simulator
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
