"""Judges of agents with Azure AI Evaluation's prompts: intent resolution, task adherence, tool call accuracy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module

from tunecheck import Metric
from tunecheck.endpoints import ModelCalls
from tunecheck.evaluators import ModelConfig, none_if_nan
from tunecheck.plugins import Verdict
from tunecheck_azure._calling import Inputs, refusal
from tunecheck_azure._exceptions import ErrorCategory, ErrorTarget
from tunecheck_azure._judges import AzureJudge
from tunecheck_azure._transcripts import (
    answer,
    calls_with_results,
    history,
    normalize_messages,
    said_and_called,
    system_and_question,
)

_BUILT_IN = frozenset(
    "code_interpreter bing_grounding bing_custom_search file_search azure_ai_search sharepoint_grounding "
    "fabric_dataagent".split()
)
"""Tools that Azure's agents may call without a definition."""


class IntentResolutionEvaluator(AzureJudge):
    """A judge of how well an agent understood and met the user's intent, from 1 to 5."""

    metric = "intent_resolution"
    accounts_for_skipped = False
    ways = (("query", "response", "tool_definitions"),)
    optional = frozenset({"tool_definitions"})
    required = ("query", "response")
    error_target = ErrorTarget.INTENT_RESOLUTION_EVALUATOR
    bounded = True

    def _prepare(self, turn: Inputs) -> Inputs | str:
        query, response = history(normalize_messages(turn["query"])), answer(normalize_messages(turn["response"]))
        return {"query": query, "response": response, "tool_definitions": none_if_nan(turn.get("tool_definitions"))}


class TaskAdherenceEvaluator(AzureJudge):
    """A judge of an agent's adherence to its task and instructions: 0 or 1."""

    metric = "task_adherence"
    accounts_for_skipped = False
    ways = (("query", "response", "tool_definitions"),)
    optional = frozenset({"tool_definitions"})
    required = ("query", "response")
    error_target = ErrorTarget.TASK_ADHERENCE_EVALUATOR
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
        system, query = system_and_question(history(normalize_messages(turn["query"]), with_system=True))
        response, calls = said_and_called(answer(normalize_messages(turn["response"]), with_calls=True))
        return {"system_message": system, "query": query, "response": response, "tool_calls": calls}


class ToolCallAccuracyEvaluator(AzureJudge):
    """A judge of how relevant and correct an agent's tool calls are for the query, from 1 to 5.

    Call it with `query`, `tool_definitions` and `tool_calls` in Azure's format. A `response` that contains the calls
    may replace `tool_calls`.
    """

    metric = "tool_call_accuracy"
    judges_replies = False
    accounts_for_skipped = False
    bounded = True
    score_target = ErrorTarget.TOOL_CALL_ACCURACY_EVALUATOR
    ways = (("query", "tool_definitions", "tool_calls", "response"),)
    error_target = ErrorTarget.TOOL_CALL_ACCURACY_EVALUATOR

    def _check(self, inputs: Inputs) -> None:
        """Refuse inputs that lack a query, definitions, or both a response and calls in Azure's format."""
        self.check_text_or_messages("Query", inputs.get("query"))
        self.check_definitions(inputs.get("tool_definitions"), required=True)
        response = refusal(self.check_text_or_messages, "Response", inputs.get("response"))
        calls = refusal(self.check_calls, inputs.get("tool_calls"))
        if response is not None and calls is not None:
            raise calls if response.category is ErrorCategory.MISSING_FIELD else response

    def _turns(self, inputs: Inputs) -> list[Inputs]:
        self._check(inputs)
        return [{name: inputs.get(name) for name in self.ways[0]}]

    def _prepare(self, turn: Inputs) -> Inputs | str:
        """Return the prompt's inputs, or the reason why the metric does not apply.

        Calls come from the response if it has any, otherwise from `tool_calls`.
        """
        response, definitions = turn["response"], turn["tool_definitions"]
        calls = calls_with_results(response) or turn["tool_calls"] or (response if isinstance(response, str) else None)
        if not calls:
            return "No tool calls found in response or provided tool_calls."
        if not isinstance(calls, str) and isinstance(definitions, list):
            calls = calls if isinstance(calls, list) else [calls]
            names = [_name(call) for call in calls]
            defined = {each["name"] for group in definitions for each in group.get("functions") or [group]}
            if not defined.union(_BUILT_IN).issuperset(names):
                return "Tool definitions for all tool calls must be provided."
            definitions = definitions + _built_in(names)
        return {"query": normalize_messages(turn["query"]), "tool_calls": calls, "tool_definitions": definitions}

    async def _judge_turn(self, calls: ModelCalls, turn: Inputs) -> Verdict:
        """Return the verdict on a turn, with the score also under the key `gpt_tool_call_accuracy`."""
        judged = await super()._judge_turn(calls, turn)
        score = judged[self.metric]
        return judged if score is None else {self.metric: score, f"gpt_{self.metric}": score, **judged}


def _name(call: object) -> object:
    """Return the name of the called tool, or None if this is not a call in Azure's format."""
    return call.get("name") if isinstance(call, Mapping) and call.get("type") == "tool_call" else None


def _built_in(names: Iterable[object]) -> list[object]:
    """Return Azure's definitions of the built-in tools among these names."""
    selected = [name for name in dict.fromkeys(names) if name in _BUILT_IN]
    if not selected:
        return []
    models = import_module("azure.ai.evaluation._converters._models")
    descriptions, parameters = models._BUILT_IN_DESCRIPTIONS, models._BUILT_IN_PARAMS
    return [
        {"type": name, "description": descriptions[name], "name": name, "parameters": parameters.get(name, {})}
        for name in selected
    ]
