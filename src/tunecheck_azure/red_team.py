"""The names of `azure.ai.evaluation.red_team`. They need azure-ai-evaluation."""

from tunecheck_azure._adopted import names_of

__getattr__ = names_of("red_team")
