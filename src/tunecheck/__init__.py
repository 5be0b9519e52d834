"""Tunecheck: is this iteration of a fine-tuned function-calling endpoint better than the last one, and where?

Everything public is imported from here. Names are loaded when they are first used, so that `import tunecheck` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tunecheck._version import __version__

if TYPE_CHECKING:
    from tunecheck._errors import ConfigurationError, DataError, EndpointError, RunError, TunecheckError
    from tunecheck._targets import CallContext, Row, Target
    from tunecheck.calls._formats.reading import read_calls
    from tunecheck.calls._formats.writing import write_calls
    from tunecheck.calls._model import FunctionCall, Reading
    from tunecheck.comparison._compare import compare
    from tunecheck.comparison._results import Comparison, MetricComparison
    from tunecheck.endpoints._base import Endpoint
    from tunecheck.endpoints._definition import load_endpoint
    from tunecheck.endpoints._target import EndpointTarget
    from tunecheck.evaluation._calibration.calibrate import calibrate
    from tunecheck.evaluation._calibration.labelled_run import Calibration
    from tunecheck.evaluation._evaluate import EvaluationResult, evaluate, score
    from tunecheck.evaluators._base import Evaluator, Metric, verdict
    from tunecheck.evaluators._calls.argument_match import ArgumentMatchEvaluator
    from tunecheck.evaluators._calls.function_call_match import FunctionCallMatchEvaluator
    from tunecheck.evaluators._calls.match import MatchEvaluator
    from tunecheck.evaluators._judges.call_judge import CallJudgeEvaluator
    from tunecheck.evaluators._judges.difference import DifferenceEvaluator
    from tunecheck.evaluators._judges.groundedness import GroundednessEvaluator
    from tunecheck.evaluators._judges.output import JudgeOutput
    from tunecheck.evaluators._judges.prompty import PromptyEvaluator
    from tunecheck.evaluators._judges.relevance import RelevanceEvaluator
    from tunecheck.evaluators._judges.reply import JudgementError
    from tunecheck.evaluators._similarity.bert_score import BertScoreEvaluator
    from tunecheck.evaluators._similarity.embedding_similarity import EmbeddingSimilarityEvaluator
    from tunecheck.evaluators._text.evaluators import (
        BleuScoreEvaluator,
        F1ScoreEvaluator,
        GleuScoreEvaluator,
        MeteorScoreEvaluator,
        RougeScoreEvaluator,
        RougeType,
    )

_HOMES = {
    "tunecheck._errors": (
        "ConfigurationError",
        "DataError",
        "EndpointError",
        "RunError",
        "TunecheckError",
    ),
    "tunecheck._targets": (
        "CallContext",
        "Row",
        "Target",
    ),
    "tunecheck.calls._formats.reading": ("read_calls",),
    "tunecheck.calls._formats.writing": ("write_calls",),
    "tunecheck.calls._model": (
        "FunctionCall",
        "Reading",
    ),
    "tunecheck.comparison._compare": ("compare",),
    "tunecheck.comparison._results": (
        "Comparison",
        "MetricComparison",
    ),
    "tunecheck.endpoints._base": ("Endpoint",),
    "tunecheck.endpoints._definition": ("load_endpoint",),
    "tunecheck.endpoints._target": ("EndpointTarget",),
    "tunecheck.evaluation._calibration.calibrate": ("calibrate",),
    "tunecheck.evaluation._calibration.labelled_run": ("Calibration",),
    "tunecheck.evaluation._evaluate": (
        "EvaluationResult",
        "evaluate",
        "score",
    ),
    "tunecheck.evaluators._base": (
        "Evaluator",
        "Metric",
        "verdict",
    ),
    "tunecheck.evaluators._calls.argument_match": ("ArgumentMatchEvaluator",),
    "tunecheck.evaluators._calls.function_call_match": ("FunctionCallMatchEvaluator",),
    "tunecheck.evaluators._calls.match": ("MatchEvaluator",),
    "tunecheck.evaluators._judges.call_judge": ("CallJudgeEvaluator",),
    "tunecheck.evaluators._judges.difference": ("DifferenceEvaluator",),
    "tunecheck.evaluators._judges.groundedness": ("GroundednessEvaluator",),
    "tunecheck.evaluators._judges.output": ("JudgeOutput",),
    "tunecheck.evaluators._judges.prompty": ("PromptyEvaluator",),
    "tunecheck.evaluators._judges.relevance": ("RelevanceEvaluator",),
    "tunecheck.evaluators._judges.reply": ("JudgementError",),
    "tunecheck.evaluators._similarity.bert_score": ("BertScoreEvaluator",),
    "tunecheck.evaluators._similarity.embedding_similarity": ("EmbeddingSimilarityEvaluator",),
    "tunecheck.evaluators._text.evaluators": (
        "BleuScoreEvaluator",
        "F1ScoreEvaluator",
        "GleuScoreEvaluator",
        "MeteorScoreEvaluator",
        "RougeScoreEvaluator",
        "RougeType",
    ),
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
    "__version__",
    "calibrate",
    "compare",
    "evaluate",
    "load_endpoint",
    "read_calls",
    "score",
    "verdict",
    "write_calls",
]


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
