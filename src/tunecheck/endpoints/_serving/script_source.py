"""Answers by a script: which rule a request meets, counted, and what it gets."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tunecheck._json import JSON, dumps
from tunecheck.endpoints._base import Completion, Usage
from tunecheck.endpoints._recorded import NoAnswerError, content_key
from tunecheck.endpoints._serving.replies import Problem, ProblemError
from tunecheck.endpoints._serving.script import Question, Rule, Script, read_script

MAX_TURNS = 10_000
"""Questions whose turn is remembered, for rules with several answers; the oldest give way."""

_SHOWN = 80


class ScriptSource:
    """Answers chats by the rules of a script; every reply is marked as simulated.

    A request that is repeated under its idempotency key never comes here, so that it counts once.
    """

    def __init__(self, script: Script) -> None:
        self.name = script.name
        self._script = script
        self._counts = [0] * len(script.rules)
        self._unmatched = 0
        self._turns: OrderedDict[tuple[str, bytes], int] = OrderedDict()

    @classmethod
    def read(cls, path: Path | str) -> ScriptSource:
        """The source of a script's file.

        Raises:
            ConfigurationError: the script cannot be used; names file, line and key.
        """
        return cls(read_script(path))

    async def answer(
        self,
        messages: Sequence[Mapping[str, JSON]],
        tools: Sequence[Mapping[str, JSON]] | None,
        parameters: Mapping[str, JSON],
    ) -> Completion:
        """What the first rule that holds says.

        Raises:
            NoAnswerError: no rule holds for this request.
            ProblemError: the rule answers with an error.
        """
        question = _question(messages, tools, parameters)
        rule = self._rule(question)
        if rule.latency_ms:
            await asyncio.sleep(rule.latency_ms / 1000)
        if isinstance(rule.outcome, Problem):
            raise ProblemError(rule.outcome)
        completion = rule.outcome[self._turn(rule, messages) % len(rule.outcome)]
        return replace(completion, usage=rule.usage or _reckoned(question, completion))

    async def close(self) -> None:
        """Nothing is held open."""

    def health(self) -> dict[str, JSON]:
        """How many requests each rule answered, and how many none did."""
        counts = zip(self._script.rules, self._counts, strict=True)
        return {"rules": {rule.name: count for rule, count in counts}, "unmatched": self._unmatched}

    def _rule(self, question: Question) -> Rule:
        for index, rule in enumerate(self._script.rules):
            left = rule.times is None or self._counts[index] < rule.times
            if left and rule.wanted.holds(question):
                self._counts[index] += 1
                return rule
        self._unmatched += 1
        asked = " ".join(question.user[: 4 * _SHOWN].split())
        shown = asked if len(asked) <= _SHOWN else f"{asked[:_SHOWN]}…"
        raise NoAnswerError(f"no rule of {self._script.file} holds for this request; its user says: {shown!r}")

    def _turn(self, rule: Rule, messages: Sequence[Mapping[str, JSON]]) -> int:
        """How often this rule has answered these messages before."""
        assert isinstance(rule.outcome, tuple)
        if len(rule.outcome) == 1:
            return 0
        key = (rule.name, content_key(messages))
        turn = self._turns.pop(key, 0)
        self._turns[key] = turn + 1
        if len(self._turns) > MAX_TURNS:
            self._turns.popitem(last=False)
        return turn


def _question(
    messages: Sequence[Mapping[str, JSON]],
    tools: Sequence[Mapping[str, JSON]] | None,
    parameters: Mapping[str, JSON],
) -> Question:
    given: dict[str, JSON] = {name: value for name, value in parameters.items() if value is not None}
    if tools is not None:
        given["tools"] = [dict(tool) for tool in tools]
    users = [message for message in messages if message.get("role") == "user"]
    systems = [_said(message) for message in messages if message.get("role") in ("system", "developer")]
    everything = [*map(_said, messages), *(dumps([name, value]).decode() for name, value in given.items())]
    return Question(_said(users[-1]) if users else "", "\n".join(systems), "\n".join(everything), given)


def _said(message: Mapping[str, JSON]) -> str:
    """A message's texts, and its calls as JSON."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    calls = message.get("tool_calls")
    return "\n".join([*(text for text in texts if isinstance(text, str)), *([dumps(calls).decode()] if calls else [])])


def _reckoned(question: Question, completion: Completion) -> Usage:
    """Tokens as a quarter of the characters, the usual rule of thumb for English."""
    return Usage(len(question.request) // 4 + 1, len(completion.text or "") // 4 + 1)
