"""Runs: their folders, what is kept of them, and taking them up again."""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
