"""Endpoints: models that answer chat requests, defined in YAML, asked over HTTP, from a file or in Python."""

from tunecheck.endpoints._base import (
    ChatRequest,
    Completion,
    Endpoint,
    Price,
    StatefulEndpoint,
    StatefulReply,
    Usage,
    masked,
)
from tunecheck.endpoints._check import CheckReport, check_endpoint
from tunecheck.endpoints._config import Definition, EndpointConfig, Place
from tunecheck.endpoints._definition import load_endpoint
from tunecheck.endpoints._masking import Redactor, Secret
from tunecheck.endpoints._target import EndpointTarget

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
    "StatefulEndpoint",
    "StatefulReply",
    "Usage",
    "check_endpoint",
    "load_endpoint",
    "masked",
]
