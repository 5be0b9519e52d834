"""Rows behind a local server. A request's messages identify the row, turn and step; the server keeps no state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tunecheck import NoAnswerError, Row
from tunecheck.endpoints import ChatRequest, Completion, Endpoint, EndpointTarget, content_key, openai_tools
from tunecheck.episodes import Message, RecordedModel, Scenario, Tool, question_row, read_scenario, step_row
from tunecheck.plugins import JSON
from tunecheck.simulators import Backends
from tunecheck_serve._wire import ChatSource

_SYSTEM = ("system", "developer")


@dataclass(frozen=True, slots=True)
class _Known:
    """A row that the server can answer. `turns` has the keys of each turn's messages, to compare with requests.

    `scenario` is None for a row with a single question.
    """

    row: Row
    messages: Sequence[Message]
    turns: Sequence[Sequence[bytes]]
    scenario: Scenario | None = None

    def tools(self, turn: int) -> list[Tool]:
        """Return the tools that the model gets in a turn."""
        if self.scenario is None:
            column = self.row.values.get("tools")
            return openai_tools(column if column is not None else self.row.values.get("tool_definitions")) or []
        added = (offer.tools for at, offer in self.scenario.held_out.items() if at <= turn)
        return [*self.scenario.offer.tools, *(tool for tools in added for tool in tools)]

    def place(self, request: ChatRequest, steps: Sequence[int]) -> tuple[int, int] | None:
        """Return the turn and step of a request, both counted from 0, or None if it does not belong to this row.

        `steps` is the number of answers in each turn. It decides whether a user message is a new turn or contains
        results of calls, which clients without tools send as user messages.
        """
        turns, turn, step = self.turns, 0, 0
        spoken = _spoken_messages(request.messages)
        if self.scenario is None:
            return (0, 0) if _keys(spoken) == turns[0] else None
        if _keys(spoken[: len(turns[0])]) != turns[0]:
            return None
        left: Sequence[bytes] = ()
        for message in spoken[len(turns[0]) :]:
            role = message.get("role")
            following = turns[turn + 1] if turn + 1 < len(turns) else None
            if role == "assistant":
                step += 1
            elif left and content_key([message]) == left[0]:
                left = left[1:]
            elif following and content_key([message]) == following[0]:
                turn, step, left = turn + 1, 0, following[1:]
            elif role == "user" and (request.tools or step >= _at(steps, turn)):
                if following is None or following:
                    return None
                turn, step = turn + 1, 0  # the message announces added functions
        return turn, step


class RowAnswers(ChatSource):
    """The answers of a simulated or replayed endpoint to the rows of a data set, also to conversations step by step.

    If several rows have the same messages, the row with the best match of tools and system message is used.

    Args:
        endpoint: the endpoint that answers.
        rows: the rows that can be answered. Rows from which no request can be built are skipped.
        backends: finds the simulators of conversations.
        target: builds the request of a row; by default as in a run of the endpoint.
    """

    def __init__(
        self, endpoint: Endpoint, rows: Iterable[Row], backends: Backends, target: EndpointTarget | None = None
    ) -> None:
        """Index the rows by their first message. Rows from which no request can be built are skipped."""
        self.name = endpoint.name
        self._endpoint = endpoint
        self._know_row: dict[bytes, list[_Known]] = {}
        target = target or EndpointTarget(endpoint)
        for row in rows:
            try:
                known = _know_row(row, backends, target)
            except ValueError:
                continue
            first = _keys(_spoken_messages(known.messages)[:1])
            if first:
                self._know_row.setdefault(first[0], []).append(known)

    async def complete(self, request: ChatRequest) -> Completion:
        """Return the recorded answer to a request, or else the endpoint's answer to the row's turn and step.

        Raises:
            NoAnswerError: no row has the messages, or the recorded conversation has no such step.
        """
        known, turn, step = self._find(request)
        model = self._recorded_model(known)
        if model is not None:
            completion = await model.answer(turn, step, request.messages, request.tools)
            if completion is None:
                where = f"row {known.row.id}, turn {turn}, step {step}"
                raise NoAnswerError(f"{where}: the recorded conversation has no answer there")
            return completion
        tools = _shown_tools(known, turn, request)
        row = known.row
        if self._endpoint.simulated:
            row = question_row(row, tools) if known.scenario is None else step_row(row, turn, step, tools)
        return await self._endpoint.complete(replace(request, tools=request.tools or tools or None, row=row))

    async def close(self) -> None:
        await self._endpoint.close()

    def _find(self, request: ChatRequest) -> tuple[_Known, int, int]:
        """Return the row of a request, with its turn and step (from 0). If several rows match, the best one is taken.

        Raises:
            NoAnswerError: no row has the request's messages.
        """
        first = _keys(_spoken_messages(request.messages)[:1])
        found: list[tuple[_Known, int, int]] = []
        for known in self._know_row.get(first[0], ()) if first else ():
            place = known.place(request, self._steps(known))
            if place is not None:
                found.append((known, *place))
        if not found:
            raise NoAnswerError("no row of the data set has these messages")
        return max(found, key=lambda each: _likeness(each[0], each[1], request)) if len(found) > 1 else found[0]

    def _recorded_model(self, known: _Known) -> RecordedModel | None:
        """Return a model that repeats the row's recorded result step by step, or None if the row has no record."""
        record = self._record(known)
        if record is None:
            return None
        return RecordedModel(record if known.scenario is not None else {"result": [[record["result"]]]})

    def _record(self, known: _Known) -> Mapping[str, JSON] | None:
        """Return the row's recorded result, or None: an answer may still be recorded for the messages."""
        try:
            return self._endpoint.recorded_result(known.row)
        except NoAnswerError:
            return None

    def _steps(self, known: _Known) -> Sequence[int]:
        """Return the number of answers in each turn, from the record or else estimated from the ground truth."""
        if known.scenario is None:
            return [1]
        record = self._record(known)
        if record is not None:
            turns = record.get("result")
            return [len(turn) if isinstance(turn, list) else 1 for turn in turns] if isinstance(turns, list) else []
        truth = known.row.values.get("ground_truth")
        return [2 if calls else 1 for calls in truth] if isinstance(truth, list) else []


def _know_row(row: Row, backends: Backends, target: EndpointTarget) -> _Known:
    """Return a row with the keys of its messages. A ValueError means that no request can be built from it."""
    if row.values.get("turns") is None:
        messages = target.request(row).messages
        return _Known(row, messages, [_keys(_spoken_messages(messages))])
    scenario = read_scenario(row, backends)
    return _Known(row, scenario.turns[0], [_keys(_spoken_messages(turn)) for turn in scenario.turns], scenario)


def _shown_tools(known: _Known, turn: int, request: ChatRequest) -> list[Tool]:
    """Return the functions that the model knows at this turn.

    If the request offers no tools, the row's function documents count, because the prompt describes them.
    """
    functions = known.row.values.get("functions")
    if known.scenario is not None:
        return known.scenario.all_tools()
    if request.tools is None and isinstance(functions, list):
        return [{"type": "function", "function": function} for function in functions]
    return known.tools(turn)


def _likeness(known: _Known, turn: int, request: ChatRequest) -> int:
    """Return a score of how well a row matches a request. Equal tools count more than an equal system message."""
    same = _keys(request.messages[: len(known.messages)]) == _keys(known.messages)
    if request.tools:
        return same + 2 * (_tool_names(request.tools) == _tool_names(known.tools(turn)))
    names = _tool_names(known.tools(0))  # functions of later turns are announced in user messages
    prompt = "\n".join(str(message.get("content")) for message in request.messages if message.get("role") in _SYSTEM)
    told = all(f"'{name}'" in prompt or f'"{name}"' in prompt for name in names)
    return same + 2 * len(names) * told


def _tool_names(tools: Iterable[Mapping[str, JSON]]) -> set[JSON]:
    functions = (tool.get("function") for tool in tools)
    return {function.get("name") for function in functions if isinstance(function, dict)}


def _spoken_messages(messages: Sequence[Message]) -> list[Message]:
    return [message for message in messages if message.get("role") not in _SYSTEM]


def _keys(messages: Iterable[Message]) -> list[bytes]:
    return [content_key([message]) for message in messages]


def _at(steps: Sequence[int], turn: int) -> int:
    return steps[turn] if turn < len(steps) else 1
