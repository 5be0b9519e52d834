"""An entry of a multi-turn data set as the check reads it, and what it may find wrong with one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from tunecheck._json import JSON
from tunecheck.calls._formats.reading import read_calls, read_python_calls
from tunecheck.calls._formats.writing import canonical_text
from tunecheck.calls._model import FunctionCall
from tunecheck.datasets._json_files import kind

PROBLEMS: Final = {
    "row": "the row has not the shape of a conversation",
    "simulator": "a simulator is not there, or breaks",
    "configuration": "the initial configuration cannot be loaded",
    "unreadable_call": "a ground-truth call cannot be read",
    "held_out": "a function is held out in a way that cannot work",
    "not_offered": "a function is needed that is not on offer by then",
    "call_fails": "a ground-truth call fails",
    "reports_failure": "a ground-truth call answers that it did not succeed",
    "already_there": "the initial configuration holds what a call is to create",
    "no_effect": "a turn's calls neither change nor read anything",
    "default_configuration": "a simulator starts from its own defaults, for want of a configuration",
    "unused_configuration": "a part of the configuration is for nothing",
}
"""What can be found, in words; the last two are remarks."""

_REMARKS = ("default_configuration", "unused_configuration")

_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with an entry: `problem` is one of `PROBLEMS`, `text` says what it is, on one line.

    `turn` counts from 0, as verdicts do; None where it is about the whole entry. `call` is the ground-truth call.
    """

    entry: str
    problem: str
    text: str
    turn: int | None = None
    call: str | None = None

    @property
    def is_remark(self) -> bool:
        """Whether the entry can be right all the same."""
        return self.problem in _REMARKS


@dataclass(frozen=True, slots=True)
class GroundTruthCall:
    """One call of the ground truth, or why it cannot be read."""

    text: str
    call: FunctionCall | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """An entry. `offered` are the names of its functions, None for all that its simulators have; `held_out` by turn.

    `by_name` are those that are held out by their name alone, and so must be operations of a simulator.
    """

    name: str
    turns: list[list[JSON]]
    ground_truth: list[list[GroundTruthCall]]
    simulators: list[str]
    config: dict[str, JSON]
    offered: frozenset[str] | None
    held_out: dict[int, frozenset[str]]
    by_name: dict[int, frozenset[str]]
    long_context: bool


class UnusableRowError(Exception):
    """A row that is no conversation; its text says why."""


def read_conversation(row: Mapping[str, object], number: int) -> Conversation:
    """The entry in a row, of which `number` (from 1) names it where it has no id.

    Columns are those of the conversation target, and `ground_truth`: a list of each turn's calls, as texts
    (`cd(folder='x')`) or in any other format that `read_calls` knows.

    Raises:
        UnusableRowError: a column holds something else.
    """
    turns = [_messages(turn, f"turns[{at}]") for at, turn in enumerate(_list(row.get("turns"), "turns"))]
    truth = [
        _list(turn, f"ground_truth[{at}]") for at, turn in enumerate(_list(row.get("ground_truth"), "ground_truth"))
    ]
    if len(truth) != len(turns):
        _refuse(f"{len(turns)} turns and ground truth for {len(truth)}")
    classes = _list(row.get("involved_classes"), "involved_classes")
    if not all(isinstance(name, str) and name for name in classes):
        _refuse("involved_classes must hold names")
    held_out = _held_out(row.get("held_out"))
    config = row.get("initial_config")
    functions = row.get("functions") if row.get("functions") is not None else row.get("tools")
    return Conversation(
        name=entry_name(row, number),
        turns=turns,
        ground_truth=[[call for item in turn for call in _calls(item)] for turn in truth],
        simulators=[str(name) for name in classes],
        config={} if config is None else _object(config, "initial_config"),
        offered=None if functions is None else _names(_list(functions, "functions")),
        held_out={turn: _names(items) for turn, items in held_out.items()},
        by_name={turn: frozenset(item for item in items if isinstance(item, str)) for turn, items in held_out.items()},
        long_context=row.get("long_context") is True,
    )


def entry_name(row: Mapping[str, object], number: int) -> str:
    """How an entry is called: its id, or its number."""
    name = row.get("id")
    return name[:_LONGEST] if isinstance(name, str) and name else f"row-{number}"


def call_text(call: FunctionCall) -> str:
    """A call on one line, not endless."""
    text = " ".join(canonical_text([call]).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _calls(item: JSON) -> list[GroundTruthCall]:
    reading = read_python_calls(item) if isinstance(item, str) else read_calls(item)
    text = " ".join(str(item).split())[:_LONGEST]
    if reading.calls and not reading.problem:
        as_given = isinstance(item, str) and len(reading.calls) == 1
        return [GroundTruthCall(text if as_given else call_text(call), call) for call in reading.calls]
    return [GroundTruthCall(text, None, reading.problem or "it holds no call")]


def _messages(value: JSON, what: str) -> list[JSON]:
    messages = _list(value, what)
    if not all(isinstance(message, dict) and isinstance(message.get("role"), str) for message in messages):
        _refuse(f"{what} holds a message without a role")
    return messages


def _held_out(value: object) -> dict[int, list[JSON]]:
    found: dict[int, list[JSON]] = {}
    for turn, items in _object({} if value is None else value, "held_out").items():
        if not (turn.isascii() and turn.isdigit() and len(turn) < 10 and str(int(turn)) == turn):
            _refuse(f"held_out maps numbers of turns to functions; {turn[:60]!r} is none")
        found[int(turn)] = _list(items, f"held_out[{turn}]")
    return found


def _names(items: list[JSON]) -> frozenset[str]:
    return frozenset(_name(item) for item in items)


def _name(item: JSON) -> str:
    """The name in a function's document or tool; or the item itself, an operation's name."""
    name = item
    if isinstance(item, dict):
        function = item.get("function")
        name = function.get("name") if isinstance(function, dict) else item.get("name")
    return name if isinstance(name, str) else _refuse(f"a function without a name: {str(item)[:60]}")


def _list(value: object, what: str) -> list[JSON]:
    return value if isinstance(value, list) else _refuse(f"{what} must be a list, not {_kind(value)}")


def _object(value: object, what: str) -> dict[str, JSON]:
    return value if isinstance(value, dict) else _refuse(f"{what} must be an object, not {_kind(value)}")


def _kind(value: object) -> str:
    return "missing" if value is None else kind(value)


def _refuse(what: str) -> NoReturn:
    raise UnusableRowError(what)
