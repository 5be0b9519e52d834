"""Stateful services that a model's calls run against, BFCL's eight and your own."""

from tunecheck.simulators._backend import Backend, Result, find_simulator
from tunecheck.simulators._base import Simulator, SimulatorError, tool
from tunecheck.simulators._recorded import Recorded
from tunecheck.simulators._resources import Action, Resource, Resources

__all__ = [
    "Action",
    "Backend",
    "Recorded",
    "Resource",
    "Resources",
    "Result",
    "Simulator",
    "SimulatorError",
    "find_simulator",
    "tool",
]
