"""The restaurant: a test in which the agent is a waiter's guest, with its menu, orders and judge by words."""
