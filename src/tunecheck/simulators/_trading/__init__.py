"""TradingBot: orders, accounts and a market."""
