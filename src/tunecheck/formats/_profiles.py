"""The profile of a model family: the marks of its calls and thoughts, and the shape of its calls."""

import re
from dataclasses import dataclass
from typing import Protocol

from tunecheck.calls._strict_json import CutOffError, UnreadableError, place
from tunecheck.formats._collector import CallCollector
from tunecheck.formats._prompts import ToolPrompt

_SEPARATOR = re.compile(r"\s*+(?:[;,]\s*+)?")
_OPENING = re.compile(r"\s*+(?:```(?:json|python)?\s*+)?")
_UNFINISHED_TAG = re.compile(r"<[^/>][^>]*+\Z")
_FENCE_END = re.compile(r"(?:\s*+```)?")


class TextShape(Protocol):
    """How one call, or one list of calls, is written."""

    def begins(self, text: str, position: int, collector: CallCollector) -> bool:
        """Whether calls in this shape begin here, whole or not."""

    def read(self, text: str, position: int, mark: str, collector: CallCollector) -> int:
        """Take the calls that begin here, and say where they end.

        Raises:
            UnreadableError: they cannot be read; the message says why and where.
        """


@dataclass(frozen=True, slots=True)
class Thought:
    """How a family marks its reasoning.

    A closing mark without an opening ends a thought that the prompt has opened, if `lone` is set. `leading`: the
    opening counts at the beginning of an answer only.
    """

    opens: str
    closes: tuple[str, ...]
    lone: bool = True
    leading: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """How one family writes calls.

    Args:
        name: by which it is chosen, `format="hermes"`; also what a reading says was recognised.
        shape: how calls are written.
        marks: what announces calls; none for a family that writes them bare.
        closes: closing marks, which are passed over.
        thoughts: how it marks its reasoning.
        inner: those marks that are the beginning of a call, which some servers or models leave alone.
        inside: every mark is the beginning of the call itself (`<function=f>`).
        sure: the mark is unambiguous. Otherwise it counts only if a call in this shape follows.
        several: calls may follow one another behind one mark.
        closed: what follows the calls must be a closing mark, another call, or nothing.
        prompt: how a model that takes only text is shown tools, and its calls and their results; None: not known.
    """

    name: str
    shape: TextShape
    marks: tuple[str, ...] = ()
    closes: tuple[str, ...] = ()
    thoughts: tuple[Thought, ...] = ()
    inner: tuple[str, ...] = ()
    inside: bool = False
    sure: bool = True
    several: bool = True
    closed: bool = False
    prompt: ToolPrompt | None = None

    def announces(self, text: str, start: int, mark: str, collector: CallCollector) -> bool:
        """Whether calls in this family's shape follow a mark that stands here."""
        return self.shape.begins(text, self._first(text, start, mark), collector)

    def take(self, text: str, start: int, mark: str, collector: CallCollector) -> int:
        """Take the calls behind the mark that stands here, closing marks included, and say where they end.

        Raises:
            UnreadableError: what follows is not a call that can be read.
        """
        collector.format = collector.format or self.name
        first = self._first(text, start, mark)
        position = self.shape.read(text, first, mark, collector)
        if "```" in text[start + len(mark) : first]:
            position = _past(_FENCE_END, text, position)
        while True:
            following = _past(_SEPARATOR, text, position)
            close = next((close for close in self.closes if text.startswith(close, following)), None)
            if close:
                return following + len(close)
            if not self.several or not self.shape.begins(text, following, collector):
                break
            position = self.shape.read(text, following, mark, collector)
        if self.closes and _UNFINISHED_TAG.match(text, following):
            raise CutOffError(f"the text ends inside a tag at {place(text, following)}")
        if self.closed and following < len(text) and not text.startswith(mark, following):
            raise UnreadableError(f"{mark} is not closed at {place(text, following)}")
        return position

    def _first(self, text: str, start: int, mark: str) -> int:
        inside = self.inside or mark in self.inner
        return start if inside else _past(_OPENING, text, start + len(mark))


def _past(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    return found.end() if found else position
