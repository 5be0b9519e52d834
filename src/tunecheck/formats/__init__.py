"""How models write calls and thoughts: wire formats of APIs, and what each model family emits as text.

A family is a `Profile`: its marks, and the shape in which calls stand behind them. Those that are known stand as tables
in `_families`; a file in the workspace's folder `formats`, or an entry point `tunecheck.formats`, adds another. All
reading of calls goes through `read_calls`.
"""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
