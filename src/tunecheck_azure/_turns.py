"""Conversations judged turn by turn, as Azure AI Evaluation does: the inputs of each turn, and one verdict of all."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from tunecheck.plugins import JSON, Verdict

PER_TURN = "evaluation_per_turn"
"""The key of a conversation's verdict that holds the values of each turn: `{key: [value, …]}`."""

_OF_ONE_CALL = ("_prompt_tokens", "_completion_tokens", "_total_tokens", "_finish_reason", "_model", "_details")


def conversation_turns(conversation: object, inputs: Collection[str]) -> list[dict[str, object]]:
    """The inputs of each turn for an evaluator of these parameters: the nth question with the nth answer.

    A `context` is the conversation's, the question's and the answer's together, as text; a `ground_truth` stands in
    the answer.

    Raises:
        ValueError: it is not `{"messages": [{"role", "content"}, …]}`.
    """
    messages = conversation.get("messages") if isinstance(conversation, Mapping) else conversation
    if not isinstance(messages, list) or not all(isinstance(message, Mapping) for message in messages):
        raise ValueError("a conversation is a dict with a list of `messages`, each with `role` and `content`")
    asked = [message for message in messages if message.get("role") == "user"]
    answered = [message for message in messages if message.get("role") == "assistant"]
    whole = conversation.get("context") if isinstance(conversation, Mapping) else None
    turns = []
    for question, answer in zip(asked, answered, strict=False):
        contexts = {
            "global_context": whole,
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


def over_turns(turns: Sequence[Verdict]) -> Verdict:
    """Merge the turns' verdicts: means of numbers, else the last turn's value; `evaluation_per_turn` has all values."""
    if len(turns) == 1:
        return turns[0]
    per_turn: dict[str, list[JSON]] = {}
    for turn in turns:
        for key, value in turn.items():
            per_turn.setdefault(key, []).append(value)
    whole: Verdict = {}
    for key, values in per_turn.items():
        numbers = [value for value in values if isinstance(value, (int, float))]
        if len(numbers) == len(values):
            whole[key] = math.fsum(numbers) / len(numbers)
        elif not key.endswith(_OF_ONE_CALL):
            whole[key] = values[-1]
    return {**whole, PER_TURN: {**per_turn}} if turns else {}
