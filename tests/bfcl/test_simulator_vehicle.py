"""VehicleControlAPI: what it does, and that it is what the reference is."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from tests.simulator_differential import ground_truth_cases, long_context
from tests.simulator_services import awkward_arguments, backend, call, differences, mismatched_definitions

from tunecheck import DataError
from tunecheck.simulators import Backend
from tunecheck_bfcl._services._vehicle_control import VehicleControlAPI

DOORS = ["driver", "passenger", "rear_left", "rear_right"]
READY: dict[str, Any] = {
    "doorStatus": dict.fromkeys(DOORS, "locked"),
    "brakePedalStatus": "pressed",
    "brakePedalForce": 1000.0,
}


def car(*, padded: bool = False, **config: Any) -> Backend:
    return backend(VehicleControlAPI, config, padded=padded)


def state(started: Backend) -> Any:
    return started.states()["VehicleControlAPI"]


def test_the_engine_starts_with_locked_doors_a_pressed_pedal_and_no_debt_of_fuel() -> None:
    started = car(fuelLevel=5.0)
    for name, arguments in (
        ("lockDoors", {"unlock": False, "door": DOORS}),
        ("pressBrakePedal", {"pedalPosition": 1.0}),
    ):
        assert call(started, "startEngine", ignitionMode="START").error
        assert not call(started, name, **arguments).error
    assert call(started, "startEngine", ignitionMode="START").text == (
        '{"engineState": "running", "fuelLevel": 5.0, "batteryVoltage": 12.6}'
    )
    assert state(started)["engine_state"] == "running"


@pytest.mark.parametrize(
    "change", [{"brakePedalForce": 900.0}, {"brakePedalForce": 2000.0}, {"fuelLevel": -0.5}, {"doorStatus": {}}]
)
def test_the_engine_does_not_start_otherwise(change: dict[str, Any]) -> None:
    started = backend(VehicleControlAPI, {**READY, "fuelLevel": 5.0, **change})
    assert call(started, "startEngine", ignitionMode="START").error
    assert state(started)["engine_state"] == "stopped"


def test_stopping_the_engine_is_refused_though_it_stops() -> None:
    started = car(engineState="running", **READY)
    assert call(started, "startEngine", ignitionMode="STOP").error
    assert state(started)["engine_state"] == "stopped"


def test_the_count_of_unlocked_doors_comes_from_the_doors() -> None:
    assert state(car(remainingUnlockedDoors=0))["remainingUnlockedDoors"] == 4
    started = car(doorStatus={**dict.fromkeys(DOORS, "locked"), "driver": "unlocked"}, remainingUnlockedDoors=4)
    assert state(started)["remainingUnlockedDoors"] == 1
    assert call(started, "lockDoors", unlock=False, door=["driver", "driver"]).value == {
        "lockStatus": "locked",
        "remainingUnlockedDoors": 0,
    }
    assert call(started, "lockDoors", unlock=True, door=DOORS).value == {
        "lockStatus": "unlocked",
        "remainingUnlockedDoors": 4,
    }
    assert call(started, "lockDoors", unlock=True, door=["trunk"]).error


@pytest.mark.parametrize(("amount", "level"), [(0, 40.0), (5, 45.0), (10, 50.0), (10.5, None), (-1, None)])
def test_the_tank_holds_fifty_gallons(amount: float, level: float | None) -> None:
    filled = call(car(fuelLevel=40.0), "fillFuelTank", fuelAmount=amount)
    assert filled.error is (level is None)
    assert level is None or filled.value == {"fuelLevel": level}


@pytest.mark.parametrize(("position", "force"), [(0, 0.0), (0.25, 250.0), (1, 1000.0), (1.5, None), (-0.5, None)])
def test_the_pedal_is_pressed_with_up_to_a_thousand_newtons(position: float, force: float | None) -> None:
    pressed = call(car(), "pressBrakePedal", pedalPosition=position)
    assert pressed.error is (force is None)
    status = "pressed" if force else "released"
    assert force is None or pressed.value == {"brakePedalStatus": status, "brakePedalForce": force}


def test_fahrenheit_is_kept_as_celsius_and_told_as_it_came() -> None:
    started = car()
    told: Any = call(started, "adjustClimateControl", temperature=77, unit="fahrenheit", fanSpeed=10, mode="heat").value
    assert told["currentACTemperature"] == 77
    assert (state(started)["acTemperature"], state(started)["fanSpeed"], state(started)["acMode"]) == (25.0, 10, "heat")
    assert call(started, "adjustClimateControl", temperature=20, fanSpeed=101).error
    assert state(started)["acTemperature"] == 25.0


@pytest.mark.parametrize(("mode", "status"), [("on", "on"), ("off", "off"), ("auto", "off"), ("bright", None)])
def test_headlights_are_on_or_off(mode: str, status: str | None) -> None:
    started = car(headLightStatus="off")
    assert call(started, "setHeadlights", mode=mode).error is (status is None)
    assert state(started)["headLightStatus"] == (status or "off")


@pytest.mark.parametrize(
    ("speed", "activate", "fine"), [(50, True, True), (52, True, False), (125, True, False), (52, False, True)]
)
def test_cruise_control_keeps_a_speed_in_steps_of_five(speed: float, activate: bool, fine: bool) -> None:
    arguments = {"speed": speed, "activate": activate, "distanceToNextVehicle": 30}
    assert call(car(), "setCruiseControl", **arguments).error
    started = car(engineState="running")
    told = call(started, "setCruiseControl", **arguments)
    assert told.error is not fine
    assert state(started)["cruiseStatus"] == ("active" if fine and activate else "inactive")


def test_the_parking_brake_tells_its_force_which_is_no_part_of_the_state() -> None:
    started = car()
    told = call(started, "activateParkingBrake", mode="engage")
    assert told.value == {"parkingBrakeStatus": "engaged", "_parkingBrakeForce": 500.0, "_slopeAngle": 10.0}
    shown = call(started, "displayCarStatus", option="parkingBrake").value
    assert shown == {"parkingBrakeStatus": "engaged", "parkingBrakeForce": 500.0, "slopeAngle": 10.0}
    assert not {name for name in state(started) if "Force" in name or "lope" in name}


@pytest.mark.parametrize(
    ("pressures", "healthy"), [((30, 30, 30, 30), True), ((45, 45, 10, 30), True), ((36,) * 4, False)]
)
def test_tires_are_healthy_by_their_average(pressures: tuple[int, ...], healthy: bool) -> None:
    names = [f"{place}TirePressure" for place in ("frontLeft", "frontRight", "rearLeft", "rearRight")]
    read: Any = call(backend(VehicleControlAPI, dict(zip(names, pressures, strict=True))), "check_tire_pressure").value
    assert read["healthy_tire_pressure"] is healthy
    assert list(read) == [*names, "healthy_tire_pressure", "car_info"]


def test_speed_and_temperature_come_from_the_seed_in_the_order_of_the_calls() -> None:
    started, chance = car(random_seed=6), random.Random(6)
    assert call(started, "get_current_speed").value == {"currentSpeed": chance.uniform(0, 120)}
    told = call(started, "get_outside_temperature_from_google").value
    assert told == {"outsideTemperature": chance.uniform(-10, 40)}
    assert call(started, "get_outside_temperature_from_weather_com").error


def test_distances_are_the_same_both_ways_and_fuel_lasts_twenty_miles_a_gallon() -> None:
    started = car(fuelLevel=10)
    there = call(started, "estimate_distance", cityA="83214", cityB="74532").text
    assert there == '{"distance": 750.0}' == call(started, "estimate_distance", cityA="74532", cityB="83214").text
    assert call(started, "estimate_distance", cityA="83214", cityB="83214").error
    feasible = [call(started, "estimate_drive_feasibility_by_mileage", distance=each).value for each in (200, 200.5)]
    assert feasible == [{"canDrive": True}, {"canDrive": False}]


@pytest.mark.parametrize(("city", "code"), [("Rivermist", "83214"), ("rivermist", "00000"), (["x"], "00000")])
def test_a_city_that_is_not_known_has_the_zip_code_of_zeros(city: object, code: str) -> None:
    assert call(car(), "get_zipcode_based_on_city", city=city).value == {"zipcode": code}


def test_long_context_pads_answers_and_not_the_state() -> None:
    started, constants = car(padded=True), long_context()
    status: Any = call(started, "displayCarStatus", option="fuel").value
    assert list(status.items()) == [("metadata", constants["CAR_STATUS_METADATA_EXTENSION"]), ("fuelLevel", 0.0)]
    weather: Any = call(started, "get_outside_temperature_from_google").value
    assert list(weather) == [*constants["LONG_WEATHER_EXTENSION"], "outsideTemperature"]
    brake: Any = call(started, "activateParkingBrake", mode="engage").value
    assert brake["parkingBrakeInstruction"] == constants["PARKING_BRAKE_INSTRUCTION"]
    road: Any = call(started, "estimate_distance", cityA="83214", cityB="74532").value
    assert road["intermediaryCities"] == constants["INTERMEDIARY_CITIES"]
    tires: Any = call(started, "check_tire_pressure").value
    assert tires["car_info"] == constants["CAR_STATUS_METADATA_EXTENSION"]
    assert len(json.dumps(state(started))) < 1000


def test_two_cars_share_nothing() -> None:
    first, second = car(), car()
    call(first, "lockDoors", unlock=False, door=DOORS)
    assert state(second) == state(car())


@pytest.mark.parametrize(
    ("config", "said"), [({"doorStatus": None}, "doorStatus is null"), ({"random_seed": 1.5}, "random_seed is float")]
)
def test_a_part_of_another_shape_is_named(config: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        VehicleControlAPI().load(config)


def test_tool_definitions_match_the_documents_of_the_data() -> None:
    assert mismatched_definitions(VehicleControlAPI, "vehicle_control.json") == []


@pytest.mark.parametrize("padded", [False, True])
def test_hostile_arguments_are_answered(padded: bool) -> None:
    for name, arguments in awkward_arguments(VehicleControlAPI):
        started = car(padded=padded, **READY)
        assert call(started, name, **arguments).text
        assert started.state_texts()


def test_the_ground_truth_of_all_entries_gives_what_the_reference_gives() -> None:
    assert differences(VehicleControlAPI, ground_truth_cases(VehicleControlAPI)) == []
