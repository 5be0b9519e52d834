"""Endpoints: models that answer chat requests, defined in YAML, asked over HTTP, from a file or in Python."""

from tunecheck.endpoints._base import ChatRequest, Completion, Endpoint, Price, Usage
from tunecheck.endpoints._check import CheckReport, check_endpoint
from tunecheck.endpoints._definition import Definition, Section, load_endpoint
from tunecheck.endpoints._target import EndpointTarget

__all__ = [
    "ChatRequest",
    "CheckReport",
    "Completion",
    "Definition",
    "Endpoint",
    "EndpointTarget",
    "Price",
    "Section",
    "Usage",
    "check_endpoint",
    "load_endpoint",
]
