"""VehicleControlAPI: a car's engine, doors, brakes, lights, climate, cruise control and tires.

BFCL compares the state after each turn, so the state has exactly the values of its service, with their names: the
configuration's `engineState` is `engine_state`, and `_KEPT` values are outside the state. Some answers show a value by
another name (`_SHOWN_NAMES`).

The engine starts if, in this order, all doors are locked, the brake pedal is pressed, and pressed fully, the tank's
level is not negative, and the mode is START.
"""

from collections.abc import Mapping
from typing import Literal

from tunecheck.plugins import JSON
from tunecheck.simulators import SimulatorError, copy_json, tool
from tunecheck_bfcl._services._figures import ConfiguredService, figures, refuse_if

_SEED = 141053

# BFCL's own limits and values.
_TANK_GALLONS = 50
_FULL_BRAKE_N = 1000
_PARKING_BRAKE_N = 500.0
_PARKING_SLOPE_DEGREES = 10.0
_HEALTHY_PSI = (30, 35)
_CRUISE_LIMIT = 120
_CRUISE_STEP = 5
Door = Literal["driver", "passenger", "rear_left", "rear_right"]
Option = Literal["fuel", "battery", "doors", "climate", "headlights", "parkingBrake", "brakePedal", "engine"]
_STATUS = {
    "fuel": ("fuelLevel",),
    "battery": ("batteryVoltage",),
    "doors": ("doorStatus",),
    "climate": ("acTemperature", "fanSpeed", "acMode", "humidityLevel"),
    "headlights": ("headLightStatus",),
    "parkingBrake": ("parkingBrakeStatus", "parkingBrakeForce", "slopeAngle"),
    "brakePedal": ("brakePedalStatus", "brakePedalForce"),
    "engine": ("engine_state",),
}
"""The values that each part of the car's status shows."""

# Names of the state's values in `displayCarStatus`, where they differ.
_SHOWN_NAMES = {
    "acTemperature": "currentACTemperature",
    "acMode": "climateMode",
    "headLightStatus": "headlightStatus",
    "engine_state": "engineState",
}
_MILES_PER_GALLON = 20.0
_TEMPERATURES_C = (-10, 40)
_SPEEDS_KMH = (0, 120)
_KEPT = ("parkingBrakeForce", "slopeAngle", "brakePedalForce")
"""Keys of the configuration that are not in the state."""


class VehicleControlAPI(ConfiguredService):
    """Configuration: `fuelLevel` (gallons), `batteryVoltage`, `engineState`, `doorStatus` by door, `acTemperature`
    (°C), `fanSpeed`, `acMode`, `humidityLevel`, `headLightStatus`, `parkingBrakeStatus`, `parkingBrakeForce` (N),
    `slopeAngle`, `brakePedalStatus`, `brakePedalForce` (N), `distanceToNextVehicle` (m), `cruiseStatus`,
    `destination`, `frontLeftTirePressure` and its like (psi), `random_seed`.

    State: all of these but the seed, the two forces and the angle; the engine's as `engine_state`; and
    `remainingUnlockedDoors` and `long_context`. The seed decides the speed and the temperature outside.
    """

    def load(self, config: Mapping[str, JSON], *, long_context: Mapping[str, JSON] | None = None) -> None:
        """Start from a configuration, with defaults for missing keys.

        Forces and the slope angle are kept outside the state, as in BFCL.
        """
        self.defaults = {**figures()["vehicle"]["defaults"], "random_seed": _SEED}
        super().load(config, long_context=long_context)

        # `state()` returns the values in `data`, so `data` must have BFCL's names, and no `_KEPT` values.
        values, self.data = self.data, {}
        self._kept = {name: values.pop(name) for name in _KEPT}

        for name, value in values.items():
            self.data["engine_state" if name == "engineState" else name] = value
            if name == "doorStatus":
                self.data["remainingUnlockedDoors"] = 4 - list(value.values()).count("locked")

    @tool
    def startEngine(self, ignitionMode: Literal["START", "STOP"]) -> dict[str, str | float]:  # noqa: N802, N803
        """Start the engine, with all doors locked, the brake pedal fully pressed and fuel in the tank.

        Args:
            ignitionMode: What to do. STOP stops the engine and is refused all the same.
        """
        if ignitionMode == "STOP":  # as in BFCL, the engine stops although the call then fails
            self.data["engine_state"] = "stopped"

        if self.data["remainingUnlockedDoors"] > 0:
            unlocked = [door for door, status in self.data["doorStatus"].items() if status == "unlocked"]
            raise SimulatorError(f"lock all doors before you start the engine; unlocked are: {', '.join(unlocked)}")
        refuse_if(self.data["brakePedalStatus"] != "pressed", "press the brake pedal before you start the engine")
        refuse_if(self._kept["brakePedalForce"] != _FULL_BRAKE_N, "press the brake pedal fully to start the engine")
        refuse_if(self.data["fuelLevel"] < 0, "the tank is empty")  # as in BFCL, a level of 0 is not refused

        refuse_if(ignitionMode != "START", "the ignition mode must be START to start the engine")

        self.data["engine_state"] = "running"
        return {"engineState": "running", **{name: self.data[name] for name in ("fuelLevel", "batteryVoltage")}}

    @tool
    def fillFuelTank(self, fuelAmount: float) -> dict[str, float]:  # noqa: N802, N803
        """Put fuel into the tank, which holds 50 gallons.

        Args:
            fuelAmount: How many gallons to add.
        """
        refuse_if(fuelAmount < 0, "the amount of fuel cannot be negative")
        level = self.data["fuelLevel"] + fuelAmount
        refuse_if(level > _TANK_GALLONS, f"the tank holds no more than {_TANK_GALLONS} gallons")
        refuse_if(level < 0, "the fuel level would still be below 0: add more fuel")

        self.data["fuelLevel"] = level
        return {"fuelLevel": level}

    @tool
    def lockDoors(self, unlock: bool, door: list[Door]) -> dict[str, str | int]:  # noqa: N802
        """Lock or unlock doors.

        Args:
            unlock: True to unlock them, false to lock them.
            door: Which doors.
        """
        status = "unlocked" if unlock else "locked"
        for name in door:
            if self.data["doorStatus"][name] != status:
                self.data["doorStatus"][name] = status
                self.data["remainingUnlockedDoors"] += 1 if unlock else -1
        return {"lockStatus": status, "remainingUnlockedDoors": self.data["remainingUnlockedDoors"]}

    @tool
    def adjustClimateControl(  # noqa: N802
        self,
        temperature: float,
        unit: Literal["celsius", "fahrenheit"] = "celsius",
        fanSpeed: int = 50,  # noqa: N803
        mode: Literal["auto", "cool", "heat", "defrost"] = "auto",
    ) -> dict[str, float | str]:
        """Set the temperature inside, the fan and the climate mode.

        Args:
            temperature: The temperature, in this unit.
            unit: The unit of the temperature.
            fanSpeed: The speed of the fan, from 0 to 100.
            mode: The climate mode.
        """
        refuse_if(not 0 <= fanSpeed <= 100, "the fan speed must lie between 0 and 100")

        self.data["acTemperature"] = temperature
        if unit == "fahrenheit":
            self.data["acTemperature"] = (temperature - 32) * 5 / 9
        self.data["fanSpeed"] = fanSpeed
        self.data["acMode"] = mode

        # As in BFCL, the state is in °C, and the result repeats the temperature in the call's unit.
        return {"currentACTemperature": temperature, "climateMode": mode, "humidityLevel": self.data["humidityLevel"]}

    @tool
    def setHeadlights(self, mode: Literal["on", "off", "auto"]) -> dict[str, str]:  # noqa: N802
        """Turn the headlights on or off; in automatic mode they are off.

        Args:
            mode: What to do.
        """
        refuse_if(mode not in ("on", "off", "auto"), "the headlights can be on, off or auto")
        self.data["headLightStatus"] = "on" if mode == "on" else "off"
        return {"headlightStatus": self.data["headLightStatus"]}

    @tool
    def displayCarStatus(self, option: Option) -> dict[str, object]:  # noqa: N802
        """Show one part of the car's status.

        Args:
            option: Which part.
        """
        names = _STATUS.get(option) if isinstance(option, str) else None
        if names is None:
            raise SimulatorError("the car has no status of this name")

        values = {**self.data, **self._kept}
        shown = {_SHOWN_NAMES.get(name, name): copy_json(values[name]) for name in names}
        return {**self._extra("metadata", "CAR_STATUS_METADATA_EXTENSION"), **shown}

    @tool
    def activateParkingBrake(self, mode: Literal["engage", "release"]) -> dict[str, object]:  # noqa: N802
        """Engage or release the parking brake.

        Args:
            mode: What to do.
        """
        refuse_if(mode not in ("engage", "release"), "the mode of the parking brake must be engage or release")

        self._kept["parkingBrakeForce"] = _PARKING_BRAKE_N if mode == "engage" else 0.0
        self._kept["slopeAngle"] = _PARKING_SLOPE_DEGREES
        self.data["parkingBrakeStatus"] = "engaged" if mode == "engage" else "released"

        return {
            **self._extra("parkingBrakeInstruction", "PARKING_BRAKE_INSTRUCTION"),
            "parkingBrakeStatus": self.data["parkingBrakeStatus"],
            "_parkingBrakeForce": self._kept["parkingBrakeForce"],
            "_slopeAngle": self._kept["slopeAngle"],
        }

    @tool
    def pressBrakePedal(self, pedalPosition: float) -> dict[str, str | float]:  # noqa: N802, N803
        """Press the brake pedal; it stays pressed until it is released.

        Args:
            pedalPosition: How far, from 0 (not at all) to 1 (fully).
        """
        refuse_if(not 0 <= pedalPosition <= 1, "the pedal's position must lie between 0 and 1")
        if pedalPosition == 0:
            return self.releaseBrakePedal()

        self.data["brakePedalStatus"] = "pressed"
        self._kept["brakePedalForce"] = _FULL_BRAKE_N * pedalPosition
        return {"brakePedalStatus": "pressed", "brakePedalForce": float(self._kept["brakePedalForce"])}

    @tool
    def releaseBrakePedal(self) -> dict[str, str | float]:  # noqa: N802
        """Release the brake pedal."""
        self.data["brakePedalStatus"] = "released"
        self._kept["brakePedalForce"] = 0.0
        return {"brakePedalStatus": "released", "brakePedalForce": 0.0}

    @tool
    def setCruiseControl(  # noqa: N802
        self,
        speed: float,
        activate: bool,
        distanceToNextVehicle: float,  # noqa: N803
    ) -> dict[str, str | float]:
        """Turn the cruise control on or off, with the engine running.

        Args:
            speed: The speed to keep, from 0 to 120 in steps of 5.
            activate: True to turn it on, false to turn it off.
            distanceToNextVehicle: The distance to keep, in metres.
        """
        speed, distance = float(speed), float(distanceToNextVehicle)
        refuse_if(self.data["engine_state"] == "stopped", "start the engine before you set the cruise control")

        self.data["distanceToNextVehicle"] = distance  # set even if the speed is refused
        if activate and (not 0 <= speed <= _CRUISE_LIMIT or speed % _CRUISE_STEP):
            raise SimulatorError(f"the speed must lie between 0 and {_CRUISE_LIMIT}, in steps of {_CRUISE_STEP}")

        self.data["cruiseStatus"] = "active" if activate else "inactive"
        return {"cruiseStatus": self.data["cruiseStatus"], "currentSpeed": speed, "distanceToNextVehicle": distance}

    @tool
    def check_tire_pressure(self) -> dict[str, object]:
        """Read the pressure of all tires in psi, and tell whether on average it is healthy."""
        names = (f"{tire}TirePressure" for tire in ("frontLeft", "frontRight", "rearLeft", "rearRight"))
        tires: dict[str, float] = {name: self.data[name] for name in names}

        low, high = _HEALTHY_PSI
        return {
            **tires,
            "healthy_tire_pressure": low <= sum(tires.values()) / len(tires) <= high,
            "car_info": {} if self._padding is None else copy_json(self._padding["CAR_STATUS_METADATA_EXTENSION"]),
        }

    @tool
    def set_navigation(self, destination: str) -> dict[str, str]:
        """Set where to go.

        Args:
            destination: Street, city and state.
        """
        self.data["destination"] = destination
        return {"status": "Navigating to " + destination}

    @tool
    def get_zipcode_based_on_city(self, city: str) -> dict[str, str]:
        """Look up a city's zip code.

        Args:
            city: The city's name, as "San Francisco".
        """
        known = figures()["vehicle"]
        zip_code = known["zip_codes"].get(city) if isinstance(city, str) else None
        return {"zipcode": zip_code or known["unknown_zip_code"]}

    @tool
    def estimate_distance(self, cityA: str, cityB: str) -> dict[str, object]:  # noqa: N803 - the data's own names
        """Tell the distance between two cities in kilometres.

        Args:
            cityA: The zip code of one city.
            cityB: The zip code of the other.
        """
        for start, end, kilometres in figures()["vehicle"]["distances"]:
            if (cityA, cityB) in ((start, end), (end, start)):
                return {"distance": kilometres, **self._extra("intermediaryCities", "INTERMEDIARY_CITIES")}
        raise SimulatorError("the distance between these zip codes is not known")

    @tool
    def estimate_drive_feasibility_by_mileage(self, distance: float) -> dict[str, bool]:
        """Tell whether the fuel suffices for a distance.

        Args:
            distance: How far to drive, in miles.
        """
        return {"canDrive": not self.data["fuelLevel"] * _MILES_PER_GALLON < distance}

    @tool
    def get_current_speed(self) -> dict[str, float]:
        """Read the speed in kilometres an hour."""
        return {"currentSpeed": self._random.uniform(*_SPEEDS_KMH)}  # as in BFCL, random and not in the state

    @tool
    def get_outside_temperature_from_google(self) -> dict[str, object]:
        """Ask Google for the temperature outside, in degrees Celsius."""
        padding = {} if self._padding is None else copy_json(self._padding["LONG_WEATHER_EXTENSION"])
        return {**padding, "outsideTemperature": self._random.uniform(*_TEMPERATURES_C)}

    @tool
    def get_outside_temperature_from_weather_com(self) -> dict[str, float]:
        """Ask weather.com for the temperature outside, in degrees Celsius."""
        raise SimulatorError("weather.com answers with status 404")

    @tool
    def find_nearest_tire_shop(self) -> dict[str, str]:
        """Find the nearest shop for tires."""
        return {"shopLocation": figures()["vehicle"]["tire_shop"]}

    @tool
    def gallon_to_liter(self, gallon: float) -> dict[str, float]:
        """Convert gallons to litres.

        Args:
            gallon: How many gallons.
        """
        return {"liter": gallon * figures()["vehicle"]["liters_per_gallon"]}

    @tool
    def liter_to_gallon(self, liter: float) -> dict[str, float]:
        """Convert litres to gallons.

        Args:
            liter: How many litres.
        """
        return {"gallon": liter * figures()["vehicle"]["gallons_per_liter"]}

    @tool
    def display_log(self, messages: list[str]) -> dict[str, list[str]]:
        """Show messages on the display.

        Args:
            messages: What to show.
        """
        return {"log": messages}
