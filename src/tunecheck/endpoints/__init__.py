"""Endpoints: models that answer chat requests, defined in YAML, asked over HTTP, from a file or in Python."""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
