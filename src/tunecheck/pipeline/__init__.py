"""The pipeline: from rows to verdicts. It knows no concrete evaluator and no concrete endpoint."""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
