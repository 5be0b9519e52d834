"""What came of checking one row."""

from __future__ import annotations

from dataclasses import dataclass

from tunecheck._json import JSON

INVALID_ENTRY = "invalid_entry"
"""The error type of a row that no answer could pass; such a row is not scored."""

_MOST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Verdict:
    """One row's verdict.

    `valid` is None where the entry itself is wrong and the row is not scored. `error_type` is the leaderboard's name
    of the error, None where the row is valid. `turn` counts from 0, in rows of several turns. `message` says what is
    wrong, for people.
    """

    valid: bool | None
    error_type: str | None = None
    turn: int | None = None
    message: str | None = None

    def as_line(self, row_id: str) -> dict[str, JSON]:
        """One line of a verdict file."""
        return {
            "id": row_id,
            "valid": self.valid,
            "error_type": self.error_type,
            "turn": self.turn,
            "message": self.message,
        }


@dataclass(frozen=True, slots=True)
class Fault:
    """Why something does not pass."""

    error_type: str
    message: str

    def verdict(self, turn: int | None = None) -> Verdict:
        """The failing verdict."""
        return Verdict(False, self.error_type, turn, self.message)


def shown(value: object, most: int = _MOST_SHOWN) -> str:
    """A value in a message: as Python writes it, on one line, not longer than is useful."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits; a value nested beyond reason
        return f"a {type(value).__name__}"
    return text if len(text) <= most else f"{text[: most - 1]}…"
