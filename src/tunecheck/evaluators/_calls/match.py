"""The entry point of environments that were installed before `MatchEvaluator` moved."""

from tunecheck.evaluators._calls.evaluators import MatchEvaluator

__all__ = ["MatchEvaluator"]
