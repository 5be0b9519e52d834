"""The names of `azure.ai.evaluation.simulator`. They need azure-ai-evaluation."""

from tunecheck_azure._adopted import module_getattr

__getattr__ = module_getattr("simulator")
