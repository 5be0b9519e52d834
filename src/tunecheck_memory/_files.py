"""The description of the files that a memory run writes beside those of every run."""

from typing import TYPE_CHECKING, Any

import msgspec

from tunecheck.plugins import FORMAT_VERSION

if TYPE_CHECKING:
    from tunecheck.plugins import JSON
else:
    JSON = Any  # msgspec reads no type that stands in itself


class MemoryFigures(msgspec.Struct, frozen=True):
    """One data set of a memory run; `mean` and `std` are null where none of its tests has a score."""

    tests: int
    scored: int
    mean: float | None
    std: float | None


class LeftOut(msgspec.Struct, frozen=True):
    """A data set that is not in a memory run, and why."""

    title: str
    reason: str


class MemorySummary(msgspec.Struct, frozen=True, kw_only=True):
    """`memory/summary.json`: the figures of a memory run, all sessions together.

    score: the sum of the data sets' means, of at most `max_score`, one for each data set that has a score.
    std: the sum of their standard deviations.
    accuracy: score / max_score.
    tokens_per_second: what the agent generated in the time that it took to.
    verbosity: tokens of the agent in one session, on average, ready-made replies included.
    memory_span: mean of the tokens over which a test with the full score was remembered.
    tokens, messages, fillers: of one session, on average. `longest_span` is the longest of a test.
    """

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
    usage: dict[str, JSON] = {}
    left_out: list[LeftOut] = []
    isolated: bool = False
