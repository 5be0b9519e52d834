"""Verdicts with the leaderboard's error types for single questions, and the files that scoring results writes."""

from typing import Literal

import msgspec
from msgspec import UnsetType

from tunecheck.episodes import RowVerdict
from tunecheck.plugins import FORMAT_VERSION

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


class VerdictLine(msgspec.Struct, frozen=True):
    """A line of `<category>.verdicts.jsonl`, of the version that `summary.json` beside it says.

    `valid` is null for a row that is not scored.
    """

    id: str
    valid: bool | None
    error_type: str | None
    turn: int | None
    message: str | None


class CategorySummary(msgspec.Struct, frozen=True, kw_only=True):
    """One category of BFCL; `missing` rows are in the data and not in the results."""

    accuracy: float | None
    correct: int
    total: int
    not_scored: int
    missing: int
    error_types: dict[str, int]


class ModelSummary(msgspec.Struct, frozen=True, kw_only=True):
    """`summary.json` of one model: categories, and the leaderboard's figures of its versions 3 and 4."""

    format_version: int | UnsetType = FORMAT_VERSION
    compat: Literal["bfcl", "strict"]
    model: str
    categories: dict[str, CategorySummary]
    v3: dict[str, float | None]
    v4: dict[str, float | None]


class ModelsSummary(msgspec.Struct, frozen=True, kw_only=True):
    """`summary.json` of several models, above the folder of each: their summaries by name, without a version there."""

    format_version: int = FORMAT_VERSION
    compat: Literal["bfcl", "strict"]
    models: dict[str, ModelSummary]


def failed(error_type: str, message: str) -> RowVerdict:
    """Return the verdict on a row that failed."""
    code = next((_CODES[part] for part in error_type.split(":") if part in _CODES), None)
    return RowVerdict(False, error_type, None, message, code=code)


def verdict_line(row_id: str, verdict: RowVerdict) -> VerdictLine:
    """Return the line of a file of verdicts."""
    return VerdictLine(row_id, verdict.valid, verdict.error_type, verdict.turn, verdict.reason)
