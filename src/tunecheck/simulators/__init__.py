"""Stateful services that a model's calls run against, BFCL's eight and your own."""

from tunecheck.simulators._backend import Backend, Result, find_simulator
from tunecheck.simulators._base import Simulator, SimulatorError, tool

__all__ = ["Backend", "Result", "Simulator", "SimulatorError", "find_simulator", "tool"]
