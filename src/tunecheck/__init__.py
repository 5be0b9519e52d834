"""Tunecheck: is this iteration of a fine-tuned function-calling endpoint better than the last one, and where?

Everything public is imported from here. Names are loaded when they are first used, so that `import tunecheck` is quick.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tunecheck.calibration import Calibration, calibrate
    from tunecheck.calls import FunctionCall, Reading, read_calls, write_calls
    from tunecheck.comparison import Comparison, MetricComparison, compare
    from tunecheck.endpoints import Endpoint, EndpointTarget, load_endpoint
    from tunecheck.errors import ConfigurationError, DataError, EndpointError, RunError, TunecheckError
    from tunecheck.evaluate import EvaluationResult, evaluate, score
    from tunecheck.evaluators.argument_match import ArgumentMatchEvaluator
    from tunecheck.evaluators.base import Evaluator, Metric, verdict
    from tunecheck.evaluators.bert_score import BertScoreEvaluator
    from tunecheck.evaluators.call_judge import CallJudgeEvaluator
    from tunecheck.evaluators.difference import DifferenceEvaluator
    from tunecheck.evaluators.embedding_similarity import EmbeddingSimilarityEvaluator
    from tunecheck.evaluators.function_call_match import FunctionCallMatchEvaluator
    from tunecheck.evaluators.groundedness import GroundednessEvaluator
    from tunecheck.evaluators.match import MatchEvaluator
    from tunecheck.evaluators.prompty import JudgementError, JudgeOutput, PromptyEvaluator
    from tunecheck.evaluators.relevance import RelevanceEvaluator
    from tunecheck.evaluators.text import (
        BleuScoreEvaluator,
        F1ScoreEvaluator,
        GleuScoreEvaluator,
        MeteorScoreEvaluator,
        RougeScoreEvaluator,
        RougeType,
    )
    from tunecheck.targets import CallContext, Row, Target

__version__ = "0.1.0"

_HOMES = {
    "tunecheck.calibration": ("Calibration", "calibrate"),
    "tunecheck.calls": ("FunctionCall", "Reading", "read_calls", "write_calls"),
    "tunecheck.comparison": ("Comparison", "MetricComparison", "compare"),
    "tunecheck.endpoints": ("Endpoint", "EndpointTarget", "load_endpoint"),
    "tunecheck.errors": ("ConfigurationError", "DataError", "EndpointError", "RunError", "TunecheckError"),
    "tunecheck.evaluate": ("EvaluationResult", "score"),
    "tunecheck.evaluators.argument_match": ("ArgumentMatchEvaluator",),
    "tunecheck.evaluators.base": ("Evaluator", "Metric", "verdict"),
    "tunecheck.evaluators.bert_score": ("BertScoreEvaluator",),
    "tunecheck.evaluators.call_judge": ("CallJudgeEvaluator",),
    "tunecheck.evaluators.difference": ("DifferenceEvaluator",),
    "tunecheck.evaluators.embedding_similarity": ("EmbeddingSimilarityEvaluator",),
    "tunecheck.evaluators.function_call_match": ("FunctionCallMatchEvaluator",),
    "tunecheck.evaluators.groundedness": ("GroundednessEvaluator",),
    "tunecheck.evaluators.match": ("MatchEvaluator",),
    "tunecheck.evaluators.prompty": ("JudgeOutput", "JudgementError", "PromptyEvaluator"),
    "tunecheck.evaluators.relevance": ("RelevanceEvaluator",),
    "tunecheck.evaluators.text": (
        "BleuScoreEvaluator",
        "F1ScoreEvaluator",
        "GleuScoreEvaluator",
        "MeteorScoreEvaluator",
        "RougeScoreEvaluator",
        "RougeType",
    ),
    "tunecheck.targets": ("CallContext", "Row", "Target"),
}

__all__ = [
    "ArgumentMatchEvaluator",
    "BertScoreEvaluator",
    "BleuScoreEvaluator",
    "Calibration",
    "CallContext",
    "CallJudgeEvaluator",
    "Comparison",
    "ConfigurationError",
    "DataError",
    "DifferenceEvaluator",
    "EmbeddingSimilarityEvaluator",
    "Endpoint",
    "EndpointError",
    "EndpointTarget",
    "EvaluationResult",
    "Evaluator",
    "F1ScoreEvaluator",
    "FunctionCall",
    "FunctionCallMatchEvaluator",
    "GleuScoreEvaluator",
    "GroundednessEvaluator",
    "JudgeOutput",
    "JudgementError",
    "MatchEvaluator",
    "MeteorScoreEvaluator",
    "Metric",
    "MetricComparison",
    "PromptyEvaluator",
    "Reading",
    "RelevanceEvaluator",
    "RougeScoreEvaluator",
    "RougeType",
    "Row",
    "RunError",
    "Target",
    "TunecheckError",
    "calibrate",
    "compare",
    "evaluate",
    "load_endpoint",
    "read_calls",
    "score",
    "verdict",
    "write_calls",
]


class _Package(ModuleType):
    """This package, in which `evaluate` is always the function, also once its module of that name was imported."""

    @property
    def evaluate(self) -> object:
        return import_module("tunecheck.evaluate").__dict__["evaluate"]

    @evaluate.setter
    def evaluate(self, module: object) -> None:
        """The import system offers the module here; nobody wants it."""


def __getattr__(name: str) -> object:
    """Load a public name from the module it lives in."""
    for module, names in _HOMES.items():
        if name in names:
            found: object = getattr(import_module(module), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module 'tunecheck' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


sys.modules[__name__].__class__ = _Package
