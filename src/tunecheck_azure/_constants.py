"""Azure AI Evaluation's constants, which tests of scripts import; the package must be installed."""

from tunecheck_azure._adopted import names_of

__getattr__ = names_of("_constants")
