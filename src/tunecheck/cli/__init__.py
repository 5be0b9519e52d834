"""The command line. `_app` runs a command; `tunecheck/plugin.py` lists the commands and their modules.

A command is a function of one dataclass of options (`_options`). Its command line, the keys of `--config` and the
options that a run records are made from that dataclass. Commands import heavy modules when they run, so that help comes
at once. Plug-ins make commands with the names of `__init__.pyi`.
"""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
