"""What each language of templates gives: a compiled template that knows its names and its own text."""

from collections.abc import Mapping
from types import TracebackType
from typing import Protocol

from tunecheck._json import JSON
from tunecheck.prompts._bounds import Budget
from tunecheck.prompts._fragments import Fragment

MAX_PARTS = 20_000
"""Most parts of a template: texts, values, names, operators. Compiling so many takes a second."""


class TemplateError(Exception):
    """A template that a prompt may not have, and the line where it is wrong."""

    def __init__(self, problem: str, line: int = 1) -> None:
        super().__init__(problem)
        self.line = line


class Language(Protocol):
    """A compiled template.

    `names`: the variables it takes; `optional`: those that it looks for itself; `used`: those with which it does more
    than to write them or to ask whether they are there; `own_text`: all text that may come out
    of it as its own, and the fields of values that it names.
    """

    names: frozenset[str]
    optional: frozenset[str]
    used: frozenset[str]
    own_text: tuple[str, ...]

    def rendered(self, values: Mapping[str, JSON], budget: Budget) -> Fragment: ...

    def line(self, traceback: TracebackType | None) -> int:
        """The line of the template where an error arose."""
        ...
