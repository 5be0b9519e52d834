"""The parts of a page of results, independent of the writer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

SIMULATED = "SIMULATED answers: no model was asked"

Style = Literal["", "strong", "dim", "good", "bad", "warn"]


@dataclass(frozen=True, slots=True)
class Words:
    """A piece of a sentence.

    Words are `foreign` if data, a model or a user chose them: where a format has markup, they stand in a code span.
    """

    text: str
    style: Style = ""
    foreign: bool = False


Cell: TypeAlias = "str | Words"
Sentence: TypeAlias = "Cell | tuple[Cell, ...]"


def words_of(sentence: Sentence) -> Iterator[Words]:
    """The pieces of a sentence."""
    for piece in sentence if isinstance(sentence, tuple) else (sentence,):
        yield Words(piece) if isinstance(piece, str) else piece


def text_of(sentence: Sentence) -> str:
    """A sentence without styles."""
    return "".join(piece.text for piece in words_of(sentence))


@dataclass(frozen=True, slots=True)
class Text:
    """Sentences that belong together, one a line."""

    lines: Sequence[Sentence]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells.

    `align` has a letter for each column: l (left) or r (right); the last letter holds for all columns that follow. A
    terminal continues a table of figures that is too wide in another one below. `folded` tables open with a click.
    """

    heads: Sequence[Cell]
    rows: Sequence[Sequence[Sentence]]
    align: str = "lr"
    title: Sentence = ""
    below: Sentence = ""
    folded: bool = False

    def alignment(self, column: int) -> Literal["left", "right"]:
        """How a column is aligned."""
        return "left" if self.align[min(column, len(self.align) - 1)] == "l" else "right"


@dataclass(frozen=True, slots=True)
class Interval:
    """A line of a chart: a label, a value and its interval."""

    label: str
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Chart:
    """Intervals on one axis; formats without drawings leave it out, because a table has the same figures."""

    intervals: Sequence[Interval]


Part: TypeAlias = Text | Table | Chart


@dataclass(frozen=True, slots=True)
class Check:
    """A condition that a run was held to: what was found, and how it ended (None: met)."""

    group: str
    name: str
    found: str
    ended: Literal["failure", "error", "skipped"] | None


@dataclass(frozen=True, slots=True)
class View:
    """A page of results. A terminal shows no title: what it says stands in the first part, too."""

    title: Sentence
    parts: Sequence[Part]
    notes: Sequence[str] = ()
    checks: Sequence[Check] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
