"""A kind of memory test: what a data set of the configuration makes, how its tests go, and how they are scored."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tunecheck import ConfigurationError
from tunecheck.plugins import JSON
from tunecheck_memory._model import Definition, FinishedTest, Say, Score, Steps

if TYPE_CHECKING:
    from tunecheck.endpoints import Endpoint
    from tunecheck_memory._wording import Wording


GROUP = "memory"
"""The entry points by which kinds of tests are found."""


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
