"""Tunecheck: is this iteration of a fine-tuned function-calling endpoint better than the last one, and where?

Everything public is imported from here. Names are loaded when they are first used, so that `import tunecheck` is quick.
"""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
