"""The judges of memory tests: one that running tests consult, and one that scores finished tests.

Both read prompts from `.prompty` files: the user's in `prompty/`, else the shipped ones in `data/prompts/`.

* `EndpointJudge` answers a question of a running test (`AskJudge`) with the values of the model's answer.
* `MemoryJudges` scores a finished test: the share of its questions whose reply is right. One reply may have to answer
  several: see `MemoryJudges.questions`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from tunecheck import ConfigurationError, ContentFilterError, JudgementError, PromptyEvaluator
from tunecheck.endpoints import ChatRequest, Completion, Endpoint
from tunecheck.plugins import JSON, CallsMade, Verdict, dumps
from tunecheck_memory._agents import outcome_of
from tunecheck_memory._events import Outcome
from tunecheck_memory._kind import AskJudge, FinishedTest, Kind, Score, shipped_kind, shipped_kinds
from tunecheck_memory._kinds.scripts import DATA

_WORKSPACE = Path("prompty")


def prompt_file(name: str, folder: Path = _WORKSPACE) -> Path:
    """Return the path of the prompt with this name: the user's in `folder` if it exists, else the shipped one."""
    own = folder / f"{name}.prompty"
    return own if own.is_file() else DATA / "prompts" / own.name


class EndpointJudge:
    """A model as the judge of running tests; the prompt of a question is in `memory_<purpose>.prompty`.

    The prompt's inputs are the request's values; lists become lines of text. If the model's answer is invalid, the
    judgement is `{"error": reason}`.
    """

    def __init__(self, endpoint: Endpoint, prompts: str | os.PathLike[str] = _WORKSPACE) -> None:
        """Prepare a judge; `prompts` is the folder of the user's prompt files, which replace shipped ones."""
        self.endpoint = endpoint
        self._folder = Path(prompts)
        self._question = cache(self._load)

    async def ask(self, request: AskJudge, *, key: str) -> Outcome:
        """Ask the model one question of a running test, and return its judgement.

        Return `{"error": reason}` if the answer is invalid.

        Raises:
            ConfigurationError: The question has no prompt file.
            EndpointError: The call failed after all retries.
        """
        question, calls = self._question(request.purpose), _Calls(key)
        try:
            values = await question.answer(calls, request.values)
        except (JudgementError, ContentFilterError) as error:
            values = {"error": str(error)}
        return calls.outcome(dumps(dict(values)).decode())

    def _load(self, purpose: str) -> _Question:
        """Load the prompt of a question; raise ConfigurationError if the question has none."""
        if not purpose.isidentifier():
            raise ConfigurationError(f"the name of the question {purpose!r} must consist of letters, digits and _")
        file = prompt_file(f"memory_{purpose}", self._folder)
        if not file.is_file():
            raise ConfigurationError(f"the question {purpose!r} has no prompt: create {self._folder / file.name}")
        return _Question(file, self.endpoint)


class _Question(PromptyEvaluator):
    """A question of a running test; `answer` returns the values in the model's answer, not a verdict."""

    async def answer(self, calls: _Calls, values: Mapping[str, JSON]) -> Mapping[str, JSON]:
        """Ask the model with these inputs of the prompt, lists as lines of text; return the values of its answer."""
        inputs = {name: "\n".join(map(str, each)) if isinstance(each, list) else each for name, each in values.items()}
        judgement = await self._asking.judge(calls, self._messages(inputs), 0)
        return judgement.answer.values


class _Calls:
    """The calls of one judgement; each has its own idempotency key."""

    def __init__(self, key: str) -> None:
        """Begin with no calls; `key` is the idempotency key of the first."""
        self._key = key
        self._outcomes: list[Outcome] = []

    async def complete(self, endpoint: Endpoint, request: ChatRequest, *, sample: int = 0) -> Completion:
        """Make one call with an idempotency key of its own, and keep its outcome; `sample` has no effect."""
        key = f"{self._key}-{len(self._outcomes) + 1}" if self._outcomes else self._key
        completion = await endpoint.complete(replace(request, idempotency_key=key))
        self._outcomes.append(outcome_of(0, completion, endpoint.name, len(dumps([*request.messages]))))
        return completion

    def outcome(self, text: str) -> Outcome:
        """Return one outcome for the whole judgement: this text, with the tokens and the latency of all its calls."""
        total = CallsMade()
        for outcome in self._outcomes:
            total = total.plus(outcome.made)

        return Outcome(
            0,
            text,
            sum(each.latency_ms or 0.0 for each in self._outcomes) if self._outcomes else None,
            total.input_tokens,
            total.output_tokens,
            simulated=any(each.simulated for each in self._outcomes),
            cached_input_tokens=total.cached_input_tokens,
            asked=total.asked,
            masked=total.masked > 0,
        )


_MOST_SCRIPT = 6_000
"""The most characters of a test's script in the judge's prompt."""

_MOST_QUESTIONS = 50
"""The most questions of a test that the judge answers, each with a request of its own."""


class MemoryJudges:
    """The judges of finished tests: one endpoint, with one prompt for each way to judge."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Load the prompts of all shipped kinds for this endpoint."""
        self.endpoint = endpoint
        names = sorted({kind.judge_prompt for kind in shipped_kinds().values()})
        self._judges = {name: PromptyEvaluator(prompt_file(name), endpoint, name) for name in names}

    def described(self) -> dict[str, JSON]:
        """Return the arguments of each prompt's judge, which decide its verdicts, by the prompt's name."""
        return {name: judge.arguments for name, judge in self._judges.items()}

    def questions(self, test: FinishedTest) -> list[dict[str, object]]:
        """Return the prompt inputs of each question that the judge must answer to score the test.

        * Each reply is judged against the expected text with its number.
        * If there is one reply and the kind is `judged_in_parts`, each part ("boat or raft") is a question of its own.
        * If there is one reply to several expected texts, it must contain all of them, in one question.

        Empty if the test has no expected text or no reply.
        """
        expected = [_as_text(answer) for answer in test.expected[:_MOST_QUESTIONS]]
        replies = list(test.responses)[:_MOST_QUESTIONS]
        if not replies or not any(expected):
            return []

        if len(replies) == 1 and (kind := shipped_kind(test.title)) is not None and kind.judged_in_parts:
            expected = [" or ".join(map(str, words)) for words in test.expected if isinstance(words, list)]
            replies *= len(expected)
        elif len(replies) == 1 and len(expected) > 1:  # one reply must contain all answers
            expected = ["\n".join(expected)]

        # The judge sees the test's statements, but not its other questions.
        questions = [*test.questions, *[""] * len(expected)]  # a kind may have fewer questions than expected answers
        script = "\n".join(line for line in test.script if line not in test.questions)
        script = script if len(script) <= _MOST_SCRIPT else f"{script[:_MOST_SCRIPT]}…"
        return [
            {"told": script, "question": question, "expected": answer, "response": reply}
            for question, answer, reply in zip(questions, expected, replies, strict=False)
        ]

    def judge(self, test: FinishedTest) -> PromptyEvaluator:
        """Return the judge with the prompt of the test's kind."""
        return self._judges[_prompt_name(test)]

    def combine(self, test: FinishedTest, verdicts: Sequence[Verdict]) -> tuple[Score, dict[str, JSON]]:
        """Combine the judge's verdicts on a test: the score is the share of right answers.

        Also returns properties: the first verdict's, with the tokens of all. Unanswered questions are wrong.
        """
        name = _prompt_name(test)
        scores = [float(score) for each in verdicts if isinstance(score := each.get(name), (int, float))]
        # A missing reply counts as wrong. A single verdict stands for the whole reply, which must have all texts.
        count = max(len(verdicts), len(test.expected) if len(verdicts) > 1 else 1)
        reasons = tuple(str(each.get(f"{name}_reason") or "") for each in verdicts)

        properties = [values for each in verdicts if isinstance(values := each.get(f"{name}_properties"), dict)]
        combined: dict[str, JSON] = dict(properties[0]) if properties else {}
        for key in ("input_tokens", "output_tokens"):
            counts = [tokens for values in properties if isinstance(tokens := values.get(key), int)]
            combined |= {key: sum(counts)} if counts else {}

        return Score(sum(scores) / count, reasons), {**combined, "prompt": name}

    async def close(self) -> None:
        """Close the connections of all judges."""
        await asyncio.gather(*(judge.close() for judge in self._judges.values()))


def _as_text(answer: JSON) -> str:
    """Return an expected answer as text: other values than text as JSON, null as an empty text."""
    if answer is None:
        return ""
    return answer if isinstance(answer, str) else dumps(answer).decode()


def _prompt_name(test: FinishedTest) -> str:
    """Return the name of the prompt by which a judge scores a test; tests of unknown kinds have the usual one."""
    return (shipped_kind(test.title) or Kind).judge_prompt
