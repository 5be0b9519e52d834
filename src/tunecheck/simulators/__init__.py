"""The base of stateful services that a model's calls run against; BFCL's eight are in `tunecheck_bfcl._services`."""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
