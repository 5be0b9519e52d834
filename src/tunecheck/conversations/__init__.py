"""Conversations of several turns with simulators behind a model's calls.

Names are loaded when they are first used: whoever only decodes a recorded step need not load endpoints.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tunecheck.conversations.columns import result_line, result_path
    from tunecheck.conversations.decoding import Decoded, NestedCall, decode_step
    from tunecheck.conversations.nested import make_call
    from tunecheck.conversations.target import ConversationTarget
    from tunecheck.conversations.users import Message, ScriptedUser, User
    from tunecheck.conversations.wording import BfclWording, OwnWording, Wording

_HOMES = {
    "columns": ("result_line", "result_path"),
    "decoding": ("Decoded", "NestedCall", "decode_step"),
    "nested": ("make_call",),
    "target": ("ConversationTarget",),
    "users": ("Message", "ScriptedUser", "User"),
    "wording": ("BfclWording", "OwnWording", "Wording"),
}

__all__ = [
    "BfclWording",
    "ConversationTarget",
    "Decoded",
    "Message",
    "NestedCall",
    "OwnWording",
    "ScriptedUser",
    "User",
    "Wording",
    "decode_step",
    "make_call",
    "result_line",
    "result_path",
]


def __getattr__(name: str) -> object:
    """Load a public name from the module it lives in."""
    for module, names in _HOMES.items():
        if name in names:
            found: object = getattr(import_module(f"{__name__}.{module}"), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
