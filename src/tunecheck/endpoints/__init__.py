"""Endpoints: models that answer chat requests, defined in YAML, asked over HTTP, from a file or in Python."""

from typing import TYPE_CHECKING

from tunecheck.endpoints._base import ChatRequest, Completion, Endpoint, Price, Usage, masked
from tunecheck.endpoints._config import Definition, EndpointConfig, Place
from tunecheck.endpoints._definition import load_endpoint
from tunecheck.endpoints._masking import Redactor, Secret
from tunecheck.endpoints._target import EndpointTarget

if TYPE_CHECKING:
    from tunecheck.endpoints._check import CheckReport, check_endpoint

__all__ = [
    "ChatRequest",
    "CheckReport",
    "Completion",
    "Definition",
    "Endpoint",
    "EndpointConfig",
    "EndpointTarget",
    "Place",
    "Price",
    "Redactor",
    "Secret",
    "Usage",
    "check_endpoint",
    "load_endpoint",
    "masked",
]


def __getattr__(name: str) -> object:
    """Load the check of an endpoint: a run has no use for it."""
    if name not in ("CheckReport", "check_endpoint"):
        raise AttributeError(f"module 'tunecheck.endpoints' has no attribute {name!r}")
    from tunecheck.endpoints import _check

    value: object = getattr(_check, name)
    return value
