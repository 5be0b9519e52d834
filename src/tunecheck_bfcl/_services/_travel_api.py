"""TravelAPI: flights that are booked, insured and cancelled with registered credit cards and a budget.

Ids, tokens and balances come from a seeded random generator. BFCL's ground truth contains such ids, so the number and
order of the draws must stay as they are: in `book_flight` first the booking's id, then the transaction's.

A fare is the route's base fare times the factor of the class, and times `even_date_factor` on days with an even sum of
digits (`_fare`): 2024-09-30 has the sum 20.

`book_flight`, `cancel_booking` and `purchase_insurance` report a refusal as a result with the status False; the other
operations raise an error. Both are as in BFCL.
"""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, Literal, cast

from tunecheck.plugins import JSON
from tunecheck.simulators import SimulatorError, copy_json, tool
from tunecheck_bfcl._services._figures import ConfiguredService, figures, refuse_if

_DEFAULTS: dict[str, JSON] = {
    "credit_card_list": {}, "booking_record": {},
    "access_token": None, "token_type": None, "token_expires_in": None, "token_scope": None,
    "user_first_name": None, "user_last_name": None, "budget_limit": None, "random_seed": 141053,
}  # fmt: skip

# For long context: the parts of the state, and the constants with which BFCL extends them.
_EXTENSIONS = {"credit_card_list": "CREDIT_CARD_EXTENSION", "booking_record": "BOOKING_RECORD_EXTENSION"}

_INVOICED = ("travel_date", "travel_from", "travel_to", "travel_class", "travel_cost", "transaction_id")
_ADULT_YEARS = 18
TravelClass = Literal["economy", "business", "first"]
Currency = Literal["USD", "RMB", "EUR", "JPY", "GBP", "CAD", "AUD", "INR", "RUB", "BRL", "MXN"]
_LONGEST_TEXT = 1000  # characters of a text that is multiplied, which happens if a model gives an amount as text


class TravelAPI(ConfiguredService):
    """Configuration: `credit_card_list` and `booking_record` by id, `access_token`, `token_type`, `token_expires_in`,
    `token_scope`, `user_first_name`, `user_last_name`, `budget_limit`, `random_seed`.

    State: all of these but the seed, and `long_context`. The seed decides the ids, tokens and balances given out.
    """

    defaults = _DEFAULTS

    def load(self, config: Mapping[str, JSON], *, long_context: Mapping[str, JSON] | None = None) -> None:
        """Start from a configuration, with defaults for missing keys.

        Long context adds cards and bookings to the state.
        """
        super().load(config, long_context=long_context)
        if long_context is not None:
            for name, constant in _EXTENSIONS.items():
                more = cast("Mapping[str, JSON]", copy_json(long_context[constant]))
                for key, value in more.items():
                    self.data[name].setdefault(key, value)

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
        try:  # as in BFCL, a refusal is a result with `booking_status: False`, not an error
            self._require_token(access_token)
            card = self._card(card_id)
            refuse_if("balance" not in card, "the balance of this card is not known")

            cost = _booking_fare(travel_date, travel_from, travel_to, travel_class)
            refuse_if(card["balance"] < cost, "the card's balance does not cover the fare")
            if self.data["budget_limit"] is not None and card["balance"] < self.data["budget_limit"]:
                raise SimulatorError("the flight cannot be booked: the card's balance is less than the budget limit")
        except SimulatorError as error:
            return {"booking_status": False, "error": str(error)}

        card["balance"] -= cost

        booking_id, transaction_id = self._random_number(7), self._random_number(8)
        self.data["booking_record"][booking_id] = {
            "card_id": card_id,
            "travel_date": travel_date,
            "travel_from": travel_from,
            "travel_to": travel_to,
            "travel_class": travel_class,
            "travel_cost": cost,
            "transaction_id": transaction_id,
        }

        # As in BFCL, only services with long context return the history.
        return {
            "booking_id": booking_id,
            "transaction_id": transaction_id,
            "booking_status": True,
            "booking_history": {} if self._padding is None else copy_json(self.data["booking_record"]),
        }

    @tool
    def cancel_booking(self, access_token: str, booking_id: str) -> dict[str, object]:
        """Cancel a booked flight; what it cost goes back to the card.

        Args:
            access_token: The token got by authentication.
            booking_id: The id of the booking.
        """
        try:  # as in BFCL, a refusal is a result with `cancel_status: False`, not an error
            self._require_token(access_token)
            booking = self._booking(booking_id)
        except SimulatorError as error:
            return {"cancel_status": False, "error": str(error)}

        card = self.data["credit_card_list"][booking["card_id"]]
        card["balance"] += booking["travel_cost"]
        del self.data["booking_record"][booking_id]
        return {"cancel_status": True}

    @tool
    def get_booking_history(self, access_token: str) -> dict[str, object]:
        """List all booked flights by id.

        Args:
            access_token: The token got by authentication.
        """
        self._require_token(access_token)
        return {"booking_history": copy_json(self.data["booking_record"])}

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
        return {"invoice": {"booking_id": booking_id, **{name: booking[name] for name in _INVOICED}}}

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
        try:  # as in BFCL, a refusal is a result with `insurance_status: False`, not an error
            self._require_token(access_token)
            if self.data["budget_limit"] is not None and self.data["budget_limit"] < insurance_cost:
                raise SimulatorError("the insurance costs more than the budget allows")
            self._booking(booking_id)
            card = self._card(card_id)
        except SimulatorError as error:
            return {"insurance_status": False, "error": str(error)}

        card["balance"] -= insurance_cost
        return {"insurance_id": self._random_number(9), "insurance_status": True}

    @tool
    def contact_customer_support(self, booking_id: str, message: str) -> dict[str, str]:
        """Write to customer support about a booked flight.

        Args:
            booking_id: The id of the booking.
            message: What to write.
        """
        self._booking(booking_id)
        return {"customer_support_message": figures()["travel"]["support_reply"]}

    @tool
    def authenticate_travel(
        self,
        client_id: str,
        client_secret: str,
        refresh_token: str,
        grant_type: str,
        user_first_name: str,
        user_last_name: str,
    ) -> dict[str, str | int]:
        """Authenticate a traveller, and get the access token that other operations ask for.

        Args:
            client_id: The id of the application.
            client_secret: The secret of the application.
            refresh_token: The refresh token of an earlier authentication.
            grant_type: What is asked for: read_write, read or write.
            user_first_name: The traveller's first name.
            user_last_name: The traveller's last name.
        """
        token = figures()["travel"]["token"]
        kind, expires_in = token["type"], token["expires_in"]
        number = self._random_number(6)
        self.data.update(access_token=number, token_type=kind, token_expires_in=expires_in)
        self.data.update(token_scope=grant_type, user_first_name=user_first_name, user_last_name=user_last_name)
        return {"expires_in": expires_in, "access_token": number, "token_type": kind, "scope": grant_type}

    @tool
    def travel_get_login_status(self) -> dict[str, bool]:
        """Tell whether a traveller is authenticated, with a token that has not expired."""
        return {"status": self.data["token_expires_in"] is not None and self.data["token_expires_in"] != 0}

    @tool
    def verify_traveler_information(
        self, first_name: str, last_name: str, date_of_birth: str, passport_number: str
    ) -> dict[str, bool | str]:
        """Check that a traveller is the one who is authenticated, is of age, and has a passport of the United States.

        Args:
            first_name: The traveller's first name.
            last_name: The traveller's last name.
            date_of_birth: The traveller's birthday, as 1990-09-30.
            passport_number: The number of the traveller's passport.
        """
        failure = self._verification_failure(first_name, last_name, date_of_birth, passport_number)
        if failure:
            return {"verification_status": False, "verification_failure": failure}
        return {"verification_status": True}

    @tool
    def set_budget_limit(self, access_token: str, budget_limit: float) -> dict[str, float]:
        """Set the traveller's budget.

        Args:
            access_token: The token got by authentication.
            budget_limit: The budget, in US dollars.
        """
        self._require_token(access_token)
        self.data["budget_limit"] = float(budget_limit)
        return {"budget_limit": self.data["budget_limit"]}

    @tool
    def register_credit_card(
        self,
        access_token: str,
        card_number: str,
        expiration_date: str,
        cardholder_name: str,
        card_verification_number: int,
    ) -> dict[str, str]:
        """Register a credit card, and get the id to pay with it.

        Args:
            access_token: The token got by authentication.
            card_number: The number on the card.
            expiration_date: The month in which it expires, as 09/2030.
            cardholder_name: The name on the card.
            card_verification_number: The number that proves its possession.
        """
        refuse_if(self.data["token_expires_in"] is None, "nobody is authenticated; authenticate first")
        self._require_token(access_token)
        refuse_if(card_number in self.data["credit_card_list"], "this card is registered already")

        card_id = self._random_number(12)
        self.data["credit_card_list"][card_id] = {
            "card_number": card_number,
            "expiration_date": expiration_date,
            "cardholder_name": cardholder_name,
            "card_verification_number": card_verification_number,
            "balance": self._random.randint(10_000, 99_999),
        }

        return {"card_id": card_id}

    @tool
    def get_credit_card_balance(self, access_token: str, card_id: str) -> dict[str, float]:
        """Tell the balance of a registered credit card, in US dollars.

        Args:
            access_token: The token got by authentication.
            card_id: The id of the card.
        """
        self._require_token(access_token)
        registered = list(self.data["credit_card_list"])
        card = self.entry("credit_card_list", card_id, f"this card is not registered; registered are {registered}")
        return {"card_balance": card["balance"]}

    @tool
    def get_all_credit_cards(self) -> dict[str, object]:
        """List all registered credit cards by id."""
        return {"credit_card_list": copy_json(self.data["credit_card_list"])}

    @tool
    def list_all_airports(self) -> list[str]:
        """List the codes of all airports."""
        return list(figures()["travel"]["airports"])

    @tool
    def get_nearest_airport_by_city(self, location: str) -> dict[str, str]:
        """Tell the airport that is nearest to a city.

        Args:
            location: The city's name, as "San Francisco".
        """
        return {"nearest_airport": figures()["travel"]["cities"].get(location, "Unknown")}

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
        cost = _fare(travel_from, travel_to, travel_date, travel_class)
        if self._padding is None:
            return {"travel_cost_list": [cost]}

        # With long context, BFCL lists the fares of all routes.
        factor = _fare_factor(travel_date, travel_class)
        return {"travel_cost_list": [base * factor for _, _, base in figures()["travel"]["fares"]]}

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
        rates = figures()["travel"]["dollar_buys"]
        refuse_if(isinstance(value, (str, list)) and len(value) > _LONGEST_TEXT, "the amount must be a number")

        if base_currency == "USD" and target_currency in rates:
            # BFCL multiplies before it converts the result to a number: "5" at a rate of 7 is 5,555,555.
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
        return {"budget_fiscal_year": figures()["travel"]["fiscal_year"]}

    def _booking(self, booking_id: str | None) -> dict[str, Any]:
        """Return the booking itself, not a copy, or raise SimulatorError if there is none with this id."""
        return self.entry("booking_record", booking_id, "there is no booking with this id")

    def _random_number(self, digits: int) -> str:
        """Return a random number with this many digits, for ids and tokens."""
        return str(self._random.randint(10 ** (digits - 1), 10**digits - 1))

    def _require_token(self, access_token: str) -> None:
        """Raise SimulatorError if the token is not the current one or has expired."""
        refuse_if(self.data["token_expires_in"] == 0, "the access token has expired; authenticate again")
        refuse_if(access_token != self.data["access_token"], "this access token is not valid")

    def _card(self, card_id: str) -> dict[str, Any]:
        """Return the credit card itself, not a copy, or raise SimulatorError if it is not registered."""
        return self.entry("credit_card_list", card_id, "this card is not registered")

    def _verification_failure(self, first_name: str, last_name: str, date_of_birth: str, passport_number: str) -> str:
        """Return the text why a traveller fails verification (name, date of birth, age, passport), or an empty text."""
        failures: dict[str, str] = figures()["travel"]["verification_failures"]
        if (first_name, last_name) != (self.data["user_first_name"], self.data["user_last_name"]):
            known = {"known_first": self.data["user_first_name"], "known_last": self.data["user_last_name"]}
            return failures["another"].format(first=first_name, last=last_name, **known)

        born = _parse_day(date_of_birth)
        if born is None:
            return failures["no_date"]

        today = date.today()  # noqa: DTZ011 - the age on the traveller's own calendar
        is_before_birthday = (today.month, today.day) < (born.month, born.day)
        age = today.year - born.year - (1 if is_before_birthday else 0)
        if age < _ADULT_YEARS:
            return failures["child"]

        return "" if passport_number.startswith("US") else failures["foreigner"]


def _booking_fare(travel_date: str, travel_from: str, travel_to: str, travel_class: str) -> float:
    """Return the fare of a flight to book.

    Raises:
        SimulatorError: an airport is not listed, the date does not exist, or there is no such flight or class.
    """
    for place, code in (("departure", travel_from), ("arrival", travel_to)):
        refuse_if(code not in figures()["travel"]["airports"], f"there is no airport {code} to use for {place}")
    refuse_if(_parse_day(travel_date) is None, "the travel date must be written as YYYY-MM-DD")
    return _fare(travel_from, travel_to, travel_date, travel_class)


def _parse_day(text: str) -> date | None:
    """Return the day of a text such as 2024-09-30, or None for other texts."""
    try:
        return datetime.strptime(text, "%Y-%m-%d").date()  # noqa: DTZ007 - a day has no zone
    except ValueError:
        return None


def _fare(travel_from: str, travel_to: str, travel_date: str, travel_class: str) -> float:
    """Return the fare in US dollars for a class and a day. Raise SimulatorError if no such flight or class exists."""
    for start, end, base in figures()["travel"]["fares"]:
        if (start, end) == (travel_from, travel_to):
            return cast("float", base * _fare_factor(travel_date, travel_class))
    raise SimulatorError("there is no flight between these airports")


def _fare_factor(travel_date: str, travel_class: str) -> float:
    """Return the factor by which a class and a day change a fare. Days with an even sum of digits cost more.

    Raises:
        SimulatorError: the class is unknown.
    """
    factors = figures()["travel"]["class_factors"]
    refuse_if(travel_class not in factors, "the travel class must be economy, business or first")

    factor = factors[travel_class]
    digit_sum = sum(int(each) for each in travel_date if each.isdigit())
    return cast("float", factor if digit_sum % 2 else factor * figures()["travel"]["even_date_factor"])
