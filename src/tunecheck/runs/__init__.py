"""Run folders: their files, and how runs are found, resumed, reused and checked."""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
