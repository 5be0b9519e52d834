"""Long-term memory: many tests interleaved in one long conversation, by a scheduler, on a clock of its own.

Your own kinds of tests import what they need from here; `docs/memory-kinds.md` shows how.
"""

from tunecheck_memory._kind import Kind, Making, Scene
from tunecheck_memory._kinds.scripts import scripted_test
from tunecheck_memory._lenient_json import read_lenient
from tunecheck_memory._model import AskJudge, Definition, Given, Points, Replied, Say, Score, Step, Steps, Wait

__all__ = [
    "AskJudge",
    "Definition",
    "Given",
    "Kind",
    "Making",
    "Points",
    "Replied",
    "Say",
    "Scene",
    "Score",
    "Step",
    "Steps",
    "Wait",
    "read_lenient",
    "scripted_test",
]
