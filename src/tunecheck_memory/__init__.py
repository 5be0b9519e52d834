"""Long-term memory tests: a scheduler interleaves many tests in one long conversation with its own clock.

Your own kinds of tests import what they need from here; `docs/memory-kinds.md` shows how.
"""

from tunecheck.plugins import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
