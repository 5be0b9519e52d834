"""What is written of figures and verdicts beside a run's own files: memory, BFCL, comparisons, calibrations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tunecheck._files.versions import FORMAT_VERSION

if TYPE_CHECKING:
    from tunecheck._json import JSON
else:
    JSON = Any  # msgspec reads no type that stands in itself


class MemoryFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One data set of a memory run."""

    tests: int
    scored: int
    mean: float | None
    std: float | None


class MemorySummary(msgspec.Struct, frozen=True, kw_only=True):
    """`memory/summary.json`: the figures of a memory run; spans and verbosity in tokens."""

    format_version: int = FORMAT_VERSION
    score: float
    max_score: int
    std: float
    accuracy: float | None
    tokens_per_second: float | None
    verbosity: float
    memory_span: float | None
    longest_span: int
    tokens: float
    messages: float
    fillers: float
    sessions: int
    datasets: dict[str, MemoryFigures]
    usage: dict[str, JSON]


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

    format_version: int = FORMAT_VERSION
    compat: str
    model: str
    categories: dict[str, CategorySummary]
    v3: dict[str, float | None]
    v4: dict[str, float | None]


class ComparisonFile(msgspec.Struct, frozen=True, kw_only=True):
    """What `tunecheck compare --out FILE.json` writes."""

    format_version: int = FORMAT_VERSION
    base: dict[str, JSON]
    against: list[dict[str, JSON]]
    history: list[dict[str, JSON]]
    confidence: float
    margin: float | None
    cluster: str | None
    simulated: bool


class CalibrationFile(msgspec.Struct, frozen=True, kw_only=True):
    """What `tunecheck judge calibrate --out FILE` writes, at least."""

    format_version: int = FORMAT_VERSION
    evaluator: str
    metric: str | None
    label_column: str
    run: str
    rows: int
    compared: int
    errors: int
    accuracy: dict[str, JSON]
    kappa: dict[str, JSON]
    differences: list[dict[str, JSON]]
