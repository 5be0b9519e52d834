"""The entry point of environments that were installed before `ArgumentMatchEvaluator` moved."""

from tunecheck.evaluators._calls.evaluators import ArgumentMatchEvaluator

__all__ = ["ArgumentMatchEvaluator"]
