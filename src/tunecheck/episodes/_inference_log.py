"""The inference log of one conversation: what was asked, answered, decoded and executed, and the states in between.

It has the fields of BFCL's result files, so that each tool reads the other's: lists of `state_info` (at the beginning
and after each turn), and between them one object a turn, `{"begin_of_turn_query": […], "step_0": […], …}`, whose steps
hold items with the roles inference_input, assistant, handler_log and tool. An `event` says in one word what a
`handler_log` says in a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from tunecheck._json import JSON
from tunecheck.endpoints._base import Completion
from tunecheck.episodes._decoding import decode_step
from tunecheck.episodes._nested import Decoded
from tunecheck.episodes._speakers import Message, at
from tunecheck.simulators._backend import Backend


class InferenceLog:
    """Collects a conversation's log in `entries`.

    `inputs` keeps every request's messages and tools too; `states` those of the simulators.
    """

    def __init__(self, *, inputs: bool, states: bool) -> None:
        self.entries: list[JSON] = []
        self._inputs = inputs
        self._states = states
        self._turn: dict[str, JSON] = {}
        self._step: list[JSON] = []

    def state(self, backend: Backend) -> None:
        if self._states:
            self.entries.append(
                [
                    {"role": "state_info", "class_name": name, "content": content}
                    for name, content in backend.state_texts().items()
                ]
            )

    def begin_turn(self, messages: Sequence[Message]) -> None:
        self._turn = {"begin_of_turn_query": [dict(message) for message in messages]}
        self.entries.append(self._turn)

    def begin_step(self, messages: Sequence[Message], tools: Sequence[Mapping[str, JSON]] | None) -> None:
        self._step = []
        self._turn[f"step_{len(self._turn) - 1}"] = self._step
        if self._inputs:
            self._step.append(input_entry(messages, tools))

    def assistant(self, content: JSON, completion: Completion) -> None:
        said: dict[str, JSON] = {"role": "assistant", "content": content}
        if completion.reasoning:
            said["reasoning_content"] = completion.reasoning
        written = completion.text if isinstance(content, str) and completion.text not in (None, content) else None
        if completion.raw_text is not None or written is not None:
            said["raw_text"] = completion.raw_text or written
        if completion.finish_reason is not None:
            said["finish_reason"] = completion.finish_reason
        self._step.append(said)

    def decoded(self, calls: Sequence[str]) -> None:
        self._note("decode_success", "The answer was decoded.", list(calls))

    def empty(self) -> None:
        self.decoded([])
        self._note("empty_response", "The answer is empty: the turn is over.", [])

    def answered(self) -> None:
        self._note("answer", "The answer is text, without a call: the turn is over.", [])

    def undecodable(self, problem: str) -> None:
        self._note("decode_failure", "The answer holds no readable call: the turn is over.", [], error=problem)

    def tool(self, content: str) -> None:
        self._step.append({"role": "tool", "content": content})

    def forced_quit(self, limit: int, calls: Sequence[str]) -> None:
        self._note("force_quit", f"The model was forced to quit: {limit} steps in one turn.", list(calls))

    def overflow(self, error: str) -> None:
        self._note("overflow", "The conversation no longer fits into the context window: it is over.", [], error=error)

    def _note(self, event: str, content: str, calls: list[str], **more: JSON) -> None:
        note: dict[str, JSON] = {"role": "handler_log", "event": event, "content": content, **more}
        note["model_response_decoded"] = [*calls]
        self._step.append(note)


def input_entry(messages: Sequence[Message], tools: Sequence[Mapping[str, JSON]] | None) -> JSON:
    """What was sent: messages as text, as BFCL keeps them."""
    content: dict[str, JSON] = {"message": repr([dict(message) for message in messages])}
    if tools is not None:
        content["tools"] = [dict(tool) for tool in tools]
    return {"role": "inference_input", "content": content}


class Course(msgspec.Struct, frozen=True):
    """How a conversation went, as far as that is known beside its result.

    `calls_made` and `finish_reasons` have an item for each step of each turn: the texts of the calls that were made,
    and why the answer ended; None where nobody says. `forced_quit` is whether the conversation was ended by force,
    `ended_by` what did it, where that is known: `step_limit`, or `overflow` of the model's context window.
    """

    calls_made: JSON = None
    finish_reasons: JSON = None
    forced_quit: bool = False
    ended_by: str | None = None

    @classmethod
    def read(cls, record: Mapping[str, object]) -> Course:
        """From a line of a result file, BFCL's or ours, by its `inference_log`."""
        log = record.get("inference_log")
        turns = [turn for turn in log if isinstance(turn, dict)] if isinstance(log, list) else []
        calls_made: list[JSON] = []
        reasons: list[list[JSON]] = []
        ended_by = None
        for turn in turns:
            lists = {key: _StepRead.of(items) for key, items in turn.items() if isinstance(items, list)}
            steps = [read for key, read in lists.items() if key.startswith("step_")]
            calls_made.append([step.calls_made for step in steps])
            reasons.append([step.finish_reason for step in steps])
            ended_by = ended_by or next((read.ended_by for read in lists.values() if read.ended_by), None)
        known: JSON = [*reasons] if any(reason is not None for turn in reasons for reason in turn) else None
        forced_quit = ended_by is not None or record.get("forced_quit") is True
        return cls(calls_made if turns else None, known, forced_quit, ended_by)

    def decoded(self, turn: int, step: int, decoded: Decoded) -> Decoded:
        """The calls of a step as they were read when the conversation took place, not as they would be read now."""
        texts = at(self.calls_made, turn, step)
        if not isinstance(texts, list) or not (texts or decoded.calls):
            return decoded
        if not texts:
            return Decoded(problem="no call was read in this answer when the conversation took place")
        then = decode_step(f"[{', '.join(map(str, texts))}]", text_mode=True)
        return then if len(then.calls) == len(texts) else decoded


UNKNOWN = Course()


class _StepRead(NamedTuple):
    """What a step of a log says; of calls nothing where no note is there, and no calls where the notes name none."""

    calls_made: JSON
    finish_reason: JSON
    ended_by: str | None

    @classmethod
    def of(cls, items: Sequence[JSON]) -> _StepRead:
        calls: JSON = None
        ended_by = None
        reasons = []
        for item in items:
            if not isinstance(item, dict):
                continue
            if item.get("role") == "handler_log":
                calls = calls or item.get("model_response_decoded") or []
                ended_by = ended_by or _ending(item)
            elif item.get("role") == "assistant":
                reasons.append(item.get("finish_reason"))
        return cls(calls, reasons[0] if reasons else None, ended_by)


def _ending(note: Mapping[str, JSON]) -> str | None:
    """What a note says that the conversation was ended by."""
    if note.get("event") == "overflow":
        return "overflow"
    return "step_limit" if note.get("event") == "force_quit" or "forced to quit" in str(note.get("content")) else None
