"""The entry point of environments that were installed before `FunctionCallMatchEvaluator` moved."""

from tunecheck.evaluators._calls.evaluators import FunctionCallMatchEvaluator

__all__ = ["FunctionCallMatchEvaluator"]
