"""Name list: the user gives several names, and asks for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tunecheck._json import JSON
from tunecheck.memory._kind import Kind, Making
from tunecheck.memory._kinds.arguments import whole
from tunecheck.memory._kinds.names import USER_NAME, say_names
from tunecheck.memory._kinds.scripts import read_words, scripted_test
from tunecheck.memory._model import Definition

_QUESTION = "List every name that I have called myself so far, and no other, as a JSON list of texts."


class NameList(Kind):
    """`name_changes` names, and the question for all of them as a JSON list."""

    name: ClassVar[str] = "name_list"
    title: ClassVar[str] = "NameList"
    topics: ClassVar[frozenset[str]] = frozenset({USER_NAME})
    resets: ClassVar[bool] = True

    def __init__(self, *, name_changes: int = 3) -> None:
        self.name_changes = whole("name_changes", name_changes, least=1, most=len(read_words("first_names")))
        self.arguments: Mapping[str, JSON] = {"name_changes": name_changes}

    def definition(self, example: str, making: Making) -> Definition:
        """See Kind."""
        names, statements = say_names(making.random(self.title, example), self.name_changes)
        return scripted_test(self, example, statements, [_QUESTION], list(names))
