"""The effects that the scheduler yields, and the outcomes that are sent back to it.

The scheduler is a generator that makes no calls itself: it yields an effect and is sent an `Outcome`. A live session
executes and logs the effects. A resumed session first sends the outcomes in its event log, and a replay sends those in
another run's log. All three drive the same generator, so they cannot diverge.

The event log stores the fields by name, order and `rename`: a change breaks existing logs.
"""

from collections.abc import Generator
from typing import Any, TypeAlias

import msgspec

from tunecheck.plugins import JSON, CallsMade
from tunecheck_memory._kind import AskJudge, Points


class Outcome(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    rename={
        "at_us": "at",
        "latency_ms": "ms",
        "input_tokens": "in",
        "output_tokens": "out",
        "cached_input_tokens": "cached",
    },
):
    """The text of a reply or judgement, its time (`at_us`, µs since 1970, UTC), and its cost.

    adopted: the agent took the suggested reply without a call.
    declined: the service declined the content; the text is empty, and later prompts leave the exchange out.
    asked: the number of characters sent, if the service did not report input tokens.
    masked: the reply repeated a secret, which is masked in `text`.
    reasoning: the model's reasoning.
    """

    at_us: int
    text: str | None = None
    latency_ms: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    adopted: bool = False
    simulated: bool = False
    declined: bool = False
    cached_input_tokens: int | None = None
    asked: int = 0
    masked: bool = False
    reasoning: str | None = None

    @property
    def made(self) -> CallsMade:
        """The call's tokens; characters stand in for tokens that the service did not report."""
        characters = len(self.text or "") + len(self.reasoning or "") if self.output_tokens is None else 0
        return CallsMade(
            1, self.input_tokens, self.output_tokens, self.cached_input_tokens, self.asked, characters, int(self.masked)
        )

    @property
    def judged_by_model(self) -> bool:
        """True if a model made the judgement, not rules about words."""
        return any(each is not None for each in (self.latency_ms, self.input_tokens, self.output_tokens))


class _Effect(msgspec.Struct, frozen=True, tag_field="do"):
    """A step of the conversation; `test` is the id of the test that it belongs to."""


class Send(_Effect, frozen=True, tag="send"):
    """Send a message to the agent; `test` is "" for the introduction and filler.

    `suggested` is a reply that the agent may adopt; `draws` are the indexes of a filler's entries in the pool.
    """

    test: str
    message: str
    question: bool = False
    suggested: str | None = None
    draws: tuple[int, ...] = ()

    @property
    def filler(self) -> bool:
        return not self.test


class Consult(_Effect, frozen=True, tag="consult"):
    test: str
    purpose: str
    values: dict[str, Any]

    @property
    def request(self) -> AskJudge:
        return AskJudge(self.purpose, self.values)


class Begin(_Effect, frozen=True, tag="begin"):
    """A test begins; `tokens` counts the tokens of the conversation before it."""

    test: str
    tokens: int


class End(_Effect, frozen=True, tag="end"):
    """A test ends; `points` is set if the test counts its points itself."""

    test: str
    points: Points | None = None


class Waiting(_Effect, frozen=True, tag="wait"):
    """A test waits for this many more tokens and seconds."""

    test: str
    tokens: int
    seconds: int


class Register(_Effect, frozen=True, tag="register"):
    test: str


class Deregister(_Effect, frozen=True, tag="deregister"):
    test: str


class ResetAgent(_Effect, frozen=True, tag="reset_agent"):
    """Make the agent forget everything, after each test in isolated mode."""

    test: str


class Jump(_Effect, frozen=True, tag="jump", rename={"until_us": "until"}):
    """Let time pass until `until_us` (µs since 1970, UTC) without messages."""

    until_us: int


class SuiteReset(_Effect, frozen=True, tag="suite_reset"):
    """The tests start. The GoodAI benchmark logs this after its introduction, and when it resumes a run."""


Effect: TypeAlias = Send | Consult | Begin | End | Waiting | Register | Deregister | Jump | ResetAgent | SuiteReset

Schedule: TypeAlias = Generator[Effect, Outcome, None]


def to_data(value: Effect | Outcome) -> dict[str, JSON]:
    data: dict[str, JSON] = msgspec.to_builtins(value)
    return data
