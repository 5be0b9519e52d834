"""Kinds of memory tests: those that ship, and how a kind is found by name, title or file."""
