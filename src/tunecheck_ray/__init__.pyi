"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from ._chunk_engine import ChunkRunner as ChunkRunner
from ._chunks import Chunk as Chunk, ChunkSource as ChunkSource, Portion as Portion, SharedSettings as SharedSettings
from ._driver import RunsOnTasks as RunsOnTasks, TaskRecipe as TaskRecipe
