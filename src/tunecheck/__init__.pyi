"""The public names of Tunecheck and their homes; `__init__.py` loads them from there."""

from ._errors import (
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
    WorkerDied as WorkerDied,
)
from ._faults import Fault as Fault, verdict as verdict
from ._files import NewerFileError as NewerFileError
from ._pytest_plugin import assert_no_regression as assert_no_regression
from ._targets import CallContext as CallContext, Row as Row, Target as Target
from ._version import __version__ as __version__
from .calls._model import FunctionCall as FunctionCall, Reading as Reading, write_calls as write_calls
from .comparison._compare import compare as compare, select as select
from .comparison._comparison import (
    Comparison as Comparison,
    Decision as Decision,
    MetricComparison as MetricComparison,
    Objection as Objection,
    Selection as Selection,
)
from .comparison._pairs import NothingPairsError as NothingPairsError
from .endpoints._base import Endpoint as Endpoint
from .endpoints._definition import load_endpoint as load_endpoint
from .endpoints._replay import NoAnswerError as NoAnswerError
from .endpoints._target import EndpointTarget as EndpointTarget
from .episodes._target import ConversationTarget as ConversationTarget
from .evaluation._calibration import Calibration as Calibration, calibrate as calibrate
from .evaluation._ending import EvaluationResult as EvaluationResult, UnansweredError as UnansweredError
from .evaluation._evaluate import evaluate as evaluate, score as score
from .evaluation._settings import RunSettings as RunSettings
from .evaluators._base import Evaluator as Evaluator, Metric as Metric
from .evaluators._calls import (
    ArgumentMatchEvaluator as ArgumentMatchEvaluator,
    FunctionCallMatchEvaluator as FunctionCallMatchEvaluator,
    MatchEvaluator as MatchEvaluator,
)
from .evaluators._judges.answer import JudgementError as JudgementError, JudgeRefusalError as JudgeRefusalError
from .evaluators._judges.prompty import PromptyEvaluator as PromptyEvaluator
from .evaluators._judges.shipped import (
    CallJudgeEvaluator as CallJudgeEvaluator,
    DifferenceEvaluator as DifferenceEvaluator,
    GroundednessEvaluator as GroundednessEvaluator,
    RelevanceEvaluator as RelevanceEvaluator,
)
from .evaluators._multi_turn_state import MultiTurnStateEvaluator as MultiTurnStateEvaluator
from .evaluators._text import (
    BleuScoreEvaluator as BleuScoreEvaluator,
    F1ScoreEvaluator as F1ScoreEvaluator,
    GleuScoreEvaluator as GleuScoreEvaluator,
    MeteorScoreEvaluator as MeteorScoreEvaluator,
    RougeScoreEvaluator as RougeScoreEvaluator,
    RougeType as RougeType,
)
from .formats._reading import read_calls as read_calls
from .pipeline._finished_rows import text_of_cell as text_of_cell
from .prompts._front_matter import JudgeOutput as JudgeOutput
from .report._writing import write_report as write_report
from .runs._store import Run as Run, find_run as find_run
from .statistics._sequential import EarlyDecision as EarlyDecision, decide_early as decide_early
