"""The body of a prompt: a template in one of the languages for them, compiled once and rendered for each row."""

from collections.abc import Callable, Mapping
from typing import Literal

from tunecheck._errors import PromptError, PromptRenderError
from tunecheck._json import JSON
from tunecheck.prompts._bounds import Budget
from tunecheck.prompts._fragments import Skeleton
from tunecheck.prompts._jinja import Jinja
from tunecheck.prompts._language import Language, TemplateError
from tunecheck.prompts._mustache import Mustache

MAX_BODY = 1 << 18
"""Longest template in characters; the longest of Azure's has 17,000."""

Where = Callable[[int], str]
"""The place of a line of the template, as errors name it."""

Split = Callable[[Skeleton], list[dict[str, JSON]]]
"""Takes a rendered template apart into messages.

Raises:
    ValueError: it is not a sequence of messages.
"""

LanguageName = Literal["jinja2", "jinja2 trimmed", "nunjucks", "mustache"]
"""`jinja2 trimmed` drops the line feed after a block, as Azure and prompt flow do."""


class Template:
    """A compiled template, and how its rendering is taken apart.

    Raises:
        PromptError: it is not a template that a prompt may have; names the line.
    """

    def __init__(self, body: str, where: Where, split: Split, language: LanguageName) -> None:
        self._where = where
        self._split = split
        if len(body) > MAX_BODY:
            raise PromptError(f"{where(1)}: the template is longer than {MAX_BODY >> 10} K characters")
        try:
            self._compiled = _compiled(body, language)
        except TemplateError as error:
            raise PromptError(f"{where(error.line)}: {_reason(error)}") from None
        except (RecursionError, MemoryError, SyntaxError, ValueError, OverflowError) as error:
            # What Python's own compiler refuses: too many nested blocks, too large a number.
            raise PromptError(f"{where(1)}: the template cannot be compiled: {_reason(error)}") from None
        self.names = self._compiled.names
        self.used = self._compiled.used
        self.own_text = self._compiled.own_text

    def may_lack(self, name: str) -> bool:
        """Whether the template looks itself whether that variable is there."""
        return name in self._compiled.optional

    def render(self, values: Mapping[str, JSON]) -> list[dict[str, JSON]]:
        """The messages for these values.

        Raises:
            PromptRenderError: the template fails on them; names the line.
        """
        try:
            rendered = self._compiled.rendered(values, Budget())
        except Exception as error:  # noqa: BLE001 - a template may run into any error of Python's
            place = self._where(self._compiled.line(error.__traceback__))
            raise PromptRenderError(f"{place}: {_reason(error)}") from None
        try:
            return self._split(Skeleton.of(rendered))
        except ValueError as error:
            raise PromptRenderError(f"{self._where(1)}: {error}") from None


def _compiled(body: str, language: LanguageName) -> Language:
    if language == "mustache":
        return Mustache(body)
    return Jinja(body, trim_blocks=language == "jinja2 trimmed", nunjucks=language == "nunjucks")


def _reason(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it goes on without end, or is nested too deeply"
    return _one_line(str(error)) or type(error).__name__


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 300 else f"{line[:300]}…"
