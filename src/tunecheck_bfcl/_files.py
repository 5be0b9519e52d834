"""The description of the files that scoring BFCL results writes."""

from typing import Literal

import msgspec
from msgspec import UnsetType

from tunecheck.plugins import FORMAT_VERSION


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
