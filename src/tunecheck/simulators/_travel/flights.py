"""The public side of TravelAPI: airports, fares, exchange rates and fiscal years, for which nobody logs in."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from tunecheck.simulators._base import Simulator, SimulatorError, tool
from tunecheck.simulators._figures import figures

if TYPE_CHECKING:
    from tunecheck.simulators._long_context import LongContext

TravelClass = Literal["economy", "business", "first"]
Currency = Literal["USD", "RMB", "EUR", "JPY", "GBP", "CAD", "AUD", "INR", "RUB", "BRL", "MXN"]

_LONGEST_TEXT = 1000
"""Characters of a text that is multiplied, as one is where a model gives an amount as text."""


class TravelGuide(Simulator):
    """What anyone may ask; `TravelAPI` loads it."""

    bounded: ClassVar[bool] = True

    _padding: LongContext | None

    @tool
    def list_all_airports(self) -> list[str]:
        """List the codes of all airports."""
        return list(figures().travel.airports)

    @tool
    def get_nearest_airport_by_city(self, location: str) -> dict[str, str]:
        """Tell the airport that is nearest to a city.

        Args:
            location: The city's name, as "San Francisco".
        """
        return {"nearest_airport": figures().travel.cities.get(location, "Unknown")}

    @tool
    def get_flight_cost(
        self, travel_from: str, travel_to: str, travel_date: str, travel_class: TravelClass
    ) -> dict[str, list[float]]:
        """Tell what a flight costs, in US dollars.

        Args:
            travel_from: The code of the airport of departure.
            travel_to: The code of the airport of arrival.
            travel_date: The day of the flight, as 2024-09-30.
            travel_class: The class to fly in.
        """
        cost = fare(travel_from, travel_to, travel_date, travel_class)
        if self._padding is None:
            return {"travel_cost_list": [cost]}
        factor = _factor(travel_date, travel_class)
        return {"travel_cost_list": [base * factor for _, _, base in figures().travel.fares]}

    @tool
    def compute_exchange_rate(
        self, base_currency: Currency, target_currency: Currency, value: float
    ) -> dict[str, float]:
        """Convert an amount of money into another currency; one of the two must be the US dollar.

        Args:
            base_currency: The currency of the amount.
            target_currency: The currency to convert it to.
            value: The amount.
        """
        rates = figures().travel.dollar_buys
        if isinstance(value, (str, list)) and len(value) > _LONGEST_TEXT:
            raise SimulatorError("the amount must be a number")
        if base_currency == "USD" and target_currency in rates:
            # BFCL multiplies before it makes a number of the result: "5" at a rate of 7 is 5,555,555.
            return {"exchanged_value": float(value * rates[target_currency])}
        if target_currency == "USD" and base_currency in rates:
            return {"exchanged_value": round(value / rates[base_currency], 2)}
        raise SimulatorError("no exchange rate is known for these currencies; one of them must be USD")

    @tool
    def get_budget_fiscal_year(
        self,
        lastModifiedAfter: str | None = None,  # noqa: N803 - the data's own name
        includeRemoved: str | None = None,  # noqa: N803
    ) -> dict[str, str]:
        """Tell the fiscal year of the budget; it is the same whatever is asked for.

        Args:
            lastModifiedAfter: Only years that were changed after this moment (UTC), as 2016-03-29T16:12:20.
            includeRemoved: "true" for years that were removed as well.
        """
        return {"budget_fiscal_year": figures().travel.fiscal_year}


def fare(travel_from: str, travel_to: str, travel_date: str, travel_class: str) -> float:
    """What a flight costs, in US dollars.

    Raises:
        SimulatorError: there is no such route or class.
    """
    for start, end, base in figures().travel.fares:
        if (start, end) == (travel_from, travel_to):
            return base * _factor(travel_date, travel_class)
    raise SimulatorError("there is no flight between these airports")


def _factor(travel_date: str, travel_class: str) -> float:
    """Every class has its factor, and days whose digits add up to an even number cost more."""
    if travel_class not in figures().travel.class_factors:
        raise SimulatorError("the travel class must be economy, business or first")
    factor = figures().travel.class_factors[travel_class]
    digits = sum(int(each) for each in travel_date if each.isdigit())
    return factor if digits % 2 else factor * figures().travel.even_date_factor
