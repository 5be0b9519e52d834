"""Azure AI Evaluation's names and manners: a script changes `azure.ai.evaluation` to `tunecheck_azure`, and is done.

Names without an implementation here (safety evaluators, graders, simulators) come from azure-ai-evaluation, if it is
installed.
"""

from tunecheck.plugins import attach_stub

_load_ours, _, _OURS = attach_stub(__name__, __file__)

_THEIRS = frozenset(
    "AIAgentConverter AzureOpenAIGrader AzureOpenAILabelGrader AzureOpenAIPythonGrader AzureOpenAIScoreModelGrader "
    "AzureOpenAIStringCheckGrader AzureOpenAITextSimilarityGrader CodeVulnerabilityEvaluator ContentSafetyEvaluator "
    "DocumentRetrievalEvaluator GroundednessProEvaluator HateUnfairnessEvaluator IndirectAttackEvaluator "
    "ProtectedMaterialEvaluator SKAgentConverter SelfHarmEvaluator SexualEvaluator UngroundedAttributesEvaluator "
    "ViolenceEvaluator _ToolCallSuccessEvaluator _ToolOutputUtilizationEvaluator".split()
)
"""What azure-ai-evaluation has, and we have not."""

# Converters need further packages, so `import *` leaves them out, as it does there.
__all__ = sorted({*_OURS, *_THEIRS} - {"AIAgentConverter", "SKAgentConverter"})


def __getattr__(name: str) -> object:
    """Load a name from where it lives: here, or in azure-ai-evaluation."""
    if name not in _THEIRS:
        return _load_ours(name)
    from tunecheck_azure._adopted import adopt_name

    return adopt_name(name)


def __dir__() -> list[str]:
    return __all__
