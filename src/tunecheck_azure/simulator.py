"""The names of `azure.ai.evaluation.simulator`. They need azure-ai-evaluation."""

from tunecheck_azure._adopted import names_of

__getattr__ = names_of("simulator")
