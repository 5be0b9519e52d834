"""Tests on their way: what is to be run, and how far each has come."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tunecheck import RunError, TunecheckError
from tunecheck_memory._kind import Kind, Scene
from tunecheck_memory._model import AskJudge, Definition, Points, Replied, Say, Step, Steps, Wait
from tunecheck_memory._wording import Wording


@dataclass(frozen=True)
class Test:
    """`memory_span` is its data set's, where that differs from the run's.

    `seed` is that of its random numbers, by default its id.
    """

    __test__ = False  # none of pytest's

    definition: Definition
    kind: Kind
    memory_span: int | None = None
    seed: str | None = None

    @property
    def id(self) -> str:
        return self.definition.id


class Task:
    """`begun_at` is the count of tokens at which it began, `reply_tokens` those of the last reply to it.

    `replies` are, once it has a callback, the agent's since its question; `over` says that these were enough.
    """

    def __init__(self, test: Test, wording: Wording, now_us: Callable[[], int]) -> None:
        self.test = test
        self.begun_at: int | None = None
        self.reply_tokens = 0
        self.replies: list[str] | None = None
        self.over = False
        self.points: Points | None = None
        self._now_us = now_us
        self._scene = Scene(now_us, random.Random(test.seed or test.id), wording)
        self._steps: Steps | None = None
        self._ended = False
        self._last: Replied | None = None

    @property
    def id(self) -> str:
        return self.test.id

    @property
    def waits_for_callback(self) -> bool:
        return self.replies is not None and not self.over

    @property
    def script_done(self) -> bool:
        return self._ended

    def next(self) -> Step | None:
        if self._ended:
            return None
        try:
            step = self._advance()
        except TunecheckError:
            raise
        except Exception as error:  # noqa: BLE001 - a kind may be somebody's own code
            raise RunError(f"the test {self.id!r} could not go on: {type(error).__name__}: {error}") from error
        return step

    def record_reply(self, text: str | None, sent_us: int) -> None:
        self._last = Replied(text, sent_us, self._now_us())

    def callback_done(self) -> bool:
        return self.replies is not None and self.test.kind.is_over(self.test.definition, self.replies)

    def _advance(self) -> Step | None:
        try:
            if self._steps is None:
                self._steps = self.test.kind.steps(self.test.definition, self._scene)
                step: object = next(self._steps)
            else:
                last, self._last = self._last, None
                step = self._steps.send(last or Replied(None, self._now_us(), self._now_us()))
        except StopIteration as end:
            self._ended = True
            if end.value is not None and not isinstance(end.value, Points):
                raise ValueError(f"it ends with {end.value!r:.60}, which is not Points") from None
            self.points = end.value
            return None
        if not isinstance(step, Say | Wait | AskJudge):
            raise ValueError(f"it yields {step!r:.60}, which is not a Say, Wait or AskJudge")
        return step


def conflicts(kinds: Iterable[Kind], declared: Sequence[frozenset[str]], by_topics: bool) -> dict[str, set[str]]:
    """By title, the titles that must not be at work at the same time, its own included."""
    by_title = {kind.title: kind for kind in kinds}
    blocked = {title: {title} for title in by_title}
    for together in declared:
        for title in together & blocked.keys():
            blocked[title] |= together & blocked.keys()
    if by_topics:
        for title, kind in by_title.items():
            blocked[title] |= {other.title for other in by_title.values() if other.topics & kind.topics}
    return blocked
