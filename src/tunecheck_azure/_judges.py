"""Judges with Azure AI Evaluation's names, inputs and output keys, and Tunecheck's calls of the judge model.

The prompts come with Tunecheck (relevance and groundedness) or from azure-ai-evaluation, if it is installed.

A call of a judge goes through these steps:

  1. `_inputs_to_judge`       checks the inputs; one set of inputs, or one for each turn of a conversation
  2. `_prepare`               the prompt's inputs as text, or the reason why the metric does not apply
  3. `_PromptJudge`           fills the prompt, calls the model and reads the score and the reason
  4. `_PromptJudge._verdict`  the eight keys of Azure AI Evaluation
  5. `merge_turns`            means over the turns

A turn gets a skipped verdict ("not_applicable") instead of a score by the first line that holds. Only the last one
costs a model call:

  `_prepare` returns a reason           for example, there are no tool calls or no context to judge
  `only_final_responses`                the response ends with a call or a request for approval (`_is_intermediate`)
  the judge gives no score              its reply says that the metric does not apply

Example: `CoherenceEvaluator(model)(query="Capital of Italy?", response="Rome.")` returns `coherence` (4.0, also as
`coherence_score`), `coherence_passed`, `coherence_result` ("pass"), `coherence_reason`, `coherence_status`
("completed"), `coherence_threshold` (3) and `coherence_properties` (tokens, model, texts of the call).
"""

import asyncio
import json
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import msgspec

from tunecheck import JudgeOutput, Metric, PromptyEvaluator
from tunecheck.endpoints import DirectCalls, Endpoint, ModelCalls
from tunecheck.evaluators import Judgement, ModelConfig, input_text, none_if_nan, tokens_of
from tunecheck.plugins import JSON, Verdict, convert_value, is_shipped, plain
from tunecheck.prompts import shipped_prompt
from tunecheck_azure import _exceptions as errors, _transcripts as transcripts
from tunecheck_azure._calling import PER_TURN, AzureEvaluator, F1ScoreEvaluator, Inputs, merge_turns
from tunecheck_azure._model_configurations import AzureOpenAIModelConfiguration, OpenAIModelConfiguration

_MESSAGES = ("query", "response", "ground_truth")
"""Inputs that may be lists of an agent's messages."""

_SAMPLING = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "max_tokens")
_REASONING: dict[str, JSON] = {**dict.fromkeys(_SAMPLING), "max_completion_tokens": 60_000}
"""Parameters for a reasoning model. They override those of the prompt; None removes a parameter.

The limit of tokens is high because it includes the tokens of the model's reasoning.
"""


class _PromptJudge(PromptyEvaluator):
    """A prompt evaluator that returns verdicts with Azure AI Evaluation's properties."""

    judge: "type[AzureJudge]"
    given_threshold: float
    """The threshold as the user gave it: an integer such as 3 stays an integer, as in Azure AI Evaluation."""

    def _prepare(self, /, **inputs: object) -> Mapping[str, object]:
        return inputs  # lists are shown as in Python, like in Azure AI Evaluation

    def run(self, work: Coroutine[object, object, Verdict]) -> Verdict:
        """Run a coroutine for a caller in any thread."""
        # The connections belong to one event loop, which runs in a thread of its own.
        return self._loop.run(work)

    def _verdict(self, judgements: list[Judgement], note: str | None) -> Verdict:
        """Return the verdict with Azure AI Evaluation's keys and token counts; `note` does not appear in it.

        A judgement without a score becomes a skipped verdict.

        Raises:
            EvaluationException: the score must be from 1 to 5, but is not.
        """
        result, key = super()._verdict(judgements, note), self._output.metric
        output, completions = judgements[-1].answer, judgements[-1].completions

        # The tokens of the prompts and of the completions; 0 if the service does not report them.
        spent = [count if isinstance(count, int) else 0 for count in tokens_of(completions).values()]

        properties: dict[str, JSON] = {
            "prompt_tokens": spent[0],
            "completion_tokens": spent[1],
            "total_tokens": sum(spent),
            "finish_reason": completions[-1].finish_reason or "",
            "model": self._model,
            "sample_input": None,
            "sample_output": json.dumps([{"role": "assistant", "content": completions[-1].text}]),
        }

        if output.score is None:
            skipped = skipped_verdict(key, output.reason or "", self.given_threshold)
            return skipped | {f"{key}_properties": properties} if self.judge.skipped_has_properties else skipped

        if self.judge.bounded and not 1 <= output.score <= 5:
            raise errors.EvaluationException(
                f"Invalid score value: {output.score:g}. Expected a number in range [1, 5].",
                target=self.judge.score_target,
                category=errors.ErrorCategory.FAILED_EXECUTION,
                blame=errors.ErrorBlame.SYSTEM_ERROR,
            )

        own_properties, cutoff = output.values.get("properties"), self.judge.cutoff
        passed = result[f"{key}_passed"] if cutoff is None else output.score >= cutoff

        # Properties of the call, such as the tokens, win over the same names in the judge's reply.
        return {
            **result,
            f"{key}_passed": passed,
            f"{key}_result": "pass" if passed else "fail",
            f"{key}_reason": output.reason or "",
            f"{key}_threshold": self.given_threshold,
            f"{key}_properties": {**(own_properties if isinstance(own_properties, dict) else {}), **properties},
        }


def skipped_verdict(key: str, reason: str, threshold: float | None) -> Verdict:
    """Return the verdict on inputs to which the metric does not apply: its eight keys, which begin with `key`."""
    return {
        key: None,
        f"{key}_score": None,
        f"{key}_passed": None,
        f"{key}_result": "not_applicable",
        f"{key}_reason": f"Not applicable: {reason}",
        f"{key}_status": "skipped",
        f"{key}_threshold": threshold,
        f"{key}_properties": None,
    }


class AzureJudge(AzureEvaluator):
    """Base of the judges. They use the metric's prompt in azure-ai-evaluation, or with `own_prompt` Tunecheck's.

    `model_config` is one of Azure's model configurations or any model that Tunecheck's judges take. It is read at the
    first use.

    Raises, when called:
        EvaluationException: an input is missing, azure-ai-evaluation is needed and not installed, the call of the
            model failed, or the reply is unreadable.
    """

    judged: ClassVar[bool] = True
    metric: ClassVar[str]
    """The metric's name: "response_completeness" for ResponseCompletenessEvaluator."""

    _result_key: ClassVar[str]
    own_prompt: ClassVar[bool] = False

    cutoff: ClassVar[float | None] = None
    """The lowest score that passes; None for the threshold."""

    bounded: ClassVar[bool] = False
    """True if a score outside 1 to 5 is an error."""

    score_target: ClassVar[errors.ErrorTarget] = errors.ErrorTarget.UNKNOWN
    """The target that is named in the error for such a score."""

    only_final_responses: ClassVar[bool] = True
    """True if the metric applies only to an agent's final response."""

    skipped_has_properties: ClassVar[bool] = True
    """True if the verdict has properties also when the judge finds that the metric does not apply."""

    def __init__(
        self, model_config: ModelConfig, *, threshold: float = 3, credential: object = None, **kwargs: object
    ) -> None:
        """Keep the model and the threshold; the model is read only at the first use.

        Raises:
            EvaluationException: `model_config` is no model that judges take.
        """
        super().__init__()
        self._model_config = _with_credential(model_config, credential)
        self._threshold = self.threshold = threshold
        self._is_reasoning_model = bool(kwargs.get("is_reasoning_model"))  # scripts read this attribute of Azure's
        self._parameters = _REASONING if self._is_reasoning_model else {}

    def __init_subclass__(cls) -> None:
        """Name a shipped class's metric and error target after the class; a user's subclass keeps its parent's names.

        Scores are from 1 to 5 unless the class declares others.
        """
        super().__init_subclass__()
        if is_shipped(cls.__module__):
            cls.metric = cls.primary = cls._result_key = cls.id.rpartition("/")[2]
            if "error_target" not in vars(cls):
                cls.error_target = errors.ErrorTarget(cls.__name__)
            if "metrics" not in vars(cls):
                cls.metrics = (Metric(cls.metric, range=(1, 5)),)

    @cached_property
    def _prompt_judge(self) -> _PromptJudge:
        """The prompt evaluator of this judge, made at the first use: a wrong model is an error of the first call."""
        with errors.as_evaluation_exception(self.error_target):
            # The prompts of azure-ai-evaluation ask for the JSON keys `score` and `reason`; our own declare theirs.
            score, reason = (None, None) if self.own_prompt else ("score", "reason")
            output = JudgeOutput(self.metric, score, reason, threshold=self._threshold)
            judge = _PromptJudge(self._prompt_file(), self._model_config, output, parameters=self._parameters)

        judge.judge, judge.given_threshold = type(self), self._threshold
        return judge

    def _prompt_file(self) -> Path:
        """Return the metric's prompt file, Tunecheck's own or that of the installed azure-ai-evaluation.

        Raises:
            EvaluationException: azure-ai-evaluation is not installed.
        """
        if self.own_prompt:
            return shipped_prompt(self.metric, Path("prompty"))

        # Only the place of the package is looked up: importing it takes seconds.
        with suppress(ModuleNotFoundError):
            package = find_spec("azure.ai.evaluation")
            if package is not None and package.submodule_search_locations:
                evaluators = Path(package.submodule_search_locations[0], "_evaluators")
                return evaluators / f"_{self.metric}" / f"{self.metric}.prompty"

        raise errors.missing_package(f"{type(self).__name__} needs a prompt of Azure AI Evaluation", self.error_target)

    # -- for the pipeline

    @property
    def arguments(self) -> dict[str, JSON]:
        """The prompt, the model and the threshold, as data."""
        return self._prompt_judge.arguments

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint of the judge model."""
        return self._prompt_judge.endpoint

    @property
    def concurrency(self) -> int | None:
        """The maximum number of rows to judge at once."""
        return self._prompt_judge.concurrency

    async def close(self) -> None:
        """Close connections."""
        await self._prompt_judge.close()

    # -- judging

    def __call__(self, *args: object, **inputs: object) -> Verdict:
        """Return the verdict on single inputs or a conversation, with the metric's eight keys."""
        turns = self._inputs_to_judge(inputs)
        with errors.as_evaluation_exception(self.error_target):
            return self._prompt_judge.run(self._judge_turns(DirectCalls(), turns))

    async def call_with(self, calls: ModelCalls, /, *args: object, **inputs: object) -> Verdict:
        """Return the same verdict as a call, but with model calls through `calls`."""
        return await self._judge_turns(calls, self._inputs_to_judge(inputs))

    async def _judge_turns(self, calls: ModelCalls, turns: Sequence[Inputs]) -> Verdict:
        """Judge all turns concurrently, and return their merged verdict."""
        # `gather` keeps the order of the turns.
        return merge_turns(await asyncio.gather(*(self._judge_turn(calls, turn) for turn in turns)))

    async def _judge_turn(self, calls: ModelCalls, turn: Inputs) -> Verdict:
        """Return the verdict on one turn, with model calls through `calls`.

        If the metric does not apply, for example because the turn ends with a call, return a skipped verdict without
        a model call.
        """
        prepared = self._prepare(turn)
        if self.only_final_responses and not isinstance(prepared, str) and _is_intermediate(turn.get("response")):
            prepared = "Intermediate response. Please provide the agent's final response for evaluation."

        if isinstance(prepared, str):
            return skipped_verdict(self.metric, prepared, self._threshold)

        # A prompt needs all its inputs; those that this turn lacks are empty.
        parameters = self._prompt_judge.__signature__.parameters
        required = [name for name, parameter in parameters.items() if parameter.default is parameter.empty]

        judged = await self._prompt_judge.call_with(calls, **{**dict.fromkeys(required, ""), **prepared})

        properties = judged[f"{self.metric}_properties"]
        if isinstance(properties, dict):
            content = json.dumps(plain(prepared))
            properties["sample_input"] = json.dumps([{"role": "user", "content": content}])
        return judged

    def _prepare(self, turn: Inputs) -> Inputs | str:
        """Return the prompt's inputs, or a text with the reason why the metric does not apply.

        For Tunecheck's own prompts, inputs become text; None and NaN become empty. For Azure's prompts, inputs that are
        None are left out, and NaN becomes None.
        """
        inputs: dict[str, object] = {}
        for name, value in turn.items():
            # The context stays as it is: only messages have approvals and types of calls to unify.
            value = transcripts.normalize_messages(value) if name in _MESSAGES else value
            if self.own_prompt:
                to_text = transcripts.response_text if name == "response" else transcripts.history_text
                value = input_text(to_text(value))

            if value is not None:
                inputs[name] = none_if_nan(value)

        return inputs


def _with_credential(config: ModelConfig, credential: object) -> ModelConfig:
    """Return a model configuration with the credential.

    The model stays unchanged if it is no mapping, if it has a key, or if the credential is None.

    Raises:
        EvaluationException: `config` is no model that judges accept.
    """
    is_model = _is_configuration(config) if isinstance(config, Mapping) else isinstance(config, (Endpoint, str, Path))

    if not is_model:
        category, target = errors.ErrorCategory.MISSING_FIELD, errors.ErrorTarget.UNKNOWN
        raise errors.mistake("Model config validation failed.", category, target)

    if isinstance(config, Mapping) and credential is not None and not config.get("api_key"):
        # A copy: the script's own configuration stays unchanged.
        return {**config, "credential": credential}
    return config


def _is_configuration(config: Mapping[str, object]) -> bool:
    """Return whether a mapping is a complete configuration of Azure or OpenAI, or an endpoint's definition.

    Examples: `{"azure_deployment": "gpt", "azure_endpoint": "https://…"}`, `{"api_key": "…", "model": "gpt"}`, and
    `{"kind": "openai", …}`. If there is a `type`, it must be `azure_openai` for Azure's keys and `openai` for OpenAI's.
    """
    if "kind" in config:  # the definition of an endpoint
        return True

    checked = {name: value for name, value in config.items() if name != "credential"}  # this may be any object
    for kind in (AzureOpenAIModelConfiguration, OpenAIModelConfiguration):
        with suppress(msgspec.ValidationError):
            convert_value(checked, kind)
            if config.keys() <= kind.__annotations__.keys():
                return True
    return False


def _is_intermediate(response: object) -> bool:
    """Return whether an agent's response ends with a call of the type `function_call`, or with a request for approval.

    Example: the last message is `{"role": "assistant", "content": [{"type": "function_call", …}]}`.
    """
    last = response[-1] if isinstance(response, list) and response else None
    content = last.get("content") if isinstance(last, Mapping) and last.get("role") == "assistant" else None
    part = content[-1] if isinstance(content, list) and content else None
    return isinstance(part, Mapping) and part.get("type") in ("function_call", "mcp_approval_request")


class CoherenceEvaluator(AzureJudge):
    """A judge of how coherently the response presents its ideas, from 1 to 5."""

    input_sets = (("query", "response"),)
    required = ("query", "response")


class FluencyEvaluator(AzureJudge):
    """A judge of how well the response is written, from 1 to 5."""

    takes_messages = True
    input_sets = (("response",),)
    required = ("response",)


class RelevanceEvaluator(AzureJudge):
    """A judge of how well the response answers the query, from 1 to 5, with Tunecheck's prompt."""

    own_prompt = True
    takes_messages = True
    input_sets = (("query", "response"),)
    required = ("query", "response")


class GroundednessEvaluator(AzureJudge):
    """A judge of how well the context supports the response, from 1 to 5, with Tunecheck's prompt."""

    own_prompt = True
    input_sets = (("query", "response", "context"), ("response", "context"), ("query", "response"))
    required = ("response",)
    refused_tools = frozenset(
        "azure_ai_search azure_fabric bing_custom_search bing_grounding browser_automation code_interpreter_call "
        "computer_call openapi_call sharepoint_grounding web_search".split()
    )

    def _check(self, inputs: Inputs) -> None:
        """Check the inputs. A query is optional, but if a query is given without a conversation, it is checked, too."""
        if none_if_nan(inputs.get("query")) and not inputs.get("conversation"):
            self.check_text_or_messages("Query", inputs["query"])
        super()._check(inputs)

    def _is_complete(self, names: Sequence[str], single: Inputs) -> bool:
        """Return whether no input of this set is missing or empty: an empty text does not count here."""
        return all(single[name] for name in names)

    def _incomplete_error(self, single: Inputs) -> errors.EvaluationException:
        """Return the error for incomplete inputs, with a sentence on agents."""
        hint = "For Agent groundedness 'query' and 'response' are required."
        message = super()._incomplete_error(single).message
        return errors.mistake(f"{message} {hint}", errors.ErrorCategory.MISSING_FIELD, self.error_target)

    def _prepare(self, turn: Inputs) -> Inputs | str:
        """Return the prompt's inputs, or the reason why the metric does not apply.

        The context is the first that exists: the given one, the results of the agent's file searches, "<>" if the
        response is a list of messages, or the response's text.
        """
        query, response, context = turn["query"], turn["response"], turn["context"]
        if isinstance(response, list) and not context:
            context, response = transcripts.file_search_results(response)

            # A single message without a longer query cannot contain a search.
            is_single = len(response) == 1 and not (isinstance(query, list) and len(query) > 1)
            if not context and is_single:
                return (
                    f"{type(self).__name__}: No valid context provided or could be extracted from the query or "
                    "response. Please either provide valid context or pass the full items list for 'response' and "
                    "'query' to extract context from tool calls."
                )

            context = context or "<>"

        reply = transcripts.response_text(response, with_calls=True)
        return super()._prepare({"query": query, "response": reply, "context": context or response})


class SimilarityEvaluator(AzureJudge):
    """A judge of how similar in meaning the response and the ground truth are, from 1 to 5."""

    takes_messages = True
    input_sets = (("query", "response", "ground_truth"),)

    def _incomplete_error(self, single: Inputs) -> errors.EvaluationException:
        """Return the error for missing inputs, which names the first of them."""
        missing = next(name for name, value in single.items() if value is None)
        message = f"Either 'conversation' or individual inputs must be provided. '{missing}' is missing."
        return errors.mistake(message, errors.ErrorCategory.MISSING_FIELD, self.error_target)


class RetrievalEvaluator(AzureJudge):
    """A judge of how relevant the retrieved context is to the query, from 1 to 5."""

    takes_messages = True
    input_sets = (("query", "context"),)


class ResponseCompletenessEvaluator(AzureJudge):
    """A judge of how much of the ground truth the response contains, from 1 to 5."""

    skipped_has_properties = False
    takes_messages = True
    input_sets = (("response", "ground_truth"),)
    error_target = errors.ErrorTarget.COMPLETENESS_EVALUATOR


class QAEvaluator(AzureEvaluator):
    """Groundedness, relevance, coherence, fluency, similarity and F1 of one response.

    A call makes five model calls. F1 needs none.
    """

    judged: ClassVar[bool] = True
    input_sets = (("query", "response", "context", "ground_truth"),)

    def __init__(
        self,
        model_config: ModelConfig,
        *,
        groundedness_threshold: float = 3,
        relevance_threshold: float = 3,
        coherence_threshold: float = 3,
        fluency_threshold: float = 3,
        similarity_threshold: float = 3,
        f1_score_threshold: float = 0.5,
        **kwargs: object,
    ) -> None:
        """Create the five judges and the F1 evaluator.

        Raises:
            EvaluationException: a threshold is not a number.
        """
        super().__init__()
        kinds: dict[type[AzureJudge], float] = {
            GroundednessEvaluator: groundedness_threshold,
            RelevanceEvaluator: relevance_threshold,
            CoherenceEvaluator: coherence_threshold,
            FluencyEvaluator: fluency_threshold,
            SimilarityEvaluator: similarity_threshold,
        }

        thresholds = {kind.metric: threshold for kind, threshold in kinds.items()}

        for name, value in {**thresholds, "f1_score": f1_score_threshold}.items():
            if not isinstance(value, (int, float)):
                message = f"{name}_threshold must be an int or float, got {type(value)}"
                raise errors.mistake(message, target=errors.ErrorTarget.QA_EVALUATOR)

        # Only what the judges know: other keyword arguments are ignored, as in Azure AI Evaluation.
        passed = {name: kwargs[name] for name in ("credential", "is_reasoning_model") if name in kwargs}
        self._judges = [kind(model_config, threshold=threshold, **passed) for kind, threshold in kinds.items()]
        self._evaluators = [*self._judges, F1ScoreEvaluator(threshold=f1_score_threshold)]

    @property
    def arguments(self) -> dict[str, JSON]:
        """The arguments of the judges and of the F1 evaluator."""
        return {"evaluators": [each.arguments for each in self._evaluators]}

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint that all judges of this evaluator call."""
        return self._judges[0].endpoint

    async def close(self) -> None:
        """Close connections."""
        for judge in self._judges:
            await judge.close()

    def __call__(self, *args: object, **inputs: object) -> Verdict:
        """Return the keys of all evaluators. For a conversation, they are means, with `evaluation_per_turn`."""
        self._inputs_to_judge(inputs)  # raises an error for wrong inputs
        return self._merge([judge(**inputs) for judge in self._judges], inputs)

    async def call_with(self, calls: ModelCalls, /, *args: object, **inputs: object) -> Verdict:
        """Return the same verdict as a call, but with model calls through `calls`."""
        self._inputs_to_judge(inputs)  # raises an error for wrong inputs
        judged = await asyncio.gather(*(judge.call_with(calls, **inputs) for judge in self._judges))
        return self._merge(judged, inputs)

    def _merge(self, judged: Sequence[Verdict], inputs: Inputs) -> Verdict:
        """Return the verdicts of the judges and of the F1 evaluator as one verdict, with the values of all turns."""
        merged: Verdict = {}
        per_turn: dict[str, JSON] = {}

        # The last evaluator is F1, which needs no model.
        for verdict in (self._evaluators[-1](**inputs), *judged):
            turns = verdict.get(PER_TURN)
            per_turn |= turns if isinstance(turns, dict) else {}
            merged |= verdict

        return {**merged, PER_TURN: per_turn} if per_turn else merged


_BUILT_IN = frozenset(
    "code_interpreter bing_grounding bing_custom_search file_search azure_ai_search sharepoint_grounding "
    "fabric_dataagent".split()
)
"""Tools that Azure's agents may call without a definition."""


class IntentResolutionEvaluator(AzureJudge):
    """A judge of how well an agent understood and met the user's intent, from 1 to 5."""

    skipped_has_properties = False
    input_sets = (("query", "response", "tool_definitions"),)
    optional = frozenset({"tool_definitions"})
    required = ("query", "response")
    bounded = True

    def _prepare(self, turn: Inputs) -> Inputs | str:
        """Return the prompt's inputs: the question's history and the response as text, and the tool definitions."""
        query = transcripts.history_text(transcripts.normalize_messages(turn["query"]))
        response = transcripts.response_text(turn["response"])
        return {"query": query, "response": response, "tool_definitions": none_if_nan(turn.get("tool_definitions"))}


class TaskAdherenceEvaluator(AzureJudge):
    """A judge of an agent's adherence to its task and instructions: 0 or 1."""

    skipped_has_properties = False
    input_sets = (("query", "response", "tool_definitions"),)
    optional = frozenset({"tool_definitions"})
    required = ("query", "response")
    metrics = (Metric("task_adherence", kind="binary"),)
    cutoff = 1.0

    def __init__(
        self, model_config: ModelConfig, *, threshold: float = 0, credential: object = None, **kwargs: object
    ) -> None:
        """Accept a threshold for compatibility only: verdicts report Azure's threshold 3 and pass at a score of 1."""
        super().__init__(model_config, threshold=3, credential=credential, **kwargs)  # Azure's verdicts report 3
        self.threshold = threshold

    def _prepare(self, turn: Inputs) -> Inputs | str:
        """Return the prompt's inputs: system message, question, the agent's texts, and its calls."""
        history = transcripts.history_text(transcripts.normalize_messages(turn["query"]), with_system=True)
        system, query = transcripts.system_and_question(history)
        response, calls = transcripts.texts_and_calls(transcripts.response_text(turn["response"], with_calls=True))
        return {"system_message": system, "query": query, "response": response, "tool_calls": calls}


class ToolCallAccuracyEvaluator(AzureJudge):
    """A judge of how relevant and correct an agent's tool calls are for the query, from 1 to 5.

    Call it with `query`, `tool_definitions` and `tool_calls` in Azure's format. A `response` that contains the calls
    may replace `tool_calls`.
    """

    only_final_responses = False
    skipped_has_properties = False
    bounded = True
    score_target = errors.ErrorTarget.TOOL_CALL_ACCURACY_EVALUATOR
    input_sets = (("query", "tool_definitions", "tool_calls", "response"),)

    def _check(self, inputs: Inputs) -> None:
        """Refuse inputs that lack a query, definitions, or both a response and calls in Azure's format."""
        self.check_text_or_messages("Query", inputs.get("query"))
        self.check_tools("tool_definitions", inputs.get("tool_definitions"), "tool_definitions are missing")

        # Either is enough. If both are wrong, the error is that of the calls if the response is missing, else that of
        # the response.
        try:
            self.check_text_or_messages("Response", inputs.get("response"))
        except errors.EvaluationException as response:
            try:
                missing = "there are no tool calls, neither in the response nor in tool_calls"
                self.check_tools("tool_calls", inputs.get("tool_calls"), missing)
            except errors.EvaluationException as calls:
                raise (calls if response.category is errors.ErrorCategory.MISSING_FIELD else response) from None

    def _inputs_to_judge(self, inputs: Inputs) -> list[Inputs]:
        """Check the inputs and return them as one set: calls are judged over the whole response, not by turn."""
        self._check(inputs)
        return [{name: inputs.get(name) for name in self.input_sets[0]}]

    def _prepare(self, turn: Inputs) -> Inputs | str:
        """Return the prompt's inputs, or the reason why the metric does not apply.

        Calls come from the response if it has any, otherwise from `tool_calls`. Without both, a response that is text
        stands for the calls.
        """
        response, definitions = turn["response"], turn["tool_definitions"]

        calls = transcripts.calls_with_results(response) or turn["tool_calls"]
        calls = calls or (response if isinstance(response, str) else None)

        if not calls:
            return "No tool calls found in response or provided tool_calls."

        if not isinstance(calls, str) and isinstance(definitions, list):
            calls = calls if isinstance(calls, list) else [calls]
            names = [_called_tool(call) for call in calls]
            # An OpenAPI definition holds its functions under `functions`; any other definition is one function.
            groups = [definition.get("functions") or [definition] for definition in definitions]
            defined = {definition["name"] for group in groups for definition in group}
            if not set(names) <= defined | _BUILT_IN:
                return "Tool definitions for all tool calls must be provided."
            definitions = definitions + _built_in_definitions(names)

        query = transcripts.normalize_messages(turn["query"])
        return {"query": query, "tool_calls": calls, "tool_definitions": definitions}

    async def _judge_turn(self, calls: ModelCalls, turn: Inputs) -> Verdict:
        """Return the verdict on a turn, with the score also under the key `gpt_tool_call_accuracy`."""
        judged = await super()._judge_turn(calls, turn)
        score = judged[self.metric]
        return judged if score is None else {self.metric: score, f"gpt_{self.metric}": score, **judged}


def _called_tool(call: object) -> object:
    """Return the name of the called tool, or None if this is not a call in Azure's format."""
    return call.get("name") if isinstance(call, Mapping) and call.get("type") == "tool_call" else None


def _built_in_definitions(names: Iterable[object]) -> list[object]:
    """Return Azure's definitions of the built-in tools among these names."""
    selected = [str(name) for name in dict.fromkeys(names) if name in _BUILT_IN]
    if not selected:
        return []

    # Only azure-ai-evaluation has their descriptions, and they are needed only for these calls.
    models = import_module("azure.ai.evaluation._converters._models")
    descriptions, parameters = models._BUILT_IN_DESCRIPTIONS, models._BUILT_IN_PARAMS
    return [
        {"type": name, "description": descriptions[name], "name": name, "parameters": parameters.get(name, {})}
        for name in selected
    ]
