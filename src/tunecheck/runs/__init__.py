"""Run folders: their files, finding, resuming, reusing and checking runs."""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
