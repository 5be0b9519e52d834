"""Episodes: the events of a conversation, changes of its simulators' states, its columns and its inference log.

Playing a call records the `changes` of the states, and the report shows them for each turn. The state check names the
`deviations` of the model's states from the expected ones.

The events of one turn, in order: Said, then for each step Answered and a Called for each of its calls, then TurnEnded
and StateSeen. A StateSeen before the first Said is the initial state.

The log has the fields of BFCL's result files, so that each tool reads the other's. It alternates lists of `state_info`
(at the beginning and after each turn) and one object per turn, `{"begin_of_turn_query": […], "step_0": […], …}`. Steps
hold items with the roles inference_input, assistant, handler_log and tool. The `event` of a `handler_log` is a code for
its sentence. Example of a step, shortened:

  [{"role": "assistant", "content": [{"cd": "{\"folder\": \"docs\"}"}]},
   {"role": "handler_log", "event": "decode_success", "model_response_decoded": ["cd(folder='docs')"]},
   {"role": "tool", "content": "{\"current_working_directory\": \"docs\"}"}]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final, TypeAlias, cast

import msgspec

from tunecheck._json import JSON
from tunecheck.calls._model import FunctionCall, Reading
from tunecheck.endpoints._base import Completion, Usage
from tunecheck.episodes._decoding import decode_step
from tunecheck.episodes._scenario import Message, step_item
from tunecheck.simulators._backend import OperationResult

# -- states and their changes

Path: TypeAlias = "tuple[object, ...]"
"""A path in a state: keys of objects and indices of lists."""

States: TypeAlias = Mapping[str, Mapping[str, object]]
"""Each simulator's state, by the simulator's name."""

ABSENT: Final = object()
"""Marks a missing value."""

_DEEPEST = 200  # levels of a state that are compared; below, a whole value is the difference
_LONGEST_KEY = 120  # characters of one key in a path


class Change(msgspec.Struct, frozen=True):
    """One difference between two states: its path, and the values before and after."""

    path: Path
    before: object
    after: object


def changes(before: object, after: object, path: Path = ()) -> Iterator[Change]:
    """Yield the differences between two states, each at the deepest place where they differ.

    `path` is put before each path, for two states that are parts of larger ones. Below 200 levels, values that differ
    are not split further. States are not copied, so they may still be in use.

    Example: `{"a": {"b": 1, "c": 2}}` and `{"a": {"b": 1, "c": 3}}` differ in one place, with the path `("a", "c")`.
    """
    # Identity first: equal large states are often the same object.
    if before is after or before == after:
        return

    parts = _parts(before, after) if len(path) < _DEEPEST else ()
    differing = [(step, old, new) for step, old, new in parts if old is not new and old != new]
    if not differing:  # no part of the two values differs, so the values are the difference
        yield Change(path, before, after)
    for step, old, new in differing:
        yield from changes(old, new, (*path, step))


def _parts(before: object, after: object) -> Iterator[tuple[object, object, object]]:
    """Yield (key or index, value before, value after) for two objects or two lists; nothing for other values.

    A part that exists on one side only is ABSENT on the other.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            yield key, before.get(key, ABSENT), after.get(key, ABSENT)
    elif isinstance(before, (list, tuple)) and type(before) is type(after):
        pairs = zip_longest(before, cast("Sequence[object]", after), fillvalue=ABSENT)
        yield from ((index, *pair) for index, pair in enumerate(pairs))


def deviations(expected: States, actual: States) -> Iterator[Change]:
    """Yield the differences between the expected states (`before` of each change) and the actual ones (`after`).

    Simulators and top-level values that only the actual states have are ignored.
    """
    for simulator, state in expected.items():
        actual_state = actual.get(simulator, {})
        # Equal states, which may be large, are compared once as a whole.
        for name, value in state.items() if state != actual_state else ():
            yield from changes(value, actual_state.get(name, ABSENT), (simulator, name))


def path_text(path: Path, most: int = 200) -> str:
    """Return a path as text, cut after `most` characters: `TicketAPI.ticket_queue[2].id`, `Shelf['old book']`."""
    text = "".join(_step_text(step) for step in path).removeprefix(".")
    return text if len(text) <= most else f"{text[:most]}…"


def _step_text(step: object) -> str:
    """Return one step of a path as text: `.name` for identifiers, else `[2]` or `['old book']`, shortened."""
    if isinstance(step, str) and step.isidentifier():
        return f".{step}"
    text = repr(step)
    return f"[{text if len(text) <= _LONGEST_KEY else f'{text[: _LONGEST_KEY - 1]}…'}]"


def copy_state(value: object) -> object:
    """Return a copy of a state that later calls cannot change; tuples become lists, and sets become frozen sets."""
    if isinstance(value, Mapping):
        return {key: copy_state(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [copy_state(item) for item in value]
    return frozenset(value) if isinstance(value, set) else value


def leaves(value: object) -> Iterator[object]:
    """Yield all values inside nested objects and lists that are not themselves objects or lists."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from leaves(item)
    else:
        yield value


# -- events

_ENDINGS = {
    "answer": ("answer", "Empty response from the model. Proceed to next turn."),
    "empty": ("empty_response", "Empty response from the model. Proceed to next turn."),
    "unreadable": ("decode_failure", "Error decoding the model response. Proceed to next turn."),
    "step_limit": ("force_quit", "Model has been forced to quit after {} steps."),
    "overflow": ("overflow", "The conversation no longer fits into the context window and has ended."),
}
"""The ends of a turn, with event and sentence for the log: BFCL's own, except for an overflow."""

# Ends of a turn that also end the conversation. `force` stands for a reason that no log names.
_FORCED = ("step_limit", "overflow", "force")


# Columns with one value for each turn and step.
BY_STEP = ("input_token_count", "output_token_count", "latency")

OUTPUT_COLUMNS = (
    "result", "inference_log", *BY_STEP, "response", "text", "tool_calls", "usage", "latency_ms", "finish_reason",
    "request_id", "steps", "finish_reasons", "calls_made", "forced_quit", "ended_by", "error", "simulated",
)  # fmt: skip
"""The columns of a conversation's answer."""

REASONING = "reasoning_content"
"""The column of the model's reasoning in each step, named as in BFCL's result files; only if there is any."""


class Said(msgspec.Struct, frozen=True):
    """The messages that begin a turn."""

    messages: Sequence[Message] = ()


class Answered(msgspec.Struct, frozen=True):
    """An answer of the model.

    `content` is the step in the result. `made` is the list of the executed calls' texts, None if unknown. `completion`
    is None for an answer that never arrived or was recorded. `request` is the log entry of the request, if kept.
    """

    content: JSON = None
    made: JSON = None
    finish_reason: JSON = None
    completion: Completion | None = None
    request: JSON = None


class Called(msgspec.Struct, frozen=True):
    """An executed call.

    `changes` are the differences between the states before and after it. `acted`: it changed anything in the
    simulators, including hidden data.
    """

    call: FunctionCall
    result: OperationResult
    changes: Sequence[Change] = ()
    acted: bool = False


class StateSeen(msgspec.Struct, frozen=True):
    """The simulators' states by name: a copy, or texts for the log."""

    states: object


class TurnEnded(msgspec.Struct, frozen=True):
    """The end of a turn.

    `by` is the reason: `answer`, `empty` or `unreadable`; or, if the conversation was ended by force, `step_limit`,
    `overflow` or `force` (unknown reason). `detail` is the error text or the step limit.
    """

    by: str
    detail: str = ""


Event: TypeAlias = Said | Answered | Called | StateSeen | TurnEnded


class EpisodeTurn(msgspec.Struct):
    """One turn: its answers and calls, and the states at its end, if they were recorded."""

    answers: list[Answered] = msgspec.field(default_factory=list)
    calls: list[Called] = msgspec.field(default_factory=list)
    states: object = None


class Episode:
    """The known events of a conversation, also by turn."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        """Begin a conversation with these events, in order."""
        self.events: list[Event] = []
        self.turns: list[EpisodeTurn] = []
        for event in events:
            self.add(event)

    def add(self, event: Event) -> None:
        """Append an event to the conversation, and to its last turn; `Said` begins a turn."""
        self.events.append(event)
        match event:
            case Said():
                self.turns.append(EpisodeTurn())
            case Answered():
                self.turns[-1].answers.append(event)
            case Called():
                self.turns[-1].calls.append(event)
            # A state before the first turn belongs to no turn.
            case StateSeen() if self.turns:
                self.turns[-1].states = event.states

    @property
    def ended_by(self) -> str | None:
        """Why the end was forced, `step_limit` or `overflow`; None if it was not forced or the reason is unknown."""
        return next((reason for reason in self._forced_ends() if reason != "force"), None)

    @property
    def forced_quit(self) -> bool:
        """True if the conversation was ended by force, for a known or an unknown reason."""
        return bool(self._forced_ends())

    def _forced_ends(self) -> list[str]:
        """Return the reasons of all forced ends: `step_limit`, `overflow` or, if unknown, `force`."""
        ends = [event.by for event in self.events if isinstance(event, TurnEnded)]
        return [reason for reason in ends if reason in _FORCED]

    def columns(self) -> dict[str, JSON]:
        """Return the row's columns about answers and the end of the conversation; `of_columns` reads them back.

        `calls_made` is None without turns, and `finish_reasons` if no reason is known.
        """
        made: list[JSON] = [[answer.made for answer in turn.answers] for turn in self.turns]
        reasons = [[answer.finish_reason for answer in turn.answers] for turn in self.turns]

        has_reason = any(reason is not None for turn in reasons for reason in turn)
        return {
            "calls_made": made or None,
            "finish_reasons": [*reasons] if has_reason else None,
            "forced_quit": self.forced_quit,
            "ended_by": self.ended_by,
        }

    @classmethod
    def of_columns(
        cls,
        *,
        calls_made: object = None,
        finish_reasons: object = None,
        forced_quit: object = False,
        ended_by: object = None,
    ) -> Episode:
        """Restore the episode from a row's columns, see `columns`. Columns of another form are ignored.

        `calls_made` has the texts of the executed calls, by turn and step, and `finish_reasons` the finish reason of
        each answer. `forced_quit` is True if the conversation was ended by force, and `ended_by` the reason.
        """
        episode = cls()
        made: list[JSON] = calls_made if isinstance(calls_made, list) else []
        reasons: list[JSON] = finish_reasons if isinstance(finish_reasons, list) else []

        # Both columns may lack turns or steps, so the longer one decides.
        for turn, pair in enumerate(zip_longest(made, reasons)):
            episode.add(Said())
            count = max((len(steps) for steps in pair if isinstance(steps, list)), default=0)
            for step in range(count):
                episode.add(Answered(made=step_item(made, turn, step), finish_reason=step_item(reasons, turn, step)))

        if forced_quit is True:
            episode.add(TurnEnded(ended_by if isinstance(ended_by, str) and ended_by in _FORCED else "force"))
        return episode

    @classmethod
    def read(cls, record: Mapping[str, object]) -> Episode:
        """Return the events in the `inference_log` of a record of a result file, BFCL's or Tunecheck's.

        Return no events if the record has no log.

        Only answers, their executed calls and forced ends are read. The calls' results stay in the log.
        """
        log = record.get("inference_log")
        turns = [turn for turn in log if isinstance(turn, dict)] if isinstance(log, list) else []

        episode = cls(event for turn in turns for event in _read_turn(turn))
        if record.get("forced_quit") is True:
            episode.add(TurnEnded("force"))
        return episode

    def decoded(self, turn: int, step: int, reading: Reading) -> Reading:
        """Return the calls that were executed in this step (turn and step from 0).

        Without a record of them, return `reading`, which is how the answer reads today. If the record shows that no
        call was executed although the answer has some today, return a problem instead of calls.

        This keeps the verdict on an old run: a newer version may read the same answer differently.
        """
        answers = self.turns[turn].answers if turn < len(self.turns) else []
        texts = answers[step].made if step < len(answers) else None

        if not isinstance(texts, list):
            return reading

        # A text that no longer reads as one call each does not replace the reading.
        if texts:
            executed = decode_step(f"[{', '.join(map(str, texts))}]", text_mode=True)
            return executed if len(executed.calls) == len(texts) else reading

        if reading.calls:
            return Reading(problem="the original run read no call in this answer")
        return reading

    def inference_log(self) -> list[JSON]:
        """Return the episode in the form of BFCL's inference log: states and turns, each with its numbered steps."""
        entries: list[JSON] = []
        turn: dict[str, JSON] = {}
        step: list[JSON] = []
        made: JSON = None

        for event in self.events:
            match event:
                case StateSeen():
                    texts = cast("Mapping[str, JSON]", event.states).items()
                    entries.append(
                        [{"role": "state_info", "class_name": name, "content": text} for name, text in texts]
                    )
                case Said():
                    turn = {"begin_of_turn_query": [dict(message) for message in event.messages]}
                    entries.append(turn)
                # The turn has one key already, `begin_of_turn_query`, so its first step is `step_0`.
                case Answered():
                    step, made = [*_answer_entries(event)], event.made
                    turn[f"step_{len(turn) - 1}"] = step
                case Called():
                    step.append({"role": "tool", "content": event.result.text})
                case TurnEnded():
                    step.extend(_end_entries(event, made))

        return entries

    def output_columns(self) -> dict[str, JSON]:
        """Return the columns that the conversation adds to its row: result, log, counts by turn and step, totals."""
        # Recorded answers and those that failed have no completion.
        turns = [[answer.completion for answer in turn.answers if answer.completion] for turn in self.turns]
        completions = [completion for turn in turns for completion in turn]
        # A conversation without any answer has the columns of an empty one.
        last = completions[-1] if completions else Completion(text="")
        latencies = [completion.latency_ms for completion in completions if completion.latency_ms is not None]

        def by_turn_and_step(figure: Callable[[Completion], JSON]) -> list[JSON]:
            return [[figure(completion) for completion in turn] for turn in turns]

        columns: dict[str, JSON] = {
            **last.columns(),
            "result": [[answer.content for answer in turn.answers if answer.completion] for turn in self.turns],
            "inference_log": self.inference_log(),
            "input_token_count": by_turn_and_step(lambda completion: completion.usage.input_tokens),
            "output_token_count": by_turn_and_step(lambda completion: completion.usage.output_tokens),
            "latency": by_turn_and_step(_seconds),
            "usage": sum((completion.usage for completion in completions), Usage()).as_json(),
            "latency_ms": sum(latencies) if latencies else None,
            "steps": len(completions),
            **self.columns(),
            "error": None,
            "simulated": any(completion.simulated for completion in completions),
        }

        if any(completion.masked for completion in completions):
            columns["masked"] = True
        if any(completion.reasoning for completion in completions):
            columns[REASONING] = by_turn_and_step(lambda completion: completion.reasoning or "")
        return columns

    @classmethod
    def question_columns(cls, completion: Completion, step: JSON, log: list[JSON] | None) -> dict[str, JSON]:
        """Return the columns of a question with one answer; the token counts are plain numbers.

        `step` is the answer in the form of a result, and `log` the inference log, if it is kept. Only a model that
        reported its reasoning gets the column `reasoning_content`.
        """
        columns: dict[str, JSON] = {
            **completion.columns(),
            "result": step,
            "inference_log": log,
            "input_token_count": completion.usage.input_tokens,
            "output_token_count": completion.usage.output_tokens,
            "latency": _seconds(completion),
            "steps": 1,
            **cls().columns(),  # those of a conversation, without values
            "error": None,
        }
        return {**columns, REASONING: completion.reasoning} if completion.reasoning else columns

    def recorded_columns(
        self, record: Mapping[str, JSON], columns: Mapping[str, JSON], *, stopped_early: bool
    ) -> dict[str, JSON]:
        """Return the columns of a replayed record, which this episode was read from.

        They are the replay's `columns`, with the result, the counts and the reasoning of the record. `stopped_early` is
        True if the record has fewer turns than its row. Then the conversation was ended by force, unless the record
        holds an error instead of a result.
        """
        result = record.get("result")
        recorded = {name: record[name] for name in ("result", *BY_STEP, REASONING) if name in record}
        is_error = isinstance(result, str) and "traceback" in record

        return {
            **columns,
            **recorded,
            "ended_by": self.ended_by,
            "forced_quit": (stopped_early or self.forced_quit) and not is_error,
            "error": result if is_error else None,
            "response": columns.get("response") or result,
        }


UNKNOWN = Episode()
"""A conversation with only its result known."""


def _answer_entries(answer: Answered) -> Iterator[JSON]:
    """Yield the log entries of an answer: the request if kept, the answer if it arrived, and its executed calls."""
    if answer.request is not None:
        yield answer.request
    completion = answer.completion
    if completion is None:
        return

    # The text is kept if the result has a rewritten form of it, such as call text instead of a family's format.
    text_was_changed = isinstance(answer.content, str) and completion.text != answer.content
    optional: dict[str, JSON] = {
        REASONING: completion.reasoning or None,
        "raw_text": completion.raw_text or (completion.text if text_was_changed else None),
        "finish_reason": completion.finish_reason,
    }
    known = {name: value for name, value in optional.items() if value is not None}
    yield {"role": "assistant", "content": answer.content, **known}
    if answer.made:
        yield _note("decode_success", "Successfully decoded model response.", answer.made)


def _end_entries(end: TurnEnded, made: JSON) -> Iterator[JSON]:
    """Yield the log entries for the end of a turn; `made` are the calls of its last answer."""
    # BFCL's own logs say the same: an empty answer is decoded successfully, to no calls.
    if end.by == "empty":
        yield _note("decode_success", "Successfully decoded model response.", [])

    event, sentence = _ENDINGS[end.by]
    error: dict[str, JSON] = {"error": end.detail} if end.by in ("unreadable", "overflow") else {}
    yield _note(event, sentence.format(end.detail), made if end.by == "step_limit" else [], **error)


def _note(event: str, content: str, calls: JSON, **more: JSON) -> JSON:
    """Return an entry of the log with the role `handler_log`: a code, its sentence, and the calls that were read."""
    return {"role": "handler_log", "event": event, "content": content, **more, "model_response_decoded": calls}


def _read_turn(turn: Mapping[str, JSON]) -> Iterator[Event]:
    """Yield the events that a turn of an inference log reports: `Said` without messages, answers, and a forced end."""
    yield Said()
    for key, value in turn.items():
        if not isinstance(value, list):
            continue
        entries = [entry for entry in value if isinstance(entry, dict)]
        notes = [entry for entry in entries if entry.get("role") == "handler_log"]

        if key.startswith("step_"):
            message = next((entry for entry in entries if entry.get("role") == "assistant"), {})
            # A note without calls reports that none was read; without any note, the calls are unknown.
            reported = [note.get("model_response_decoded") for note in notes]
            made = next((calls for calls in reported if calls), [] if notes else None)
            yield Answered(message.get("content"), made, message.get("finish_reason"))

        for note in notes:
            event = note.get("event")
            if event == "overflow":
                yield TurnEnded("overflow")
            # BFCL's own logs have no event for this, only the sentence
            elif event == "force_quit" or "forced to quit" in str(note.get("content")):
                yield TurnEnded("step_limit")


def _seconds(completion: Completion) -> float | None:
    """Return an answer's latency in seconds, or None if it is unknown."""
    return None if completion.latency_ms is None else completion.latency_ms / 1000
