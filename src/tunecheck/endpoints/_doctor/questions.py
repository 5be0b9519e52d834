"""The questions of the doctor, as `questions.json` lists them.

Each has one right answer, which any model with function calling finds.
"""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import msgspec

from tunecheck._json import JSON
from tunecheck.endpoints._base import ChatRequest


class RightAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The right answer to a question: a part of its text, or a call of this function with these arguments."""

    text: str = ""
    function: str = ""
    arguments: dict[str, Any] = {}


class _DoctorQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    messages: list[dict[str, Any]]
    tools: list[str] = []
    parameters: dict[str, Any] = {}
    right: RightAnswer | None = None


class _QuestionTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of questions.json; questions name their functions."""

    functions: list[dict[str, Any]]
    questions: dict[str, _DoctorQuestion]


_TABLE = msgspec.json.decode(files(__package__).joinpath("questions.json").read_bytes(), type=_QuestionTable)
_TOOLS: Mapping[str, Mapping[str, JSON]] = {
    function["name"]: {"type": "function", "function": function} for function in _TABLE.functions
}

QUESTIONS: Mapping[str, ChatRequest] = {
    name: ChatRequest(question.messages, [_TOOLS[tool] for tool in question.tools] or None, question.parameters)
    for name, question in _TABLE.questions.items()
}

RIGHT: Mapping[str, RightAnswer] = {name: row.right for name, row in _TABLE.questions.items() if row.right}
