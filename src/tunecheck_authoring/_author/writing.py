"""A model's words for what a conversation's calls do; rows that a model then solves otherwise are set aside.

The model chooses no calls: it gets a request that is right and plain, and says it as somebody would. What it says
counts only where every value is still in it; whether it asks for the same is seen by a second model, which gets the
words and the tools, and not the right calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import msgspec

from tunecheck import ConfigurationError
from tunecheck.formats import read_calls
from tunecheck.plugins import JSON, read_as, read_yaml, refuses
from tunecheck_authoring._author.files import AuthoredTask, Line, Weakness
from tunecheck_authoring._author.wording import said

if TYPE_CHECKING:
    from tunecheck_authoring._author.models import EndpointModels

_ROOM = 600
"""How many characters longer than twice the plain request its words may be."""

_INSTRUCTIONS = """\
You write what a user says to an assistant that can call functions. You get a request in plain words, and who the user \
is. Say the same request as this person would, and nothing else.
- Ask for all that the request asks for, in its order, and for nothing more.
- Keep each value exactly as it is written: names, numbers, dates, texts.
- Where the request speaks of something from an earlier answer, speak of it too, and do not make up its value.
- Name no functions, call none, and do not answer the request. Write only what the user says."""


@dataclass(frozen=True, slots=True)
class WritingRequest:
    """One turn to be put into words: `plain` says it already, `values` must be said."""

    id: str
    messages: list[dict[str, JSON]]
    plain: str
    values: list[JSON]


def read_personas(path: Path) -> dict[str, str]:
    """Personas by name, of a YAML file.

    Raises:
        ConfigurationError: it cannot be read, or has none.
    """
    document = read_yaml(path)
    personas = read_as(document.value, dict[str, str], document.where)
    if not personas:
        raise ConfigurationError(f"{path}: no personas; write some as `name: who it is and how they talk`")
    return personas


def reworded(
    tasks: Sequence[AuthoredTask], personas: Mapping[str, str], seed: int, models: EndpointModels
) -> list[AuthoredTask]:
    """The tasks in a persona's words, each turn where these say all that they must; else as they were."""
    voices = {task.id: Random(f"{seed} persona {task.id}").choice([*personas]) for task in tasks}
    requests = [each for task in tasks for each in _requests(task, personas[voices[task.id]])]
    written = models.write(requests)
    texts = {each.id: written.get(each.id, "").strip() for each in requests}
    problems = {each.id: problem for each in requests if (problem := _problem(texts[each.id], each)) is not None}
    return [_in_words(task, voices[task.id], texts, problems) for task in tasks]


def _in_words(task: AuthoredTask, voice: str, texts: Mapping[str, str], problems: Mapping[str, str]) -> AuthoredTask:
    ids = [_id(task, at) for at in range(len(task.words))]
    words = [plain if each in problems else texts[each] for each, plain in zip(ids, task.words, strict=True)]
    plain = {str(at): problems[each] for at, each in enumerate(ids) if each in problems}
    return msgspec.structs.replace(task, voice=voice, words=words, plain=plain)


def _id(task: AuthoredTask, turn: int) -> str:
    return f"{task.id}-{turn + 1}"


def _requests(task: AuthoredTask, persona: str) -> Iterator[WritingRequest]:
    for at, plain in enumerate(task.words):
        values = [each.value for call in task.turns[at] for each in call.arguments.values() if each.source is None]
        said_before = "".join(f"\n- {text}" for text in task.words[:at])
        before = f"\n\nWhat the user has asked for before:{said_before}" if at else ""
        user = f"The user: {persona}{before}\n\nThe request to say in their words:\n{plain}"
        messages: list[dict[str, JSON]] = [
            {"role": "system", "content": _INSTRUCTIONS},
            {"role": "user", "content": user},
        ]
        yield WritingRequest(_id(task, at), messages, plain, values)


def _problem(words: str, request: WritingRequest) -> str | None:
    """Why what was written cannot be what the user says."""
    if not words:
        return "nothing was written"
    if refuses(words):
        return "the writer refused"
    reading = read_calls(words)
    if reading.calls or reading.problem is not None:
        return "it holds a call"
    if not all(said(value, words) for value in request.values):
        return "a value is missing"
    return "it is too long" if len(words) > 2 * len(request.plain) + _ROOM else None


def set_aside(rows: Sequence[Line], models: EndpointModels) -> tuple[list[Line], list[Weakness]]:
    """The rows that were solved as they are meant, and the others with what was done instead."""
    reasons = models.solve(rows)
    return [row for row in rows if row.id not in reasons], [
        Weakness(id=row.id, variant=row.variant, reason="not solved as meant", detail=reasons[row.id])
        for row in rows
        if row.id in reasons
    ]
