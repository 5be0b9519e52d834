"""The `simulated` endpoint: right answers, and seeded mistakes of every kind."""
