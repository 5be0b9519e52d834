"""How Azure AI Evaluation's evaluators are called: with single inputs, or with a conversation, turn by turn."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from itertools import chain
from typing import ClassVar

from tunecheck.azure._exceptions import ErrorCategory, ErrorTarget, EvaluationException, mistake
from tunecheck.evaluators._base import Evaluator
from tunecheck.evaluators._turns import conversation_turns

Inputs = dict[str, object]


class AzureEvaluator(Evaluator):
    """Base of the evaluators here, each of which takes one of several sets of inputs or a `conversation`.

    `ways` are these sets, `optional` those of them that may be missing; in `evaluate()` each is filled from the column
    of its name. `required` are inputs that are asked for by name where they are missing, in this order.
    """

    ways: ClassVar[tuple[tuple[str, ...], ...]] = ()
    optional: ClassVar[frozenset[str]] = frozenset()
    required: ClassVar[tuple[str, ...]] = ()
    id: ClassVar[str] = ""
    """Its identifier in Azure AI Foundry."""
    takes_messages: ClassVar[bool] = False
    """Whether `messages` are a conversation to it, too."""
    error_target: ClassVar[ErrorTarget] = ErrorTarget.CONVERSATION
    signatures: ClassVar[Sequence[inspect.Signature]] = ()
    """What the pipeline binds by."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__.startswith("tunecheck."):
            words = re.sub("(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__.removesuffix("Evaluator"))
            cls.id = f"azureai://built-in/evaluators/{words.lower()}"
        kind = inspect.Parameter.KEYWORD_ONLY
        beside = ("conversation", "messages") if cls.takes_messages else ("conversation",)
        names = dict.fromkeys([*chain.from_iterable(cls.ways), *beside])
        cls.signatures = [inspect.Signature([inspect.Parameter(name, kind, default=None) for name in names])]

    def _turns(self, inputs: Inputs) -> list[Inputs]:
        """The single inputs that are to be judged, in order: those given, or one set for each turn of a conversation.

        Raises:
            EvaluationException: they are missing, or both are given.
        """
        is_checked = self.error_target is not ErrorTarget.CONVERSATION
        conversation = inputs.get("conversation")
        if is_checked and not conversation:
            conversation = None
        if conversation is None and self.takes_messages and inputs.get("messages") is not None:
            conversation = {"messages": inputs["messages"]}
        known = list(dict.fromkeys(chain.from_iterable(self.ways)))
        single = {name: inputs.get(name) for name in known}
        name = type(self).__name__
        if conversation is None:
            for each in self.required:
                check_given(each.capitalize(), single[each], self.error_target)
            if not any(self._complete(way, single) for way in self.ways):
                raise self._incomplete(single)
            return [single]
        if any(single.values()):
            both = f"{name}: Cannot provide both 'conversation' and individual inputs at the same time."
            raise mistake(both, target=ErrorTarget.CONVERSATION)
        if is_checked:
            _check_conversation(conversation, self.error_target)
        try:
            return conversation_turns(conversation, known)
        except ValueError as error:
            raise mistake(f"{name}: {error}", target=ErrorTarget.CONVERSATION) from None

    def _complete(self, way: Sequence[str], single: Inputs) -> bool:
        return all(single[name] is not None for name in way if name not in self.optional)

    def _incomplete(self, single: Inputs) -> EvaluationException:
        message = f"{type(self).__name__}: Either 'conversation' or individual inputs must be provided."
        return mistake(message, target=ErrorTarget.CONVERSATION)


def check_given(label: str, value: object, target: ErrorTarget) -> None:
    """See that it is a text or a list of messages.

    Raises:
        EvaluationException: it is not, in Azure AI Evaluation's words.
    """
    if value is None:
        raise mistake(f"{label} is a required input and cannot be None.", ErrorCategory.MISSING_FIELD, target)
    if not value and isinstance(value, (str, list)):
        kind = "string" if isinstance(value, str) else "list"
        raise mistake(f"{label} {kind} cannot be empty.", ErrorCategory.MISSING_FIELD, target)
    if not isinstance(value, (str, list)):
        raise mistake(f"{label} must be a string or a list of messages.", target=target)
    for message in value if isinstance(value, list) else ():
        if not isinstance(message, dict):
            wrong = f"Each message in the {label.lower()} list must be a dictionary."
            raise mistake(wrong, target=target)
        for key in ("role", "content"):
            if key not in message:
                raise mistake(f"Each message must contain a '{key}' field.", target=target)


def _check_conversation(conversation: object, target: ErrorTarget) -> None:
    if not isinstance(conversation, dict):
        raise mistake("Conversation must be a dictionary.", target=target)
    if "messages" not in conversation:
        raise mistake("Each Conversation must contain a 'messages' field.", target=target)
    if not isinstance(conversation["messages"], list):
        raise mistake("The 'messages' field must be a list in Conversation.", target=target)
    check_given("Conversation messages", conversation["messages"], target)
