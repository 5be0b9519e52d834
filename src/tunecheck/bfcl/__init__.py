"""BFCL's checks, usable by themselves: verdicts of single rows, and scores of result files.

check_single_turn(row, result, compat=True)    # rows of `bfcl:simple_python` and the like
check_multi_turn(row, result, compat=True)     # rows of `bfcl:multi_turn_base` and the like
score_results(path)                            # a result file, or a tree of them
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tunecheck.bfcl.multi_turn import check_multi_turn
    from tunecheck.bfcl.replay import Simulators
    from tunecheck.bfcl.scoring import score_results
    from tunecheck.bfcl.single_turn import check_single_turn
    from tunecheck.bfcl.verdicts import Verdict

__all__ = ["Simulators", "Verdict", "check_multi_turn", "check_single_turn", "score_results"]

_HOMES = {
    "Simulators": "replay",
    "Verdict": "verdicts",
    "check_multi_turn": "multi_turn",
    "check_single_turn": "single_turn",
    "score_results": "scoring",
}


def __getattr__(name: str) -> object:
    """Import what is asked for, and no more: the decoders here are needed where the simulators are not."""
    if name in _HOMES:
        return getattr(import_module(f"tunecheck.bfcl.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
