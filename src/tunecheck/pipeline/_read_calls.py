"""Decides if calls that a server left in an answer's text count, and finds the pass rates of the other choice."""

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
    """Return True if the response contains calls in its text that do not count."""
    response = arguments.get("response")
    if type(response) is not str or choice == "lenient":
        return False
    if state.target.get(UNPARSED) == COMPLETE or choice is None:
        return state.target.get(UNPARSED) == COMPLETE
    tools = tools_of(*(source.get(name) for source in (arguments, state.row.values) for name in TOOL_COLUMNS))
    return bool(read_calls(response, tools=tools).complete_calls)


@dataclass(slots=True)
class ReadCallsCount:
    """Counts answers with calls in their text, and how pass counts change if those calls count or not."""

    choice: CallsChoice | None = None
    answers: int = 0
    unparsed: int = 0
    gained: Counter[str] = field(default_factory=Counter)
    """Additional passes in the other reading, by evaluator (negative if fewer)."""

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
            other = call(evaluator, arguments, asyncio.Runner())  # not used: these evaluators await nothing
            if isinstance(other, dict):
                key = f"{evaluator.primary}_result"
                self.gained[evaluator.name] += (other.get(key) == "pass") - (output.get(key) == "pass")

    def result(self, metrics: Mapping[str, JSON]) -> CallsRead | None:
        """Return the counts and the pass rates of the other reading; None without answers with calls in their text."""
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
