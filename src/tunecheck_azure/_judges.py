"""Judges with Azure AI Evaluation's names, inputs and output keys, asked by ours: its own prompts, or the package's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from tunecheck import JudgeOutput, Metric, PromptyEvaluator
from tunecheck.endpoints import DirectCalls, Endpoint, ModelCalls
from tunecheck.evaluators import Judgement, ModelConfig, input_text, none_if_nan, tokens_of
from tunecheck.plugins import JSON, Verdict, plain
from tunecheck.prompts import shipped_prompt
from tunecheck_azure._calling import PER_TURN, AzureEvaluator, Inputs, over_turns
from tunecheck_azure._exceptions import (
    ErrorBlame,
    ErrorCategory,
    ErrorTarget,
    EvaluationException,
    as_evaluation_exception,
    missing_package,
    mistake,
)
from tunecheck_azure._model_configurations import AzureOpenAIModelConfiguration, OpenAIModelConfiguration
from tunecheck_azure._text import F1ScoreEvaluator
from tunecheck_azure._transcripts import answer, found_in_files, history, normalize_messages

_MESSAGES = ("query", "response", "ground_truth")
"""Inputs that may be an agent's messages."""

_REASONING: dict[str, JSON] = {
    "temperature": None,
    "top_p": None,
    "presence_penalty": None,
    "frequency_penalty": None,
    "max_tokens": None,
    "max_completion_tokens": 60_000,
}
"""Parameters for a reasoning model, in place of the prompt's own."""


class _PromptJudge(PromptyEvaluator):
    """Asks a judge; the verdict has Azure AI Evaluation's properties."""

    judge: type[AzureJudge]
    named_threshold: float
    """The threshold as it was given: 3 stays a whole number in verdicts, as Azure AI Evaluation's do."""

    def _prepare(self, /, **inputs: object) -> Mapping[str, object]:
        return inputs  # lists as Python writes them, as in Azure

    def run(self, work: Coroutine[object, object, Verdict]) -> Verdict:
        """Run a coroutine for a caller in any thread."""
        return self._loop.run(work)

    def _verdict(self, judgements: list[Judgement], note: str | None) -> Verdict:
        result, key = super()._verdict(judgements, note), self._output.metric
        answer, completions = judgements[-1].answer, judgements[-1].completions
        tokens = tokens_of(completions)
        spent = [count if isinstance(count, int) else 0 for count in tokens.values()]
        properties: dict[str, JSON] = {
            "prompt_tokens": spent[0],
            "completion_tokens": spent[1],
            "total_tokens": sum(spent),
            "finish_reason": completions[-1].finish_reason or "",
            "model": self._model,
            "sample_input": None,
            "sample_output": json.dumps([{"role": "assistant", "content": completions[-1].text}]),
        }
        if answer.score is None:
            told = skipped_verdict(key, answer.reason or "", self.named_threshold)
            return told | {f"{key}_properties": properties} if self.judge.accounts_for_skipped else told
        if self.judge.bounded and not 1 <= answer.score <= 5:
            raise EvaluationException(
                f"Invalid score value: {answer.score:g}. Expected a number in range [1, 5].",
                target=self.judge.score_target,
                category=ErrorCategory.FAILED_EXECUTION,
                blame=ErrorBlame.SYSTEM_ERROR,
            )
        said, cutoff = answer.values.get("properties"), self.judge.cutoff
        passed = answer.score >= cutoff if cutoff is not None else result[f"{key}_passed"]
        return {
            **result,
            f"{key}_passed": passed,
            f"{key}_result": "pass" if passed else "fail",
            f"{key}_reason": answer.reason or "",
            f"{key}_threshold": self.named_threshold,
            f"{key}_properties": {**(said if isinstance(said, dict) else {}), **properties},
        }


def skipped_verdict(key: str, reason: str, threshold: float | None) -> Verdict:
    """The verdict where there is nothing to judge."""
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
    """Base of the judges: `model_config` is Azure's, or anything that our judges take; it is read when it is used.

    The prompt is the metric's in azure-ai-evaluation, or, with `own_prompt`, the one that comes with Tunecheck.

    Raises, when called:
        EvaluationException: an input is missing, azure-ai-evaluation is needed and not installed, or the model cannot
            be asked, or says nothing that can be read.
    """

    judged: ClassVar[bool] = True
    metric: ClassVar[str]
    _result_key: ClassVar[str]
    own_prompt: ClassVar[bool] = False
    cutoff: ClassVar[float | None] = None
    """The score from which a row passes, where that is not the threshold."""
    bounded: ClassVar[bool] = False
    """Whether a score that is not from 1 to 5 is an error."""
    score_target: ClassVar[ErrorTarget] = ErrorTarget.UNKNOWN
    """The target of that error."""
    judges_replies: ClassVar[bool] = True
    """Whether an agent must have come to its final response."""
    accounts_for_skipped: ClassVar[bool] = True
    """Whether a verdict that there is nothing to judge has its properties, too."""

    def __init__(
        self, model_config: ModelConfig, *, threshold: float = 3, credential: object = None, **kwargs: object
    ) -> None:
        super().__init__()
        self._model_config = _with_credential(model_config, credential)
        self._threshold = self.threshold = threshold
        self._is_reasoning_model = bool(kwargs.get("is_reasoning_model"))
        self._parameters = _REASONING if self._is_reasoning_model else {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "metric" in vars(cls):
            cls.metrics, cls.primary = (Metric(cls.metric, range=(1, 5)),), cls.metric
            cls._result_key = cls.metric

    @cached_property
    def _asked(self) -> _PromptJudge:
        with as_evaluation_exception(self.error_target):
            score, reason = (None, None) if self.own_prompt else ("score", "reason")
            output = JudgeOutput(self.metric, score, reason, threshold=self._threshold)
            asked = _PromptJudge(self._prompt_file(), self._model_config, output, parameters=self._parameters)
        asked.judge, asked.named_threshold = type(self), self._threshold
        return asked

    def _prompt_file(self) -> Path:
        if self.own_prompt:
            return shipped_prompt(self.metric, Path("prompty"))
        with suppress(ModuleNotFoundError):
            package = find_spec("azure.ai.evaluation")
            if package is not None and package.submodule_search_locations:
                evaluators = Path(package.submodule_search_locations[0], "_evaluators")
                return evaluators / f"_{self.metric}" / f"{self.metric}.prompty"
        raise missing_package(f"{type(self).__name__} asks with Azure AI Evaluation's own prompt", self.error_target)

    # -- as the pipeline sees it

    @property
    def arguments(self) -> dict[str, JSON]:
        """The prompt, the model and the threshold, as data."""
        return self._asked.arguments

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint of the judge model."""
        return self._asked.endpoint

    @property
    def concurrency(self) -> int | None:
        """The maximum number of rows to judge at once."""
        return self._asked.concurrency

    async def close(self) -> None:
        """Close connections."""
        await self._asked.close()

    # -- judging

    def __call__(self, *args: object, **inputs: object) -> Verdict:
        """The verdict on single inputs or a conversation: the metric's eight keys."""
        turns = self._turns(inputs)
        with as_evaluation_exception(self.error_target):
            return self._asked.run(self._over(DirectCalls(), turns))

    async def call_with(self, calls: ModelCalls, /, *args: object, **inputs: object) -> Verdict:
        """The same; `calls` asks the model."""
        return await self._over(calls, self._turns(inputs))

    async def _over(self, calls: ModelCalls, turns: Sequence[Inputs]) -> Verdict:
        return over_turns(await asyncio.gather(*(self._judge_turn(calls, turn) for turn in turns)))

    async def _judge_turn(self, calls: ModelCalls, turn: Inputs) -> Verdict:
        prepared = self._prepare(turn)
        if self.judges_replies and not isinstance(prepared, str) and _is_intermediate(turn.get("response")):
            prepared = "Intermediate response. Please provide the agent's final response for evaluation."
        if isinstance(prepared, str):
            return skipped_verdict(self.metric, prepared, self._threshold)
        needed = [each.name for each in self._asked.__signature__.parameters.values() if each.default is each.empty]
        judged = await self._asked.call_with(calls, **{**dict.fromkeys(needed, ""), **prepared})
        properties = judged[f"{self.metric}_properties"]
        if isinstance(properties, dict):
            content = json.dumps(plain(prepared))
            properties["sample_input"] = json.dumps([{"role": "user", "content": content}])
        return judged

    def _prepare(self, turn: Inputs) -> Inputs | str:
        """The prompt's inputs; or why there is nothing to judge."""
        seen = {name: normalize_messages(value) if name in _MESSAGES else value for name, value in turn.items()}
        if self.own_prompt:
            seen = {
                name: input_text(answer(value) if name == "response" else history(value))
                for name, value in seen.items()
            }
        return {name: none_if_nan(value) for name, value in seen.items() if value is not None}


def _with_credential(config: ModelConfig, credential: object) -> ModelConfig:
    known = _is_configuration(config) if isinstance(config, Mapping) else isinstance(config, (Endpoint, str, Path))
    if not known:
        raise mistake("Model config validation failed.", ErrorCategory.MISSING_FIELD, ErrorTarget.UNKNOWN)
    if isinstance(config, Mapping) and credential is not None and not config.get("api_key"):
        return {**config, "credential": credential}
    return config


def _is_configuration(config: Mapping[str, object]) -> bool:
    """Whether it is a whole one of Azure's or OpenAI's, or the definition of an endpoint."""
    headers = config.get("extra_headers", {})
    values = [value for name, value in config.items() if name not in ("credential", "extra_headers")]
    texts = isinstance(headers, dict) and all(
        isinstance(value, str) for value in (*values, *headers, *headers.values())
    )
    kinds = (AzureOpenAIModelConfiguration, OpenAIModelConfiguration)
    whole = [kind for kind in kinds if kind.__required_keys__ <= config.keys() <= kind.__annotations__.keys()]
    fits = config.get("type") in (None, "azure_openai" if AzureOpenAIModelConfiguration in whole else "openai")
    return "kind" in config or (texts and bool(whole) and fits)


def _is_intermediate(response: object) -> bool:
    """Whether an agent's response ends with a call or a request for approval that is not answered yet."""
    last = response[-1] if isinstance(response, list) and response else None
    content = last.get("content") if isinstance(last, Mapping) and last.get("role") == "assistant" else None
    part = content[-1] if isinstance(content, list) and content else None
    return isinstance(part, Mapping) and part.get("type") in ("function_call", "mcp_approval_request")


class CoherenceEvaluator(AzureJudge):
    """How orderly the response puts its ideas, from 1 to 5."""

    metric = "coherence"
    ways = (("query", "response"),)
    required = ("query", "response")
    error_target = ErrorTarget.COHERENCE_EVALUATOR


class FluencyEvaluator(AzureJudge):
    """How well the response is written, from 1 to 5."""

    metric = "fluency"
    takes_messages = True
    ways = (("response",),)
    required = ("response",)
    error_target = ErrorTarget.FLUENCY_EVALUATOR


class RelevanceEvaluator(AzureJudge):
    """How well the response answers the query, from 1 to 5, by Tunecheck's own prompt."""

    metric = "relevance"
    own_prompt = True
    takes_messages = True
    ways = (("query", "response"),)
    required = ("query", "response")
    error_target = ErrorTarget.RELEVANCE_EVALUATOR


class GroundednessEvaluator(AzureJudge):
    """Support of the response by the context, from 1 to 5, by Tunecheck's own prompt."""

    metric = "groundedness"
    own_prompt = True
    ways = (("query", "response", "context"), ("response", "context"), ("query", "response"))
    required = ("response",)
    error_target = ErrorTarget.GROUNDEDNESS_EVALUATOR
    refused_tools = frozenset(
        "azure_ai_search azure_fabric bing_custom_search bing_grounding browser_automation code_interpreter_call "
        "computer_call openapi_call sharepoint_grounding web_search".split()
    )

    def _check(self, inputs: Inputs) -> None:
        if none_if_nan(inputs.get("query")) and not inputs.get("conversation"):
            self.checks.text_or_messages("Query", inputs["query"])
        super()._check(inputs)

    def _complete(self, way: Sequence[str], single: Inputs) -> bool:
        return all(single[name] for name in way)

    def _incomplete(self, single: Inputs) -> EvaluationException:
        needed = "For Agent groundedness 'query' and 'response' are required."
        told = super()._incomplete(single).message
        return mistake(f"{told} {needed}", ErrorCategory.MISSING_FIELD, self.error_target)

    def _prepare(self, turn: Inputs) -> Inputs | str:
        query, response, context = turn["query"], turn["response"], turn["context"]
        if isinstance(response, list) and not context:
            context, response = found_in_files(response)
            is_single = len(response) == 1 and not (isinstance(query, list) and len(query) > 1)
            if not context and is_single:
                return (
                    f"{type(self).__name__}: No valid context provided or could be extracted from the query or "
                    "response. Please either provide valid context or pass the full items list for 'response' and "
                    "'query' to extract context from tool calls."
                )
            context = context or "<>"
        said = answer(normalize_messages(response), with_calls=True)
        return super()._prepare({"query": query, "response": said, "context": context or response})


class SimilarityEvaluator(AzureJudge):
    """How alike in meaning the response and the ground truth are, from 1 to 5."""

    metric = "similarity"
    takes_messages = True
    ways = (("query", "response", "ground_truth"),)
    error_target = ErrorTarget.SIMILARITY_EVALUATOR

    def _incomplete(self, single: Inputs) -> EvaluationException:
        missing = next(name for name, value in single.items() if value is None)
        either = f"Either 'conversation' or individual inputs must be provided. '{missing}' is missing."
        return mistake(either, ErrorCategory.MISSING_FIELD, self.error_target)


class RetrievalEvaluator(AzureJudge):
    """How well the context that was found serves the query, from 1 to 5."""

    metric = "retrieval"
    takes_messages = True
    ways = (("query", "context"),)
    error_target = ErrorTarget.RETRIEVAL_EVALUATOR


class ResponseCompletenessEvaluator(AzureJudge):
    """How much of the ground truth the response says, from 1 to 5."""

    metric = "response_completeness"
    accounts_for_skipped = False
    takes_messages = True
    ways = (("response", "ground_truth"),)
    error_target = ErrorTarget.COMPLETENESS_EVALUATOR


class QAEvaluator(AzureEvaluator):
    """Groundedness, relevance, coherence, fluency, similarity and F1 of one answer."""

    judged: ClassVar[bool] = True
    ways = (("query", "response", "context", "ground_truth"),)

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
        super().__init__()
        kinds: dict[type[AzureJudge], float] = {
            GroundednessEvaluator: groundedness_threshold,
            RelevanceEvaluator: relevance_threshold,
            CoherenceEvaluator: coherence_threshold,
            FluencyEvaluator: fluency_threshold,
            SimilarityEvaluator: similarity_threshold,
        }
        thresholds = {f"{kind.metric}_threshold": threshold for kind, threshold in kinds.items()}
        for name, value in {**thresholds, "f1_score_threshold": f1_score_threshold}.items():
            if not isinstance(value, (int, float)):
                raise mistake(f"{name} must be an int or float, got {type(value)}", target=ErrorTarget.QA_EVALUATOR)
        passed = {name: kwargs[name] for name in ("credential", "is_reasoning_model") if name in kwargs}
        self._judges = [kind(model_config, threshold=threshold, **passed) for kind, threshold in kinds.items()]
        self._evaluators = [*self._judges, F1ScoreEvaluator(threshold=f1_score_threshold)]

    @property
    def arguments(self) -> dict[str, JSON]:
        """Those of the judges and of F1."""
        return {"evaluators": [each.arguments for each in self._evaluators]}

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint that all its judges ask."""
        return self._judges[0].endpoint

    async def close(self) -> None:
        """Close connections."""
        for judge in self._judges:
            await judge.close()

    def __call__(self, *args: object, **inputs: object) -> Verdict:
        """All their keys together; of a conversation, means and `evaluation_per_turn`."""
        self._turns(inputs)
        return self._together([judge(**inputs) for judge in self._judges], inputs)

    async def call_with(self, calls: ModelCalls, /, *args: object, **inputs: object) -> Verdict:
        """The same; `calls` asks the model."""
        self._turns(inputs)
        judged = await asyncio.gather(*(judge.call_with(calls, **inputs) for judge in self._judges))
        return self._together(judged, inputs)

    def _together(self, judged: Sequence[Verdict], inputs: Inputs) -> Verdict:
        whole: Verdict = {}
        per_turn: dict[str, JSON] = {}
        for verdict in (self._evaluators[-1](**inputs), *judged):
            turns = verdict.get(PER_TURN)
            per_turn |= turns if isinstance(turns, dict) else {}
            whole |= verdict
        return {**whole, PER_TURN: per_turn} if per_turn else whole
