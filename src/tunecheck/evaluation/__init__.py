"""The front doors of the pipeline: evaluate(), score(), calibrate(), and BFCL and memory runs."""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
