"""Stateful services that a model's calls run against, the eight of BFCL and anyone's own."""

from __future__ import annotations

from tunecheck.simulators.backend import Backend, find_simulator
from tunecheck.simulators.base import Simulator, SimulatorError, tool
from tunecheck.simulators.results import Result

__all__ = ["Backend", "Result", "Simulator", "SimulatorError", "find_simulator", "tool"]
