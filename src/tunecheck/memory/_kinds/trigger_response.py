"""Trigger response: whenever the user does a certain thing, the agent is to say a certain sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from tunecheck._json import JSON
from tunecheck.memory._kind import Kind, Making
from tunecheck.memory._kinds.arguments import share, whole
from tunecheck.memory._kinds.scripts import read_data, scripted_test
from tunecheck.memory._model import Definition

_ORDERS = (
    "Each time that I {occasion}, say this sentence to me: “{response}”",
    "Make it a habit: as soon as I {occasion}, you answer with the words “{response}”",
)


class _Trigger(msgspec.Struct, frozen=True):
    """`occasion` completes "each time that I …"; `lines` are ways in which it happens."""

    occasion: str
    lines: tuple[str, ...]
    response: str


class TriggerResponse(Kind):
    """An order, then `trigger_activations` occasions for it, each of which is to get the sentence.

    `rouge_score_threshold` is how close to the sentence a reply must come, as ROUGE-L's F1.
    """

    name: ClassVar[str] = "trigger_response"
    title: ClassVar[str] = "Trigger Response"
    resets: ClassVar[bool] = True

    def __init__(self, *, trigger_activations: int = 3, rouge_score_threshold: float = 0.75) -> None:
        self.trigger_activations = whole("trigger_activations", trigger_activations, least=1, most=100)
        self.rouge_score_threshold = share("rouge_score_threshold", rouge_score_threshold)
        self.arguments: Mapping[str, JSON] = {
            "trigger_activations": trigger_activations,
            "rouge_score_threshold": self.rouge_score_threshold,
        }

    def definition(self, example: str, making: Making) -> Definition:
        """See Kind."""
        random = making.random(self.title, example)
        trigger = random.choice(read_data("triggers", tuple[_Trigger, ...]))
        order = random.choice(_ORDERS).format(occasion=trigger.occasion, response=trigger.response)
        lines = [random.choice(trigger.lines) for _ in range(self.trigger_activations)]
        return scripted_test(self, example, [order], lines, [trigger.response] * len(lines))
