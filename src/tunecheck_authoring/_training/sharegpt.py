"""ShareGPT's conversations as LLaMA-Factory and others have them: `{"conversations": [{"from": …, "value": …}]}`.

Optional keys are `system`, `tools` (often as JSON text), and for preferences `chosen` and `rejected`, one message each.
A call is a separate turn (`function_call`, with the JSON of one or more calls), or part of the assistant's text in a
model family's format. Results are one turn for each call, or one turn for all calls. A turn for all calls is divided if
it has a part for each call; otherwise the first call gets it and the other calls get an empty text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from tunecheck.datasets import ConversationError, Form, Record, Turns, as_tools
from tunecheck.formats import read_calls
from tunecheck.plugins import JSON, did_you_mean, value_of

_ROLES = {
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("gpt", "assistant", "chatgpt", "model"), "assistant"),
    **dict.fromkeys(("function_call", "tool_call"), "call"),
    **dict.fromkeys(("observation", "tool", "tool_response", "function_response"), "tool"),
    "system": "system",
}
_CONVERSATION = frozenset(("conversations", "system", "tools", "chosen", "rejected"))
_OPEN, _CLOSE = "<tool_response>", "</tool_response>"


def is_sharegpt(record: Record) -> bool:
    """Return True for a list of turns, each with `from` and `value`."""
    turns = record.get("conversations")
    return (
        isinstance(turns, list)
        and bool(turns)
        and all(isinstance(t, dict) and t.keys() >= {"from", "value"} for t in turns)
    )


def sharegpt_rows(record: Record, number: int) -> list[Record]:
    """Return the rows of one conversation. With preferences, only the chosen answer is trained on.

    Raises:
        ConversationError: The record is no conversation, or a turn cannot be read.
    """
    conversation = record.get("conversations")
    if not isinstance(conversation, list):
        raise ConversationError("'conversations' is not a list of turns")
    columns = {key: value for key, value in record.items() if key not in _CONVERSATION}
    turns = Turns(f"sharegpt-{number}", as_tools(record.get("tools"), "'tools'"), columns)
    if isinstance(system := record.get("system"), str) and system:
        turns.say({"role": "system", "content": system})
    chosen = record.get("chosen")
    _add_all(turns, conversation, trained=chosen is None)
    if chosen is not None:
        _add_all(turns, [chosen], trained=True)
    return turns.rows()


def _add_all(turns: Turns, items: Iterable[JSON], *, trained: bool) -> None:
    """Add turns to the conversation.

    Only assistant turns that are `trained` and have no weight 0 become training targets.

    Results that follow one another are added together.

    Raises:
        ConversationError: a turn cannot be read.
    """
    parsed = (_read(turns, turn) for turn in items)
    for role, group in groupby(parsed, key=lambda turn: turn[0]):
        if role == "tool":
            _results(turns, [value for _, value, _ in group])
            continue
        for _, value, weight in group:
            is_trained = trained and weight != 0
            if role == "call":
                reading = read_calls(value)
                if not reading.complete_calls:
                    raise turns.error(reading.problem or "holds no call that can be read")
                turns.answer(reading.text.strip(), reading.calls, trained=is_trained)
            elif role == "assistant":
                turns.answer(value, (), trained=is_trained)
            else:
                turns.say({"role": role, "content": value})


def _read(turns: Turns, turn: JSON) -> tuple[str, str, JSON]:
    """Return the role, the text and the weight (None if missing) of a turn, or raise ConversationError."""
    if not isinstance(turn, dict):
        raise turns.error("is not an object with 'from' and 'value'")
    name, value = turn.get("from", turn.get("role")), turn.get("value", turn.get("content"))
    if not isinstance(name, str) or name not in _ROLES:
        raise turns.error(f"{str(name)[:60]!r} is not a known speaker{did_you_mean(str(name)[:60], _ROLES)}")
    if not isinstance(value, str):
        raise turns.error("'value' is not text")
    return _ROLES[name], value, turn.get("weight")


def _results(turns: Turns, values: list[str]) -> None:
    """Add the results of consecutive turns. A single one for several calls is divided among them."""
    results: list[JSON] = [part for value in values for part in _parts(value)]
    call_count = turns.waiting
    if len(results) == 1 and call_count > 1:
        results = _share_value(values[0], call_count)
    for result in results:
        turns.result(result)


def _parts(value: str) -> Iterator[str]:
    """Yield the texts between the marks of results, or the whole text."""
    pieces = value.split(_OPEN)
    yield from (piece.split(_CLOSE)[0].strip() for piece in pieces[1:]) if len(pieces) > 1 else [value]


def _share_value(value: str, calls: int) -> list[JSON]:
    """Return the items of a JSON list if there is one for each call.

    Otherwise the first call gets the whole value, and the others get an empty text.
    """
    items = value_of(value)
    return items if isinstance(items, list) and len(items) == calls else [value, *[""] * (calls - 1)]


FORM = Form("sharegpt", "a file of ShareGPT's conversations", is_sharegpt, sharegpt_rows)
