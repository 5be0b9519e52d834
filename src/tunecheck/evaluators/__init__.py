"""Evaluators: what is right and wrong about an answer, row by row."""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
