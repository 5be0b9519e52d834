"""Judges that a session asks while its tests run: a model by prompt files, or one that goes by words alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tunecheck._errors import ConfigurationError, ContentFilterError
from tunecheck._json import JSON, dumps
from tunecheck.endpoints._base import ChatRequest, Completion, Endpoint
from tunecheck.memory._model import AskJudge

if TYPE_CHECKING:
    from tunecheck.evaluators._judges.asking import Asking
    from tunecheck.prompts._prompt import Prompt

_FILES = Path(__file__).parents[1] / "prompts" / "files"
_WORKSPACE = Path("prompty")
_MARK = "data_mark"


class Judge(Protocol):
    """Who answers the questions of tests that are judged while they run."""

    async def ask(self, request: AskJudge, *, key: str) -> str:
        """The judgement, as the text of a JSON object; `key` is the same whenever the same question is asked again.

        Raises:
            ConfigurationError: the judge does not know this question.
            EndpointError: a model was asked, and the call failed for good.
        """
        ...


class EndpointJudge:
    """Asks a model, each question by the prompt file `memory_<purpose>.prompty`.

    The file is looked for in `prompts`, by default the folder `prompty` of the workspace, then among the package's own.
    Its inputs are the request's values, lists as lines; `data_mark` is made here. A reply that is not as the file's
    `outputs:` say is asked for once more. What comes back is the answer's values as JSON; where there is none, an
    object whose only key, `error`, says why, which no test takes for an answer.

    `completions` are the calls so far, for the books.
    """

    def __init__(self, endpoint: Endpoint, prompts: str | os.PathLike[str] | None = None) -> None:
        self.endpoint = endpoint
        self.completions: list[Completion] = []
        self._folder = Path(prompts) if prompts is not None else _WORKSPACE
        self._asking: dict[str, tuple[Prompt, Asking]] = {}

    async def ask(self, request: AskJudge, *, key: str) -> str:
        """See `Judge`. A question that is asked again, of the same prompt, has the same idempotency key.

        Raises:
            ConfigurationError: there is no prompt file for the question, or it is wrong.
            EndpointError: the call failed for good.
        """
        from tunecheck.evaluators._judges.reply import JudgementError

        prompt, asking = self._asked(request.purpose)
        try:
            judgement = await asking.judge(_Calls(key, self.completions), _messages(prompt, request.values), 0)
        except (JudgementError, ContentFilterError) as error:
            return _text({"error": str(error)})
        return _text(judgement.answer.values)

    def _asked(self, purpose: str) -> tuple[Prompt, Asking]:
        if purpose not in self._asking:
            self._asking[purpose] = self._load(purpose)
        return self._asking[purpose]

    def _load(self, purpose: str) -> tuple[Prompt, Asking]:
        from tunecheck.evaluators._judges.answer import AnswerForm
        from tunecheck.evaluators._judges.asking import Asking
        from tunecheck.evaluators._judges.output import JudgeOutput, resolve_output
        from tunecheck.prompts._loading import load_prompt

        prompt = load_prompt(self._file(purpose))
        output = resolve_output(prompt, JudgeOutput(), stem=f"memory_{purpose}")
        form = AnswerForm(output, prompt.source, prompt.parameters.get("response_format"))
        return prompt, Asking(self.endpoint, form, prompt.parameters)

    def _file(self, purpose: str) -> Path:
        name = f"memory_{purpose}.prompty"
        if not purpose.isidentifier():
            raise ConfigurationError(f"the question {purpose!r} must be a name of letters, digits and _")
        for folder in (self._folder, _FILES):
            if (folder / name).is_file():
                return folder / name
        raise ConfigurationError(f"the question {purpose!r} has no prompt: write {self._folder / name}")


class _Calls:
    """Asks the endpoint under an idempotency key of its own for each call that a judgement takes."""

    def __init__(self, key: str, completions: list[Completion]) -> None:
        self._key = key
        self._completions = completions
        self._count = 0

    async def complete(self, endpoint: Endpoint, request: ChatRequest, *, sample: int = 0) -> Completion:
        self._count += 1
        key = self._key if self._count == 1 else f"{self._key}-{self._count}"
        completion = await endpoint.complete(replace(request, idempotency_key=key))
        self._completions.append(completion)
        return completion


def _messages(prompt: Prompt, values: Mapping[str, JSON]) -> list[dict[str, JSON]]:
    from tunecheck.evaluators._judges.texts import data_mark

    given = {name: _shown(value) for name, value in values.items() if name in prompt.inputs}
    if _MARK in prompt.inputs:
        given[_MARK] = data_mark(given)
    return prompt.render(given)


def _shown(value: JSON) -> JSON:
    return "\n".join(map(str, value)) if isinstance(value, list) else value


def _text(values: Mapping[str, JSON]) -> str:
    return dumps(dict(values)).decode()
