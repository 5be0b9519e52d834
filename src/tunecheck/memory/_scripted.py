"""The steps of a test that says its script line by line, with a wait after each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tunecheck.memory._model import Definition, Say, Steps

if TYPE_CHECKING:
    from tunecheck.memory._kind import Kind, Scene


def scripted_steps(kind: Kind, definition: Definition, scene: Scene) -> Steps:
    """Each line of the script and its wait; the last question of a temporal test is worded when it is asked."""
    said_us: list[int] = []
    for message, question, wait in zip(definition.script, definition.is_question, definition.waits, strict=False):
        replied = yield Say(message, question=question, register=question and definition.uses_callback)
        said_us.append(replied.sent_us)
        if not wait.is_none:
            yield wait
    if definition.is_temporal and len(definition.is_question) > len(definition.script):
        yield Say(kind.temporal_question(definition, said_us, scene), question=True)
    return None
