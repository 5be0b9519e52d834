"""Azure AI Evaluation's constants, which users' tests import. They need azure-ai-evaluation."""

from tunecheck_azure._adopted import names_of

__getattr__ = names_of("_constants")
