"""A row of several turns as its check needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn, cast

from tunecheck._json import JSON


@dataclass(frozen=True, slots=True)
class Entry:
    """A conversation's ground truth, and what its simulators start from.

    `truth` holds the calls of each turn; a turn without any asks for an answer, not for calls.
    """

    id: str
    truth: list[list[JSON]]
    simulators: list[str]
    config: Mapping[str, JSON]
    long_context: bool

    @classmethod
    def read(cls, row: Mapping[str, object]) -> Entry:
        """The entry in a row with the columns of a data set `bfcl:multi_turn_…`.

        Raises:
            ValueError: a column holds something else; the text says which.
        """
        truth = row.get("ground_truth")
        if not isinstance(truth, list) or not all(isinstance(turn, list) for turn in truth):
            _refuse("ground_truth must be a list with the calls of each turn, each a list too")
        names = row.get("involved_classes")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            _refuse("involved_classes must be a list of simulators' names")
        config = row.get("initial_config")
        if config is not None and not isinstance(config, Mapping):
            _refuse("initial_config must be an object with the configuration of each simulator")
        return cls(
            id=str(row.get("id") or ""),
            truth=cast("list[list[JSON]]", truth),
            simulators=cast("list[str]", names),
            config=cast("Mapping[str, JSON]", config or {}),
            long_context=row.get("long_context") is True,
        )


def _refuse(what: str) -> NoReturn:
    raise ValueError(what)
