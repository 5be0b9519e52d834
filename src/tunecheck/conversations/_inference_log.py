"""The inference log of one conversation: what was asked, answered, decoded and executed, and the states in between.

It has the fields of BFCL's result files, so that each tool reads the other's: lists of `state_info` (at the beginning
and after each turn), and between them one object a turn, `{"begin_of_turn_query": […], "step_0": […], …}`, whose steps
hold items with the roles inference_input, assistant, handler_log and tool. An `event` says in one word what a
`handler_log` says in a sentence.
"""

from collections.abc import Mapping, Sequence

from tunecheck._json import JSON
from tunecheck.conversations._speakers import Message
from tunecheck.endpoints._base import Completion
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
        if completion.raw_text is not None:
            said["raw_text"] = completion.raw_text
        self._step.append(said)

    def decoded(self, calls: Sequence[str]) -> None:
        self._note("decode_success", "The answer was decoded.", list(calls))

    def empty(self) -> None:
        self.decoded([])
        self._note("empty_response", "The answer is empty: the turn is over.", [])

    def undecodable(self, problem: str) -> None:
        self._note("decode_failure", "The answer holds no readable call: the turn is over.", [], error=problem)

    def tool(self, content: str) -> None:
        self._step.append({"role": "tool", "content": content})

    def forced_quit(self, limit: int, calls: Sequence[str]) -> None:
        self._note("force_quit", f"The model was forced to quit: {limit} steps in one turn.", list(calls))

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


def was_forced_to_quit(record: Mapping[str, JSON]) -> bool:
    """Whether a line of a result file, BFCL's or ours, says that its conversation was ended by force."""
    if record.get("forced_quit") is True:
        return True
    log = record.get("inference_log")
    turns = [turn for turn in log if isinstance(turn, dict)] if isinstance(log, list) else []
    items = [item for turn in turns for step in turn.values() if isinstance(step, list) for item in step]
    notes = [item for item in items if isinstance(item, dict) and item.get("role") == "handler_log"]
    texts = [content for note in notes if isinstance(content := note.get("content"), str)]
    return any(note.get("event") == "force_quit" for note in notes) or any("forced to quit" in text for text in texts)
