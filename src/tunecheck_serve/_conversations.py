"""Rows behind a local server: `tunecheck serve` answers requests with `RowAnswers`.

A request's messages identify the row, turn and step, so the server keeps no state. Messages are compared without those
of the system, by a hash of each message, its key. A turn begins with the user's messages, and a step is one answer of
the model in a turn. A scenario is a row's conversation: its turns and the functions on offer.

**Row.** Candidates are the rows with the same first message. If several rows fit, the likeliest one wins (`_likeness`):
equal tools count 2, and an equal beginning with the system's messages counts 1.

**Turn and step** (`_IndexedRow.place`), both from 0. A row with a single question must have exactly the request's
messages. A conversation's request must begin with the messages of the row's first turn. Each later message is tried in
this order:

1. an answer of the model: the next step
2. the next message of a turn that has several: no change
3. the first message of the next turn: step 0 of that turn
4. another user message, if the client sends tools or the turn had all its answers: it announces added functions, step
   0 of the next turn. If that turn has messages of its own, the request does not belong to the row
5. any other message holds results of calls: no change

For example, the messages `user, assistant, tool` ask for turn 0, step 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import msgspec

from tunecheck import NoAnswerError, Row
from tunecheck.endpoints import ChatRequest, Completion, Endpoint, EndpointTarget, content_key, openai_tools
from tunecheck.episodes import Message, RecordedModel, Scenario, Tool, read_scenario, step_row
from tunecheck.plugins import JSON
from tunecheck.simulators import Backends
from tunecheck_serve._server import ChatSource

_SYSTEM = ("system", "developer")


class _IndexedRow(msgspec.Struct, frozen=True):
    """A row that the server can answer.

    `messages` are those of the first turn, with the system's. `turns` has the keys of each turn's messages without the
    system's, to compare with requests. `scenario` is None for a row with a single question.
    """

    row: Row
    messages: Sequence[Message]
    turns: Sequence[Sequence[bytes]]
    scenario: Scenario | None = None

    def tools(self, turn: int) -> list[Tool]:
        """Return the tools that the model gets in a turn, counted from 0.

        For a single question, these are the row's `tools` or else its `tool_definitions`.
        """
        if self.scenario is None:
            column = self.row.values.get("tools")
            return openai_tools(column if column is not None else self.row.values.get("tool_definitions")) or []
        # Functions that are held out of the first turns are added to those of the row.
        added = (offer.tools for first_turn, offer in self.scenario.held_out.items() if first_turn <= turn)
        return [*self.scenario.offer.tools, *(tool for tools in added for tool in tools)]

    def place(self, request: ChatRequest, steps: Sequence[int]) -> tuple[int, int] | None:
        """Return the turn and step of a request, both counted from 0, or None if it does not belong to this row.

        `steps` is the number of answers in each turn, 1 for a missing turn. An assistant message is a step. The first
        message of the row's next turn begins that turn. Another user message announces added functions, which begins a
        turn without messages; if the client sends no tools and the turn lacks answers, it has results of calls instead.
        """
        spoken = _spoken_messages(request.messages)
        opening = self.turns[0]
        if self.scenario is None:
            return (0, 0) if _keys(spoken) == opening else None

        if _keys(spoken[: len(opening)]) != opening:
            return None

        turn, step = 0, 0
        # The turn's own messages that are still to come: a turn may begin with several.
        rest_of_turn: Sequence[bytes] = ()

        for message in spoken[len(opening) :]:
            role = message.get("role")
            next_turn = self.turns[turn + 1] if turn + 1 < len(self.turns) else None

            if role == "assistant":
                step += 1
            elif rest_of_turn and content_key([message]) == rest_of_turn[0]:
                rest_of_turn = rest_of_turn[1:]
            elif next_turn and content_key([message]) == next_turn[0]:
                turn, step, rest_of_turn = turn + 1, 0, next_turn[1:]
            elif role == "user":
                # With tools, results of calls have the role `tool`. Without tools, they end when the turn is complete.
                turn_is_complete = step >= (steps[turn] if turn < len(steps) else 1)
                if not request.tools and not turn_is_complete:
                    continue  # results of calls
                # The message announces added functions: the scenario's turn has no messages of its own.
                if next_turn is None or len(next_turn) > 0:
                    return None
                turn, step = turn + 1, 0

        return turn, step


class RowAnswers(ChatSource):
    """The answers of a simulated or replayed endpoint to the rows of a data set, also to conversations step by step.

    Args:
        endpoint: the endpoint that answers.
        rows: the rows that can be answered. Rows from which no request can be built are skipped.
        backends: finds the simulators of conversations.
    """

    def __init__(self, endpoint: Endpoint, rows: Iterable[Row], backends: Backends) -> None:
        """Index the rows by their first message. Rows from which no request can be built are skipped.

        `backends` finds the simulators of conversations.
        """
        self.name = endpoint.name
        self._endpoint = endpoint
        self._rows_by_first_message: dict[bytes, list[_IndexedRow]] = {}

        target = EndpointTarget(endpoint)
        for row in rows:
            try:
                indexed = _index_row(row, backends, target)
            # A data set may have rows for other targets, without messages.
            except ValueError:
                continue

            spoken = _spoken_messages(indexed.messages)
            if spoken:
                self._rows_by_first_message.setdefault(content_key(spoken[:1]), []).append(indexed)

    async def complete(self, request: ChatRequest) -> Completion:
        """Return the recorded answer to a request, or else the endpoint's answer to the row's turn and step.

        Raises:
            NoAnswerError: no row has the messages, or the recorded conversation has no such step.
            EndpointError: the endpoint failed.
        """
        indexed, turn, step = self._find_row(request)
        row = indexed.row
        record = self._recorded_result(indexed)
        if record is not None:
            # A single question is replayed as a conversation with one turn and one step.
            if indexed.scenario is None:
                record = {"result": [[record["result"]]]}
            completion = await RecordedModel(record).answer(turn, step, request.messages, request.tools)
            if completion is None:
                raise NoAnswerError(f"row {row.id}: turn {turn}, step {step} (from 0) was not recorded; end the chat")
            return completion

        tools = _shown_tools(indexed, turn, request)
        # The simulated model answers from the ground truth, so it needs the row of this step.
        if self._endpoint.simulated and indexed.scenario is not None:
            row = step_row(row, turn, step, tools)
        return await self._endpoint.complete(replace(request, tools=request.tools or tools or None, row=row))

    async def close(self) -> None:
        await self._endpoint.close()

    def _find_row(self, request: ChatRequest) -> tuple[_IndexedRow, int, int]:
        """Return the row of a request, with its turn and step (from 0). If several rows match, the best one is taken.

        Raises:
            NoAnswerError: no row has the request's messages.
        """
        first_message = _spoken_messages(request.messages)[:1]

        matches: list[tuple[_IndexedRow, int, int]] = []
        for indexed in self._rows_by_first_message.get(content_key(first_message), ()):
            place = indexed.place(request, self._step_counts(indexed))
            if place is not None:
                matches.append((indexed, *place))

        if not matches:
            raise NoAnswerError("no row of the served data set has this request's messages; send a row's own messages")

        if len(matches) == 1:
            return matches[0]
        return max(matches, key=lambda match: _likeness(match[0], match[1], request))

    def _recorded_result(self, indexed: _IndexedRow) -> Mapping[str, JSON] | None:
        """Return the recorded conversation of a row, or None if the endpoint has none for this row."""
        try:
            return self._endpoint.recorded_result(indexed.row)
        except NoAnswerError:
            return None

    def _step_counts(self, indexed: _IndexedRow) -> Sequence[int]:
        """Return the number of answers in each turn, from the record or else estimated from the ground truth.

        The estimate for a turn with expected calls is 2 (the calls and a final text), and otherwise 1. A single
        question has one turn with 1. The list is empty if the record or the ground truth has no list of turns.
        """
        if indexed.scenario is None:
            return [1]

        record = self._recorded_result(indexed)
        if record is not None:
            turns = record.get("result")
            return [len(turn) if isinstance(turn, list) else 1 for turn in turns] if isinstance(turns, list) else []

        truth = indexed.row.values.get("ground_truth")
        return [2 if calls else 1 for calls in truth] if isinstance(truth, list) else []


def _index_row(row: Row, backends: Backends, target: EndpointTarget) -> _IndexedRow:
    """Return a row with the hashes of its messages. A ValueError means that no request can be built from it."""
    scenario = None if row.values.get("turns") is None else read_scenario(row, backends)
    turns = [target.request(row).messages] if scenario is None else scenario.turns
    return _IndexedRow(row, turns[0], [_keys(_spoken_messages(turn)) for turn in turns], scenario)


def _shown_tools(indexed: _IndexedRow, turn: int, request: ChatRequest) -> list[Tool]:
    """Return the functions that the row offers: those of a conversation's later turns, too.

    If the request for a single question offers no tools, the row's function documents count, because the prompt
    describes them.
    """
    if indexed.scenario is not None:
        return indexed.scenario.all_tools()

    functions = indexed.row.values.get("functions")
    if request.tools is None and isinstance(functions, list):
        return [{"type": "function", "function": function} for function in functions]
    return indexed.tools(turn)


def _likeness(indexed: _IndexedRow, turn: int, request: ChatRequest) -> int:
    """Return a score of how well a row matches a request: 1 for equal first messages, and 2 for equal tools.

    Without tools, the system prompt describes the functions. Then a row scores 2 for each of its functions
    if the prompt quotes the names of all of them, such as `"name": "get_weather"`.
    """
    messages_score = 1 if _keys(request.messages[: len(indexed.messages)]) == _keys(indexed.messages) else 0
    if request.tools:
        same_tools = _tool_names(request.tools) == _tool_names(indexed.tools(turn))
        return messages_score + (2 if same_tools else 0)

    names = _tool_names(indexed.tools(0))  # functions of later turns are announced in user messages
    prompt = "\n".join(str(message.get("content")) for message in request.messages if message.get("role") in _SYSTEM)

    all_in_prompt = all(f"'{name}'" in prompt or f'"{name}"' in prompt for name in names)
    # Among rows whose functions are all in the prompt, the one with the most functions wins.
    return messages_score + (2 * len(names) if all_in_prompt else 0)


def _tool_names(tools: Iterable[Mapping[str, JSON]]) -> set[JSON]:
    functions = (tool.get("function") for tool in tools)
    return {function.get("name") for function in functions if isinstance(function, dict)}


def _spoken_messages(messages: Sequence[Message]) -> list[Message]:
    return [message for message in messages if message.get("role") not in _SYSTEM]


def _keys(messages: Iterable[Message]) -> list[bytes]:
    return [content_key([message]) for message in messages]
