"""Azure AI Evaluation's red teaming, as `azure.ai.evaluation.red_team` has it; the package must be installed."""

from tunecheck_azure._adopted import names_of

__getattr__ = names_of("red_team")
