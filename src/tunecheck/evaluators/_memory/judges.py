"""The judges of memory tests: one prompt for each sort of test, one question a call, put together to a score."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from tunecheck._json import JSON, dumps
from tunecheck.endpoints._base import Endpoint
from tunecheck.endpoints._calling import ModelCalls
from tunecheck.evaluators._base import Verdict
from tunecheck.evaluators._judges.prompty import PromptyEvaluator
from tunecheck.memory._model import Given
from tunecheck.memory._scoring import plain_title

_RECALL = "memory_recall"
_PROMPTS: Mapping[str, str] = MappingProxyType(
    {
        "howtothink": "memory_how_to_think",
        "conflictingpersonalinfo": "memory_conflicting_info",
        "conflictingpersonalinformation": "memory_conflicting_info",
        "jokes": "memory_joke",
        "locations": "memory_route",
        "locationsdirections": "memory_route",
        "triggerresponse": "memory_trigger",
    }
)
"""The prompt of each data set; all others have the one about recall."""

_MOST_TOLD = 6_000
_MOST_QUESTIONS = 50


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a test with its right answer and the agent's reply."""

    question: str
    expected: str
    response: str


class MemoryJudges:
    """Asks one endpoint about the questions of tests, each with the prompt of its data set.

    A prompt is `prompty/<name>.prompty` in the workspace, else the package's own; `<name>` is for instance
    `memory_recall`.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        samples: int | None = None,
        combine: Literal["mean", "majority"] | None = None,
        parameters: Mapping[str, JSON] | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._judges = {
            name: PromptyEvaluator(_file(name), endpoint, name, samples=samples, combine=combine, parameters=parameters)
            for name in dict.fromkeys((_RECALL, *_PROMPTS.values()))
        }

    def described(self) -> dict[str, JSON]:
        """All prompts with their settings, for fingerprints and the manifest."""
        return {name: judge.arguments for name, judge in self._judges.items()}

    def questions(self, test: Given) -> list[Question]:
        """What there is to ask about a test; nothing where no answer is expected, or none was given."""
        expected = [_shown(each) for each in test.expected][:_MOST_QUESTIONS]
        replies = list(test.responses)[:_MOST_QUESTIONS]
        if not replies or not any(expected):
            return []
        if len(replies) == 1 and len(expected) > 1:  # one reply has to hold it all
            expected = ["\n".join(expected)]
        asked = [*test.questions, *[""] * len(expected)]
        return [Question(*each) for each in zip(asked, expected, replies, strict=False)]

    def ask(self, test: Given, questions: Sequence[Question]) -> list[Verdict]:
        """The judge's verdict on each."""
        judge = self._judge(test)
        return [judge(**_inputs(test, question)) for question in questions]

    async def ask_with(self, calls: ModelCalls, test: Given, questions: Sequence[Question]) -> list[Verdict]:
        """The same; `calls` asks the model."""
        judge = self._judge(test)
        return [await judge.call_with(calls, **_inputs(test, question)) for question in questions]

    def together(
        self, test: Given, asked: Sequence[Question], verdicts: Sequence[Verdict]
    ) -> tuple[float, tuple[str, ...], dict[str, JSON]]:
        """The share of answers that are right, the reasons, and what the judge took.

        A question that was never answered counts as wrong.
        """
        name = self._name(test)
        scores = [_number(each.get(name)) for each in verdicts]
        count = max(len(asked), len(test.expected) if len(asked) > 1 else 1)
        reasons = tuple(str(each.get(f"{name}_reason") or "") for each in verdicts)
        return sum(scores) / count, reasons, _taken(name, verdicts)

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(judge.close() for judge in self._judges.values()))

    def _name(self, test: Given) -> str:
        return _PROMPTS.get(plain_title(test.title), _RECALL)

    def _judge(self, test: Given) -> PromptyEvaluator:
        return self._judges[self._name(test)]


def _file(name: str) -> Path:
    replaced = Path("prompty") / f"{name}.prompty"
    return replaced if replaced.is_file() else Path(__file__).parents[2] / "prompts" / "files" / f"{name}.prompty"


def _inputs(test: Given, question: Question) -> dict[str, object]:
    told = "\n".join(line for line in test.script if line not in test.questions)
    return {
        "told": told if len(told) <= _MOST_TOLD else f"{told[:_MOST_TOLD]}…",
        "question": question.question,
        "expected": question.expected,
        "response": question.response,
    }


def _taken(name: str, verdicts: Sequence[Verdict]) -> dict[str, JSON]:
    """Tokens of all calls, and the other properties of the first."""
    each = [found for verdict in verdicts if isinstance(found := verdict.get(f"{name}_properties"), dict)]
    taken: dict[str, JSON] = dict(each[0]) if each else {}
    for key in ("input_tokens", "output_tokens"):
        counts = [count for found in each if isinstance(count := found.get(key), int)]
        taken |= {key: sum(counts)} if counts else {}
    return {**taken, "prompt": name}


def _number(value: JSON) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _shown(value: JSON) -> str:
    return value if isinstance(value, str) else "" if value is None else dumps(value).decode()
