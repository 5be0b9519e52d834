"""Calls that a server left in the text of an answer: whether evaluators read them, and what the other reading gives."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tunecheck._files import CallsRead
from tunecheck._json import JSON
from tunecheck.calls._schemas import TOOL_COLUMNS
from tunecheck.endpoints._base import COMPLETE, UNPARSED
from tunecheck.formats._reading import UnreadText, read_calls, tools_of
from tunecheck.pipeline._results import RowState
from tunecheck.pipeline._scoring import BoundEvaluator, call

CallsChoice: TypeAlias = Literal["strict", "lenient"]
"""`strict`: an answer calls what the API returned; `lenient`: calls in its text count, too."""


def is_strict(choice: CallsChoice | None, arguments: Mapping[str, object], state: RowState) -> bool:
    """True if the response among these arguments holds calls that do not count; by default those of `UNPARSED`."""
    response = arguments.get("response")
    if type(response) is not str or choice == "lenient":
        return False
    if state.target.get(UNPARSED) == COMPLETE or choice is None:
        return state.target.get(UNPARSED) == COMPLETE
    tools = tools_of(*(source.get(name) for source in (arguments, state.row.values) for name in TOOL_COLUMNS))
    return bool(read_calls(response, tools=tools).complete_calls)


@dataclass(slots=True)
class ReadCallsCount:
    """Counts the answers with calls in their text, and the passes by evaluator in both readings of them."""

    choice: CallsChoice | None = None
    answers: int = 0
    unparsed: int = 0
    gained: Counter[str] = field(default_factory=Counter)
    """Passes that the other reading has more, by evaluator."""

    def add(self, state: RowState, evaluators: Sequence[BoundEvaluator]) -> None:
        """Count a finished row."""
        self.answers += "target" not in state.errors
        if not (state.unread or state.target.get(UNPARSED) == COMPLETE):
            return
        self.unparsed += 1
        for evaluator in evaluators:
            output = state.outputs.get(evaluator.name)
            if (
                output is None
                or not (evaluator.pure and evaluator.primary)
                or evaluator.asynchronous
                or evaluator.awaited
            ):
                continue
            arguments = evaluator.bind(state.row.values, state.target)
            if not state.unread:
                arguments["response"] = UnreadText(arguments.get("response"))
            other = call(evaluator, arguments, asyncio.Runner())  # which never runs: these evaluators await nothing
            if isinstance(other, dict):
                key = f"{evaluator.primary}_result"
                self.gained[evaluator.name] += (other.get(key) == "pass") - (output.get(key) == "pass")

    def result(self, metrics: Mapping[str, JSON]) -> CallsRead | None:
        """Return what was counted, with the pass rates of the other reading; None without such answers."""
        if not self.unparsed:
            return None
        other = {}
        for name, more in self.gained.items():
            rate, scored = metrics.get(f"{name}.binary_aggregate"), metrics.get(f"{name}.scored_count")
            if more and isinstance(rate, (int, float)) and isinstance(scored, int):
                other[name] = (rate, rate + more / scored)
        return CallsRead(
            reading="lenient" if self.choice == "lenient" else "strict",
            unparsed=self.unparsed,
            answers=self.answers,
            pass_rates=other,
        )
