"""Verdicts with the leaderboard's error types for single questions."""

from tunecheck.episodes import RowVerdict
from tunecheck_bfcl._files import VerdictLine

_CODES = {
    "ast_decoder": "unreadable_call",
    "cannot_find_match": "no_matching_call",
    "inference_error": "no_response",
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


def failed(error_type: str, message: str) -> RowVerdict:
    """Return the verdict on a row that failed."""
    code = next((_CODES[part] for part in error_type.split(":") if part in _CODES), None)
    return RowVerdict(False, error_type, None, message, code=code)


def verdict_line(row_id: str, verdict: RowVerdict) -> VerdictLine:
    """Return the line of a file of verdicts."""
    return VerdictLine(row_id, verdict.valid, verdict.error_type, verdict.turn, verdict.reason)
