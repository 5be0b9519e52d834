"""Memory tests as data: definitions, the steps that a test takes, and what comes back from them."""

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tunecheck.plugins import JSON, plain


@dataclass(frozen=True, slots=True)
class Wait:
    """Let the conversation go on without this test: for so many tokens, so long, or until a share of its span.

    `percentage` counts in percent of the memory span, from the test's beginning.
    """

    tokens: int = 0
    seconds: int = 0
    percentage: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("tokens", self.tokens), ("seconds", self.seconds)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ValueError(f"it waits for {value!r:.60} {name}, which must be a whole number from 0")
        if not is_number(self.percentage) or self.percentage < 0:
            raise ValueError(f"it waits for {self.percentage!r:.60} percent, which must be a number from 0")

    @property
    def is_none(self) -> bool:
        """Whether there is nothing to wait for."""
        return not (self.tokens or self.seconds or self.percentage)


@dataclass(frozen=True, slots=True)
class Say:
    """Say this to the agent; `question` marks what its reply is scored by.

    `register` begins the test's callback with this message's reply.
    """

    message: str
    question: bool = False
    register: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.message, str):
            raise ValueError(f"it says {self.message!r:.60}, which is not text")
        self.message.encode()  # half a character (a lone surrogate) cannot be sent to anybody


@dataclass(frozen=True, slots=True)
class AskJudge:
    """Ask the judge during the run: `purpose` names the question, `values` are what it is about."""

    purpose: str
    values: Mapping[str, JSON]

    def __post_init__(self) -> None:
        if not isinstance(self.purpose, str) or not isinstance(plain(self.values), dict):
            raise ValueError("it asks the judge something that is not a purpose with values by name")


@dataclass(frozen=True, slots=True)
class Replied:
    """What a step came to: the agent's or the judge's words (None after a wait), and when, in µs since 1970 (UTC)."""

    text: str | None
    sent_us: int
    at_us: int


@dataclass(frozen=True, slots=True)
class Points:
    """The result of a test that decides as it goes: points of at most `most`, and a reason for each."""

    points: int | float  # as given: an event log keeps what is an integer one
    most: int | float
    reasons: tuple[str, ...]

    def __post_init__(self) -> None:
        if not (is_number(self.points) and is_number(self.most)):
            raise ValueError(f"it ends with {self.points!r:.60} of {self.most!r:.60} points")


def is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


Step: TypeAlias = Say | Wait | AskJudge

Steps: TypeAlias = Generator[Step, Replied, Points | None]
"""A test at work: yields steps, is sent what each came to; returns its points where it counts them itself."""


@dataclass(frozen=True, slots=True)
class Definition:
    """One test as its file describes it.

    `title` is its data set's folder name ("Colours"), `example` its file's name without `.def.json`. `is_question` and
    `waits` are as long as `script`; one longer in a temporal test, whose question is worded when it is asked.
    """

    title: str
    example: str
    script: tuple[str, ...] = ()
    is_question: tuple[bool, ...] = ()
    waits: tuple[Wait, ...] = ()
    expected: Sequence[JSON] = ()
    can_be_interleaved: bool = True
    is_temporal: bool = False
    uses_callback: bool = False

    @property
    def id(self) -> str:
        """What the test is called in logs: "Colours - 0"."""
        return f"{self.title} - {self.example}"


@dataclass(frozen=True, slots=True)
class FinishedTest:
    """What a finished test is scored by.

    `responses` are the agent's replies to the test's questions, in order; `since_question` every reply of the agent in
    the whole conversation from the (last) question's own on, for tests with a callback, else empty; `points` what a
    dynamic test counted itself; `args` its data set's arguments in the configuration.
    """

    title: str
    expected: Sequence[JSON]
    responses: Sequence[str]
    args: Mapping[str, JSON] = field(default_factory=dict)
    questions: Sequence[str] = ()
    since_question: Sequence[str] = ()
    points: Points | None = None
    script: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Score:
    """A test's score, from 0 to 1, and the reasons.

    `sure` is False where rules hardly suffice: a judge is then asked, where there is one.
    """

    score: float
    reasons: tuple[str, ...]
    sure: bool = True
