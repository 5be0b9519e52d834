"""The road side of VehicleControlAPI: where to go, how far it is, the weather, the speed, and units."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, ClassVar

from tunecheck.simulators._base import Simulator, SimulatorError, tool
from tunecheck.simulators._figures import figures

if TYPE_CHECKING:
    from tunecheck.simulators._long_context import LongContext

_MILES_PER_GALLON = 20.0
_TEMPERATURES_C = (-10, 40)
_SPEEDS_KMH = (0, 120)


class RoadTrip(Simulator):
    """What is asked on the road; `VehicleControlAPI` loads it."""

    bounded: ClassVar[bool] = True

    fuelLevel: float  # noqa: N815 - the state's own name
    destination: str
    _random: random.Random
    _padding: LongContext | None

    @tool
    def set_navigation(self, destination: str) -> dict[str, str]:
        """Set where to go.

        Args:
            destination: Street, city and state.
        """
        self.destination = destination
        return {"status": "Navigating to " + destination}

    @tool
    def get_zipcode_based_on_city(self, city: str) -> dict[str, str]:
        """Look up a city's zip code.

        Args:
            city: The city's name, as "San Francisco".
        """
        known = figures().vehicle
        found = known.zip_codes.get(city) if isinstance(city, str) else None
        return {"zipcode": found or known.unknown_zip_code}

    @tool
    def estimate_distance(self, cityA: str, cityB: str) -> dict[str, object]:  # noqa: N803 - the data's own names
        """Tell the distance between two cities in kilometres.

        Args:
            cityA: The zip code of one city.
            cityB: The zip code of the other.
        """
        for start, end, kilometres in figures().vehicle.distances:
            if (cityA, cityB) in ((start, end), (end, start)):
                return self._with_places(kilometres)
        raise SimulatorError("the distance between these zip codes is not known")

    @tool
    def estimate_drive_feasibility_by_mileage(self, distance: float) -> dict[str, bool]:
        """Tell whether the fuel suffices for a distance.

        Args:
            distance: How far to drive, in miles.
        """
        return {"canDrive": not self.fuelLevel * _MILES_PER_GALLON < distance}

    @tool
    def get_current_speed(self) -> dict[str, float]:
        """Read the speed in kilometres an hour."""
        return {"currentSpeed": self._random.uniform(*_SPEEDS_KMH)}

    @tool
    def get_outside_temperature_from_google(self) -> dict[str, object]:
        """Ask Google for the temperature outside, in degrees Celsius."""
        earlier = {} if self._padding is None else self._padding["LONG_WEATHER_EXTENSION"]
        assert isinstance(earlier, dict)
        return {**earlier, "outsideTemperature": self._random.uniform(*_TEMPERATURES_C)}

    @tool
    def get_outside_temperature_from_weather_com(self) -> dict[str, float]:
        """Ask weather.com for the temperature outside, in degrees Celsius."""
        raise SimulatorError("weather.com answers with status 404")

    @tool
    def find_nearest_tire_shop(self) -> dict[str, str]:
        """Find the nearest shop for tires."""
        return {"shopLocation": figures().vehicle.tire_shop}

    @tool
    def gallon_to_liter(self, gallon: float) -> dict[str, float]:
        """Convert gallons to litres.

        Args:
            gallon: How many gallons.
        """
        return {"liter": gallon * figures().vehicle.liters_per_gallon}

    @tool
    def liter_to_gallon(self, liter: float) -> dict[str, float]:
        """Convert litres to gallons.

        Args:
            liter: How many litres.
        """
        return {"gallon": liter * figures().vehicle.gallons_per_liter}

    @tool
    def display_log(self, messages: list[str]) -> dict[str, list[str]]:
        """Show messages on the display.

        Args:
            messages: What to show.
        """
        return {"log": messages}

    def _with_places(self, kilometres: float) -> dict[str, object]:
        if self._padding is None:
            return {"distance": kilometres}
        return {"distance": kilometres, "intermediaryCities": self._padding["INTERMEDIARY_CITIES"]}
