"""The verdict of one row."""

from dataclasses import dataclass, field

from tunecheck._faults import Fault, sentence
from tunecheck._files import VerdictLine

INVALID_ENTRY = "invalid_entry"
"""The error type of a row that no answer could pass; such a row is not scored."""

_CODES = {
    "ast_decoder": "unreadable_call",
    "cannot_find_match": "no_matching_call",
    "empty_turn_model_response": "empty_turn",
    "execution_response_mismatch": "response_mismatch",
    "force_terminated": "forced_quit",
    "inference_error": "no_response",
    "instance_state_mismatch": "state_mismatch",
    "irrelevance_error": "called_instead_of_answering",
    "missing_optional": "missing_argument",
    "missing_required": "missing_argument",
    "relevance_error": "answered_instead_of_calling",
    "type_error": "wrong_argument.type",
    "unexpected_param": "unexpected_argument",
    "value_error": "wrong_argument.other",
    "wrong_count": "call_count",
    "wrong_func_name": "misnamed_call",
}
"""The code of an error type by one of the parts between its colons."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One row's verdict.

    `valid` is None where the entry itself is wrong and the row is not scored. `error_type` is the leaderboard's name
    of the error, None where the row is valid. `turn` counts from 0, in rows of several turns. `message` says what is
    wrong, for people; `path` is the place in the simulators' states that it is about. `causes` are what else is known
    of why.
    """

    valid: bool | None
    error_type: str | None = None
    turn: int | None = None
    message: str | None = None
    path: str | None = field(default=None, compare=False)
    causes: tuple[Fault, ...] = field(default=(), compare=False)

    @property
    def reason(self) -> str | None:
        """What is wrong and why, for people."""
        return sentence(self.faults) if self.causes else self.message

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What is wrong, as faults, whose turns count from 1."""
        if self.error_type is None:
            return ()
        turn = None if self.turn is None else self.turn + 1
        codes = (_CODES[part] for part in self.error_type.split(":") if part in _CODES)
        code = next(codes, self.error_type.replace(":", "."))
        return (Fault(code=code, path=self.path, turn=turn, message=self.message), *self.causes)

    def as_line(self, row_id: str) -> VerdictLine:
        return VerdictLine(row_id, self.valid, self.error_type, self.turn, self.reason)


def failed(error_type: str, message: str, turn: int | None = None, path: str | None = None) -> Verdict:
    return Verdict(False, error_type, turn, message, path)


def shown(value: object, most: int = 200) -> str:
    """A value in a message: as Python writes it, on one line, not longer than is useful."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits; a value nested beyond reason
        return f"a {type(value).__name__}"
    return text if len(text) <= most else f"{text[: most - 1]}…"
