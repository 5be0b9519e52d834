"""The judges of memory tests: those that tests consult while they run, and those that score them afterwards."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tunecheck._errors import ConfigurationError, ContentFilterError
from tunecheck._faults import Verdict
from tunecheck._json import JSON, dumps
from tunecheck.endpoints._base import ChatRequest, Completion, Endpoint
from tunecheck.evaluators._judges.prompty import PromptyEvaluator
from tunecheck.prompts._loading import load_prompt, shipped_prompt
from tunecheck_memory._kind import Kind
from tunecheck_memory._model import AskJudge, Given
from tunecheck_memory._rules import shipped_kind, shipped_kinds

if TYPE_CHECKING:
    from tunecheck.evaluators._judges.asking import Asking
    from tunecheck.prompts._prompt import Prompt


_WORKSPACE = Path("prompty")
_MARK = "data_mark"


class EndpointJudge:
    """Asks a model, each question by the prompt file `memory_<purpose>.prompty`.

    The file is looked for in `prompts`, by default the folder `prompty` of the workspace, then among the package's own.
    Its inputs are the request's values, lists as lines; `data_mark` is made here. Where there is no valid answer, what
    comes back is an object whose only key, `error`, says why. `completions` are the calls so far,
    `asked` how many characters each was sent.
    """

    def __init__(self, endpoint: Endpoint, prompts: str | os.PathLike[str] | None = None) -> None:
        self.endpoint = endpoint
        self.completions: list[Completion] = []
        self.asked: list[int] = []
        self._folder = Path(prompts) if prompts is not None else _WORKSPACE
        self._asking: dict[str, tuple[Prompt, Asking]] = {}

    async def ask(self, request: AskJudge, *, key: str) -> str:
        """See `Judge`."""
        from tunecheck.evaluators._judges.reply import JudgementError

        if request.purpose not in self._asking:
            self._asking[request.purpose] = self._load(request.purpose)
        prompt, asking = self._asking[request.purpose]
        values: Mapping[str, JSON]
        try:
            judgement = await asking.judge(
                _Calls(key, self.completions, self.asked), _messages(prompt, request.values), 0
            )
            values = judgement.answer.values
        except (JudgementError, ContentFilterError) as error:
            values = {"error": str(error)}
        return dumps(dict(values)).decode()

    def _load(self, purpose: str) -> tuple[Prompt, Asking]:
        from tunecheck.evaluators._judges.answer import AnswerForm
        from tunecheck.evaluators._judges.asking import Asking
        from tunecheck.evaluators._judges.output import judge_settings, resolve_output
        from tunecheck.prompts._judge_section import JudgeOutput

        if not purpose.isidentifier():
            raise ConfigurationError(f"the question {purpose!r} must be a name of letters, digits and _")
        file = shipped_prompt(f"memory_{purpose}", self._folder)
        if not file.is_file():
            raise ConfigurationError(f"the question {purpose!r} has no prompt: write {self._folder / file.name}")
        prompt = load_prompt(file)
        output = resolve_output(prompt, judge_settings(prompt, JudgeOutput()), stem=f"memory_{purpose}")
        form = AnswerForm(output, prompt.source)
        self.endpoint.hide(prompt.secrets)
        return prompt, Asking(self.endpoint, form, prompt.parameters)


class _Calls:
    """Gives each call of a judgement an idempotency key of its own."""

    def __init__(self, key: str, completions: list[Completion], asked: list[int]) -> None:
        self._key = key
        self._completions = completions
        self._asked = asked
        self._count = 0

    async def complete(self, endpoint: Endpoint, request: ChatRequest, *, sample: int = 0) -> Completion:
        self._count += 1
        key = self._key if self._count == 1 else f"{self._key}-{self._count}"
        completion = await endpoint.complete(replace(request, idempotency_key=key))
        self._completions.append(completion)
        self._asked.append(len(dumps([*request.messages])))
        return completion


def _messages(prompt: Prompt, values: Mapping[str, JSON]) -> list[dict[str, JSON]]:
    from tunecheck.evaluators._judges.texts import data_mark

    given: dict[str, JSON] = {
        name: "\n".join(map(str, value)) if isinstance(value, list) else value
        for name, value in values.items()
        if name in prompt.inputs
    }
    if _MARK in prompt.inputs:
        given[_MARK] = data_mark(given)
    return prompt.render(given)


_MOST_TOLD = 6_000
_MOST_QUESTIONS = 50


class MemoryJudges:
    """Asks one endpoint about the questions of tests, each with the prompt of its data set."""

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
            name: PromptyEvaluator(
                shipped_prompt(name, _WORKSPACE),
                endpoint,
                name,
                samples=samples,
                combine=combine,
                parameters=parameters,
            )
            for name in sorted({kind.judge_prompt for kind in shipped_kinds().values()})
        }

    def described(self) -> dict[str, JSON]:
        return {name: judge.arguments for name, judge in self._judges.items()}

    def questions(self, test: Given) -> list[dict[str, object]]:
        """The inputs of each question to the judge; none where no answer is expected, or none was given."""
        expected = [
            each if isinstance(each, str) else "" if each is None else dumps(each).decode()
            for each in test.expected[:_MOST_QUESTIONS]
        ]
        replies = list(test.responses)[:_MOST_QUESTIONS]
        if not replies or not any(expected):
            return []
        if len(replies) == 1 and (kind := shipped_kind(test.title)) is not None and kind.judged_in_parts:
            expected = [" or ".join(map(str, words)) for words in test.expected if isinstance(words, list)]
            replies *= len(expected)
        elif len(replies) == 1 and len(expected) > 1:  # one reply has to hold it all
            expected = ["\n".join(expected)]
        asked = [*test.questions, *[""] * len(expected)]
        told = "\n".join(line for line in test.script if line not in test.questions)
        told = told if len(told) <= _MOST_TOLD else f"{told[:_MOST_TOLD]}…"
        return [
            {"told": told, "question": question, "expected": answer, "response": reply}
            for question, answer, reply in zip(asked, expected, replies, strict=False)
        ]

    def judge(self, test: Given) -> PromptyEvaluator:
        return self._judges[self._name(test)]

    def together(self, test: Given, verdicts: Sequence[Verdict]) -> tuple[float, tuple[str, ...], dict[str, JSON]]:
        """The share of answers that are right, the reasons, and the properties of the judge's verdicts.

        These are the first verdict's, with the tokens of all. A question that was never answered counts as wrong.
        """
        name = self._name(test)
        scores = [float(score) for each in verdicts if isinstance(score := each.get(name), (int, float))]
        count = max(len(verdicts), len(test.expected) if len(verdicts) > 1 else 1)
        reasons = tuple(str(each.get(f"{name}_reason") or "") for each in verdicts)
        properties = [own for each in verdicts if isinstance(own := each.get(f"{name}_properties"), dict)]
        taken: dict[str, JSON] = dict(properties[0]) if properties else {}
        for key in ("input_tokens", "output_tokens"):
            counts = [tokens for own in properties if isinstance(tokens := own.get(key), int)]
            taken |= {key: sum(counts)} if counts else {}
        return sum(scores) / count, reasons, {**taken, "prompt": name}

    async def close(self) -> None:
        await asyncio.gather(*(judge.close() for judge in self._judges.values()))

    def _name(self, test: Given) -> str:
        return (shipped_kind(test.title) or Kind).judge_prompt
