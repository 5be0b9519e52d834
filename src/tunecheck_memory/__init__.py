"""Long-term memory: many tests interleaved in one long conversation, by a scheduler, on a clock of its own.

Your own kinds of tests import what they need from here; `docs/memory-kinds.md` shows how.
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tunecheck_memory._kind import Kind as Kind, Making as Making, Scene as Scene
    from tunecheck_memory._kinds.chapterbreak import MissingTextsError as MissingTextsError
    from tunecheck_memory._kinds.scripts import scripted_test as scripted_test
    from tunecheck_memory._lenient_json import read_lenient as read_lenient
    from tunecheck_memory._model import (
        AskJudge as AskJudge,
        Definition as Definition,
        Given as Given,
        Points as Points,
        Replied as Replied,
        Say as Say,
        Score as Score,
        Step as Step,
        Steps as Steps,
        Wait as Wait,
    )
    from tunecheck_memory._session import SessionStoppedError as SessionStoppedError

_HOMES = {
    "tunecheck_memory._kind": "Kind Making Scene",
    "tunecheck_memory._kinds.chapterbreak": "MissingTextsError",
    "tunecheck_memory._kinds.scripts": "scripted_test",
    "tunecheck_memory._lenient_json": "read_lenient",
    "tunecheck_memory._model": "AskJudge Definition Given Points Replied Say Score Step Steps Wait",
    "tunecheck_memory._session": "SessionStoppedError",
}
_NAMES = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_NAMES)


def __getattr__(name: str) -> object:
    """Load a public name from its module: `--help` loads the plug-in's package, and nothing else."""
    if name not in _NAMES:
        raise AttributeError(f"module 'tunecheck_memory' has no attribute {name!r}")
    value: object = getattr(import_module(_NAMES[name]), name)
    globals()[name] = value
    return value
