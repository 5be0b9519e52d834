"""Conversations of several turns, with simulators behind a model's calls.

`ConversationTarget` has them; an `Episode` is what happened in one; `StateCheck` judges them; `play` makes calls on
simulators of their own; `changes` compares two states. A benchmark's plug-in brings a `BenchmarkDialect`.
"""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
