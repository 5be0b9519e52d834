"""Prompt files that scripts call directly, as with prompt flow: `load_flow`, `Prompty`, `AsyncPrompty`.

    flow = load_flow("summary.prompty", model={"configuration": {"api_key": "…", "model": "gpt"}})
    flow(text="…")

An input of a call is treated by the first line that fits:

  declared in the file, given        used
  declared, with a default           the default
  declared, without a default        an error, before the model is called
  used in the template only          empty, even if it is given, as in prompt flow
"""

import os
from collections.abc import Mapping
from typing import Self

from tunecheck.endpoints import ChatRequest, DirectCalls, Endpoint
from tunecheck.evaluators import JudgeLoop, ModelConfig, judge_endpoint, read_parameters
from tunecheck.plugins import JSON, loads
from tunecheck.prompts import Prompt, load_prompt
from tunecheck_azure._exceptions import ErrorCategory, ErrorTarget, as_evaluation_exception, mistake


class AsyncPrompty:
    """A prompt file with its model. A call with the prompt's inputs is awaited and returns the model's answer.

    The answer is a text, or a parsed value if the prompt's response format is a JSON object. Inputs that the template
    uses but the file does not declare are empty, as in prompt flow.
    """

    def __init__(self, prompt: Prompt, endpoint: Endpoint, parameters: Mapping[str, JSON]) -> None:
        """Combine a prompt with its endpoint and the parameters of its calls."""
        self._prompt = prompt
        self._endpoint = endpoint
        self._parameters = parameters
        self._loop = JudgeLoop(endpoint.close)

    @classmethod
    def load(
        cls, source: str | os.PathLike[str], *, model: Mapping[str, object] | None = None, **unused: object
    ) -> Self:
        """Return the prompt of a file.

        `model` may contain a `configuration` and `parameters`, which override those of the prompt. Other arguments are
        ignored.

        Raises:
            EvaluationException: the file or the model cannot be used.
        """
        with as_evaluation_exception(ErrorTarget.MODELS):
            if model is not None and not isinstance(model, Mapping):
                raise mistake(f"`model` must be a mapping, not a {type(model).__name__}", target=ErrorTarget.MODELS)
            prompt, settings = load_prompt(source), model or {}
            configuration: ModelConfig | None = settings.get("configuration")  # type: ignore[assignment]
            parameters = read_parameters(settings.get("parameters"))
            return cls(prompt, judge_endpoint(configuration, prompt), {**prompt.parameters, **parameters})

    def render(self, **inputs: object) -> list[dict[str, JSON]]:
        """Return the messages for these inputs.

        Inputs that the file does not declare are ignored: in the template, they are empty.

        Raises:
            EvaluationException: an input that the file declares is missing, or the template fails.
        """
        declared = {name: each for name, each in self._prompt.inputs.items() if each.type is not None}
        missing = [name for name, each in declared.items() if each.required and name not in inputs]
        if missing:
            raise mistake(f"Missing required inputs: {missing}", ErrorCategory.MISSING_FIELD, ErrorTarget.MODELS)

        empty = {name: "" for name, each in self._prompt.inputs.items() if name not in declared and each.required}
        with as_evaluation_exception(ErrorTarget.MODELS):
            return self._prompt.render(empty | {name: value for name, value in inputs.items() if name in declared})

    async def __call__(self, **inputs: object) -> JSON:
        """Return the model's answer: a text, or the parsed JSON if the response format is a JSON object.

        Raises:
            EvaluationException: an input is missing, or the call of the model failed.
        """
        request = ChatRequest(self.render(**inputs), parameters=self._parameters)
        with as_evaluation_exception(ErrorTarget.MODELS):
            text = (await DirectCalls().complete(self._endpoint, request)).text or ""
            form = self._parameters.get("response_format")
            return loads(text) if isinstance(form, dict) and form.get("type") == "json_object" else text


class Prompty(AsyncPrompty):
    """A prompt file with its model, for synchronous calls from any thread."""

    def __call__(self, **inputs: object) -> JSON:  # type: ignore[override]
        """Return the answer of the model."""
        return self._loop.run(super().__call__(**inputs))


def load_flow(source: str | os.PathLike[str], **arguments: object) -> Prompty:
    """Return the prompt of a file, as prompt flow's `load_flow(source, model={"configuration": …})` does.

    Raises:
        EvaluationException: the file or the model cannot be used.
    """
    return Prompty.load(source, **arguments)  # type: ignore[arg-type]
