"""TradingBot: what it does, and that it is what the reference is."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.simulator_differential import ground_truth_cases, long_context
from tests.simulator_services import awkward_arguments, backend, call, differences, mismatched_definitions

from tunecheck import DataError
from tunecheck.simulators import Backend
from tunecheck_bfcl._services._trading_bot import TradingBot

OPEN = {"authenticated": True, "market_status": "Open", "account_info": {"account_id": 1, "balance": 100.0}}


def opened(**config: Any) -> Backend:
    return backend(TradingBot, {**OPEN, **config})


def state(started: Backend) -> Any:
    return started.states()["TradingBot"]


def test_the_account_is_only_for_who_is_logged_in() -> None:
    started = backend(TradingBot, {})
    for name in ("get_account_info", "get_order_history", "get_watchlist", "get_transaction_history"):
        assert call(started, name).error
    assert call(started, "trading_login", username="ada", password="x").value == {"status": "Logged in successfully"}
    assert call(started, "trading_login", username="ada", password="x").value == {"status": "Already logged in"}
    assert not call(started, "get_account_info").error
    assert call(started, "trading_logout").value == {"status": "Logged out successfully"}
    assert call(started, "get_account_info").error


def test_prices_are_for_everybody() -> None:
    started = backend(TradingBot, {})
    for name, argument in (("get_stock_info", {"symbol": "AAPL"}), ("get_available_stocks", {"sector": "Technology"})):
        assert not call(started, name, **argument).error


def test_an_order_keeps_the_balance_and_is_numbered() -> None:
    started = opened()
    placed = call(started, "place_order", order_type="Buy", symbol="AAPL", price=10, amount=2)
    number = state(started)["order_counter"] - 1
    assert placed.text == json.dumps(
        {"order_id": number, "order_type": "Buy", "status": "Pending", "price": 10.0, "amount": 2}
    )
    assert state(started)["orders"][number]["status"] == "Open"
    assert state(started)["account_info"]["balance"] == 100.0


@pytest.mark.parametrize(("kind", "refused"), [("Buy", True), ("buy", True), ("Sell", False), ("hold", False)])
def test_only_an_order_to_buy_needs_the_money(kind: str, refused: bool) -> None:
    placed = call(opened(), "place_order", order_type=kind, symbol="AAPL", price=100.01, amount=1)
    assert placed.error is refused


@pytest.mark.parametrize(("price", "amount", "symbol"), [(0, 1, "AAPL"), (1, 0, "AAPL"), (-1, 1, "AAPL"), (1, 1, "?")])
def test_an_order_needs_a_price_an_amount_and_a_known_symbol(price: int, amount: int, symbol: str) -> None:
    assert call(opened(), "place_order", order_type="Sell", symbol=symbol, price=price, amount=amount).error


def test_a_completed_order_is_not_cancelled() -> None:
    started = opened(orders={"7": {"status": "Completed"}, "8": {"status": "Pending"}})
    assert call(started, "cancel_order", order_id=7).error
    assert call(started, "cancel_order", order_id=8).value == {"order_id": 8, "status": "Cancelled"}
    assert call(started, "cancel_order", order_id=9).error


def test_numbers_of_orders_in_a_configuration_are_numbers_and_other_keys_stay() -> None:
    started = opened(orders={"12345": {"symbol": "AAPL"}, "order_type": "Buy"})
    assert call(started, "get_order_history").value == {"history": [12345, "order_type"]}


def test_deposits_and_withdrawals_are_dated_by_the_seed() -> None:
    started, chance = opened(random_seed=3), random.Random(3)
    call(started, "fund_account", amount=5)
    call(started, "withdraw_funds", amount=2.5)
    opening = datetime.fromisoformat("2024-09-01 10:30:00")
    first, second = (opening + timedelta(seconds=chance.randint(0, 86_400)) for _ in range(2))
    assert state(started)["transaction_history"] == [
        {"type": "deposit", "amount": 5, "timestamp": str(first)},
        {"type": "withdrawal", "amount": 2.5, "timestamp": str(second)},
    ]
    assert state(started)["account_info"]["balance"] == 102.5


def test_money_is_withdrawn_while_the_market_is_open_and_no_more_than_there_is() -> None:
    assert call(opened(market_status="Closed"), "withdraw_funds", amount=1).error
    assert call(opened(), "withdraw_funds", amount=100.5).error
    assert call(opened(), "withdraw_funds", amount=100.0).value == {
        "status": "Withdrawal successful",
        "new_balance": 0.0,
    }


def test_the_history_is_cut_at_midnight_of_its_last_day() -> None:
    moments = ["2024-05-01 00:00:00", "2024-05-02 00:00:00", "2024-05-02 00:00:01"]
    started = opened(transaction_history=[{"timestamp": moment} for moment in moments])
    listed = call(started, "get_transaction_history", start_date="2024-05-01", end_date="2024-05-02").value
    assert listed == {"transaction_history": [{"timestamp": moment} for moment in moments[:2]]}
    assert call(started, "get_transaction_history", start_date="May").error


def test_prices_are_filtered_with_both_ends_and_unknown_stocks_cost_nothing() -> None:
    started = opened(stocks={"A": {"price": 1.0}, "B": {"price": 2.0}, "C": {"price": 2.5}})
    kept = call(started, "filter_stocks_by_price", stocks=["A", "B", "C", "?"], min_price=1, max_price=2)
    assert kept.value == {"filtered_stocks": ["A", "B"]}
    assert call(started, "filter_stocks_by_price", stocks=["?"], min_price=0, max_price=0).value == {
        "filtered_stocks": ["?"]
    }


def test_changes_count_up_and_down() -> None:
    started = opened(stocks={"A": {"percent_change": -0.5}, "B": {"percent_change": 0.5}, "C": {"percent_change": 0.4}})
    told = call(started, "notify_price_change", stocks=["A", "B", "C", "?"], threshold=0.5)
    assert told.value == {"notification": "Stocks A, B have significant price changes."}


def test_the_watchlist_takes_known_stocks_once() -> None:
    started = opened(watch_list=[])
    for symbol in ("AAPL", "AAPL", "?"):
        assert call(started, "add_to_watchlist", stock=symbol).value == {"watchlist": ["AAPL"]}
    assert not call(started, "remove_stock_from_watchlist", symbol="AAPL").error
    assert call(started, "remove_stock_from_watchlist", symbol="AAPL").error


def test_long_context_pads_answers_and_not_the_state() -> None:
    started, constants = backend(TradingBot, {**OPEN, "watch_list": ["NVDA"]}, padded=True), long_context()
    before = json.dumps(state(started))
    assert call(started, "get_watchlist").value == ["NVDA", *constants["WATCH_LIST_EXTENSION"]]
    shown: Any = call(started, "get_stock_info", symbol="AAPL").value
    assert shown["MA(5)"] == constants["MA_5_EXTENSION"]
    listed: Any = call(started, "get_transaction_history").value
    assert listed["transaction_history"] == constants["TRANSACTION_HISTORY_EXTENSION"]
    details: Any = call(started, "get_order_details", order_id=12345).value
    assert "AAPL" in json.dumps(details["metadata"])
    assert "{symbol}" not in json.dumps(details["metadata"])
    assert json.dumps(state(started)) == before
    assert state(started)["long_context"] is True


def test_what_long_context_hands_out_may_be_changed() -> None:
    started = backend(TradingBot, OPEN, padded=True)
    shown: Any = call(started, "get_stock_info", symbol="AAPL").value
    shown["MA(5)"].clear()
    again: Any = call(started, "get_stock_info", symbol="AAPL").value
    assert again["MA(5)"] == long_context()["MA_5_EXTENSION"]


def test_a_fresh_account_is_not_shared() -> None:
    first, second = backend(TradingBot, {"authenticated": True}), backend(TradingBot, {"authenticated": True})
    call(first, "fund_account", amount=5)
    call(first, "add_to_watchlist", stock="AAPL")
    call(first, "cancel_order", order_id=12446)
    assert state(second) == state(backend(TradingBot, {"authenticated": True}))
    assert state(second) != state(first)


@pytest.mark.parametrize("name", ["orders", "account_info", "stocks", "watch_list", "transaction_history"])
def test_a_part_of_another_shape_is_named(name: str) -> None:
    with pytest.raises(DataError, match=rf"initial_config\.TradingBot\.{name} is null"):
        TradingBot().load({name: None})


def test_tool_definitions_match_the_documents_of_the_data() -> None:
    assert mismatched_definitions(TradingBot, "trading_bot.json") == []


@pytest.mark.parametrize("padded", [False, True])
def test_hostile_arguments_are_answered(padded: bool) -> None:
    for name, arguments in awkward_arguments(TradingBot):
        started = backend(TradingBot, OPEN, padded=padded)
        assert call(started, name, **arguments).text
        assert started.state_texts()


def test_the_ground_truth_of_all_entries_gives_what_the_reference_gives() -> None:
    assert differences(TradingBot, ground_truth_cases(TradingBot)) == []
