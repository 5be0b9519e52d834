"""What a conversation's ground truth leaves in the simulators after each turn: its calls, made anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, dumps, loads

if TYPE_CHECKING:
    from tunecheck.bfcl._entries import Entry
    from tunecheck.bfcl._replay import Simulators

States = dict[str, JSON]
"""By simulator, as an inference log has them."""

_MOST_CONVERSATIONS = 2_000
"""A few milliseconds each: a report of more would take minutes."""

_MOST_CALLS = 200
_LONGEST_CALL_S = 2.0


class TruthStates:
    """Makes the calls of rows' ground truths, on simulators of their own."""

    def __init__(self) -> None:
        self._simulators: Simulators | None = None
        self._made = 0

    def by_turn(self, data: Mapping[str, JSON], ground_truth: JSON) -> list[States]:
        """The states after each turn; none where a row does not say what its simulators start from."""
        if self._made >= _MOST_CONVERSATIONS or "involved_classes" not in data or data.get("long_context") is True:
            return []
        self._made += 1
        from tunecheck.bfcl._entries import Entry

        try:
            return [*self._replayed(Entry.read({**data, "ground_truth": ground_truth}))]
        except (ValueError, ConfigurationError):  # no simulators of that name, or a start that they do not take
            return []

    def _replayed(self, entry: Entry) -> Iterator[States]:
        from tunecheck.bfcl._replay import Attempt, Simulators

        if self._simulators is None:
            self._simulators = Simulators(time_limit_s=_LONGEST_CALL_S)
        truth = Attempt(self._simulators, entry)
        left = _MOST_CALLS
        for items in entry.truth:
            left -= len(items)
            if left < 0:
                return
            for item in items:
                truth.make_truth(item)
            yield _as_logged(truth.backend.state_texts())


def _as_logged(states: Mapping[str, dict[str, JSON]]) -> States:
    """The same after it went through a file, as the model's states did."""
    found = loads(dumps(states))
    return found if isinstance(found, dict) else {}
