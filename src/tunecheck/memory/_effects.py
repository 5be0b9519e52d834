"""What the scheduler asks for, one effect at a time, and what it is told: the seam between deciding and doing.

The scheduler is a generator without input or output: it yields an effect and is sent an `Outcome`. A live session
carries effects out and journals them, a resumed one takes the outcomes of its journal first, a replay takes them from
another run's log: all three drive the same generator, so they can only agree.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeAlias

from tunecheck.memory._model import AskJudge, Points


@dataclass(frozen=True, slots=True)
class Outcome:
    """When an effect was done, in µs since 1970 (UTC), and the words that came back (replies and judgements).

    The rest is kept for the books: how long the agent took, its tokens as the service counted them, and whether it took
    the reply that was suggested instead of being asked. `declined`: the service declined the content, and the empty
    text stands for its answer; the agent leaves the exchange out of what it sends next.
    """

    at_us: int
    text: str | None = None
    latency_ms: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    adopted: bool = False
    simulated: bool = False
    declined: bool = False

    @property
    def judged_by_model(self) -> bool:
        """Of a judgement: whether it was a model's, not that of rules about words."""
        return any(each is not None for each in (self.latency_ms, self.input_tokens, self.output_tokens))


@dataclass(frozen=True, slots=True)
class Send:
    """Say a message to the agent. `test` is the test's id, "" for the introduction and filler.

    `suggested` is a reply that the agent may take as its own; `draws` are the random numbers behind a filler.
    """

    test: str
    message: str
    question: bool = False
    suggested: str | None = None
    draws: tuple[int, ...] = ()

    @property
    def filler(self) -> bool:
        """Whether it belongs to no test."""
        return not self.test


@dataclass(frozen=True, slots=True)
class Consult:
    """Ask the judge a question of a dynamic test."""

    test: str
    request: AskJudge


@dataclass(frozen=True, slots=True)
class Begin:
    """A test begins, at so many tokens of the whole conversation."""

    test: str
    tokens: int


@dataclass(frozen=True, slots=True)
class End:
    """A test is over; `points` where it counted them itself."""

    test: str
    points: Points | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A test waits for so many more tokens and so many seconds."""

    test: str
    tokens: int
    seconds: int


@dataclass(frozen=True, slots=True)
class Register:
    """A test's callback looks at the conversation from now on."""

    test: str


@dataclass(frozen=True, slots=True)
class Deregister:
    """A test's callback has seen what it waited for."""

    test: str


@dataclass(frozen=True, slots=True)
class Jump:
    """Let time pass until then, in µs since 1970 (UTC), with nothing said."""

    until_us: int


@dataclass(frozen=True, slots=True)
class ResetAgent:
    """The agent forgets everything: isolated mode, after a test."""

    test: str


@dataclass(frozen=True, slots=True)
class SuiteReset:
    """The tests begin (the reference writes this after its introduction, and when it takes a run up again)."""


Effect: TypeAlias = Send | Consult | Begin | End | Waiting | Register | Deregister | Jump | ResetAgent | SuiteReset

Schedule: TypeAlias = Generator[Effect, Outcome, None]
