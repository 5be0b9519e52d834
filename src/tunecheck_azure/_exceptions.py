"""The exception that `tunecheck_azure` raises: Azure AI Evaluation's EvaluationException, also a TunecheckError.

`as_evaluation_exception` raises each error as one of these:

  error                 category            blame     also an instance of
  ConfigurationError    INVALID_VALUE       user      ConfigurationError
  RunError              FAILED_EXECUTION    unknown   RunError; the target becomes EVAL_RUN
  other TunecheckError  FAILED_EXECUTION    system    its own class
  any other             FAILED_EXECUTION    system    -

So a script can catch EvaluationException, azure-core's AzureError, or Tunecheck's own errors.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum

from tunecheck import ConfigurationError, RunError, TunecheckError

try:
    from azure.core.exceptions import AzureError
except ModuleNotFoundError:  # azure-core is optional
    AzureError = Exception  # type: ignore[misc,assignment]


class ErrorCategory(Enum):
    """The kind of an error. Errors of azure-ai-evaluation's own classes may have further kinds."""

    INVALID_VALUE = "INVALID VALUE"
    MISSING_FIELD = "MISSING FIELD"
    FAILED_EXECUTION = "FAILED_EXECUTION"
    MISSING_PACKAGE = "MISSING PACKAGE"
    UNKNOWN = "UNKNOWN"
    NOT_APPLICABLE = "NOT APPLICABLE"


class ErrorBlame(Enum):
    """The side that caused an error."""

    USER_ERROR = "UserError"
    SYSTEM_ERROR = "SystemError"
    UNKNOWN = "Unknown"


class ErrorTarget(Enum):
    """The part that failed. Errors of azure-ai-evaluation's own classes may name further parts."""

    COHERENCE_EVALUATOR = "CoherenceEvaluator"
    COMPLETENESS_EVALUATOR = "CompletenessEvaluator"
    CONVERSATION = "Conversation"
    EVALUATE = "Evaluate"
    EVAL_RUN = "EvalRun"
    FLUENCY_EVALUATOR = "FluencyEvaluator"
    GROUNDEDNESS_EVALUATOR = "GroundednessEvaluator"
    INTENT_RESOLUTION_EVALUATOR = "IntentResolutionEvaluator"
    MODELS = "Models"
    QA_EVALUATOR = "QAEvaluator"
    RELEVANCE_EVALUATOR = "RelevanceEvaluator"
    RETRIEVAL_EVALUATOR = "RetrievalEvaluator"
    ROUGE_EVALUATOR = "RougeScoreEvaluator"
    SIMILARITY_EVALUATOR = "SimilarityEvaluator"
    TASK_ADHERENCE_EVALUATOR = "TaskAdherenceEvaluator"
    TOOL_CALL_ACCURACY_EVALUATOR = "ToolCallAccuracyEvaluator"
    UNKNOWN = "Unknown"


class EvaluationException(TunecheckError, AzureError):  # noqa: N818 - Azure AI Evaluation's name
    """The error of `tunecheck_azure`. It is also an instance of Tunecheck's error class, such as ConfigurationError.

    If azure-core is installed, it is an `AzureError`, which scripts catch. `internal_message` is the text without
    personal data, `tsg_link` the address of a troubleshooting page.
    """

    def __init__(
        self,
        message: str,
        *args: object,
        internal_message: str | None = None,
        target: ErrorTarget = ErrorTarget.UNKNOWN,
        category: ErrorCategory = ErrorCategory.UNKNOWN,
        blame: ErrorBlame = ErrorBlame.UNKNOWN,
        tsg_link: str | None = None,
        properties: Mapping[str, object] | None = None,
    ) -> None:
        """Set the attributes that Azure AI Evaluation's exception has."""
        AzureError.__init__(self, message, *args)
        self.message = message
        self.internal_message = internal_message
        self.target = target
        self.category = category
        self.blame = blame
        self.tsg_link = tsg_link
        self.properties = properties

    def __str__(self) -> str:
        """Return the text with the error's side in front, as Azure AI Evaluation does."""
        side = "UserError" if self.blame is ErrorBlame.USER_ERROR else "InternalError"
        link = f"\nVisit {self.tsg_link} to troubleshoot this issue." if self.tsg_link else ""
        return f"({side}) {self.args[0]}{link}"


def mistake(
    message: str,
    category: ErrorCategory = ErrorCategory.INVALID_VALUE,
    target: ErrorTarget = ErrorTarget.EVALUATE,
    *,
    personal: bool = False,
) -> EvaluationException:
    """Return an error that the caller caused. `personal` marks a text that contains personal data, such as a path."""
    internal = None if personal else message
    return EvaluationException(
        message, internal_message=internal, target=target, category=category, blame=ErrorBlame.USER_ERROR
    )


@contextmanager
def as_evaluation_exception(target: ErrorTarget = ErrorTarget.EVALUATE) -> Iterator[None]:
    """Raise any error as an EvaluationException. An error of Tunecheck also stays an instance of its own class."""
    try:
        yield
    except EvaluationException:
        raise
    except TunecheckError as error:
        raise _as_both_errors(error, target) from error
    except Exception as error:  # noqa: BLE001 - scripts catch only EvaluationException; the cause is kept
        text = str(error) or type(error).__name__
        raise EvaluationException(
            text, target=target, category=ErrorCategory.FAILED_EXECUTION, blame=ErrorBlame.SYSTEM_ERROR
        ) from error


def _as_both_errors(error: TunecheckError, target: ErrorTarget) -> EvaluationException:
    """Return an error as an instance of EvaluationException and of its own class, with its attributes.

    A ConfigurationError is blamed on the user, the error of a run has no blame, and any other is blamed on the system.
    """
    kind = type(error)
    names = {"__module__": __name__, "__doc__": kind.__doc__}
    both: type[EvaluationException] = type(kind.__name__, (EvaluationException, kind), names)

    # The error's own __init__ may need other arguments, so it is not called: the attributes are copied.
    raised = both.__new__(both)
    vars(raised).update(vars(error))

    category, blame = ErrorCategory.FAILED_EXECUTION, ErrorBlame.SYSTEM_ERROR
    if isinstance(error, ConfigurationError):
        category, blame = ErrorCategory.INVALID_VALUE, ErrorBlame.USER_ERROR
    elif isinstance(error, RunError):
        target, blame = ErrorTarget.EVAL_RUN, ErrorBlame.UNKNOWN

    EvaluationException.__init__(raised, str(error), target=target, category=category, blame=blame)
    return raised


def missing_package(message: str, target: ErrorTarget = ErrorTarget.UNKNOWN) -> EvaluationException:
    """Return the error for a feature that needs azure-ai-evaluation, which is not installed."""
    return mistake(f"{message}: pip install azure-ai-evaluation", ErrorCategory.MISSING_PACKAGE, target, personal=True)


def not_installed(name: str) -> type:
    """Return a class that scripts can import by this name. Making an instance raises an error with install advice."""

    def refuse(self: object, *args: object, **kwargs: object) -> None:
        """Raise the error with install advice, whatever the arguments."""
        raise missing_package(f"{name} needs Azure AI Evaluation")

    return type(name, (), {"__init__": refuse, "__module__": "tunecheck_azure"})
