"""Tunecheck: is this iteration of a fine-tuned function-calling endpoint better than the last one, and where?

Everything public is imported from here. Names are loaded when they are first used, so that `import tunecheck` is quick.
"""

from importlib import import_module

from tunecheck._version import __version__

TYPE_CHECKING = False  # as typing has it: `python -m tunecheck` must load nothing that could be in the current folder
if TYPE_CHECKING:  # for type checkers; `X as X` is how they are told of a name that is offered
    from tunecheck._errors import (
        ConfigurationError as ConfigurationError,
        ContentFilterError as ContentFilterError,
        DataError as DataError,
        EndpointError as EndpointError,
        MissingExtraError as MissingExtraError,
        PluginError as PluginError,
        PromptError as PromptError,
        PromptRenderError as PromptRenderError,
        RefusedError as RefusedError,
        ReplyError as ReplyError,
        RunError as RunError,
        RunInterruptedError as RunInterruptedError,
        StopRunError as StopRunError,
        ThrottledError as ThrottledError,
        TimedOutError as TimedOutError,
        TunecheckError as TunecheckError,
        UntrustedError as UntrustedError,
    )
    from tunecheck._faults import Fault as Fault, verdict as verdict
    from tunecheck._files import NewerFileError as NewerFileError
    from tunecheck._pytest_plugin import assert_no_regression as assert_no_regression
    from tunecheck._targets import CallContext as CallContext, Row as Row, Target as Target
    from tunecheck.calls._model import FunctionCall as FunctionCall, Reading as Reading
    from tunecheck.calls._writing import write_calls as write_calls
    from tunecheck.comparison._compare import compare as compare
    from tunecheck.comparison._comparison import (
        Comparison as Comparison,
        MetricComparison as MetricComparison,
        Selection as Selection,
    )
    from tunecheck.comparison._pairing import NothingPairsError as NothingPairsError
    from tunecheck.comparison._selection import select as select
    from tunecheck.endpoints._base import Endpoint as Endpoint
    from tunecheck.endpoints._definition import load_endpoint as load_endpoint
    from tunecheck.endpoints._recorded import NoAnswerError as NoAnswerError
    from tunecheck.endpoints._target import EndpointTarget as EndpointTarget
    from tunecheck.episodes._target import ConversationTarget as ConversationTarget
    from tunecheck.evaluation._calibration.calibrate import calibrate as calibrate
    from tunecheck.evaluation._calibration.labelled_run import Calibration as Calibration
    from tunecheck.evaluation._evaluate import (
        EvaluationResult as EvaluationResult,
        UnansweredError as UnansweredError,
        evaluate as evaluate,
        score as score,
    )
    from tunecheck.evaluators._base import Evaluator as Evaluator, Metric as Metric
    from tunecheck.evaluators._calls.evaluators import (
        ArgumentMatchEvaluator as ArgumentMatchEvaluator,
        FunctionCallMatchEvaluator as FunctionCallMatchEvaluator,
        MatchEvaluator as MatchEvaluator,
    )
    from tunecheck.evaluators._judges.output import JudgeOutput as JudgeOutput
    from tunecheck.evaluators._judges.prompty import PromptyEvaluator as PromptyEvaluator
    from tunecheck.evaluators._judges.reply import (
        JudgementError as JudgementError,
        JudgeRefusalError as JudgeRefusalError,
    )
    from tunecheck.evaluators._judges.shipped import (
        CallJudgeEvaluator as CallJudgeEvaluator,
        DifferenceEvaluator as DifferenceEvaluator,
        GroundednessEvaluator as GroundednessEvaluator,
        RelevanceEvaluator as RelevanceEvaluator,
    )
    from tunecheck.evaluators._multi_turn_state import MultiTurnStateEvaluator as MultiTurnStateEvaluator
    from tunecheck.evaluators._text.evaluators import (
        BleuScoreEvaluator as BleuScoreEvaluator,
        F1ScoreEvaluator as F1ScoreEvaluator,
        GleuScoreEvaluator as GleuScoreEvaluator,
        MeteorScoreEvaluator as MeteorScoreEvaluator,
        RougeScoreEvaluator as RougeScoreEvaluator,
        RougeType as RougeType,
    )
    from tunecheck.formats._reading import read_calls as read_calls
    from tunecheck.pipeline._results import text_of_cell as text_of_cell
    from tunecheck.prompts._bounds import TooMuchError as TooMuchError
    from tunecheck.report._writing import write_report as write_report
    from tunecheck.runs._store import Run as Run, find_run as find_run
    from tunecheck.statistics._sequential import EarlyDecision as EarlyDecision, decide_early as decide_early
    from tunecheck_azure._foundry.upload import FoundryUploader as FoundryUploader
    from tunecheck_bfcl._call_check import CallCheckEvaluator as CallCheckEvaluator
    from tunecheck_bfcl._scoring import score_results as score_results
    from tunecheck_memory._kinds.chapterbreak import MissingTextsError as MissingTextsError
    from tunecheck_memory._session import SessionStoppedError as SessionStoppedError
    from tunecheck_semantic._bert_score import BertScoreEvaluator as BertScoreEvaluator
    from tunecheck_semantic._embedding_similarity import EmbeddingSimilarityEvaluator as EmbeddingSimilarityEvaluator
    from tunecheck_upload._calls import UploadError as UploadError

_HOMES = {
    "tunecheck._errors": "ConfigurationError ContentFilterError DataError EndpointError MissingExtraError PluginError "
    "PromptError PromptRenderError RefusedError ReplyError RunError RunInterruptedError StopRunError ThrottledError "
    "TimedOutError TunecheckError UntrustedError",
    "tunecheck._faults": "Fault verdict",
    "tunecheck._files": "NewerFileError",
    "tunecheck._pytest_plugin": "assert_no_regression",
    "tunecheck._targets": "CallContext Row Target",
    "tunecheck_bfcl._scoring": "score_results",
    "tunecheck.formats._reading": "read_calls",
    "tunecheck.calls._writing": "write_calls",
    "tunecheck.calls._model": "FunctionCall Reading",
    "tunecheck.comparison._compare": "compare",
    "tunecheck.comparison._comparison": "Comparison MetricComparison Selection",
    "tunecheck.comparison._pairing": "NothingPairsError",
    "tunecheck.comparison._selection": "select",
    "tunecheck.episodes._target": "ConversationTarget",
    "tunecheck.endpoints._base": "Endpoint",
    "tunecheck.endpoints._definition": "load_endpoint",
    "tunecheck.endpoints._recorded": "NoAnswerError",
    "tunecheck.endpoints._target": "EndpointTarget",
    "tunecheck.evaluation._calibration.calibrate": "calibrate",
    "tunecheck.evaluation._calibration.labelled_run": "Calibration",
    "tunecheck.evaluation._evaluate": "EvaluationResult UnansweredError evaluate score",
    "tunecheck.evaluators._base": "Evaluator Metric",
    "tunecheck_bfcl._call_check": "CallCheckEvaluator",
    "tunecheck.evaluators._calls.evaluators": "ArgumentMatchEvaluator FunctionCallMatchEvaluator MatchEvaluator",
    "tunecheck.evaluators._judges.output": "JudgeOutput",
    "tunecheck.evaluators._judges.prompty": "PromptyEvaluator",
    "tunecheck.evaluators._judges.reply": "JudgeRefusalError JudgementError",
    "tunecheck.evaluators._judges.shipped": "CallJudgeEvaluator DifferenceEvaluator GroundednessEvaluator "
    "RelevanceEvaluator",
    "tunecheck.evaluators._multi_turn_state": "MultiTurnStateEvaluator",
    "tunecheck_semantic._bert_score": "BertScoreEvaluator",
    "tunecheck_semantic._embedding_similarity": "EmbeddingSimilarityEvaluator",
    "tunecheck.evaluators._text.evaluators": "BleuScoreEvaluator F1ScoreEvaluator GleuScoreEvaluator "
    "MeteorScoreEvaluator RougeScoreEvaluator RougeType",
    "tunecheck_memory._kinds.chapterbreak": "MissingTextsError",
    "tunecheck_memory._session": "SessionStoppedError",
    "tunecheck.pipeline._results": "text_of_cell",
    "tunecheck.prompts._bounds": "TooMuchError",
    "tunecheck.report._writing": "write_report",
    "tunecheck.runs._store": "Run find_run",
    "tunecheck.statistics._sequential": "EarlyDecision decide_early",
    "tunecheck_upload._calls": "UploadError",
    "tunecheck_azure._foundry.upload": "FoundryUploader",
}
"""The module in which each public name lives."""

_NAMES = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = ["__version__", *sorted(_NAMES)]


def __getattr__(name: str) -> object:
    """Load a public name from the module it lives in."""
    if name not in _NAMES:
        raise AttributeError(f"module 'tunecheck' has no attribute {name!r}")
    value: object = getattr(import_module(_NAMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
