"""The account side of TravelAPI: authentication, credit cards and the budget."""

from __future__ import annotations

import random
from datetime import date, datetime
from typing import TypedDict

from tunecheck.simulators._base import SimulatorError, tool
from tunecheck.simulators._figures import copied, figures
from tunecheck.simulators._travel.flights import TravelGuide

_ADULT_YEARS = 18


class Card(TypedDict, total=False):
    """A credit card; `balance` is in US dollars. Those that come with a configuration may lack anything."""

    card_number: str
    expiration_date: str
    cardholder_name: str
    card_verification_number: int
    balance: float


class TravelAccount(TravelGuide):
    """A traveller, the token got by authentication, the cards and the budget; `TravelAPI` loads them."""

    credit_card_list: dict[str, Card]
    access_token: str | None
    token_type: str | None
    token_expires_in: int | None
    token_scope: str | None
    user_first_name: str | None
    user_last_name: str | None
    budget_limit: float | None
    _random: random.Random

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
        token = figures().travel.token
        self.access_token = self._number(6)
        self.token_type = token.type
        self.token_expires_in = token.expires_in
        self.token_scope = grant_type
        self.user_first_name = user_first_name
        self.user_last_name = user_last_name
        return {
            "expires_in": token.expires_in,
            "access_token": self.access_token,
            "token_type": token.type,
            "scope": grant_type,
        }

    @tool
    def travel_get_login_status(self) -> dict[str, bool]:
        """Tell whether a traveller is authenticated, with a token that has not expired."""
        return {"status": self.token_expires_in is not None and self.token_expires_in != 0}

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
        failure = self._unfit(first_name, last_name, date_of_birth, passport_number)
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
        self.budget_limit = float(budget_limit)
        return {"budget_limit": self.budget_limit}

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
        if self.token_expires_in is None:
            raise SimulatorError("nobody is authenticated; authenticate first")
        self._require_token(access_token)
        if card_number in self.credit_card_list:
            raise SimulatorError("this card is registered already")
        card_id = self._number(12)
        self.credit_card_list[card_id] = {
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
        if card_id not in self.credit_card_list:
            raise SimulatorError(f"this card is not registered; registered are {list(self.credit_card_list)}")
        return {"card_balance": self.credit_card_list[card_id]["balance"]}

    @tool
    def get_all_credit_cards(self) -> dict[str, dict[str, Card]]:
        """List all registered credit cards by id."""
        return {"credit_card_list": copied(self.credit_card_list)}

    def _number(self, digits: int) -> str:
        """A random number of so many digits, as ids and tokens are."""
        return str(self._random.randint(10 ** (digits - 1), 10**digits - 1))

    def _require_token(self, access_token: str) -> None:
        if self.token_expires_in == 0:
            raise SimulatorError("the access token has expired; authenticate again")
        if access_token != self.access_token:
            raise SimulatorError("this access token is not valid")

    def _card(self, card_id: str) -> Card:
        if card_id not in self.credit_card_list:
            raise SimulatorError("this card is not registered")
        return self.credit_card_list[card_id]

    def _unfit(self, first_name: str, last_name: str, date_of_birth: str, passport_number: str) -> str:
        """Why a traveller is not verified; empty where nothing speaks against it."""
        failures = figures().travel.verification_failures
        if (first_name, last_name) != (self.user_first_name, self.user_last_name):
            return failures.another.format(
                known_first=self.user_first_name, known_last=self.user_last_name, first=first_name, last=last_name
            )
        born = day(date_of_birth)
        if born is None:
            return failures.no_date
        today = date.today()  # noqa: DTZ011 - the age on the traveller's own calendar
        if today.year - born.year - ((today.month, today.day) < (born.month, born.day)) < _ADULT_YEARS:
            return failures.child
        return "" if passport_number.startswith("US") else failures.foreigner


def day(text: str) -> date | None:
    """A day written as 2024-09-30; None for anything else that is text."""
    try:
        return datetime.strptime(text, "%Y-%m-%d").date()  # noqa: DTZ007 - a day has no zone
    except ValueError:
        return None
