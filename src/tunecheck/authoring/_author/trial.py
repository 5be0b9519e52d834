"""Whether a row is worth being in a test set: its ground truth passes, and whatever differs from it fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import msgspec

from tunecheck._json import JSON, canonical, dumps
from tunecheck.authoring._author.files import Line, QuestionLine, RowLine
from tunecheck.authoring._author.questions import right_calls
from tunecheck.authoring._author.values import free_values, others
from tunecheck.authoring._author.wording import said
from tunecheck.authoring._author.world import World
from tunecheck.bfcl._entries import Entry
from tunecheck.bfcl._multi_turn import judged
from tunecheck.bfcl._replay import Simulators
from tunecheck.bfcl._single_turn import check_single_turn
from tunecheck.calls._model import FunctionCall
from tunecheck.calls._writing import canonical_text
from tunecheck.datasets._multi_turn_check import PROBLEMS, findings
from tunecheck.simulators._backend import Backends

Turns = Sequence[Sequence[FunctionCall]]

_CHECKS = {"one_call": "simple", "parallel": "parallel", "no_call": "irrelevance"}

_CHANGES = 3
"""Most other values that are tried in an argument's place."""


class Trial:
    """Tries rows of a world; what is drawn is drawn with the seed."""

    def __init__(self, world: World, seed: int) -> None:
        self._world, self._seed = world, seed
        self._known: dict[bytes, str | None] = {}
        classes = {**world.spare, **world.classes}
        self._simulators, self._backends = Simulators(classes), Backends(classes)

    def weakness(self, row: Line) -> str | None:
        """Why the row does not hold; None: it does."""
        content = canonical(msgspec.to_builtins(row))
        if content not in self._known:
            self._known[content] = self._question(row) if isinstance(row, QuestionLine) else self._conversation(row)
        return self._known[content]

    def _question(self, row: QuestionLine) -> str | None:
        content = msgspec.to_builtins(row)
        calls = right_calls(row)
        words = "\n".join(str(message.get("content")) for message in row.messages)

        def passes(made: Sequence[FunctionCall]) -> bool:
            result = [{call.name: dumps(call.arguments).decode()} for call in made]
            asked = {"functions": content["tools"], "ground_truth": row.ground_truth, "check": _CHECKS[row.variant]}
            return check_single_turn(asked, result, compat=False, mode="tools").valid is True

        if not passes(calls):
            return "its own ground truth does not pass"
        if calls and passes([]):
            return "an agent that does nothing passes"
        for call in calls:
            unsaid = next((name for name, value in call.arguments.items() if not said(value, words)), None)
            if unsaid is not None:
                return f"nobody says {unsaid} of {call.name}"
        mistakes = self._mistakes(row.id, [calls])
        return next((f"a mistake passes: {what}" for what, made in mistakes if passes(made[0])), None)

    def _conversation(self, row: RowLine) -> str | None:
        content = msgspec.to_builtins(row)
        found = next((each for each in findings([content], self._backends) if not each.is_remark), None)
        if found is not None:
            return f"{PROBLEMS[found.problem]}: {found.call or ''} {found.text}"
        entry = Entry.read(content)
        turns = [[call for text in turn for call in self._simulators.read(text).calls] for turn in row.ground_truth]
        if not self._passes(entry, turns):
            return "its own ground truth does not pass"
        if self._passes(entry, [[] for _ in turns]):
            return "an agent that does nothing passes"
        unsaid = next(self._unsaid(row, turns), None)
        if unsaid is not None:
            return f"nobody says {unsaid}"
        for what, changed in self._mistakes(row.id, turns):
            if self._passes(entry, changed):
                return f"a mistake passes: {what}"
        return next((reason for reason in self._reordered(row, entry, turns)), None)

    def _passes(self, entry: Entry, turns: Turns) -> bool:
        result = [[[{call.name: dumps(call.arguments).decode()}] for call in turn] for turn in turns]
        return judged(entry, result, compat=False, simulators=self._simulators, mode="tools").valid is True

    def _unsaid(self, row: RowLine, turns: Turns) -> Iterator[str]:
        """The arguments whose value stands neither in the user's words so far nor in an earlier result."""
        session = self._world.session(row.involved_classes, row.initial_config)
        words = ""
        for messages, turn in zip(row.turns, turns, strict=True):
            words += "".join(f"{message.get('content')}\n" for message in messages)
            for call in turn:
                for name, value in call.arguments.items():
                    if not said(value, words):
                        yield f"{name}={value!r} of {call.name}"
                words += f"{session.call(call).result.text}\n"

    def _mistakes(self, row: str, turns: Turns) -> Iterator[tuple[str, Turns]]:
        """The turns with one call left out, or one argument changed."""
        random = Random(f"{row} {self._seed}")
        for number, turn in enumerate(turns):
            for at, call in enumerate(turn):
                rest = [*turn[:at], *turn[at + 1 :]]
                yield f"without {canonical_text([call])}", [*turns[:number], rest, *turns[number + 1 :]]
                for changed in self._changed(call, random):
                    own = [*turn[:at], changed, *turn[at + 1 :]]
                    text = f"{canonical_text([changed])} for {canonical_text([call])}"
                    yield text, [*turns[:number], own, *turns[number + 1 :]]

    def _changed(self, call: FunctionCall, random: Random) -> Iterator[FunctionCall]:
        function = self._world.functions[call.name]
        for name, value in call.arguments.items():
            schema = function.parameters[name]
            likely = [each for each in free_values(self._world, function, name, random) if each != value]
            values: list[JSON] = [*others(value, schema)[: _CHANGES - 1], *likely[:1]]
            for other in values:
                yield FunctionCall(call.name, {**call.arguments, name: other})

    def _reordered(self, row: RowLine, entry: Entry, turns: Turns) -> Iterator[str]:
        """Two neighbours in another order that comes to the same must pass as well."""
        if all(len(turn) < 2 for turn in turns):
            return
        outcome = self._outcome(row, turns)
        for number, turn in enumerate(turns):
            for at in range(len(turn) - 1):
                swapped = [*turn[:at], turn[at + 1], turn[at], *turn[at + 2 :]]
                changed = [*turns[:number], swapped, *turns[number + 1 :]]
                if outcome == self._outcome(row, changed) and not self._passes(entry, changed):
                    yield f"another order that comes to the same fails: {canonical_text(swapped)}"

    def _outcome(self, row: RowLine, turns: Turns) -> JSON:
        """What calls come to: their results, in no order, and the states after each turn."""
        backend = self._world.backend(row.involved_classes, row.initial_config)
        outcome: list[JSON] = []
        for turn in turns:
            results = sorted(backend.call(call).text for call in turn)
            outcome.append([*results, str(backend.states())])
        return outcome
