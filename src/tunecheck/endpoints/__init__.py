"""Endpoints: models that answer chat requests over HTTP, from recorded answers or in Python; defined in YAML."""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
