"""A kind of memory test: what a data set of the configuration makes, how its tests go, and how they are scored."""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from tunecheck import ConfigurationError
from tunecheck.plugins import JSON, plain

if TYPE_CHECKING:
    from tunecheck.endpoints import Endpoint
    from tunecheck_memory._wording import Wording


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


GROUP = "memory"
"""The entry points by which kinds of tests are found."""


def default_waits(lines: int) -> tuple[Wait, ...]:
    """Waits that spread so many lines evenly over the first nine tenths of the memory span; none after the last."""
    share = 90 / (lines - 1) if lines > 1 else 0
    return tuple(Wait(percentage=(line + 1) * share) for line in range(lines - 1)) + (Wait(),) * (lines > 0)


@dataclass(frozen=True)
class GenerationContext:
    """What definitions are made from: the run's seed, the memory span, the user's texts and the generator model."""

    seed: int
    memory_span: int
    texts: Path | None = None
    generator: Endpoint | None = None

    def random(self, title: str, example: str) -> random.Random:
        """Return the random numbers of one example, which depend on seed, kind and example alone."""
        return random.Random(f"{self.seed}/{title}/{example}")


@dataclass(frozen=True)
class Scene:
    """What an active test may look at: the clock (µs since 1970, UTC), its own random numbers, and the wording."""

    now_us: Callable[[], int]
    random: random.Random
    wording: Wording


class Kind:
    """Base of all kinds. Made with the arguments of its data set in the configuration, as keywords.

    A kind keeps each argument as an attribute of the same name.

    `name` is what configurations say ("colours"), `title` the folder name and the ids' beginning ("Colours").
    Two kinds that share a topic are never active at once; each kind is its own topic. `resets` says that the wording
    has a message that makes the agent forget the test when it is over.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    topics: ClassVar[frozenset[str]] = frozenset()
    resets: ClassVar[bool] = False
    consults: ClassVar[bool] = False
    """Whether its tests ask the judge while they run."""
    judged: ClassVar[bool] = False
    """True if only a judge can score its tests."""
    judge_prompt: ClassVar[str] = "memory_recall"
    """The prompt file by which a judge scores its tests."""
    judged_in_parts: ClassVar[bool] = False
    """True if a judge is asked for each part of a single reply: any of the words that are expected there."""
    needs_texts: ClassVar[bool] = False
    """True if its tests are made from texts of the user's; a run without `--texts` leaves the data set out."""

    @classmethod
    def argument_names(cls) -> tuple[str, ...]:
        """Return the names of the arguments that a configuration may give: those of `__init__`."""
        if cls.__init__ is object.__init__:
            return ()
        parameters = inspect.signature(cls).parameters.values()
        return tuple(each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY))

    @property
    def arguments(self) -> Mapping[str, JSON]:
        """The arguments it was made with, for definitions, rows and fingerprints: attributes of the same names."""
        return {name: getattr(self, name) for name in self.argument_names()}

    def definitions(self, count: int, making: GenerationContext) -> list[Definition]:
        """Make the first `count` tests, always the same for the same arguments and seed; by default one by one.

        Raises:
            ConfigurationError: it needs something (texts, a generator) that is not there; the text says what to give.
        """
        return [self.definition(str(number), making) for number in range(count)]

    def definition(self, example: str, making: GenerationContext) -> Definition:
        """Make one test, where each can be made by itself; a kind has this method or `definitions`."""
        raise ConfigurationError(f"the kind {type(self).__name__} has neither definition() nor definitions()")

    def check(self, wording: Wording) -> None:
        """Find out before anything is said whether the wording has all that the tests need; by default it has.

        Raises:
            ConfigurationError: something is missing; the text says what.
        """

    def steps(self, definition: Definition, scene: Scene) -> Steps:
        """The running test: by default each line of its script and its wait; a temporal one asks its question last."""
        said_us: list[int] = []
        for message, question, wait in zip(definition.script, definition.is_question, definition.waits, strict=False):
            replied = yield Say(message, question=question, register=question and definition.uses_callback)
            said_us.append(replied.sent_us)
            if not wait.is_none:
                yield wait
        if definition.is_temporal and len(definition.is_question) > len(definition.script):
            yield Say(self.temporal_question(definition, said_us, scene), question=True)
        return None

    def temporal_question(self, definition: Definition, statements_us: Sequence[int], scene: Scene) -> str:
        """The question of a temporal test, worded when it is asked; `statements_us` are when each line was said.

        A kind with temporal tests has this method.
        """
        raise ConfigurationError(f"the kind {type(self).__name__} has temporal tests and no temporal_question()")

    def is_over(self, definition: Definition, replies: Sequence[str]) -> bool:
        """For tests with a callback: whether it has seen enough of the replies since the question, its own first."""
        return True

    def score(self, given: FinishedTest) -> Score | None:
        """Score a finished test by rules; None if only a judge can. A test's own points are its score in any case."""
        return None

    def is_verbatim(self, given: FinishedTest) -> bool:
        """False if a judge may know better than the rules, as the replies are worded in another way than expected."""
        return True
