"""Show a conversation turn by turn: messages, calls, answers and state changes.

`report._details` calls `shown_turns` for a conversation and `shown_messages` for other rows. Both return JSON for the
page, with limited lengths.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import islice
from typing import TypeGuard

from tunecheck._json import JSON
from tunecheck.calls._model import Reading, canonical_text
from tunecheck.episodes._episode import Episode
from tunecheck.episodes._states import ABSENT, changes, path_text
from tunecheck.formats._reading import read_calls, read_python_calls
from tunecheck.report._blocks import as_json, as_text, changed_part, cut
from tunecheck.report._calls import shown_call

_MOST_TURNS = 100
_MOST_STEPS = 50
_MOST_ITEMS = 100
_MOST_MESSAGES = 200
_MOST_CHANGES = 100
_MOST_VALUE = 600
_MOST_RESULT = 4_000
_ABSENT = "(nothing)"


def is_conversation(turns: JSON) -> TypeGuard[list[list[JSON]]]:
    """Return True if a value is a list of turns, each a list of messages."""
    return isinstance(turns, list) and bool(turns) and all(isinstance(turn, list) for turn in turns)


def shown_messages(messages: JSON) -> list[JSON]:
    """Return messages as `[role, text, calls]`."""
    shown: list[JSON] = []
    for message in messages[:_MOST_MESSAGES] if isinstance(messages, list) else ():
        if isinstance(message, dict):
            shown.append([as_text(message.get("role"))[:40], _content(message.get("content")), _calls_of(message)])
        else:
            shown.append(["", as_text(message), []])
    if isinstance(messages, list) and len(messages) > _MOST_MESSAGES:
        shown.append(["", f"and {len(messages) - _MOST_MESSAGES:,} more messages", []])
    return shown


def _content(content: JSON) -> str:
    """Return a message's text; for a list of parts, their texts and the JSON of other parts."""
    if content is None:
        return ""
    if not isinstance(content, list):
        return as_text(content)
    return cut("\n".join(_part_text(part) for part in content[:_MOST_ITEMS]))


def _part_text(part: JSON) -> str:
    """Return the text of a part of a message, or the part as JSON."""
    if isinstance(part, dict):
        text = part.get("text")
        return cut(text) if isinstance(text, str) else as_json(part)
    return as_text(part)


def _calls_of(message: Mapping[str, JSON]) -> list[JSON]:
    """Return a message's tool calls for the page."""
    if message.get("tool_calls") or message.get("function_call"):
        return [shown_call(call) for call in read_calls(dict(message)).calls[:_MOST_ITEMS]]
    return []


def shown_turns(turns: JSON, ground_truth: JSON, log: JSON, result: JSON) -> list[dict[str, JSON]]:
    """Return a conversation's turns for the page: messages, steps, expected calls and state changes.

    `log` is the conversation's log and `result` its steps by turn; either may be None. Unknown parts are left out.
    """
    entries = log if isinstance(log, list) else []
    logged_turns = [entry for entry in entries if isinstance(entry, dict)]
    logged_states = [entry for entry in entries if isinstance(entry, list)]
    executed = Episode.read({"inference_log": log}).columns()["calls_made"]
    asked_count = len(turns) if isinstance(turns, list) else 0
    count = max(asked_count, len(logged_turns), len(result) if is_conversation(result) else 0)
    shown: list[dict[str, JSON]] = []
    for at in range(min(count, _MOST_TURNS)):
        called: set[str] = set()
        if at < len(logged_turns):
            sent = logged_turns[at].get("begin_of_turn_query")
            messages = sent if isinstance(sent, list) else _item(turns, at)
            steps = _logged_steps(logged_turns[at], _item(executed, at), called)
        else:
            messages, recorded = _item(turns, at), _item(result, at)
            steps = [_answer(step, None, called) for step in recorded] if isinstance(recorded, list) else []
        turn: dict[str, JSON] = {"user": shown_messages(messages), "steps": [*steps[:_MOST_STEPS]]}
        if len(steps) > _MOST_STEPS:
            turn["left_out"] = len(steps) - _MOST_STEPS
        expected = _item(ground_truth, at)
        if isinstance(expected, list):
            turn["expected"] = _expected_calls(expected, called)
        if at + 1 < len(logged_states):
            turn["changes"] = [*_shown_changes(_states(logged_states[at]), _states(logged_states[at + 1]))]
        shown.append(turn)
    return shown


def _item(values: JSON, at: int) -> JSON:
    """Return the value at this position, or None."""
    return values[at] if isinstance(values, list) and at < len(values) else None


def _logged_steps(turn: Mapping[str, JSON], executed: JSON, called: set[str]) -> list[dict[str, JSON]]:
    """Return the steps of a turn in a conversation's log; `executed` are the calls of each step.

    The canonical texts of the calls are added to `called`.
    """
    logged = [entries for key, entries in turn.items() if key.startswith("step_") and isinstance(entries, list)]
    return [_logged_step(entries, _item(executed, at), called) for at, entries in enumerate(logged)]


def _logged_step(entries: Sequence[JSON], executed: JSON, called: set[str]) -> dict[str, JSON]:
    """Return a step of a conversation's log: the answer, its reasoning, results of calls, and decoding problems."""
    messages = [entry for entry in entries if isinstance(entry, dict)]
    answer: Mapping[str, JSON] = next((message for message in messages if message.get("role") == "assistant"), {})
    step = _answer(answer.get("content"), executed, called)
    if answer.get("reasoning_content"):
        step["reasoning"] = as_text(answer["reasoning_content"])
    results: list[JSON] = []
    problems: list[JSON] = []
    for message in messages:
        role, content = message.get("role"), message.get("content")
        if role == "tool":
            results.append(cut(as_text(content), _MOST_RESULT))
        elif role == "handler_log" and message.get("event") not in ("decode_success", None):
            problems.append(as_text(content)[:400])
    return {**step, "results": results[:_MOST_ITEMS], "notes": problems[:5]}


def _answer(content: JSON, executed: JSON, called: set[str]) -> dict[str, JSON]:
    """Return the calls and the text of the model's output in a step, and add the calls' canonical texts to `called`.

    `executed` are the calls of the step in the log, or None. If it is a list, only these calls are shown. The text is
    then the whole content, unless calls can be read from the content, too.
    """
    reading = read_calls(content)
    if isinstance(executed, list):
        calls = tuple(call for item in executed for call in _written_call(item).calls)
        reading = replace(reading, calls=calls, text=reading.text if calls and reading.calls else as_text(content))
    if not reading.calls:
        return {"calls": [], "text": "" if content in (None, [], "") else as_text(content)}
    called.update(canonical_text([call]) for call in reading.calls)
    return {"calls": [shown_call(call) for call in reading.calls[:_MOST_ITEMS]], "text": cut(reading.text)}


def _written_call(call: JSON) -> Reading:
    """Read a call as it is written in ground truths and logs."""
    return read_python_calls(call) if isinstance(call, str) else read_calls(call)


def _expected_calls(calls: Sequence[JSON], made: Set[str]) -> list[JSON]:
    """Return the ground truth's calls as `[call, whether the model made the same call in this turn]`.

    This is not a verdict, because other calls with the same effect are correct, too.
    """
    expected: list[JSON] = []
    for text in calls[:_MOST_ITEMS]:
        reading = _written_call(text)
        if not reading.calls:
            expected.append([[as_text(text)[:_MOST_VALUE], []], False])
        expected += [[shown_call(call), canonical_text([call]) in made] for call in reading.calls]
    return expected


def _states(entry: Sequence[JSON]) -> dict[str, JSON]:
    """Return the states in a log's entry by simulator."""
    states = [item for item in entry if isinstance(item, dict) and item.get("role") == "state_info"]
    return {str(item.get("class_name")): item.get("content") for item in states}


def _shown_changes(before: JSON, after: JSON) -> Iterator[JSON]:
    """Yield `[path, before, after]` for each path at which two states differ."""
    for change in islice(changes(before, after), _MOST_CHANGES):
        old, new = changed_part(_state_text(change.before), _state_text(change.after), _MOST_VALUE)
        yield [path_text(change.path, 400), old, new]


def _state_text(value: object) -> str:
    """Return a value of a state as text."""
    if value is ABSENT:
        return _ABSENT
    return value if isinstance(value, str) else as_json(value)  # type: ignore[arg-type]  # states of a log are JSON
