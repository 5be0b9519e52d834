"""The market side of TradingBot: prices, companies, sectors and the watchlist."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypedDict

from tunecheck.simulators._base import Simulator, SimulatorError, tool
from tunecheck.simulators._figures import figures

if TYPE_CHECKING:
    from tunecheck.simulators._long_context import LongContext

Stock = TypedDict(
    "Stock",
    {"price": float, "percent_change": float, "volume": float, "MA(5)": object, "MA(20)": object},
    total=False,
)
"""A stock's figures. The moving averages are numbers, or long lists of them in a long-context row."""

_SECTORS_PADDING = {"Technology": "TECHNOLOGY_EXTENSION", "Automobile": "AUTOMOBILE_EXTENSION"}


class StockMarket(Simulator):
    """Stocks by symbol and a watchlist; `TradingBot` loads them."""

    bounded: ClassVar[bool] = True

    stocks: dict[str, Stock]
    watch_list: list[str]
    authenticated: bool
    _padding: LongContext | None

    @tool
    def get_current_time(self) -> dict[str, str]:
        """Tell the time of day at the market."""
        return {"current_time": figures().trading.current_time}

    @tool
    def get_symbol_by_name(self, name: str) -> dict[str, str]:
        """Look up a company's stock symbol.

        Args:
            name: The company's name, as "Apple".
        """
        return {"symbol": figures().trading.symbols.get(name, "Stock not found")}

    @tool
    def get_stock_info(self, symbol: str) -> Stock:
        """Show a stock's price, its change in percent, the trading volume and moving averages.

        Args:
            symbol: The stock's symbol.
        """
        if symbol not in self.stocks:
            raise SimulatorError(f"nothing is known about a stock '{symbol}'")
        stock = self.stocks[symbol].copy()
        if self._padding is not None:
            stock["MA(5)"] = self._padding["MA_5_EXTENSION"]
            stock["MA(20)"] = self._padding["MA_20_EXTENSION"]
        return stock

    @tool
    def get_available_stocks(self, sector: str) -> dict[str, list[str]]:
        """List the symbols of the stocks of a sector.

        Args:
            sector: The sector, as "Technology".
        """
        symbols = list(figures().trading.sectors.get(sector, ()))
        if self._padding is not None and symbols:
            symbols += _listed(self._padding, _SECTORS_PADDING[sector])
        return {"stock_list": symbols}

    @tool
    def filter_stocks_by_price(self, stocks: list[str], min_price: float, max_price: float) -> dict[str, list[str]]:
        """Keep those stocks whose price lies within a range, its ends included.

        Args:
            stocks: Symbols to choose from.
            min_price: The lowest price.
            max_price: The highest price.
        """
        return {"filtered_stocks": [each for each in stocks if min_price <= self._price(each) <= max_price]}

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
            if symbol in self.stocks and abs(self.stocks[symbol]["percent_change"]) >= threshold
        ]
        if not changed:
            return {"notification": "No significant price changes in the selected stocks."}
        return {"notification": f"Stocks {', '.join(changed)} have significant price changes."}

    @tool
    def get_watchlist(self) -> dict[str, list[str]] | list[str]:
        """List the symbols on the watchlist."""
        self._require_login("see the watchlist")
        if self._padding is not None:
            return self.watch_list + _listed(self._padding, "WATCH_LIST_EXTENSION")
        return {"watchlist": self.watch_list.copy()}

    @tool
    def add_to_watchlist(self, stock: str) -> dict[str, list[str]]:
        """Put a stock on the watchlist; a symbol that is unknown or there already changes nothing.

        Args:
            stock: The stock's symbol.
        """
        if stock in self.stocks and stock not in self.watch_list:
            self.watch_list.append(stock)
        return {"watchlist": self.watch_list.copy()}

    @tool
    def remove_stock_from_watchlist(self, symbol: str) -> dict[str, str]:
        """Take a stock off the watchlist.

        Args:
            symbol: The stock's symbol.
        """
        self._require_login("change the watchlist")
        if symbol not in self.watch_list:
            raise SimulatorError(f"the stock {symbol} is not on the watchlist")
        self.watch_list.remove(symbol)
        return {"status": f"Stock {symbol} removed from watchlist successfully."}

    def _price(self, symbol: str) -> float:
        return self.stocks.get(symbol, {}).get("price", 0)

    def _require_login(self, purpose: str) -> None:
        if not self.authenticated:
            raise SimulatorError(f"log in to the trading system to {purpose}")


def _listed(padding: LongContext, name: str) -> list[str]:
    values = padding[name]
    assert isinstance(values, list)
    return values  # type: ignore[return-value]  # symbols, and one item that is none
