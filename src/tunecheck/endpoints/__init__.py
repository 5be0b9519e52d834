"""Endpoints: models that answer chat requests, defined in YAML, asked over HTTP, from a file or in Python."""

from tunecheck.endpoints.base import ChatRequest, Completion, Endpoint, Price, Usage
from tunecheck.endpoints.check import CheckReport, check_endpoint
from tunecheck.endpoints.definition import Definition, Section, load_endpoint
from tunecheck.endpoints.target import EndpointTarget

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
