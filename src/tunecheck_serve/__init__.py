"""`tunecheck serve`: local servers with recorded or simulated answers, and services of plug-ins.

A plug-in with a service registers a subclass of Service under `own_kinds={"services": …}`.
"""

from tunecheck.plugins import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
