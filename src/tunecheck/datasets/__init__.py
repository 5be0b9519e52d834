"""Data sets: rows from files, frames and iterables, the defaults they declare, and converters of other formats."""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
