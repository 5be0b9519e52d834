"""Failed conversations as examples: at a right call, what was said and done until then.

The right calls are made one after another on simulators of their own, so that each example shows the results on which
the next call depends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tunecheck._json import JSON
from tunecheck._targets import Row
from tunecheck.calls import FunctionCall, write_calls
from tunecheck.datasets._columns import UnusableRowError
from tunecheck.episodes import OwnWording, Replay, Scenario, ToolsDialect, read_scenario, step_row
from tunecheck.formats import read_calls, read_python_calls
from tunecheck.simulators._backend import Backend, Backends
from tunecheck_authoring._answers import Answer, Message

_DONE = "Done."
_UNABLE = "I cannot do that with what I have so far."
"""What ends a turn of calls, and one that needs none: nobody trains on these words."""

Calls = Sequence[FunctionCall]


@dataclass(frozen=True, slots=True)
class Moment:
    """A point of the right course: the turn, what was said and done until then, the tools on offer, the right call.

    `given` is what a model did in the call's place, where that is known.
    """

    turn: int
    messages: list[Message]
    tools: list[JSON]
    right: FunctionCall
    given: Answer | None = None


class ConversationReader:
    """Reads rows of several turns, and the answers to them; `backends` are their simulators."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends

    def from_turn(self, data: Mapping[str, JSON], turn: int) -> Iterator[Moment]:
        """The right calls from this turn (counted from 0) on.

        Raises:
            UnusableRowError: the row is none that can be replayed.
        """
        scenario, truth, backend = self._started(data)
        return (moment for moment in _right_course(scenario, truth, backend) if moment.turn >= turn)

    def differing(self, data: Mapping[str, JSON], target: Mapping[str, JSON], turn: int) -> Moment:
        """The first right call of this turn that was not made, with what was done in its place.

        Raises:
            UnusableRowError: the row is none that can be replayed, or all right calls were made.
        """
        scenario, truth, backend = self._started(data)
        made = _made(target, turn)
        for moment in _right_course(scenario, truth, backend):
            if moment.turn == turn and moment.right not in made:
                wrong = [call for call in made if call not in truth[turn]]
                return replace(moment, given=_instead(moment.right, wrong, backend) or _said(target, turn))
        raise UnusableRowError("called more than is right: there is no answer to prefer")

    def _started(self, data: Mapping[str, JSON]) -> tuple[Scenario, list[Calls], Backend]:
        row = Row(0, "", data, "")
        try:
            scenario = read_scenario(row, self._backends)
            backend = self._backends.start(scenario.simulators, scenario.initial_config)
        except ValueError as error:
            raise UnusableRowError(str(error)) from None
        if scenario.long_context:
            raise UnusableRowError("is a conversation with long context")
        tools = scenario.all_tools()
        answers = [step_row(row, turn, 0, tools).values["ground_truth"] for turn in range(len(scenario.turns))]
        truth: list[Calls] = [read_calls(answer).calls for answer in answers]
        texts = data.get("ground_truth")
        if not isinstance(texts, list) or [*map(len, truth)] != [
            len(each) if isinstance(each, list) else 0 for each in texts
        ]:
            raise UnusableRowError("its right calls cannot be read")
        return scenario, truth, backend


def _right_course(scenario: Scenario, truth: Sequence[Calls], backend: Backend) -> Iterator[Moment]:
    """The right calls; where one is given, the simulators are as they are before it."""
    dialect = ToolsDialect(scenario.offer, OwnWording())
    messages: list[Message] = []
    for turn, said in enumerate(scenario.turns):
        added = scenario.held_out.get(turn)
        messages += [dict(each) for each in (said if added is None else dialect.add(added, said))]
        for number, call in enumerate(truth[turn]):
            yield Moment(turn, [*messages], [dict(tool) for tool in dialect.tools or ()], call)
            id_ = f"call_{turn}_{number}"
            messages.append({"role": "assistant", "tool_calls": write_calls([replace(call, id=id_)], "openai")})
            messages.append({"role": "tool", "tool_call_id": id_, "content": backend.call(call).text})
        messages.append({"role": "assistant", "content": _DONE if truth[turn] else _UNABLE})


def _made(target: Mapping[str, JSON], turn: int) -> list[FunctionCall]:
    """The calls that a model made in a turn."""
    texts = [text for step in _steps(target, "calls_made", turn) if isinstance(step, list) for text in step]
    return [call for text in texts for call in read_python_calls(str(text)).calls]


def _instead(right: FunctionCall, wrong: Calls, backend: Backend) -> Answer | None:
    """The wrong call that stands for the right one: of the same function, else one that does something or fails.

    One that only looks something up is no mistake.
    """
    same = next((call for call in wrong if call.name == right.name), None)
    replay = Replay(backend)
    steps = ((call, replay.call(call)) for call in wrong)
    found = same or next((call for call, step in steps if step.changes or step.result.error), None)
    return None if found is None else Answer("", (found,))


def _said(target: Mapping[str, JSON], turn: int) -> Answer | None:
    """The words that ended a turn without the call."""
    last = next(reversed(_steps(target, "result", turn)), None)
    return Answer(last) if isinstance(last, str) and last else None


def _steps(target: Mapping[str, JSON], column: str, turn: int) -> list[JSON]:
    turns = target.get(column)
    steps = turns[turn] if isinstance(turns, list) and turn < len(turns) else None
    return steps if isinstance(steps, list) else []
