"""Azure AI Evaluation's names and manners: a script changes `azure.ai.evaluation` to `tunecheck_azure`, and is done.

What has no implementation here (safety evaluators, graders, simulators) is that of azure-ai-evaluation, where it is
installed.
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tunecheck.evaluators._text.evaluators import RougeType as RougeType
    from tunecheck_azure._agents import (
        IntentResolutionEvaluator as IntentResolutionEvaluator,
        TaskAdherenceEvaluator as TaskAdherenceEvaluator,
        ToolCallAccuracyEvaluator as ToolCallAccuracyEvaluator,
    )
    from tunecheck_azure._evaluate import evaluate as evaluate
    from tunecheck_azure._exceptions import (
        ErrorBlame as ErrorBlame,
        ErrorCategory as ErrorCategory,
        ErrorTarget as ErrorTarget,
        EvaluationException as EvaluationException,
    )
    from tunecheck_azure._flows import AsyncPrompty as AsyncPrompty, Prompty as Prompty, load_flow as load_flow
    from tunecheck_azure._judges import (
        CoherenceEvaluator as CoherenceEvaluator,
        FluencyEvaluator as FluencyEvaluator,
        GroundednessEvaluator as GroundednessEvaluator,
        QAEvaluator as QAEvaluator,
        RelevanceEvaluator as RelevanceEvaluator,
        ResponseCompletenessEvaluator as ResponseCompletenessEvaluator,
        RetrievalEvaluator as RetrievalEvaluator,
        SimilarityEvaluator as SimilarityEvaluator,
    )
    from tunecheck_azure._model_configurations import (
        AzureAIProject as AzureAIProject,
        AzureOpenAIModelConfiguration as AzureOpenAIModelConfiguration,
        Conversation as Conversation,
        EvaluationResult as EvaluationResult,
        EvaluatorConfig as EvaluatorConfig,
        Message as Message,
        OpenAIModelConfiguration as OpenAIModelConfiguration,
    )
    from tunecheck_azure._text import (
        BleuScoreEvaluator as BleuScoreEvaluator,
        F1ScoreEvaluator as F1ScoreEvaluator,
        GleuScoreEvaluator as GleuScoreEvaluator,
        MeteorScoreEvaluator as MeteorScoreEvaluator,
        RougeScoreEvaluator as RougeScoreEvaluator,
    )

_HOMES = {
    "tunecheck_azure._agents": "IntentResolutionEvaluator TaskAdherenceEvaluator ToolCallAccuracyEvaluator",
    "tunecheck_azure._model_configurations": "AzureAIProject AzureOpenAIModelConfiguration Conversation "
    "EvaluationResult EvaluatorConfig Message OpenAIModelConfiguration",
    "tunecheck_azure._evaluate": "evaluate",
    "tunecheck_azure._exceptions": "ErrorBlame ErrorCategory ErrorTarget EvaluationException",
    "tunecheck_azure._flows": "AsyncPrompty Prompty load_flow",
    "tunecheck_azure._judges": "CoherenceEvaluator FluencyEvaluator GroundednessEvaluator QAEvaluator "
    "RelevanceEvaluator ResponseCompletenessEvaluator RetrievalEvaluator SimilarityEvaluator",
    "tunecheck_azure._text": "BleuScoreEvaluator F1ScoreEvaluator GleuScoreEvaluator MeteorScoreEvaluator "
    "RougeScoreEvaluator",
    "tunecheck.evaluators._text.evaluators": "RougeType",
}
"""The module in which each name lives."""

_NAMES = {name: module for module, names in _HOMES.items() for name in names.split()}

_THEIRS = frozenset(
    "AIAgentConverter AzureOpenAIGrader AzureOpenAILabelGrader AzureOpenAIPythonGrader AzureOpenAIScoreModelGrader "
    "AzureOpenAIStringCheckGrader AzureOpenAITextSimilarityGrader CodeVulnerabilityEvaluator ContentSafetyEvaluator "
    "DocumentRetrievalEvaluator GroundednessProEvaluator HateUnfairnessEvaluator IndirectAttackEvaluator "
    "ProtectedMaterialEvaluator SKAgentConverter SelfHarmEvaluator SexualEvaluator UngroundedAttributesEvaluator "
    "ViolenceEvaluator _ToolCallSuccessEvaluator _ToolOutputUtilizationEvaluator".split()
)
"""What azure-ai-evaluation has, and we have not."""

# Converters need further packages, so `import *` leaves them out, as it does there.
__all__ = sorted({*_NAMES, *_THEIRS} - {"AIAgentConverter", "SKAgentConverter"})


def __getattr__(name: str) -> object:
    """Load a name from where it lives: here, or in azure-ai-evaluation."""
    if name not in _NAMES and name not in _THEIRS:
        raise AttributeError(f"module 'tunecheck_azure' has no attribute {name!r}")
    if name in _THEIRS:
        from tunecheck_azure._adopted import adopted

        return adopted(name)
    value: object = getattr(import_module(_NAMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
