"""Check that a row is a valid test: its ground truth passes, and wrong calls fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from random import Random
from typing import TypeAlias, cast

import msgspec

from tunecheck.calls import FunctionCall, ToolDefinitions, canonical_text
from tunecheck.episodes import Given, GroundTruth, Services, StateCheck, Turn
from tunecheck.plugins import JSON, canonical, dumps, find
from tunecheck_authoring._audit.checks import PROBLEMS, findings, right_calls
from tunecheck_authoring._author.files import Line, QuestionLine, RowLine, Weakness
from tunecheck_authoring._author.wording import mentions_value
from tunecheck_authoring._author.world import World, free_values, others

Turns: TypeAlias = Sequence[Sequence[FunctionCall]]
Passes: TypeAlias = Callable[[Turns], bool]
Judge: TypeAlias = Callable[..., Mapping[str, object]]

_CHANGES = 3
"""The most other values that are tried for an argument."""


_NOT_PASSED = Weakness(reason="the ground truth does not pass")
_IDLE_PASSES = Weakness(reason="an agent that does nothing passes")


class Trial:
    """Trials of a world's rows; the seed determines all random choices."""

    def __init__(self, world: World, seed: int) -> None:
        self._world, self._seed = world, seed
        self._known: dict[bytes, Weakness | None] = {}
        classes = {**world.spare, **world.classes}
        self._services = Services(classes)

    def weakness(self, row: Line) -> Weakness | None:
        """Return the reason why a row is not a valid test, or None if it is valid.

        Results are remembered by content.
        """
        content = canonical(msgspec.to_builtins(row))
        if content not in self._known:
            found = self._question(row) if isinstance(row, QuestionLine) else self._conversation(row)
            self._known[content] = found and msgspec.structs.replace(found, id=row.id, variant=row.variant)
        return self._known[content]

    def _question(self, row: QuestionLine) -> Weakness | None:
        """Return the weakness of a question, or None.

        Its own calls must pass, wrong calls must fail, its words must hold all values.
        """
        tools = ToolDefinitions.read(row.tools)
        judge = cast("Callable[..., Judge]", find("evaluators", "call_check"))(mode="tools")
        calls = [right.call for right in right_calls(msgspec.to_builtins(row), row.ground_truth, tools).calls]

        def passes(turns: Turns) -> bool:
            result = [{call.name: dumps(call.arguments).decode()} for call in turns[0]]
            verdict = judge(result=result, tools=row.tools, ground_truth=row.ground_truth, check=row.check)
            return verdict["call_check"] == 1.0

        if not passes([calls]):
            return _NOT_PASSED
        if calls and passes([[]]):
            return _IDLE_PASSES
        words = "\n".join(str(message.get("content")) for message in row.messages)
        unsaid = next((each for call in calls for each in _unsaid(call, words)), None)
        return unsaid or self._passing_mistake(row.id, [calls], passes)

    def _conversation(self, row: RowLine) -> Weakness | None:
        """Return the weakness of a conversation: a finding of `check`, or wrong calls that pass.

        None if it is valid.
        """
        content = msgspec.to_builtins(row)
        found = next((each for each in findings([content], self._services) if not each.is_remark), None)
        if found is not None:
            return Weakness(reason=PROBLEMS[found.problem], detail=f"{found.call or ''} {found.text}".strip())
        truth, check = GroundTruth.read(content), StateCheck(self._services)
        turns = [[call for text in turn for call in self._services.read(text).calls] for turn in row.ground_truth]

        def passes(turns: Turns) -> bool:
            # Copy the arguments: a simulator may keep a list or an object and change it later.
            made: list[Turn] = [
                [(FunctionCall(call.name, deepcopy(call.arguments)),) for call in turn] for turn in turns
            ]
            return check.judge(Given(truth, made)).valid is True

        if not passes(turns):
            return _NOT_PASSED
        if passes([[] for _ in turns]):
            return _IDLE_PASSES
        return next(self._unsaid(row, turns), None) or self._passing_mistake(row.id, turns, passes)

    def _unsaid(self, row: RowLine, turns: Turns) -> Iterator[Weakness]:
        """Yield a weakness for each argument that neither the user's words nor earlier results contain.

        Executes the calls on new simulators.
        """
        backend = self._world.backend(row.involved_classes, row.initial_config)
        words = ""
        for messages, turn in zip(row.turns, turns, strict=True):
            words += "".join(f"{message.get('content')}\n" for message in messages)
            for call in turn:
                yield from _unsaid(call, words)
                words += f"{backend.call(call).text}\n"

    def _passing_mistake(self, row: str, turns: Turns, passes: Passes) -> Weakness | None:
        """Return a weakness if the turns still pass with one deliberate mistake, or None."""
        mistakes = self._mistakes(row, turns)
        found = next(((call, what) for call, what, made in mistakes if passes(made)), None)
        return found and Weakness(reason="a mistake passes", detail=found[1], function=found[0].name)

    def _mistakes(self, row: str, turns: Turns) -> Iterator[tuple[FunctionCall, str, Turns]]:
        """Yield mistakes: a call, a description, and the turns without the call or with one changed argument of it."""
        random = Random(f"{row} {self._seed}")
        for number, turn in enumerate(turns):
            for at, call in enumerate(turn):
                rest = [*turn[:at], *turn[at + 1 :]]
                yield call, f"without {canonical_text([call])}", [*turns[:number], rest, *turns[number + 1 :]]
                for changed in self._change_calls(call, random):
                    own = [*turn[:at], changed, *turn[at + 1 :]]
                    text = f"{canonical_text([changed])} for {canonical_text([call])}"
                    yield call, text, [*turns[:number], own, *turns[number + 1 :]]

    def _change_calls(self, call: FunctionCall, random: Random) -> Iterator[FunctionCall]:
        """Yield the call with up to `_CHANGES` other values of each argument; one argument is changed at a time.

        Values close to the right one come first, then one that a user may give.
        """
        function = self._world.functions.get(call.name)
        for name, value in call.arguments.items():
            schema = function.parameters.get(name, {}) if function is not None else {}
            known = free_values(self._world, function, name, random) if function is not None and schema else []
            likely = [each for each in known if each != value]
            values: list[JSON] = [*others(value, schema)[: _CHANGES - 1], *likely[:1]]
            for other in values:
                yield FunctionCall(call.name, {**call.arguments, name: other})


def _unsaid(call: FunctionCall, words: str) -> Iterator[Weakness]:
    """Yield a weakness for each argument of a call that the words do not contain."""
    for name, value in call.arguments.items():
        if not mentions_value(value, words):
            detail = f"{name}={value!r} of {call.name}"
            yield Weakness(reason="the request does not state a value", detail=detail, function=call.name)
