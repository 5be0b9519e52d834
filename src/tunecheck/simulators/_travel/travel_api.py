"""TravelAPI: flights that are booked, insured and cancelled with registered credit cards and a budget."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict

from tunecheck._json import JSON
from tunecheck.simulators._base import SimulatorError, tool
from tunecheck.simulators._figures import copied, figures, started
from tunecheck.simulators._travel.account import Card, TravelAccount, day
from tunecheck.simulators._travel.flights import TravelClass, fare

if TYPE_CHECKING:
    from tunecheck.simulators._long_context import LongContext

_DEFAULTS: dict[str, JSON] = {
    "credit_card_list": {},
    "booking_record": {},
    "access_token": None,
    "token_type": None,
    "token_expires_in": None,
    "token_scope": None,
    "user_first_name": None,
    "user_last_name": None,
    "budget_limit": None,
    "random_seed": 141053,
}


class Booking(TypedDict, total=False):
    """A booked flight; `travel_cost` is in US dollars."""

    card_id: str
    travel_date: str
    travel_from: str
    travel_to: str
    travel_class: str
    travel_cost: float
    transaction_id: str


class TravelAPI(TravelAccount):
    """Configuration: `credit_card_list` and `booking_record` by id, `access_token`, `token_type`, `token_expires_in`,
    `token_scope`, `user_first_name`, `user_last_name`, `budget_limit`, `random_seed`.

    State: all of these but the seed, and `long_context`. The seed decides the ids, tokens and balances given out.
    """

    def load(self, config: Mapping[str, JSON], *, long_context: LongContext | None = None) -> None:
        """See `Simulator.load`. Long context adds cards and bookings to the state."""
        values = started("TravelAPI", config, _DEFAULTS)
        self.credit_card_list: dict[str, Card] = values["credit_card_list"]
        self.booking_record: dict[str, Booking] = values["booking_record"]
        self.access_token: str | None = values["access_token"]
        self.token_type: str | None = values["token_type"]
        self.token_expires_in: int | None = values["token_expires_in"]
        self.token_scope: str | None = values["token_scope"]
        self.user_first_name: str | None = values["user_first_name"]
        self.user_last_name: str | None = values["user_last_name"]
        self.budget_limit: float | None = values["budget_limit"]
        self._random = random.Random(values["random_seed"])
        self._padding = long_context
        if long_context is not None:
            _add(self.credit_card_list, long_context["CREDIT_CARD_EXTENSION"])
            _add(self.booking_record, long_context["BOOKING_RECORD_EXTENSION"])

    def state(self) -> dict[str, object]:
        """See `Simulator.state`."""
        names = (name for name in _DEFAULTS if name != "random_seed")
        return {**{name: getattr(self, name) for name in names}, "long_context": self._padding is not None}

    @tool
    def book_flight(
        self,
        access_token: str,
        card_id: str,
        travel_date: str,
        travel_from: str,
        travel_to: str,
        travel_class: TravelClass,
    ) -> dict[str, object]:
        """Book a flight and pay for it with a registered credit card.

        Args:
            access_token: The token got by authentication.
            card_id: The id of the card that pays.
            travel_date: The day of the flight, as 2024-09-30.
            travel_from: The code of the airport of departure.
            travel_to: The code of the airport of arrival.
            travel_class: The class to fly in.
        """
        try:
            self._require_token(access_token)
            card = self._charged_card(card_id)
            cost = _fare(travel_date, travel_from, travel_to, travel_class)
            self._require_funds(card, cost)
        except SimulatorError as error:
            return {"booking_status": False, "error": str(error)}
        card["balance"] -= cost
        booking: Booking = {
            "card_id": card_id,
            "travel_date": travel_date,
            "travel_from": travel_from,
            "travel_to": travel_to,
            "travel_class": travel_class,
            "travel_cost": cost,
        }
        return self._recorded(booking)

    @tool
    def cancel_booking(self, access_token: str, booking_id: str) -> dict[str, object]:
        """Cancel a booked flight; what it cost goes back to the card.

        Args:
            access_token: The token got by authentication.
            booking_id: The id of the booking.
        """
        try:
            self._require_token(access_token)
            booking = self._booking(booking_id)
        except SimulatorError as error:
            return {"cancel_status": False, "error": str(error)}
        card = self.credit_card_list[booking["card_id"]]
        card["balance"] += booking["travel_cost"]
        del self.booking_record[booking_id]
        return {"cancel_status": True}

    @tool
    def get_booking_history(self, access_token: str) -> dict[str, dict[str, Booking]]:
        """List all booked flights by id.

        Args:
            access_token: The token got by authentication.
        """
        self._require_token(access_token)
        return {"booking_history": copied(self.booking_record)}

    @tool
    def retrieve_invoice(
        self, access_token: str, booking_id: str | None = None, insurance_id: str | None = None
    ) -> dict[str, dict[str, object]]:
        """Get the invoice of a booked flight.

        Args:
            access_token: The token got by authentication.
            booking_id: The id of the booking.
            insurance_id: The id of an insurance; it changes nothing.
        """
        self._require_token(access_token)
        booking = self._booking(booking_id)
        invoice: dict[str, object] = {
            "booking_id": booking_id,
            "travel_date": booking["travel_date"],
            "travel_from": booking["travel_from"],
            "travel_to": booking["travel_to"],
            "travel_class": booking["travel_class"],
            "travel_cost": booking["travel_cost"],
            "transaction_id": booking["transaction_id"],
        }
        return {"invoice": invoice}

    @tool
    def purchase_insurance(
        self, access_token: str, insurance_type: str, booking_id: str, insurance_cost: float, card_id: str
    ) -> dict[str, object]:
        """Buy an insurance for a booked flight.

        Args:
            access_token: The token got by authentication.
            insurance_type: The type of insurance.
            booking_id: The id of the booking.
            insurance_cost: What it costs, in US dollars.
            card_id: The id of the card that pays.
        """
        try:
            self._require_token(access_token)
            if self.budget_limit is not None and self.budget_limit < insurance_cost:
                raise SimulatorError("the insurance costs more than the budget allows")
            self._booking(booking_id)
            card = self._card(card_id)
        except SimulatorError as error:
            return {"insurance_status": False, "error": str(error)}
        card["balance"] -= insurance_cost
        return {"insurance_id": self._number(9), "insurance_status": True}

    @tool
    def contact_customer_support(self, booking_id: str, message: str) -> dict[str, str]:
        """Write to customer support about a booked flight.

        Args:
            booking_id: The id of the booking.
            message: What to write.
        """
        self._booking(booking_id)
        return {"customer_support_message": figures().travel.support_reply}

    def _recorded(self, booking: Booking) -> dict[str, object]:
        booking_id, booking["transaction_id"] = self._number(7), self._number(8)
        self.booking_record[booking_id] = booking
        return {
            "booking_id": booking_id,
            "transaction_id": booking["transaction_id"],
            "booking_status": True,
            "booking_history": {} if self._padding is None else copied(self.booking_record),
        }

    def _charged_card(self, card_id: str) -> Card:
        card = self._card(card_id)
        if "balance" not in card:
            raise SimulatorError("the balance of this card is not known")
        return card

    def _require_funds(self, card: Card, cost: float) -> None:
        if card["balance"] < cost:
            raise SimulatorError("the card's balance does not cover the fare")
        if self.budget_limit is not None and card["balance"] < self.budget_limit:
            raise SimulatorError("the card's balance is less than the budget limit")

    def _booking(self, booking_id: str | None) -> Booking:
        if booking_id not in self.booking_record:
            raise SimulatorError("there is no such booking")
        return self.booking_record[booking_id]


def _add(mine: dict[str, Card] | dict[str, Booking], more: JSON) -> None:
    assert isinstance(more, dict)
    for name, value in more.items():
        mine.setdefault(name, value)  # type: ignore[arg-type]  # as the constants hold them


def _fare(travel_date: str, travel_from: str, travel_to: str, travel_class: str) -> float:
    """The fare of a flight between two listed airports on a day that is one; some routes lead elsewhere."""
    for place, code in (("departure", travel_from), ("arrival", travel_to)):
        if code not in figures().travel.airports:
            raise SimulatorError(f"there is no airport {code} to use for {place}")
    if day(travel_date) is None:
        raise SimulatorError("the travel date must be written as YYYY-MM-DD")
    return fare(travel_from, travel_to, travel_date, travel_class)
