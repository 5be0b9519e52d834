"""Azure AI Evaluation's red teaming, as `azure.ai.evaluation.red_team` has it; the package must be installed."""

from tunecheck.azure._adopted import adopted


def __getattr__(name: str) -> object:
    """A name of the package's.

    Raises:
        AttributeError: it has none of that name.
    """
    if name.startswith("__"):
        raise AttributeError(name)
    return adopted(name, "azure.ai.evaluation.red_team")
