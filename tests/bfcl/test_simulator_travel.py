"""TravelAPI: what it does, and that it is what the reference is."""

from __future__ import annotations

import json
import random
import subprocess
from datetime import date
from importlib.resources import files
from typing import Any

import pytest
from tests.bfcl_reference import reference_data, reference_python
from tests.conftest import ROOT
from tests.simulator_differential import ground_truth_cases, long_context
from tests.simulator_services import awkward_arguments, backend, call, differences, mismatched_definitions

from tunecheck import DataError
from tunecheck.simulators import Backend, OperationResult
from tunecheck_bfcl._services._travel_api import TravelAPI

YEAR = date.today().year  # noqa: DTZ011
FLIGHT = {"travel_date": "2024-05-02", "travel_from": "SFO", "travel_to": "LAX", "travel_class": "economy"}


def travelling(*, padded: bool = False, **config: Any) -> Backend:
    cards = {"card": {"balance": 1000.0}}
    return backend(
        TravelAPI, {"access_token": "tok", "token_expires_in": 5, "credit_card_list": cards, **config}, padded=padded
    )


def state(started: Backend) -> Any:
    return started.states()["TravelAPI"]


def book(started: Backend, **changes: Any) -> OperationResult:
    return call(started, "book_flight", **{"access_token": "tok", "card_id": "card", **FLIGHT, **changes})


def test_authentication_gives_a_token_of_six_digits_from_the_seed() -> None:
    started = backend(TravelAPI, {"random_seed": 11})
    assert call(started, "travel_get_login_status").value == {"status": False}
    names = ("client_id", "client_secret", "refresh_token", "grant_type", "user_first_name", "user_last_name")
    granted: Any = call(started, "authenticate_travel", **dict.fromkeys(names, "read")).value
    assert granted["access_token"] == str(random.Random(11).randint(100_000, 999_999))
    assert (granted["scope"], granted["token_type"]) == ("read", "Bearer")
    assert call(started, "travel_get_login_status").value == {"status": True}
    assert not call(started, "get_booking_history", access_token=granted["access_token"]).error


@pytest.mark.parametrize(("token", "expires"), [("other", 5), (None, 5), ("tok", 0)])
def test_a_wrong_or_expired_token_opens_nothing(token: str | None, expires: int) -> None:
    started = travelling(token_expires_in=expires)
    for name, arguments in (
        ("book_flight", {"card_id": "card", **FLIGHT}),
        ("cancel_booking", {"booking_id": "b"}),
        ("get_booking_history", {}),
        ("get_credit_card_balance", {"card_id": "card"}),
        ("set_budget_limit", {"budget_limit": 5}),
    ):
        assert call(started, name, access_token=token, **arguments).error
    assert state(started)["budget_limit"] is None


@pytest.mark.parametrize(
    ("travel_date", "travel_class", "cost"),
    [
        ("2024-05-02", "economy", 200.0),  # 2+0+2+4+0+5+0+2 = 15 is odd: the base fare
        ("2024-05-01", "economy", 400.0),  # 14 is even: twice
        ("2024-05-02", "business", 400.0),
        ("2024-05-01", "first", 2000.0),  # 200 × 5 × 2
    ],
)
def test_a_fare_depends_on_the_class_and_on_the_sum_of_the_digits_of_the_day(
    travel_date: str, travel_class: str, cost: float
) -> None:
    arguments = {**FLIGHT, "travel_date": travel_date, "travel_class": travel_class}
    assert call(travelling(), "get_flight_cost", **arguments).value == {"travel_cost_list": [cost]}


def test_a_route_leads_one_way() -> None:
    started = travelling()
    back = call(started, "get_flight_cost", **{**FLIGHT, "travel_from": "LAX", "travel_to": "SFO"})
    assert back.value == {"travel_cost_list": [100.0]}
    assert call(started, "get_flight_cost", **{**FLIGHT, "travel_from": "CDG", "travel_to": "LHR"}).error


def test_a_booking_is_paid_recorded_and_given_back() -> None:
    started, chance = travelling(random_seed=11), random.Random(11)
    ids = str(chance.randint(1_000_000, 9_999_999)), str(chance.randint(10_000_000, 99_999_999))
    assert book(started).text == json.dumps(
        {"booking_id": ids[0], "transaction_id": ids[1], "booking_status": True, "booking_history": {}}
    )
    assert state(started)["credit_card_list"]["card"]["balance"] == 800.0
    invoice: Any = call(started, "retrieve_invoice", access_token="tok", booking_id=ids[0]).value
    assert invoice["invoice"] == {"booking_id": ids[0], **FLIGHT, "travel_cost": 200.0, "transaction_id": ids[1]}
    assert call(started, "cancel_booking", access_token="tok", booking_id=ids[0]).value == {"cancel_status": True}
    assert state(started)["credit_card_list"]["card"]["balance"] == 1000.0
    assert state(started)["booking_record"] == {}
    assert call(started, "cancel_booking", access_token="tok", booking_id=ids[0]).error


@pytest.mark.parametrize(
    "changes",
    [
        {"card_id": "none"},
        {"travel_date": "tomorrow"},
        {"travel_from": "XXX"},
        {"travel_to": "SFO"},
        {"travel_to": "PVG"},
        {"travel_class": "cargo"},
        {"travel_class": "first", "travel_date": "2024-05-01"},  # costs 2000
    ],
)
def test_a_booking_that_cannot_be_made_says_so_and_changes_nothing(changes: dict[str, str]) -> None:
    started = travelling()
    before = json.dumps(state(started))
    refused = book(started, **changes)
    assert refused.error
    assert isinstance(refused.value, dict)
    assert refused.value["booking_status"] is False
    assert json.dumps(state(started)) == before


def test_no_flight_is_booked_with_a_card_that_holds_less_than_the_budget() -> None:
    started = travelling(budget_limit=1000.5)
    assert book(started).error
    call(started, "set_budget_limit", access_token="tok", budget_limit="1000")
    assert not book(started).error


def test_a_card_is_registered_once_with_a_balance_from_the_seed() -> None:
    started, chance = travelling(random_seed=11), random.Random(11)
    card = {
        "card_number": "4111",
        "expiration_date": "05/2030",
        "cardholder_name": "Ada",
        "card_verification_number": 9,
    }
    number = str(chance.randint(10**11, 10**12 - 1))
    assert call(started, "register_credit_card", access_token="tok", **card).value == {"card_id": number}
    assert state(started)["credit_card_list"][number] == {**card, "balance": chance.randint(10_000, 99_999)}
    again = call(started, "register_credit_card", access_token="tok", **{**card, "card_number": number})
    assert again.error


def test_an_insurance_is_paid_if_the_budget_allows_and_the_flight_is_booked() -> None:
    started = travelling(budget_limit=50, booking_record={"b": {}})
    arguments = {"access_token": "tok", "insurance_type": "all", "booking_id": "b", "card_id": "card"}
    assert call(started, "purchase_insurance", **arguments, insurance_cost=50.5).error
    assert call(started, "purchase_insurance", **{**arguments, "booking_id": "?"}, insurance_cost=5).error
    bought: Any = call(started, "purchase_insurance", **arguments, insurance_cost=50).value
    assert bought["insurance_status"] is True
    assert len(bought["insurance_id"]) == 9
    assert state(started)["credit_card_list"]["card"]["balance"] == 950.0


@pytest.mark.parametrize(
    ("base", "target", "value", "exchanged"),
    [("USD", "RMB", 3, 21.0), ("RMB", "USD", 1, 0.14), ("USD", "EUR", 10, 8.0), ("EUR", "USD", 1, 1.25)],
)
def test_dollars_are_exchanged_exactly_and_back_to_cents(
    base: str, target: str, value: float, exchanged: float
) -> None:
    arguments = {"base_currency": base, "target_currency": target, "value": value}
    assert call(travelling(), "compute_exchange_rate", **arguments).value == {"exchanged_value": exchanged}


def test_there_is_no_rate_between_two_other_currencies() -> None:
    arguments = {"base_currency": "EUR", "target_currency": "RMB", "value": 1}
    assert call(travelling(), "compute_exchange_rate", **arguments).error


def test_a_long_text_is_no_amount_of_money() -> None:
    arguments = {"base_currency": "USD", "target_currency": "JPY", "value": "1" * 10_000_000}
    assert call(travelling(), "compute_exchange_rate", **arguments).error


@pytest.mark.parametrize(
    ("changes", "verified"),
    [
        ({}, True),
        ({"first_name": "ada"}, False),
        ({"date_of_birth": "01/31/1990"}, False),
        ({"date_of_birth": f"{YEAR - 17}-01-01"}, False),
        ({"date_of_birth": f"{YEAR - 18}-01-01"}, True),
        ({"date_of_birth": f"{YEAR - 17}-12-31"}, False),
        ({"passport_number": "FR1"}, False),
    ],
)
def test_a_traveller_is_verified_by_name_age_and_passport(changes: dict[str, str], verified: bool) -> None:
    started = travelling(user_first_name="Ada", user_last_name="Byron")
    usual = {"first_name": "Ada", "last_name": "Byron", "date_of_birth": "1990-01-31", "passport_number": "US1"}
    told = call(started, "verify_traveler_information", **{**usual, **changes})
    assert isinstance(told.value, dict)
    assert told.value["verification_status"] is verified
    assert not told.error


def test_long_context_adds_cards_and_bookings_to_the_state_behind_those_of_the_entry() -> None:
    constants = long_context()
    known = next(iter(constants["CREDIT_CARD_EXTENSION"]))
    started = travelling(padded=True, credit_card_list={"card": {"balance": 1}, known: {"balance": 2}})
    cards = state(started)["credit_card_list"]
    assert list(cards)[:2] == ["card", known]
    assert cards == {**constants["CREDIT_CARD_EXTENSION"], "card": {"balance": 1}, known: {"balance": 2}}
    assert state(started)["booking_record"] == constants["BOOKING_RECORD_EXTENSION"]
    assert state(started)["long_context"] is True


def test_long_context_lists_all_fares_and_the_whole_record_of_bookings() -> None:
    started = travelling(padded=True)
    listed: Any = call(started, "get_flight_cost", **FLIGHT).value
    assert len(listed["travel_cost_list"]) == 153
    booked: Any = book(started).value
    assert booked["booking_history"] == state(started)["booking_record"]
    assert len(booked["booking_history"]) == 17


def test_a_booking_in_long_context_changes_neither_the_constants_nor_another_instance() -> None:
    started, other = travelling(padded=True), travelling(padded=True)
    known = next(iter(long_context()["CREDIT_CARD_EXTENSION"]))
    before = json.dumps(state(other))
    assert not book(started, card_id=known).error
    assert json.dumps(state(other)) == before == json.dumps(state(travelling(padded=True)))


def test_cards_that_are_handed_out_are_copies() -> None:
    started = travelling()
    cards: Any = call(started, "get_all_credit_cards").value
    cards["credit_card_list"]["card"]["balance"] = 0
    assert state(started)["credit_card_list"]["card"]["balance"] == 1000.0


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"credit_card_list": []}, "credit_card_list is a list; an object is needed"),
        ({"booking_record": None}, "booking_record is null; an object is needed"),
        ({"random_seed": "x"}, "random_seed is text; a whole number is needed"),
    ],
)
def test_a_part_of_another_shape_is_named(config: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        TravelAPI().load(config)


def test_the_figures_are_those_that_the_script_tabulates() -> None:
    command = [str(reference_python()), str(ROOT / "scripts" / "tabulate_bfcl_figures.py"), str(reference_data())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
    shipped = files("tunecheck_bfcl").joinpath("_services", "figures.json").read_text(encoding="utf-8")
    assert json.loads(done.stdout) == json.loads(shipped)


def test_tool_definitions_match_the_documents_of_the_data() -> None:
    assert mismatched_definitions(TravelAPI, "travel_booking.json") == []


@pytest.mark.parametrize("padded", [False, True])
def test_hostile_arguments_are_answered(padded: bool) -> None:
    for name, arguments in awkward_arguments(TravelAPI):
        started = travelling(padded=padded, booking_record={"b": {"card_id": "card", "travel_cost": 5}})
        assert call(started, name, **arguments).text
        assert started.state_texts()


def test_the_ground_truth_of_all_entries_gives_what_the_reference_gives() -> None:
    assert differences(TravelAPI, ground_truth_cases(TravelAPI)) == []
