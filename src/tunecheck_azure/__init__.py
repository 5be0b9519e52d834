"""Drop-in replacement for `azure.ai.evaluation`: a script only changes the name of the package that it imports.

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
"""Names that only azure-ai-evaluation implements."""

# Converters need further packages, so `import *` leaves them out, as that of azure-ai-evaluation does.
__all__ = sorted({*_OURS, *_THEIRS} - {"AIAgentConverter", "SKAgentConverter"})


def __getattr__(name: str) -> object:
    """Return a public name from this package or from azure-ai-evaluation."""
    if name not in _THEIRS:
        return _load_ours(name)
    from tunecheck_azure._adopted import adopt_name

    return adopt_name(name)


def __dir__() -> list[str]:
    return __all__
