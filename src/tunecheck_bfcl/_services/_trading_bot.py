"""TradingBot: an account at a stock exchange, with orders, deposits and withdrawals.

Quirks of BFCL's service that its data need:

  * Orders change no balance: only deposits and withdrawals do.
  * A deposit's time is random, up to a day after the opening. The seed decides it.
  * An order is "Open" in the state, but the answer to `place_order` says "Pending".
  * With long context, `get_watchlist` returns a list instead of an object.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, cast

from tunecheck.plugins import JSON
from tunecheck.simulators import copy_json, tool
from tunecheck_bfcl._services._figures import ConfiguredService, figures, refuse_if

_SEED = 1053520
_DAY_S = 86_400
_OPENING = datetime(2024, 9, 1, 10, 30)  # noqa: DTZ001 - the exchange has no time zone
_DATE = "%Y-%m-%d"
_TIME = "%Y-%m-%d %H:%M:%S"

# The constants that extend each sector's list of stocks with long context.
_SECTORS_PADDING = {"Technology": "TECHNOLOGY_EXTENSION", "Automobile": "AUTOMOBILE_EXTENSION"}


class TradingBot(ConfiguredService):
    """Configuration: `orders` by id, `account_info`, `authenticated`, `market_status` ("Open" or "Closed"),
    `order_counter`, `stocks` by symbol, `watch_list`, `transaction_history`, `random_seed`.

    State: all of these but the seed, and `long_context`. The seed decides when a deposit or withdrawal took place.
    """

    def load(self, config: Mapping[str, JSON], *, long_context: Mapping[str, JSON] | None = None) -> None:
        """Start from a configuration, with defaults for missing keys.

        Numeric order ids become integers, because JSON has only texts as keys.
        """
        self.defaults = {**figures()["trading"]["defaults"], "random_seed": _SEED}
        super().load(config, long_context=long_context)

        orders = self.data["orders"]
        self.data["orders"] = {
            (int(name) if name.isdecimal() and len(name) < 1000 else name): order for name, order in orders.items()
        }

    @tool
    def trading_login(self, username: str, password: str) -> dict[str, str]:
        """Log in to the trading system; any name and password will do.

        Args:
            username: The user's name.
            password: The user's password.
        """
        if self.data["authenticated"]:
            return {"status": "Already logged in"}
        self.data["authenticated"] = True
        return {"status": "Logged in successfully"}

    @tool
    def trading_logout(self) -> dict[str, str]:
        """Log out of the trading system."""
        if not self.data["authenticated"]:
            return {"status": "No user is currently logged in"}
        self.data["authenticated"] = False
        return {"status": "Logged out successfully"}

    @tool
    def trading_get_login_status(self) -> dict[str, bool]:
        """Tell whether a user is logged in to the trading system."""
        return {"status": bool(self.data["authenticated"])}

    @tool
    def get_account_info(self) -> dict[str, Any]:
        """Show the account's number, its balance in US dollars and the card it is bound to."""
        self._require_login("see the account")
        return cast("dict[str, Any]", self.data["account_info"].copy())

    @tool
    def fund_account(self, amount: float) -> dict[str, str | float]:
        """Pay money into the account.

        Args:
            amount: How much, in US dollars.
        """
        self._require_login("pay money in")
        refuse_if(amount <= 0, "the amount to pay in must be above zero")

        self.data["account_info"]["balance"] += amount
        self._record("deposit", amount)
        return {"status": "Account funded successfully", "new_balance": self.data["account_info"]["balance"]}

    @tool
    def withdraw_funds(self, amount: float) -> dict[str, str | float]:
        """Take money out of the account, while the market is open.

        Args:
            amount: How much, in US dollars.
        """
        self._require_login("withdraw money")
        refuse_if(self.data["market_status"] != "Open", "the market is closed; money can be withdrawn when it is open")
        refuse_if(amount <= 0, "the amount to withdraw must be above zero")
        refuse_if(amount > self.data["account_info"]["balance"], "the balance does not suffice for this withdrawal")

        self.data["account_info"]["balance"] -= amount
        self._record("withdrawal", amount)
        return {"status": "Withdrawal successful", "new_balance": self.data["account_info"]["balance"]}

    @tool
    def get_transaction_history(
        self, start_date: str | None = None, end_date: str | None = None
    ) -> dict[str, list[Any]]:
        """List deposits and withdrawals, of all times or from the start of one day to the start of another.

        Args:
            start_date: The first day, as 2024-09-01.
            end_date: The last day, as 2024-09-30; its own hours are no longer part.
        """
        self._require_login("see deposits and withdrawals")

        first = _parse_time(start_date or "0001-01-01", _DATE)
        last = _parse_time(end_date or "9999-12-31", _DATE)
        history = self.data["transaction_history"]
        listed = [entry for entry in history if first <= _parse_time(entry["timestamp"], _TIME) <= last]

        if self._padding is not None:
            listed += copy_json(self._padding["TRANSACTION_HISTORY_EXTENSION"])

        return {"transaction_history": copy_json(listed)}

    @tool
    def place_order(self, order_type: str, symbol: str, price: float, amount: int) -> dict[str, object]:
        """Order stocks to be bought or sold; an order to buy must not cost more than the balance.

        Args:
            order_type: "Buy" or "Sell".
            symbol: The stock's symbol.
            price: The price of one share, in US dollars.
            amount: The number of shares.
        """
        self._require_login("place an order")
        refuse_if(symbol not in self.data["stocks"], f"there is no stock {symbol}")
        refuse_if(price <= 0 or amount <= 0, "the price and the number of shares must be above zero")

        price = float(price)
        if order_type.lower() == "buy":
            cost, balance = price * amount, self.data["account_info"].get("balance", 0)
            refuse_if(cost > balance, f"the order costs ${cost:.2f} and the balance is ${balance:.2f}")

        order_id = self.data["order_counter"]
        self.data["orders"][order_id] = {
            "id": order_id,
            "order_type": order_type,
            "symbol": symbol,
            "price": price,
            "amount": amount,
            "status": "Open",
        }

        self.data["order_counter"] += 1
        # As in BFCL, the result says Pending, and the state Open.
        return {"order_id": order_id, "order_type": order_type, "status": "Pending", "price": price, "amount": amount}

    @tool
    def cancel_order(self, order_id: int) -> dict[str, int | str]:
        """Cancel an order that is not completed.

        Args:
            order_id: The order's number.
        """
        order = self.entry("orders", order_id, f"there is no order {order_id}")
        refuse_if(order["status"] == "Completed", f"order {order_id} is completed and cannot be cancelled")
        order["status"] = "Cancelled"
        return {"order_id": order_id, "status": "Cancelled"}

    @tool
    def get_order_details(self, order_id: int) -> object:
        """Show an order: what is bought or sold, at which price, how much of it, and the order's status.

        Args:
            order_id: The order's number.
        """
        orders = list(self.data["orders"])
        order = self.entry("orders", order_id, f"there is no order {order_id}; there are {orders}")

        if self._padding is None:
            return copy_json(order)

        templates, symbol = self._padding["ORDER_DETAIL_EXTENSION"], str(order["symbol"])
        metadata = {name: str(template).replace("{symbol}", symbol) for name, template in templates.items()}
        return {**order, "metadata": metadata}

    @tool
    def get_order_history(self) -> dict[str, list[int | str]]:
        """List the numbers of all orders."""
        self._require_login("see your orders")
        return {"history": list(self.data["orders"])}

    @tool
    def get_current_time(self) -> dict[str, str]:
        """Tell the time of day at the market."""
        return {"current_time": figures()["trading"]["current_time"]}

    @tool
    def get_symbol_by_name(self, name: str) -> dict[str, str]:
        """Look up a company's stock symbol.

        Args:
            name: The company's name, as "Apple".
        """
        return {"symbol": figures()["trading"]["symbols"].get(name, "Stock not found")}

    @tool
    def get_stock_info(self, symbol: str) -> dict[str, Any]:
        """Show a stock's price, its change in percent, the trading volume and moving averages.

        Args:
            symbol: The stock's symbol.
        """
        stock = self.entry("stocks", symbol, f"nothing is known about a stock '{symbol}'")
        averages = {**self._extra("MA(5)", "MA_5_EXTENSION"), **self._extra("MA(20)", "MA_20_EXTENSION")}
        return {**stock, **averages}

    @tool
    def get_available_stocks(self, sector: str) -> dict[str, list[str]]:
        """List the symbols of the stocks of a sector.

        Args:
            sector: The sector, as "Technology".
        """
        symbols = list(figures()["trading"]["sectors"].get(sector, ()))
        if self._padding is not None and symbols:
            symbols += self._padding[_SECTORS_PADDING[sector]]
        return {"stock_list": symbols}

    @tool
    def filter_stocks_by_price(self, stocks: list[str], min_price: float, max_price: float) -> dict[str, list[str]]:
        """Keep those stocks whose price lies within a range, its ends included.

        Args:
            stocks: Symbols to choose from.
            min_price: The lowest price.
            max_price: The highest price.
        """
        prices = {symbol: self.data["stocks"].get(symbol, {}).get("price", 0) for symbol in stocks}
        return {"filtered_stocks": [symbol for symbol in stocks if min_price <= prices[symbol] <= max_price]}

    @tool
    def notify_price_change(self, stocks: list[str], threshold: float) -> dict[str, str]:
        """Tell which stocks have changed by at least so many percent, up or down.

        Args:
            stocks: Symbols to look at.
            threshold: The smallest change that counts, in percent.
        """
        changed = [
            symbol
            for symbol in stocks
            if symbol in self.data["stocks"] and abs(self.data["stocks"][symbol]["percent_change"]) >= threshold
        ]

        if not changed:
            return {"notification": "No significant price changes in the selected stocks."}
        return {"notification": f"Stocks {', '.join(changed)} have significant price changes."}

    @tool
    def get_watchlist(self) -> dict[str, list[str]] | list[str]:
        """List the symbols on the watchlist."""
        self._require_login("see the watchlist")
        if self._padding is not None:
            return cast("list[str]", self.data["watch_list"] + self._padding["WATCH_LIST_EXTENSION"])
        return {"watchlist": self.data["watch_list"].copy()}

    @tool
    def add_to_watchlist(self, stock: str) -> dict[str, list[str]]:
        """Put a stock on the watchlist; a symbol that is unknown or there already changes nothing.

        Args:
            stock: The stock's symbol.
        """
        if stock in self.data["stocks"] and stock not in self.data["watch_list"]:
            self.data["watch_list"].append(stock)
        return {"watchlist": self.data["watch_list"].copy()}

    @tool
    def remove_stock_from_watchlist(self, symbol: str) -> dict[str, str]:
        """Take a stock off the watchlist.

        Args:
            symbol: The stock's symbol.
        """
        self._require_login("change the watchlist")
        refuse_if(symbol not in self.data["watch_list"], f"the stock {symbol} is not on the watchlist")
        self.data["watch_list"].remove(symbol)
        return {"status": f"Stock {symbol} removed from watchlist successfully."}

    def _record(self, kind: str, amount: float) -> None:
        """Add a deposit or withdrawal to the history, at a random time within a day after the opening."""
        moment = _OPENING + timedelta(seconds=self._random.randint(0, _DAY_S))
        self.data["transaction_history"].append({"type": kind, "amount": amount, "timestamp": moment.strftime(_TIME)})

    def _require_login(self, purpose: str) -> None:
        """Raise SimulatorError, which names the purpose of the login, if no user is logged in."""
        refuse_if(not self.data["authenticated"], f"log in to the trading system to {purpose}")


def _parse_time(text: str, form: str) -> datetime:
    """Return the time in a text, or raise ValueError if the text has another form."""
    return datetime.strptime(text, form)  # noqa: DTZ007 - see _OPENING
