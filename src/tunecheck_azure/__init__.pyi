"""The public names of this package and their homes; `__init__.py` loads them from there."""

from tunecheck import RougeType as RougeType

from ._calling import (
    BleuScoreEvaluator as BleuScoreEvaluator,
    F1ScoreEvaluator as F1ScoreEvaluator,
    GleuScoreEvaluator as GleuScoreEvaluator,
    MeteorScoreEvaluator as MeteorScoreEvaluator,
    RougeScoreEvaluator as RougeScoreEvaluator,
)
from ._evaluate import evaluate as evaluate
from ._exceptions import (
    ErrorBlame as ErrorBlame,
    ErrorCategory as ErrorCategory,
    ErrorTarget as ErrorTarget,
    EvaluationException as EvaluationException,
)
from ._flows import AsyncPrompty as AsyncPrompty, Prompty as Prompty, load_flow as load_flow
from ._foundry.contents import as_verdict as as_verdict
from ._foundry.upload import FoundryUploader as FoundryUploader
from ._judges import (
    CoherenceEvaluator as CoherenceEvaluator,
    FluencyEvaluator as FluencyEvaluator,
    GroundednessEvaluator as GroundednessEvaluator,
    IntentResolutionEvaluator as IntentResolutionEvaluator,
    QAEvaluator as QAEvaluator,
    RelevanceEvaluator as RelevanceEvaluator,
    ResponseCompletenessEvaluator as ResponseCompletenessEvaluator,
    RetrievalEvaluator as RetrievalEvaluator,
    SimilarityEvaluator as SimilarityEvaluator,
    TaskAdherenceEvaluator as TaskAdherenceEvaluator,
    ToolCallAccuracyEvaluator as ToolCallAccuracyEvaluator,
)
from ._model_configurations import (
    AzureAIProject as AzureAIProject,
    AzureOpenAIModelConfiguration as AzureOpenAIModelConfiguration,
    Conversation as Conversation,
    EvaluationResult as EvaluationResult,
    EvaluatorConfig as EvaluatorConfig,
    Message as Message,
    OpenAIModelConfiguration as OpenAIModelConfiguration,
)

__all__: list[str]

def __getattr__(name: str) -> object: ...
