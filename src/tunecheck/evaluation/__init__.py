"""The public functions that run the pipeline: evaluate(), score() and calibrate()."""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
