"""A run as one HTML file that people look at, and the folder of runs as pages on this machine.

write_report(run, out, against=None)      # the file: it loads nothing and needs no server
view(results_dir, port=0)                 # the folder of runs, with the same pages, on this machine
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tunecheck.report.serving import view
    from tunecheck.report.writing import write_report

__all__ = ["view", "write_report"]

_HOMES = {"view": "tunecheck.report.serving", "write_report": "tunecheck.report.writing"}


def __getattr__(name: str) -> object:
    """Import what is asked for: who writes a file needs no server."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
