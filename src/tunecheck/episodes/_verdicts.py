"""The verdict on one row, with an error type for programs, faults and a reason for people."""

from __future__ import annotations

from dataclasses import dataclass, field

from tunecheck._faults import Fault, Verdict, sentence, verdict
from tunecheck._json import JSON

INVALID_ENTRY = "invalid_entry"
"""The error type of a row that no answer could pass; the row is not scored."""


@dataclass(frozen=True, slots=True)
class RowVerdict:
    """The verdict on one row.

    `valid` is None if the entry itself is wrong, so that the row is not scored. `error_type` is the leaderboard's name
    of the error, None if the row is valid; `code` is the code of its fault. `turn` counts from 0, in rows of several
    turns. `message` is a text for people. `path` is the place in the simulators' states. `causes` say more of why the
    row failed. `details` are what is wrong as faults, if that is more than one. `differences` are the places
    in which the states differ after the turn: path, expected value, found value.
    """

    valid: bool | None
    error_type: str | None = None
    turn: int | None = None
    message: str | None = None
    path: str | None = field(default=None, compare=False)
    causes: tuple[Fault, ...] = field(default=(), compare=False)
    code: str | None = field(default=None, compare=False)
    details: tuple[Fault, ...] = field(default=(), compare=False)
    differences: tuple[tuple[str, str, str], ...] = field(default=(), compare=False)

    @property
    def reason(self) -> str | None:
        """Return what is wrong and why, as text for people."""
        return sentence(self.faults) if self.causes else self.message

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Return the faults; their turns count from 1."""
        if self.error_type is None or self.details:
            return self.details
        turn = None if self.turn is None else self.turn + 1
        code = self.code or self.error_type.replace(":", ".")
        return (Fault(code=code, path=self.path, turn=turn, message=self.message), *self.causes)

    def scored(self, metric: str) -> Verdict:
        """Return the verdict as an evaluator's result for this metric."""
        differences: list[JSON] = [[*each] for each in self.differences]
        properties: dict[str, JSON] = {"error_type": self.error_type, "turn": self.turn}
        properties["state_differences"] = differences or None
        return verdict(
            metric,
            score=None if self.valid is None else float(self.valid),
            passed=self.valid,
            reason=self.reason,
            properties={name: value for name, value in properties.items() if value is not None},
            faults=self.faults,
            not_applicable=self.valid is None,
        )


def unscored(message: str) -> RowVerdict:
    """Return the verdict on a row that no answer could pass."""
    return RowVerdict(None, INVALID_ENTRY, None, message)


def shown(value: object, most: int = 200) -> str:
    """Return a value for a message: as Python writes it, on one line, at most so many characters."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits; a value nested beyond reason
        return f"a {type(value).__name__}"
    return text if len(text) <= most else f"{text[: most - 1]}…"
