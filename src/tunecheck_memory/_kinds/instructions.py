"""Kinds that tell the agent what to do later: at its Nth reply, or whenever something happens."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from tunecheck_memory._data import read_data, read_words
from tunecheck_memory._kind import Kind, Making
from tunecheck_memory._kinds.scripts import scripted_test, share, whole
from tunecheck_memory._model import Definition

FEWEST, MOST = 2, 8
"""The reply that must hold the saying is one of these; the one to the instruction counts as the first."""

_QUESTIONS = (
    "When you answer the messages that follow, put the saying by {author} at the end of your {nth} reply. "
    "Your reply to this very message counts as number one.",
    "I want you to close your {nth} reply, counted from here with the one to this message as the first, with the "
    "saying by {author}. Leave it out of all other replies.",
)


class ProspectiveMemory(Kind):
    """A saying, then the order to append it to the Nth reply; a callback counts the replies."""

    name = "prospective_memory"
    title = "Prospective Memory"
    resets = True

    def is_over(self, definition: Definition, replies: Sequence[str]) -> bool:
        """Once the reply that must hold the saying was given, whatever the earlier ones held."""
        return len(replies) >= expected_reply(definition)

    def definition(self, example: str, making: Making) -> Definition:
        random = making.random(self.title, example)
        saying = random.choice(read_words("sayings"))
        author = f"{random.choice(read_words('first_names'))} {random.choice(read_words('last_names'))}"
        number = random.randint(FEWEST, MOST)
        question = random.choice(_QUESTIONS).format(author=author, nth=_ordinal(number))
        made = scripted_test(self, example, [f"“{saying}” — {author}"], [question], [[saying, author, number]])
        return replace(made, uses_callback=True)


def expected_reply(definition: Definition) -> int:
    """The number of the reply that must hold the saying, from 1; 1 where the definition does not say."""
    match definition.expected:
        case [[*_, int(number)], *_]:
            return number
    return 1


def _ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, …"""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number % 100 not in (11, 12, 13) else "th"
    return f"{number}{ending}"


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

    name = "trigger_response"
    title = "Trigger Response"
    resets = True

    def __init__(self, *, trigger_activations: int = 3, rouge_score_threshold: float = 0.75) -> None:
        self.trigger_activations = whole("trigger_activations", trigger_activations, least=1, most=100)
        self.rouge_score_threshold = share("rouge_score_threshold", rouge_score_threshold)
        self.arguments = {
            "trigger_activations": trigger_activations,
            "rouge_score_threshold": self.rouge_score_threshold,
        }

    def definition(self, example: str, making: Making) -> Definition:
        random = making.random(self.title, example)
        trigger = random.choice(read_data("triggers", tuple[_Trigger, ...]))
        order = random.choice(_ORDERS).format(occasion=trigger.occasion, response=trigger.response)
        lines = [random.choice(trigger.lines) for _ in range(self.trigger_activations)]
        return scripted_test(self, example, [order], lines, [trigger.response] * len(lines))
