"""Sally-Anne: a story in which somebody misses what happens, and a question about who believes what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tunecheck._json import JSON
from tunecheck.memory._kind import Kind, Making
from tunecheck.memory._kinds.arguments import choice
from tunecheck.memory._kinds.scripts import scripted_test
from tunecheck.memory._kinds.stories import QUESTION_TYPES, tell_story
from tunecheck.memory._model import Definition

_OPENING = (
    "A radio play is on. I am going to tell you, as it goes on, what happens in it, and when it is over I will ask you "
    "a question about it."
)
_LINE = "(On the radio) {line}"
_QUESTION = (
    "The radio play is over. {question}\n"
    'Answer in JSON with a single word, like this: {{"answer": "word"}}\n'
    "Name the very thing, not the room that it is in."
)


class SallyAnne(Kind):
    """A story of our own for each test; `question_type` is any, world_model or theory_of_mind."""

    name: ClassVar[str] = "sallyanne"
    title: ClassVar[str] = "SallyAnne"

    def __init__(self, *, question_type: str = "any") -> None:
        self.question_type = choice("question_type", question_type, QUESTION_TYPES)
        self.arguments: Mapping[str, JSON] = {"question_type": question_type}

    def definition(self, example: str, making: Making) -> Definition:
        """See Kind."""
        story = tell_story(making.random(self.title, example), self.question_type)
        statements = [_OPENING, *(_LINE.format(line=line) for line in story.lines)]
        question = _QUESTION.format(question=story.question.text)
        return scripted_test(self, example, statements, [question], [story.question.answer])
