"""Tunecheck: is this iteration of a fine-tuned function-calling endpoint better than the last one, and where?

Everything public is imported from here. Names are loaded when they are first used, so that `import tunecheck` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tunecheck._version import __version__

if TYPE_CHECKING:
    from tunecheck._errors import (
        ConfigurationError,
        ContentFilterError,
        DataError,
        EndpointError,
        MissingExtraError,
        PluginError,
        RefusedError,
        ReplyError,
        RunError,
        RunInterruptedError,
        StopRunError,
        ThrottledError,
        TimedOutError,
        TunecheckError,
    )
    from tunecheck._faults import Fault
    from tunecheck._files import NewerFileError
    from tunecheck._pytest_plugin import assert_no_regression
    from tunecheck._targets import CallContext, Row, Target
    from tunecheck.bfcl._scoring import score_results
    from tunecheck.calls._formats.reading import read_calls
    from tunecheck.calls._formats.writing import write_calls
    from tunecheck.calls._model import FunctionCall, Reading
    from tunecheck.comparison._compare import compare
    from tunecheck.comparison._comparison import Comparison, MetricComparison
    from tunecheck.comparison._pairing import NothingPairsError
    from tunecheck.conversations._target import ConversationTarget
    from tunecheck.endpoints._base import Endpoint
    from tunecheck.endpoints._definition import load_endpoint
    from tunecheck.endpoints._recorded import NoAnswerError
    from tunecheck.endpoints._target import EndpointTarget
    from tunecheck.evaluation._calibration.calibrate import calibrate
    from tunecheck.evaluation._calibration.labelled_run import Calibration
    from tunecheck.evaluation._evaluate import EvaluationResult, evaluate, score
    from tunecheck.evaluators._base import Evaluator, Metric, verdict
    from tunecheck.evaluators._calls.call_check import CallCheckEvaluator
    from tunecheck.evaluators._calls.evaluators import (
        ArgumentMatchEvaluator,
        FunctionCallMatchEvaluator,
        MatchEvaluator,
    )
    from tunecheck.evaluators._judges.output import JudgeOutput
    from tunecheck.evaluators._judges.prompty import PromptyEvaluator
    from tunecheck.evaluators._judges.reply import JudgementError, JudgeRefusalError
    from tunecheck.evaluators._judges.shipped import (
        CallJudgeEvaluator,
        DifferenceEvaluator,
        GroundednessEvaluator,
        RelevanceEvaluator,
    )
    from tunecheck.evaluators._multi_turn_state import MultiTurnStateEvaluator
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
    from tunecheck.memory._kinds.chapterbreak import MissingTextsError
    from tunecheck.memory._session import SessionStoppedError
    from tunecheck.prompts._bounds import TooMuchError
    from tunecheck.prompts._errors import PromptError, PromptRenderError
    from tunecheck.report._writing import write_report
    from tunecheck.runs._export import text_of_cell
    from tunecheck.runs._store import Run, find_run
    from tunecheck.upload._calls import UploadError
    from tunecheck.upload._foundry.upload import FoundryUploader

_HOMES = {
    "tunecheck._errors": (
        "ConfigurationError",
        "ContentFilterError",
        "DataError",
        "EndpointError",
        "MissingExtraError",
        "PluginError",
        "RefusedError",
        "ReplyError",
        "RunError",
        "RunInterruptedError",
        "StopRunError",
        "ThrottledError",
        "TimedOutError",
        "TunecheckError",
    ),
    "tunecheck._faults": ("Fault",),
    "tunecheck._files": ("NewerFileError",),
    "tunecheck._pytest_plugin": ("assert_no_regression",),
    "tunecheck._targets": (
        "CallContext",
        "Row",
        "Target",
    ),
    "tunecheck.bfcl._scoring": ("score_results",),
    "tunecheck.calls._formats.reading": ("read_calls",),
    "tunecheck.calls._formats.writing": ("write_calls",),
    "tunecheck.calls._model": (
        "FunctionCall",
        "Reading",
    ),
    "tunecheck.comparison._compare": ("compare",),
    "tunecheck.comparison._comparison": (
        "Comparison",
        "MetricComparison",
    ),
    "tunecheck.comparison._pairing": ("NothingPairsError",),
    "tunecheck.conversations._target": ("ConversationTarget",),
    "tunecheck.endpoints._base": ("Endpoint",),
    "tunecheck.endpoints._definition": ("load_endpoint",),
    "tunecheck.endpoints._recorded": ("NoAnswerError",),
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
    "tunecheck.evaluators._calls.call_check": ("CallCheckEvaluator",),
    "tunecheck.evaluators._calls.evaluators": (
        "ArgumentMatchEvaluator",
        "FunctionCallMatchEvaluator",
        "MatchEvaluator",
    ),
    "tunecheck.evaluators._judges.output": ("JudgeOutput",),
    "tunecheck.evaluators._judges.prompty": ("PromptyEvaluator",),
    "tunecheck.evaluators._judges.reply": (
        "JudgeRefusalError",
        "JudgementError",
    ),
    "tunecheck.evaluators._judges.shipped": (
        "CallJudgeEvaluator",
        "DifferenceEvaluator",
        "GroundednessEvaluator",
        "RelevanceEvaluator",
    ),
    "tunecheck.evaluators._multi_turn_state": ("MultiTurnStateEvaluator",),
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
    "tunecheck.memory._kinds.chapterbreak": ("MissingTextsError",),
    "tunecheck.memory._session": ("SessionStoppedError",),
    "tunecheck.prompts._bounds": ("TooMuchError",),
    "tunecheck.prompts._errors": (
        "PromptError",
        "PromptRenderError",
    ),
    "tunecheck.report._writing": ("write_report",),
    "tunecheck.runs._export": ("text_of_cell",),
    "tunecheck.runs._store": (
        "Run",
        "find_run",
    ),
    "tunecheck.upload._calls": ("UploadError",),
    "tunecheck.upload._foundry.upload": ("FoundryUploader",),
}

__all__ = [
    "ArgumentMatchEvaluator",
    "BertScoreEvaluator",
    "BleuScoreEvaluator",
    "Calibration",
    "CallCheckEvaluator",
    "CallContext",
    "CallJudgeEvaluator",
    "Comparison",
    "ConfigurationError",
    "ContentFilterError",
    "ConversationTarget",
    "DataError",
    "DifferenceEvaluator",
    "EmbeddingSimilarityEvaluator",
    "Endpoint",
    "EndpointError",
    "EndpointTarget",
    "EvaluationResult",
    "Evaluator",
    "F1ScoreEvaluator",
    "Fault",
    "FoundryUploader",
    "FunctionCall",
    "FunctionCallMatchEvaluator",
    "GleuScoreEvaluator",
    "GroundednessEvaluator",
    "JudgeOutput",
    "JudgeRefusalError",
    "JudgementError",
    "MatchEvaluator",
    "MeteorScoreEvaluator",
    "Metric",
    "MetricComparison",
    "MissingExtraError",
    "MissingTextsError",
    "MultiTurnStateEvaluator",
    "NewerFileError",
    "NoAnswerError",
    "NothingPairsError",
    "PluginError",
    "PromptError",
    "PromptRenderError",
    "PromptyEvaluator",
    "Reading",
    "RefusedError",
    "RelevanceEvaluator",
    "ReplyError",
    "RougeScoreEvaluator",
    "RougeType",
    "Row",
    "Run",
    "RunError",
    "RunInterruptedError",
    "SessionStoppedError",
    "StopRunError",
    "Target",
    "ThrottledError",
    "TimedOutError",
    "TooMuchError",
    "TunecheckError",
    "UploadError",
    "__version__",
    "assert_no_regression",
    "calibrate",
    "compare",
    "evaluate",
    "find_run",
    "load_endpoint",
    "read_calls",
    "score",
    "score_results",
    "text_of_cell",
    "verdict",
    "write_calls",
    "write_report",
]


def __getattr__(name: str) -> object:
    """Load a public name from the module it lives in."""
    for module, names in _HOMES.items():
        if name in names:
            value: object = getattr(import_module(module), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'tunecheck' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
