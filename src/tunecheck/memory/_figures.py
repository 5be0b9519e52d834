"""The figures of a memory run: score, accuracy, speed, verbosity, memory span, by session and over all of them.

As the GoodAI benchmark defines them, but for two things: scores stay within 0 and 1, and speed leaves out replies that
the agent took over ready-made.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tunecheck._json import JSON
from tunecheck.memory._test_states import SessionBook


@dataclass(frozen=True, slots=True)
class Scored:
    """A finished test: its data set, repetition, score (None where nothing could score it), and span in tokens."""

    title: str
    trial: int
    score: float | None
    tokens: int


@dataclass(frozen=True, slots=True)
class DatasetFigures:
    """A data set's tests: how many there are, how many have a score, its mean and population standard deviation."""

    title: str
    tests: int
    scored: int
    mean: float | None
    deviation: float | None

    def data(self) -> dict[str, JSON]:
        return {"tests": self.tests, "scored": self.scored, "mean": self.mean, "std": self.deviation}


@dataclass(frozen=True, slots=True)
class RunFigures:
    """A run, all sessions together.

    score: the sum of the data sets' means, of at most `most`, one for each data set that has a score.
    deviation: the sum of their standard deviations.
    accuracy: score / most.
    tokens_per_second: what the agent generated in the time that it took to.
    verbosity: tokens of the agent in one session, on average, ready-made replies included.
    span: mean of the tokens over which a test with the full score was remembered.
    tokens, messages, fillers: of one session, on average. `longest` is the longest span of a test.
    """

    datasets: Sequence[DatasetFigures]
    score: float
    deviation: float
    most: int
    tokens_per_second: float | None
    verbosity: float
    span: float | None
    tokens: float
    messages: float
    fillers: float
    longest: int
    sessions: int

    @property
    def accuracy(self) -> float | None:
        """The score's share of the most there was to have."""
        return self.score / self.most if self.most else None

    def data(self) -> dict[str, JSON]:
        return {
            "score": self.score,
            "max_score": self.most,
            "std": self.deviation,
            "accuracy": self.accuracy,
            "tokens_per_second": self.tokens_per_second,
            "verbosity": self.verbosity,
            "memory_span": self.span,
            "longest_span": self.longest,
            "tokens": self.tokens,
            "messages": self.messages,
            "fillers": self.fillers,
            "sessions": self.sessions,
            "datasets": {each.title: each.data() for each in self.datasets},
        }


def run_figures(tests: Sequence[Scored], sessions: Iterable[SessionBook]) -> RunFigures:
    """The figures of these tests, which were part of these sessions."""
    books = [*sessions]
    by_title: dict[str, list[Scored]] = {}
    for test in tests:
        by_title.setdefault(test.title, []).append(test)
    datasets = [_dataset(title, each) for title, each in by_title.items()]
    means = [each.mean for each in datasets if each.mean is not None]
    milliseconds = math.fsum(book.generated_ms for book in books)
    generated = sum(book.generated_tokens for book in books)
    perfect = [test.tokens for test in tests if test.score is not None and test.score >= 1]
    return RunFigures(
        datasets=datasets,
        score=math.fsum(means),
        deviation=math.fsum(each.deviation or 0.0 for each in datasets),
        most=len(means),
        tokens_per_second=1000 * generated / milliseconds if milliseconds > 0 else None,
        verbosity=_mean([book.agent_tokens for book in books]) or 0.0,
        span=_mean(perfect),
        tokens=_mean([book.tokens for book in books]) or 0.0,
        messages=_mean([book.messages for book in books]) or 0.0,
        fillers=_mean([book.fillers for book in books]) or 0.0,
        longest=max((test.tokens for test in tests), default=0),
        sessions=len(books),
    )


def _dataset(title: str, tests: Sequence[Scored]) -> DatasetFigures:
    scores = [test.score for test in tests if test.score is not None]
    mean = _mean(scores)
    deviation = None if mean is None else math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / len(scores))
    return DatasetFigures(title, len(tests), len(scores), mean, deviation)


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def read_scored(rows: Iterable[Mapping[str, JSON]], metric: str) -> list[Scored]:
    """The finished tests among result rows; `metric` is the column of their score."""
    found = []
    for row in rows:
        score, tokens, trial = row.get(metric), row.get("outputs.tokens"), row.get("inputs.trial", 1)
        if isinstance(tokens, int):
            number = float(score) if isinstance(score, (int, float)) and not isinstance(score, bool) else None
            found.append(Scored(str(row.get("inputs.dataset")), trial if isinstance(trial, int) else 1, number, tokens))
    return found
