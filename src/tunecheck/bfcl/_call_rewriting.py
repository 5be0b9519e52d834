"""What the leaderboard does to a call's text before it runs it, for verdicts equal to its own.

It puts the name of the object that has the operation before every known operation's name that a bracket follows, and
takes white space before brackets away: inside texts too. A tweet `please comment (soon)` is then posted as
`please x_TwitterAPI_instance.comment(soon)`, with another name on either side, so that the states never agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property

from tunecheck.simulators._backend import Backend

_BEFORE_BRACKET = re.compile(r"\b([a-zA-Z_]\w*+)\s*+(?=\()")
_NOT_IN_A_NAME = re.compile(r"[-./:]")


class Rewriting:
    """The rewriting on one side of one row.

    Args:
        backend: whose operations are known.
        role: what the names of that side's objects begin with.
        row_id: what stands in them next.
    """

    def __init__(self, backend: Backend, role: str, row_id: str) -> None:
        self._backend = backend
        self._prefix = f"{role}_eval_{row_id}"

    def text(self, call: str) -> str:
        """A call's text, rewritten."""
        return _BEFORE_BRACKET.sub(self._owned, call)

    def plain_name(self, name: str) -> str:
        """The operation's name without the object's; any other name stays as it is."""
        owner, _, operation = name.rpartition(".")
        return operation if owner and self._owners.get(operation) == owner else name

    @cached_property
    def _owners(self) -> Mapping[str, str]:
        """The object's name for each operation."""
        return {
            operation: _NOT_IN_A_NAME.sub("_", f"{self._prefix}_{owner}_instance")
            for owner, simulator in self._backend.simulators.items()
            for operation in simulator.operations()
        }

    def _owned(self, found: re.Match[str]) -> str:
        owner = self._owners.get(found[1])
        return found[1] if owner is None else f"{owner}.{found[1]}"


def holds_bracket(values: Iterable[object]) -> bool:
    """Whether an opening bracket stands in any text among the values, however deep."""
    for value in values:
        if isinstance(value, str):
            if "(" in value:
                return True
        elif isinstance(value, Mapping):
            if holds_bracket(value.keys()) or holds_bracket(value.values()):
                return True
        elif isinstance(value, (list, tuple)) and holds_bracket(value):
            return True
    return False
