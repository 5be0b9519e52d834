"""Judges of agents with Azure AI Evaluation's prompts: what was meant, what was asked for, which tools were called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tunecheck.azure._calling import Inputs, check_given
from tunecheck.azure._exceptions import ErrorCategory, ErrorTarget, mistake
from tunecheck.azure._judges import AzureJudge
from tunecheck.azure._transcripts import answer, history, results
from tunecheck.calls._model import FunctionCall
from tunecheck.endpoints._base import ModelCalls
from tunecheck.evaluators._base import Metric, Verdict
from tunecheck.evaluators._judges.model import ModelConfig
from tunecheck.evaluators._judges.texts import given
from tunecheck.formats._reading import read_calls


class IntentResolutionEvaluator(AzureJudge):
    """How well an agent grasped and met what the user wanted, from 1 to 5."""

    metric = "intent_resolution"
    ways = (("query", "response", "tool_definitions"),)
    optional = frozenset({"tool_definitions"})
    required = ("query", "response")
    error_target = ErrorTarget.INTENT_RESOLUTION_EVALUATOR

    bounded = True

    def _prepared(self, turn: Inputs) -> Inputs | str:
        query, response = history(turn["query"]), answer(turn["response"])
        return {"query": query, "response": response, "tool_definitions": given(turn.get("tool_definitions"))}


class TaskAdherenceEvaluator(AzureJudge):
    """Whether an agent did what it was asked for, and kept to its instructions: 0 or 1."""

    metric = "task_adherence"
    ways = (("query", "response", "tool_definitions"),)
    optional = frozenset({"tool_definitions"})
    required = ("query", "response")
    error_target = ErrorTarget.TASK_ADHERENCE_EVALUATOR
    metrics = (Metric("task_adherence", kind="binary"),)
    cutoff = 1.0

    def __init__(self, model_config: ModelConfig, *, threshold: float = 0, **arguments: Any) -> None:  # noqa: ANN401
        super().__init__(model_config, **arguments)  # Azure's verdicts name 3, whatever threshold is given

    def _prepared(self, turn: Inputs) -> Inputs | str:
        query, response = history(turn["query"], with_system=True), answer(turn["response"], with_calls=True)
        return {"system_message": "", "query": query, "response": response, "tool_calls": ""}


class ToolCallAccuracyEvaluator(AzureJudge):
    """How fit an agent's calls are for what the user asked, from 1 to 5.

    Called with `query`, `tool_definitions` and `tool_calls`, or a `response` that holds them, in any format that
    Tunecheck reads.
    """

    metric = "tool_call_accuracy"
    bounded = True
    ways = (("query", "tool_definitions", "tool_calls", "response"),)
    error_target = ErrorTarget.TOOL_CALL_ACCURACY_EVALUATOR

    def _turns(self, inputs: Inputs) -> list[Inputs]:
        check_given("Query", inputs.get("query"), self.error_target)
        needs = ErrorCategory.MISSING_FIELD
        if not inputs.get("tool_definitions"):
            raise mistake("Tool definitions input is required but not provided.", needs, self.error_target)
        if not inputs.get("tool_calls") and inputs.get("response") is None:
            raise mistake("No tool calls found in response or provided tool_calls.", needs, self.error_target)
        if not all(map(_name, _listed(inputs["tool_definitions"]))):
            raise mistake("Each tool definitions must contain a 'name' field.", target=self.error_target)
        return [{name: inputs.get(name) for name in self.ways[0]}]

    def _prepared(self, turn: Inputs) -> Inputs | str:
        named, response = given(turn["tool_calls"]), turn["response"]
        called = read_calls(response).calls if isinstance(response, list) else ()
        found = results(response) if called else {}
        calls = [_as_json(call, found) for call in called] or named or (response if isinstance(response, str) else None)
        if not calls:
            return "No tool calls found in response or provided tool_calls."
        definitions = turn["tool_definitions"]
        if not isinstance(definitions, str) and not isinstance(calls, str):
            names = {call.name for call in called or read_calls(calls).calls}
            if not names:
                told = "Each tool_call content items must contain a 'name' field."
                if all(map(_name, _listed(calls))):
                    told = "The 'arguments' field must be a dictionary in tool_call content items."
                raise mistake(told, target=self.error_target)
            definitions = [each for each in _listed(definitions) if _name(each) in names]
            if {_name(each) for each in definitions} != names:
                return "Tool definitions for all tool calls must be provided."
        return {"query": turn["query"], "tool_calls": calls, "tool_definitions": definitions}

    async def _one(self, calls: ModelCalls, turn: Inputs) -> Verdict:
        judged = await super()._one(calls, turn)
        score = judged[self.metric]
        return judged if score is None else {self.metric: score, f"gpt_{self.metric}": score, **judged}


def _as_json(call: FunctionCall, found: Mapping[object, object]) -> dict[str, object]:
    """The call in Azure's form, with its result where one was found."""
    known = {"tool_call_id": call.id} if call.id else {}
    result = {"tool_result": found[call.id]} if call.id in found else {}
    return {"type": "tool_call", **known, "name": call.name, "arguments": dict(call.arguments), **result}


def _listed(definitions: object) -> list[object]:
    return [definitions] if isinstance(definitions, Mapping) else definitions if isinstance(definitions, list) else []


def _name(definition: object) -> object:
    """A definition's name, in Azure's form or OpenAI's."""
    inner = definition.get("function", definition) if isinstance(definition, Mapping) else None
    return inner.get("name") if isinstance(inner, Mapping) else None
