"""`PromptyEvaluator`, the base of all evaluators that ask a model, each with a `.prompty` file.

A row is judged in these steps (`PromptyEvaluator._judge`):

1. `_prepare` makes the prompt's inputs from the row. It may return a verdict that needs no model.
2. `_messages` renders the prompt with them.
3. `_judgements` asks for all samples at once. Unreadable samples are excluded if another one is readable.
4. `_verdict` combines the samples into one score, with tokens, spread and notes as properties.
5. `_finish` may add values of the answer.

Subclasses override `_prepare`, `_objection` and `_finish`.
"""

import asyncio
import hashlib
import inspect
import itertools
import keyword
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, cast

import msgspec

from tunecheck._errors import ConfigurationError, ContentFilterError
from tunecheck._faults import Fault, Verdict, verdict
from tunecheck._json import JSON, canonical, dumps, object_or_empty, plain
from tunecheck.calls._model import FunctionCall, canonical_text
from tunecheck.calls._schemas import ToolDefinitions
from tunecheck.endpoints._base import ChatRequest, DirectCalls, Endpoint, ModelCalls
from tunecheck.endpoints._masking import storable_settings as masked, trace
from tunecheck.evaluators._base import Evaluator, Metric
from tunecheck.evaluators._judges.answer import AnswerForm, JudgementError, judge_settings, resolve_output
from tunecheck.evaluators._judges.asking import (
    JudgeClient,
    JudgeLoop,
    Judgement,
    ModelConfig,
    combine_judgements,
    judge_endpoint,
    model_name,
    tokens_of,
)
from tunecheck.formats._reading import cached_reading, read_calls, tools_of
from tunecheck.prompts._front_matter import Combine, JudgeOutput
from tunecheck.prompts._loading import load_prompt
from tunecheck.prompts._prompt import Prompt

# -- values of a row as a prompt shows them: calls in one form, conversations line by line, data between marks

_MOST_TOOLS = 20_000
"""Maximum number of characters of tool definitions in a prompt."""

# keys of a message with calls, and of any message
_CALLS = frozenset({"tool_calls", "function_call"})
_SAID = _CALLS | {"content"}


def read_parameters(parameters: object) -> dict[str, JSON]:
    """Return the parameters of a model's calls as JSON values; None stands for no parameters.

    Raises:
        ConfigurationError: the parameters are not a mapping, or a value has no JSON form.
    """
    if parameters is not None and not isinstance(parameters, Mapping):
        raise ConfigurationError(f"`parameters` must be a mapping, not a {type(parameters).__name__}")
    try:
        return cast("dict[str, JSON]", plain(dict(parameters or {}), path="parameters"))
    except TypeError as error:
        raise ConfigurationError(str(error)) from None


def none_if_nan(value: object) -> object:
    """Return the value, or None for the NaN of an empty pandas cell."""
    return None if isinstance(value, float) and value != value else value


def input_text(value: object, tool_definitions: object = None) -> str:
    """Return a row's value (a response, question or context) as text for a prompt.

    Calls, also those in a text, are written in canonical form, without the text around them. Other text is unchanged.
    Conversations are written as lines `role: content`, other data as JSON; None and NaN become an empty text. The tool
    definitions decide what is a call if the format alone does not.
    """
    value = none_if_nan(value)
    if value is None:
        return ""

    tools = tools_of(tool_definitions)
    if isinstance(value, str):
        reading = cached_reading(value, tools)
        return canonical_text(reading.calls) if reading.complete_calls else value

    messages = value if isinstance(value, (list, tuple)) and all(map(_is_message, value)) else ()
    # A single assistant message is an answer, not a conversation.
    if len(messages) > 1 or (messages and messages[0]["role"] != "assistant"):
        return "\n".join(map(_message_text, messages))

    reading = cached_reading(value, tools)
    return canonical_text(reading.calls) if reading.complete_calls else reading.text or _json(value)


def data_mark(values: Mapping[str, object]) -> str:
    """Return a text of 12 hex digits that does not occur in a prompt's data, to mark where the data begins and ends.

    It is a hash of the data, so equal rows give equal prompts. If the data contains it, by chance or as an attack, the
    next hash is used.
    """
    data = canonical(plain(dict(values)))
    salts = (number.to_bytes(8, "big") for number in itertools.count())
    marks = (hashlib.blake2b(data, digest_size=6, salt=salt).hexdigest() for salt in salts)
    return next(mark for mark in marks if mark.encode() not in data)


def defined_tools(definitions: ToolDefinitions, calls: Iterable[FunctionCall]) -> str:
    """Return the definitions of the called functions as text, one per line, shortened; empty if none is defined."""
    names = dict.fromkeys(call.name for call in calls)
    tools = [definition for name in names if (definition := definitions.get(name)) is not None]
    lines = [dumps({"name": tool.name, "parameters": dict(tool.parameters)}).decode() for tool in tools]
    text = "\n".join(lines)
    return text if len(text) <= _MOST_TOOLS else f"{text[:_MOST_TOOLS]}…"


def _is_message(value: object) -> bool:
    """Return whether a value is a chat message: an object with a role, and with content or calls."""
    return isinstance(value, dict) and isinstance(value.get("role"), str) and not _SAID.isdisjoint(value)


def _message_text(message: dict[str, JSON]) -> str:
    """Return a chat message as `role: content`; an assistant's calls are written in canonical form."""
    content = message.get("content")
    role = str(message["role"])
    has_only_text = isinstance(content, str) and _CALLS.isdisjoint(message)
    calls = read_calls([message]).calls if role == "assistant" and not has_only_text else ()
    # Parts of the content are left out if the calls in them are shown.
    text = content if isinstance(content, str) else "" if calls or content is None else _json(content)
    return f"{role}: " + "\n".join(part for part in (text, canonical_text(calls)) if part.strip())


def _json(value: object) -> str:
    """Return a value as JSON text for a prompt; raise ValueError if it has no JSON form."""
    try:
        return dumps(value).decode()
    except TypeError as error:
        raise ValueError(f"a value of the row cannot be written as JSON for the judge: {error}") from None


_MARK = "data_mark"
"""A prompt's input for the mark around data, which no row supplies; see `data_mark`."""

_TURNS = 3
"""Number of event loop iterations before a row is read, so that pending requests and replies are handled first."""


class VerdictWithoutModel(msgspec.Struct, frozen=True):
    """A row's verdict that needs no model."""

    verdict: Verdict


class PromptyEvaluator(Evaluator):
    """Judges each row by a model with a prompt; the prompt's inputs are the evaluator's parameters.

    Args:
        prompty: the `.prompty` file.
        model_config: the model: an endpoint; the mapping, file or name of its definition; Azure's
            `AzureOpenAIModelConfiguration` or `OpenAIModelConfiguration` (not changed). By default, the model in the
            prompt's own configuration. `model` is an alias.
        output: the metric's name, or a `JudgeOutput`. Missing settings come from the prompt's `judge:` section, then
            from its `outputs:`, then from the file's name.
        threshold: the score from which a row passes; overrides the output's threshold.
        samples: number of judgements per row; with several, the verdict's properties have their `spread`.
        combine: "mean" or "majority" of the samples; by default "majority" if the score is binary or a word.
        parameters: override the prompt's parameters; None removes a parameter (`{"max_tokens": None}`).

    If the service supports it, the request asks for JSON by the schema of the outputs. Otherwise the reply is read
    leniently, and an unreadable reply is requested once more. The verdict has a metric's eight keys. Its properties are
    the tokens of all calls (`input_tokens`, `output_tokens`), `samples`, the `model`, and the answer's other values.
    With several `samples`, unreadable ones are excluded, and the properties' `note` says so.

    Raises:
        ConfigurationError: no model is given, or the prompt, the model or an argument is invalid.

    Raises, when called:
        JudgementError: the reply has no valid judgement; the text contains the shortened reply.
        JudgeRefusalError, ContentFilterError: the model or the service refused.
        EndpointError: the call failed for good.
    """

    judged: ClassVar[bool] = True
    __signature__: inspect.Signature

    def __init__(
        self,
        prompty: str | os.PathLike[str],
        model_config: ModelConfig | None = None,
        output: str | JudgeOutput | None = None,
        *,
        model: ModelConfig | None = None,
        threshold: float | None = None,
        samples: int | None = None,
        combine: Literal["mean", "majority"] | None = None,
        parameters: Mapping[str, JSON] | None = None,
    ) -> None:
        """Load the prompt, find the judge's model, and prepare how its answers are read, without a request.

        The class describes the arguments.

        Raises:
            ConfigurationError: an argument, the prompt or the model is wrong.
        """
        if model is not None and model_config is not None:
            raise ConfigurationError("`model` and `model_config` are the same parameter: leave one of them out")

        self._prompt = load_prompt(prompty)
        self.endpoint: Endpoint = judge_endpoint(model if model_config is None else model_config, self._prompt)

        # Settings given here come before the prompt's `judge:` section, and that comes before its `outputs:`.
        own_output = output if isinstance(output, JudgeOutput) else JudgeOutput(metric=output)
        settings = judge_settings(self._prompt, own_output, threshold=threshold, samples=samples, combine=combine)
        self._output = resolve_output(self._prompt, settings)
        self.samples: int = settings.samples or 1
        """The number of judgements per row."""

        self._applies_to = settings.applies_to
        # A mean of words, or of yes and no, is no score that the judge could give.
        majority = self._output.kind == "binary" or self._output.labels
        self._combine: Combine = settings.combine or ("majority" if majority else "mean")

        self._own_parameters: Mapping[str, JSON] = read_parameters(parameters)

        sent = self._override(self._prompt.parameters)
        self._form = AnswerForm(self._output, self._prompt.source, self._objection)
        # `sent` has the values of environment variables, `written` refers to them.
        written = masked(self._override(self._prompt.written_parameters), "parameters")

        # Fingerprints and the manifest contain no secret.
        described = plain(
            {
                "prompt": self._prompt.path.name,
                "digest": self._prompt.digest,
                "endpoint": {**self.endpoint.answer_settings(), "kind": self.endpoint.kind},
                "output": self._output.data(),
                "samples": self.samples,
                "combine": self._combine,
                "parameters": written,
                **({} if self._applies_to is None else {"applies_to": self._applies_to}),
                **({} if written == sent else {"parameters_trace": trace(sent)}),
            }
        )

        assert isinstance(described, dict)
        super().__init__(**described)
        self._declare()
        self._connect()

    # -- what subclasses say

    _provided: ClassVar[frozenset[str]] = frozenset()
    """Inputs of the prompt that `_prepare` computes from the evaluator's parameters."""

    def _prepare(self, /, *args: Any, **inputs: Any) -> Mapping[str, object] | VerdictWithoutModel:  # noqa: ANN401
        """Return the prompt's inputs for one row, or its verdict if no model is needed.

        Subclasses declare keyword parameters here, which become the evaluator's parameters.
        """
        # With `applies_to` in the prompt, only calls or only answers without a call are judged.
        if self._applies_to is not None and "response" in inputs:
            is_call = bool(cached_reading(inputs["response"]).complete_calls)
            if is_call != (self._applies_to == "calls"):
                reason = f"the response is {'a' if is_call else 'no'} call, but judge.applies_to is {self._applies_to}"
                return VerdictWithoutModel(self._make_verdict(None, reason))

        # Inputs that the prompt shows as a whole become JSON, because Jinja would write them in Python's syntax.
        whole_inputs = self._prompt.written_whole
        return {
            name: _json(value) if name in whole_inputs and isinstance(value, (list, dict)) else value
            for name, value in inputs.items()
        }

    def _objection(self, values: Mapping[str, JSON], score: float) -> str | None:
        """Return how an answer contradicts itself, as a text for the judge; None if it does not."""
        return None

    def _finish(self, judged: Verdict, values: Mapping[str, JSON]) -> Verdict:
        """Return the verdict; a subclass may add values of the answer."""
        return judged

    # -- judging

    def __call__(self, /, **inputs: object) -> Verdict:  # an input may be named `self` or `calls`
        """Judge one row, from any thread, even if an event loop runs in it.

        Raises:
            TypeError: the inputs are not the prompt's inputs.
        """
        return self._loop.run(self._judge(DirectCalls(), inputs))

    async def call_with(self, calls: ModelCalls, /, **inputs: object) -> Verdict:
        """Judge one row like `__call__`, but let `calls` make the requests, so that a run can journal them."""
        # Other rows' pending requests and replies come first.
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        return await self._judge(calls, inputs)

    async def _judge(self, calls: ModelCalls, inputs: Mapping[str, object]) -> Verdict:
        """Judge one row: prepare the prompt's inputs, ask for the samples, and combine them. Some rows need no model.

        Raises:
            TypeError: the inputs are not the evaluator's parameters.
        """
        self.__signature__.bind(**inputs)

        prepared = self._prepare(**{name: none_if_nan(value) for name, value in inputs.items()})
        if isinstance(prepared, VerdictWithoutModel):
            return prepared.verdict
        judgements, note = await self._judgements(calls, self._messages(prepared))
        return self._verdict(judgements, note)

    def _messages(self, prepared: Mapping[str, object]) -> list[dict[str, JSON]]:
        """Render the prompt's messages with the prepared values. Ignore values that are no inputs of the prompt.

        If the prompt has the input `data_mark`, compute it from the other values.
        """
        values = {name: value for name, value in prepared.items() if name in self._prompt.inputs}
        if _MARK in self._prompt.inputs:
            values[_MARK] = data_mark(values)
        return self._prompt.render(values)

    async def _judgements(
        self, calls: ModelCalls, messages: list[dict[str, JSON]]
    ) -> tuple[list[Judgement], str | None]:
        """Ask for all samples of a row concurrently. Return the readable judgements, and a note for the user or None.

        The note tells how many samples are unreadable, and that samples at temperature 0 hardly differ.

        Raises:
            JudgementError, ContentFilterError: no sample is readable.
            EndpointError: a call failed for good.
        """
        if self.samples == 1:
            return [await self._asking.judge(calls, messages, 0)], None

        # All samples are awaited, so that no request is left running when one fails.
        outcomes = await asyncio.gather(
            *(self._asking.judge(calls, messages, sample) for sample in range(self.samples)), return_exceptions=True
        )
        judgements = [outcome for outcome in outcomes if isinstance(outcome, Judgement)]
        errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]

        # An unreadable sample is excluded. A failed call is repeated when the run is resumed.
        failed_calls = [error for error in errors if not isinstance(error, (JudgementError, ContentFilterError))]
        if failed_calls or not judgements:
            raise (failed_calls or errors)[0]

        notes = [f"{len(errors)} of {self.samples} judge replies cannot be read: {errors[0]}"[:400]] if errors else []
        if self._override(self._prompt.parameters).get("temperature") == 0:
            notes.append("at temperature 0, samples hardly differ: raise the temperature")
        return judgements, "; ".join(notes) or None

    def _verdict(self, judgements: list[Judgement], note: str | None) -> Verdict:
        """Return the row's verdict from its judgements.

        Its properties are the tokens, the number of samples, their spread and votes, the model, the note, and the
        answer's other values.
        """
        output = self._output
        result = combine_judgements(judgements, self._combine, higher_is_better=output.higher_is_better)
        # The reason and the other values come from one typical judgement. The tokens are those of all requests.
        answer = result.typical.answer
        completions = [completion for judgement in judgements for completion in judgement.completions]

        properties: dict[str, JSON] = {**tokens_of(completions), "samples": len(judgements)}
        if self.samples > 1:
            properties["spread"] = result.spread
        properties |= {"votes": dict(result.votes)} if result.votes else {}
        properties["model"] = self._model
        properties |= {"note": note} if note else {}
        properties |= {"simulated": True} if any(completion.simulated for completion in completions) else {}

        # A label's word says more than its number.
        score_keys = () if output.labels else (output.score,)
        # Values with a place of their own in the verdict are no properties.
        excluded = {output.reason, *score_keys, "status", *properties}
        properties |= {name: value for name, value in answer.values.items() if name not in excluded}

        judged = self._make_verdict(result.score, answer.reason, properties=properties)
        if result.score is not None and output.threshold is None:
            judged[f"{output.metric}_result"] = None  # without a threshold, nothing passes or fails
        return self._finish(judged, answer.values)

    def _make_verdict(
        self, score: float | None, reason: str | None, faults: Sequence[Fault] = (), properties: JSON = None
    ) -> Verdict:
        """Return the verdict for a score; the score None means "not applicable"."""
        return verdict(
            self._output.metric,
            score=score,
            passed=None if score is None else self._output.passes(score),
            threshold=self._output.threshold,
            reason=reason,
            properties=object_or_empty(properties),
            faults=faults,
            not_applicable=score is None,
        )

    # -- what it is

    @property
    def notes(self) -> Sequence[str]:
        """Notes for the user on the prompt file, such as tools that the model does not get."""
        return self._prompt.notes

    def expected_request(self, **inputs: object) -> ChatRequest | None:
        """Return the request that one row would cause, for cost estimates; None if the row needs no model.

        Nothing is sent.

        Raises:
            ValueError: the row cannot be judged.
        """
        prepared = self._prepare(**{name: none_if_nan(value) for name, value in inputs.items()})
        if isinstance(prepared, VerdictWithoutModel):
            return None
        return ChatRequest(self._messages(prepared), parameters=self._asking.parameters)

    @property
    def concurrency(self) -> int | None:
        """The number of rows to judge at once; None if unlimited.

        It is the endpoint's limit. If the endpoint enforces its limit itself, it is twice the limit, so that the next
        requests are ready when the endpoint becomes free.
        """
        most = self.endpoint.concurrency
        return 2 * most if most is not None and self.endpoint.limits_concurrency else most

    async def close(self) -> None:
        """Close connections; a later call opens new ones."""
        await asyncio.to_thread(self._loop.close)
        await self.endpoint.close()

    def _declare(self) -> None:
        """Set this instance's metrics, signature, and whether it has a pass rate, which depend on the prompt."""
        output = self._output
        metric = Metric(output.metric, output.kind, output.range, output.higher_is_better)
        # `vars`, because the class declares these names as class attributes.
        vars(self).update(metrics=(metric,), primary=metric.name, has_pass_rate=output.threshold is not None)

        # The parameters of `_prepare` come first, then those inputs of the prompt that it does not compute.
        prepared = inspect.signature(self._prepare).parameters.values()
        own = [parameter for parameter in prepared if parameter.kind is parameter.KEYWORD_ONLY]
        excluded = {parameter.name for parameter in own} | self._provided | {_MARK}
        self.__signature__ = inspect.Signature([*own, *_input_parameters(self._prompt, excluded)])
        vars(self)["signatures"] = [self.__signature__]

    def _override(self, parameters: Mapping[str, JSON]) -> dict[str, JSON]:
        """Return these parameters of the prompt, overridden by the evaluator's own, without those that are None."""
        return {name: value for name, value in {**parameters, **self._own_parameters}.items() if value is not None}

    def _connect(self) -> None:
        """Create the parts that cannot be pickled: the client and the thread for calls outside of a run."""
        self._model = model_name(self.endpoint)
        self.endpoint.hide(self._prompt.secrets)
        self._asking = JudgeClient(self.endpoint, self._form, self._override(self._prompt.parameters))
        self._loop = JudgeLoop(self.endpoint.close)

    def __getstate__(self) -> dict[str, object]:
        dropped = ("_asking", "_loop", "__signature__", "signatures")
        return {name: value for name, value in vars(self).items() if name not in dropped}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._declare()
        self._connect()


def _input_parameters(prompt: Prompt, excluded: Iterable[str]) -> list[inspect.Parameter]:
    """Return the prompt's inputs as keyword parameters of the evaluator, except those with an excluded name.

    Raises:
        ConfigurationError: an input's name cannot be a parameter.
    """
    for name in prompt.inputs:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise ConfigurationError(f"{prompt.source}: the input {name!r} is not a valid Python name: rename it")

    no_default, kind = inspect.Parameter.empty, inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(name, kind, default=no_default if given.required else given.default, annotation="object")
        for name, given in prompt.inputs.items()
        if name not in excluded
    ]
