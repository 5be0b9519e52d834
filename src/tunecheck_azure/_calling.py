"""The calling convention of Azure AI Evaluation's evaluators, and the text metrics, which need no model.

An evaluator takes checked single inputs, or a conversation, turn by turn. `inputs.json` contains the JSON Schemas of
the inputs. The checks refuse the same inputs as Azure AI Evaluation. Function calls in texts count as plain text.

The first line that holds decides how the inputs are judged (`_inputs_to_judge`):

  `conversation` is given           each turn; single inputs beside it are an error
  `messages` is given and allowed   each turn of these messages, with the inputs' context and ground truth
  an input set is complete          the single inputs
  otherwise                         an error that names the missing input

    F1ScoreEvaluator()(response="Rome is sunny", ground_truth="Rome is very sunny")
    F1ScoreEvaluator()(conversation={"messages": [{"role": "user", "content": "How is Rome?"},
                       {"role": "assistant", "content": "Sunny", "ground_truth": "Very sunny"}]})

The nth question of a conversation and the nth answer are a turn. The turns' numbers become means; their values are
under `evaluation_per_turn`.
"""

import functools
import inspect
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files
from itertools import chain
from typing import ClassVar

import jsonschema_rs

from tunecheck import Evaluator, evaluators as ours
from tunecheck.plugins import JSON, Verdict, is_shipped, plain
from tunecheck_azure import _exceptions as errors

_LONGEST_MESSAGE = 300
"""The most characters of an error about an input: the schema's message may repeat the whole input."""


@functools.cache
def _validator(kind: str) -> jsonschema_rs.Validator:
    """Return the validator for one kind of input, a definition in `inputs.json`."""
    # Read at the first use: many runs need no schema.
    schemas = json.loads(files("tunecheck_azure").joinpath("inputs.json").read_bytes())
    return jsonschema_rs.validator_for({**schemas, "$ref": f"#/$defs/{kind}"})


Inputs = dict[str, object]


class AzureEvaluator(Evaluator):
    """Base of the evaluators of `tunecheck_azure`. Each takes one of several sets of inputs, or a `conversation`.

    `input_sets` lists the names of each set; inputs in `optional` may be missing. By default, `evaluate()` fills each
    input from the column with the input's name. `required` inputs are checked in this order, and the error names the
    missing input.
    """

    input_sets: ClassVar[tuple[tuple[str, ...], ...]] = ()
    optional: ClassVar[frozenset[str]] = frozenset()
    required: ClassVar[tuple[str, ...]] = ()

    id: ClassVar[str] = ""
    """The evaluator's identifier in Azure AI Foundry."""

    refused_tools: ClassVar[frozenset[str]] = frozenset()
    """Tools with calls that the evaluator cannot judge."""

    takes_messages: ClassVar[bool] = False
    """True if the evaluator also takes a conversation as `messages`."""

    error_target: ClassVar[errors.ErrorTarget] = errors.ErrorTarget.CONVERSATION
    _higher_is_better: ClassVar[bool] = True

    signatures: ClassVar[Sequence[inspect.Signature]] = ()
    """The parameters that the pipeline binds to columns."""

    def __init_subclass__(cls) -> None:
        """Set the evaluator's id in Foundry from the class's name, and its signature from `input_sets`.

        Only Tunecheck's own classes get an id.
        """
        super().__init_subclass__()
        if is_shipped(cls.__module__):
            # F1ScoreEvaluator becomes f1_score, and ToolCallAccuracyEvaluator tool_call_accuracy.
            words = re.sub("(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__.removesuffix("Evaluator"))
            cls.id = f"azureai://built-in/evaluators/{words.lower()}"

        kind = inspect.Parameter.KEYWORD_ONLY
        conversations = ("conversation", "messages") if cls.takes_messages else ("conversation",)
        # Every parameter has a default, because any of the sets is enough.
        names = dict.fromkeys([*chain.from_iterable(cls.input_sets), *conversations])
        cls.signatures = [inspect.Signature([inspect.Parameter(name, kind, default=None) for name in names])]

    # -- checks of inputs; each raises an EvaluationException that names the evaluator as its target

    def check_text_or_messages(self, label: str, value: object) -> None:
        """Raise EvaluationException unless a value is a text or a list of messages, and not empty.

        `label` names the value in the error. An assistant's calls of tools in `refused_tools` are refused, too.
        """
        if value is None or (isinstance(value, (str, list)) and not value):
            text = f"{label} is missing or empty; give it a value"
            raise errors.mistake(text, errors.ErrorCategory.MISSING_FIELD, self.error_target)

        self._check_schema("said", label, value)

        for message in value if isinstance(value, list) else ():
            parts = message["content"] if message["role"] == "assistant" else ()
            for part in parts if isinstance(parts, list) else ():
                kind = part["type"]
                tool = kind if kind == "openapi_call" else str(part.get("name", "")).lower()
                if kind in ("tool_call", "openapi_call") and tool in self.refused_tools:
                    text = f"{self.error_target.value} cannot judge calls of {tool}; leave out rows with these calls"
                    raise errors.mistake(text, errors.ErrorCategory.NOT_APPLICABLE, self.error_target)

    def check_tools(self, label: str, value: object, missing: str | None = None) -> None:
        """Check that a value holds tool definitions or tool calls: a text, or a list in Azure's format.

        `label` is `tool_definitions` or `tool_calls`. `missing` is the error for an empty value; None accepts an empty
        value.

        Raises:
            EvaluationException: the value is missing, or has another form.
        """
        if not value and missing is not None:
            raise errors.mistake(f"{missing}; give a list", errors.ErrorCategory.MISSING_FIELD, self.error_target)
        if value and not isinstance(value, str):
            self._check_schema(label.removeprefix("tool_"), label, value)

    def _check_schema(self, kind: str, label: str, value: object) -> None:
        """Raise EvaluationException unless a value fits the JSON Schema for its kind of input.

        `label` names it in the error.
        """
        # Only the first error: one is enough to refuse the input.
        try:
            error = next(_validator(kind).iter_errors(plain(value, path=label)), None)
        except TypeError as problem:
            raise errors.mistake(str(problem), target=self.error_target, personal=True) from None
        if error is not None:
            place = "".join(f"[{step!r}]" for step in error.instance_path)
            message = f"{label}{place}: {error.message}"[:_LONGEST_MESSAGE]
            raise errors.mistake(message, target=self.error_target, personal=True)

    def _check(self, inputs: Inputs) -> None:
        """Check that the inputs can be judged.

        Raises:
            EvaluationException: an input is missing or has the wrong form.
        """
        if self.required and self.takes_messages and inputs.get("messages") is not None:
            # The schema requires known roles, and at least one message of a user and one of an assistant.
            self._check_schema("messages", "messages", inputs["messages"])
        elif self.required and (conversation := inputs.get("conversation")):
            self._check_schema("conversation", "the conversation", conversation)
            if isinstance(conversation, dict):  # any other type with this JSON form is refused later
                self.check_text_or_messages("the conversation's list of messages", conversation["messages"])
        else:
            for name in self.required:
                self.check_text_or_messages(name.capitalize(), inputs.get(name))

        if "tool_definitions" in self.optional:
            self.check_tools("tool_definitions", inputs.get("tool_definitions"))

    def _inputs_to_judge(self, inputs: Inputs) -> list[Inputs]:
        """Return the sets of inputs to judge: the single inputs as one set, or a set for each turn of a conversation.

        Raises:
            EvaluationException: inputs are missing or stand beside a conversation, or the conversation is invalid.
        """
        # Text metrics, which have no target of their own, are checked by their input sets only.
        if self.error_target is not errors.ErrorTarget.CONVERSATION:
            self._check(inputs)
        conversation = inputs.get("conversation")

        known = list(dict.fromkeys(chain.from_iterable(self.input_sets)))
        single = {name: inputs.get(name) for name in known}

        if conversation is None and self.takes_messages and inputs.get("messages") is not None:
            conversation = _as_conversation(inputs)
            # The conversation contains these two now, so as single inputs they become None.
            single |= dict.fromkeys({*known} & {"context", "ground_truth"})

        if conversation is None:
            if not any(self._is_complete(names, single) for names in self.input_sets):
                raise self._incomplete_error(single)
            return [single]

        name = type(self).__name__
        if any(single.values()):
            message = f"{name}: Cannot provide both 'conversation' and individual inputs at the same time."
            raise errors.mistake(message, target=errors.ErrorTarget.CONVERSATION)

        try:
            return conversation_turns(conversation, known)
        except ValueError as error:
            raise errors.mistake(f"{name}: {error}", target=errors.ErrorTarget.CONVERSATION) from None

    def _is_complete(self, names: Sequence[str], single: Inputs) -> bool:
        """Return whether the single inputs contain every input of this set, except optional ones."""
        return all(single[name] is not None for name in names if name not in self.optional)

    def _incomplete_error(self, single: Inputs) -> errors.EvaluationException:
        """Return the error for single inputs that contain no complete set."""
        message = f"{type(self).__name__}: Either 'conversation' or individual inputs must be provided."
        return errors.mistake(message, target=errors.ErrorTarget.CONVERSATION)


def _as_conversation(inputs: Inputs) -> Inputs:
    """Return `messages` as a conversation with the inputs' `context`.

    An assistant's message without a ground truth gets the inputs' `ground_truth`.
    """
    messages, truth = inputs["messages"], inputs.get("ground_truth")
    # A message's own ground truth wins.
    if truth is not None and isinstance(messages, list):
        messages = [
            {"ground_truth": truth, **each} if isinstance(each, dict) and each.get("role") == "assistant" else each
            for each in messages
        ]
    return {"messages": messages, "context": inputs.get("context")}


# -- conversations

PER_TURN = "evaluation_per_turn"
"""The key of a conversation's verdict that holds the values of each turn: `{key: [value, …]}`."""

# Ends of keys that hold only for one call of a judge, so a conversation has no single value for them.
_ENDINGS_OF_ONE_CALL = ("_prompt_tokens", "_completion_tokens", "_total_tokens", "_finish_reason", "_model", "_details")


def conversation_turns(conversation: object, inputs: Collection[str]) -> list[dict[str, object]]:
    """Return the inputs of each turn of a conversation: the nth question with the nth answer.

    `inputs` are the names of the evaluator's parameters, and a turn has no others.

    The `context` of a turn is a dict as text, such as "{'response_context': {…}}". It has the context of the
    conversation, that of the question if `query` is an input, and that of the answer if `response` is one; empty ones
    are left out. The `ground_truth` is read from the answer. A question without an answer is dropped.

    Raises:
        ValueError: the conversation is neither a list of messages (dicts) nor a dict with such a list as `messages`.
    """
    messages = conversation.get("messages") if isinstance(conversation, Mapping) else conversation
    if not isinstance(messages, list) or not all(isinstance(message, Mapping) for message in messages):
        raise ValueError("a conversation must be a dict with a list of `messages`, each with `role` and `content`")

    questions = [message for message in messages if message.get("role") == "user"]
    answers = [message for message in messages if message.get("role") == "assistant"]
    global_context = conversation.get("context") if isinstance(conversation, Mapping) else None

    turns = []
    # A question and its answer are paired by position, whatever lies between them.
    for question, answer in zip(questions, answers, strict=False):
        contexts = {
            "global_context": global_context,
            "query_context": question.get("context") if "query" in inputs else None,
            "response_context": answer.get("context") if "response" in inputs else None,
        }

        turn = {
            "query": question.get("content", ""),
            "response": answer.get("content", ""),
            "context": str({name: value for name, value in contexts.items() if value}),
            "ground_truth": answer.get("ground_truth", ""),
        }
        turns.append({name: value for name, value in turn.items() if name in inputs})
    return turns


def merge_turns(turns: Sequence[Verdict]) -> Verdict:
    """Merge the turns' verdicts: means of numbers and booleans (1 and 0), otherwise the last turn's value.

    `evaluation_per_turn` has all values. Texts of a single judge call, such as the model's name, have no merged value.
    A single verdict is returned unchanged; without turns, the verdict is empty.
    Example: the F1 scores 1.0 and 0.5 become 0.75, and the results "pass" and "fail" become "fail".
    """
    if len(turns) == 1:
        return turns[0]

    per_turn: dict[str, list[JSON]] = {}
    for turn in turns:
        for key, value in turn.items():
            per_turn.setdefault(key, []).append(value)

    merged: Verdict = {}
    for key, values in per_turn.items():
        numbers = [value for value in values if isinstance(value, (int, float))]
        if len(numbers) == len(values):
            merged[key] = math.fsum(numbers) / len(numbers)
        elif not key.endswith(_ENDINGS_OF_ONE_CALL):
            merged[key] = values[-1]

    return {**merged, PER_TURN: {**per_turn}} if turns else {}


class _Texts(AzureEvaluator, ours.TextEvaluator):
    """Base of the text metrics, called with the texts `response` and `ground_truth`, or with a `conversation`."""

    input_sets = (("response", "ground_truth"),)

    def __call__(self, *args: object, **inputs: object) -> Verdict:
        """Return the metric's eight keys. For a conversation, they are means, with `evaluation_per_turn`.

        Positional arguments are ignored.

        Raises:
            EvaluationException: an input is missing or is not a text.
        """
        return merge_turns([self._compare(**turn) for turn in self._inputs_to_judge(inputs)])

    def _compare(self, response: object, ground_truth: object) -> Verdict:
        """Return the verdict on a pair of texts, or raise EvaluationException if one is not a text."""
        for name, value in (("response", response), ("ground_truth", ground_truth)):
            if not isinstance(value, str):
                raise errors.mistake(f"{type(self).__name__}: {name} must be a text, not a {type(value).__name__}")
        return self._judge(ours.TextPair(str(ground_truth), str(response)))


class _Score(_Texts, ours.ScoreEvaluator):
    def __init__(self, *, threshold: float = 0.5) -> None:
        with errors.as_evaluation_exception():
            super().__init__(threshold=threshold)
        self._threshold = threshold


class BleuScoreEvaluator(_Score, ours.BleuScoreEvaluator):
    """BLEU-4 of two texts, from 0 to 1."""


class GleuScoreEvaluator(_Score, ours.GleuScoreEvaluator):
    """GLEU of two texts, from 0 to 1."""


class F1ScoreEvaluator(_Score, ours.F1ScoreEvaluator):
    """The F1 of the words that two texts have in common, from 0 to 1."""


class MeteorScoreEvaluator(_Texts, ours.MeteorScoreEvaluator):
    """METEOR of two texts, from 0 to 1."""

    def __init__(self, alpha: float = 0.9, beta: float = 3.0, gamma: float = 0.5, *, threshold: float = 0.5) -> None:
        with errors.as_evaluation_exception():
            super().__init__(alpha, beta, gamma, threshold=threshold)
        self._threshold = threshold


class RougeScoreEvaluator(_Texts, ours.RougeScoreEvaluator):
    """ROUGE of two texts; the score is F1."""

    def __init__(
        self,
        rouge_type: ours.RougeType | str,
        *,
        precision_threshold: float = 0.5,
        recall_threshold: float = 0.5,
        f1_score_threshold: float = 0.5,
    ) -> None:
        """Set the type of ROUGE and the thresholds.

        Raises:
            EvaluationException: the type is unknown, or a threshold is not a float.
        """
        thresholds = {"precision": precision_threshold, "recall": recall_threshold, "f1_score": f1_score_threshold}

        target = errors.ErrorTarget.ROUGE_EVALUATOR
        for name, value in thresholds.items():
            # Azure AI Evaluation refuses integers here, but not for other metrics.
            if not isinstance(value, float):
                raise errors.mistake(f"{name}_threshold must be a float, got {type(value)}", target=target)

        arguments = {f"{name}_threshold": value for name, value in thresholds.items()}
        with errors.as_evaluation_exception(target):
            super().__init__(rouge_type, **arguments)  # type: ignore[arg-type]
        self._threshold = thresholds
