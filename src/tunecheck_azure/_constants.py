"""Azure AI Evaluation's constants, which users' tests import. They need azure-ai-evaluation."""

from tunecheck_azure._adopted import module_getattr

__getattr__ = module_getattr("_constants")
