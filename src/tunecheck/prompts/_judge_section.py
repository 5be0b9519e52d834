"""The settings of a judge: the number of samples, and how its answer becomes a metric.

They stand in the `judge:` section of a prompt's front matter, which Azure's loader ignores, or are arguments of the
judge.
"""

import math
from typing import Annotated, Literal, TypeAlias

import msgspec

from tunecheck._describe import Written, read_as
from tunecheck._errors import PromptError
from tunecheck._json import JSON
from tunecheck.prompts._front_matter import Front

Kind: TypeAlias = Literal["score", "binary", "count"]
Combine: TypeAlias = Literal["mean", "majority"]
Name: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\S")]


class JudgeOutput(Written, frozen=True):
    """How a judge's answer becomes a metric; what is None here is taken from the prompt.

    metric: the metric's name, under which the verdict's keys stand.
    score: the key of the answer that is the score: a number, true or false, or one of `labels`.
    reason: the key of the answer that says why.
    range: lowest and highest score; a score outside of it is not a verdict.
    threshold: the score from which a row passes; by default the middle of the range.
    higher_is_better: else a row passes up to the threshold.
    kind: "score", "binary" (0 or 1) or "count".
    labels: the score of each word, where the answer's score is a word.
    """

    metric: Name | None = None
    score: Name | None = None
    reason: Name | None = None
    range: tuple[float, float] | None = None
    threshold: float | None = None
    higher_is_better: bool | None = None
    kind: Kind | None = None
    labels: Annotated[dict[Name, float], msgspec.Meta(min_length=1)] | None = None


class JudgeSettings(JudgeOutput, frozen=True):
    """A `JudgeOutput` with the number of samples for each row, and how they are combined."""

    samples: Annotated[int, msgspec.Meta(ge=1, le=1_000)] | None = None
    combine: Combine | None = None

    def __post_init__(self) -> None:
        if self.range is not None and not self.range[0] < self.range[1]:
            raise ValueError("range: give two numbers, the lower one first")


def read_judge(front: Front) -> dict[str, JSON]:
    """Return the checked `judge:` section as written, without null values."""
    section: dict[str, JSON] = {key: value for key, value in front.mapping("judge").items() if value is not None}
    settings = read_as(section, JudgeSettings, front.document.where, error=PromptError, above="judge")
    # A metric that is named in Python may be called anything.
    if settings.metric is not None and not settings.metric.isidentifier():
        raise front.error(("judge", "metric"), "must be a name of letters, digits and underscores")
    return section


def is_number(value: object) -> bool:
    """Whether it is a number that floats can hold; true and false are none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer too large for a float
        return False
