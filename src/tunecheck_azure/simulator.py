"""Azure AI Evaluation's simulators, as `azure.ai.evaluation.simulator` has it; the package must be installed."""

from tunecheck_azure._adopted import names_of

__getattr__ = names_of("simulator")
