"""The judges of memory tests: one that running tests consult, and one that scores finished tests.

Both read prompts from `.prompty` files: the user's in `prompty/`, else the shipped ones in `data/prompts/`.

* `EndpointJudge` answers a question of a running test (`AskJudge`) with the values of the model's answer.
* `finished_judges` answer the questions about a finished test, from which `MemoryEvaluator` makes its score.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tunecheck import ConfigurationError, ContentFilterError, JudgementError, PromptyEvaluator
from tunecheck.endpoints import ChatRequest, Completion, Endpoint
from tunecheck.plugins import JSON, CallsMade, dumps
from tunecheck_memory._agents import outcome_of
from tunecheck_memory._events import Outcome
from tunecheck_memory._kind import AskJudge, shipped_kinds
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
        self._question = functools.cache(self._load)

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
            raise ConfigurationError(
                f"the purpose {purpose!r} of an AskJudge must consist of letters, digits and _, and begin with no digit"
            )
        file = prompt_file(f"memory_{purpose}", self._folder)
        if not file.is_file():
            raise ConfigurationError(f"the judge has no prompt for {purpose!r}; create {self._folder / file.name}")
        return _Question(file, self.endpoint)


class _Question(PromptyEvaluator):
    """A question of a running test; `answer` returns the values in the model's answer, not a verdict."""

    async def answer(self, calls: _Calls, values: Mapping[str, JSON]) -> Mapping[str, JSON]:
        """Ask the model with these inputs of the prompt, lists as lines of text; return the values of its answer."""
        inputs = {name: "\n".join(map(str, each)) if isinstance(each, list) else each for name, each in values.items()}
        return (await self._asking.judge(calls, self._messages(inputs), sample=0)).answer.values


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
        """Return one outcome for the whole judgement: this text, with the tokens and the latency of all its calls.

        Its time is 0, because only the session knows the time.
        """
        total = functools.reduce(CallsMade.plus, (each.made for each in self._outcomes), CallsMade())
        return Outcome(
            at_us=0,
            text=text,
            latency_ms=sum(each.latency_ms or 0.0 for each in self._outcomes),
            input_tokens=total.input_tokens,
            output_tokens=total.output_tokens,
            simulated=any(each.simulated for each in self._outcomes),
            cached_input_tokens=total.cached_input_tokens,
            asked=total.asked,
            masked=total.masked > 0,
            calls=total.calls,
        )


def finished_judges(endpoint: Endpoint) -> dict[str, PromptyEvaluator]:
    """Return the judges of finished tests: one for each prompt of the shipped kinds, by the prompt's name."""
    names = sorted({kind.judge_prompt for kind in shipped_kinds()})
    return {name: PromptyEvaluator(prompt_file(name), endpoint, name) for name in names}
