"""Azure AI Evaluation's simulators, as `azure.ai.evaluation.simulator` has it; the package must be installed."""

from tunecheck.azure._adopted import adopted


def __getattr__(name: str) -> object:
    """A name of the package's.

    Raises:
        AttributeError: it has none of that name.
    """
    if name.startswith("__"):
        raise AttributeError(name)
    return adopted(name, "azure.ai.evaluation.simulator")
