"""The command line: `_app` starts a command, each of which stands in the module or folder of its name.

A command is a function of its options, one dataclass (`_options`), from which its command line, the keys of `--config`
and what a run records are made. What is heavy is imported when a command runs: help has to come at once. Plug-ins make
commands with the names of `__init__.pyi`.
"""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
