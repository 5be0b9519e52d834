"""Text that knows which of its parts stand in the template and which came from values.

Only what the template's author wrote may open a message or an image. So a template renders to fragments; whatever a
filter, a method or an operator makes of one is plain text again, and counts as a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self


class Fragment(str):
    """A text in parts; `trusted` ones are the template's own."""

    __slots__ = ("_parts",)
    _parts: tuple[tuple[bool, str], ...]

    @classmethod
    def of(cls, parts: Sequence[tuple[bool, str]]) -> Self:
        made = cls("".join(text for _, text in parts))
        made._parts = tuple(parts)
        return made

    def __str__(self) -> str:
        return self  # Jinja calls str() on all it writes: the parts must survive that

    def iter_parts(self) -> Iterator[tuple[bool, str]]:
        return iter(self._parts)


def literal(text: str) -> Fragment:
    return Fragment.of([(True, text)])


def parts_of(text: str) -> Iterable[tuple[bool, str]]:
    """The parts of a text; plain text is one that came from a value."""
    return text.iter_parts() if isinstance(text, Fragment) else ((False, str.__str__(text)),)


def join(texts: Iterable[str]) -> Fragment:
    """Texts one after the other, neighbours of one kind joined.

    An empty value stays a part: whether a line is a role header must not depend on what a value is.
    """
    parts: list[tuple[bool, list[str]]] = []
    for text in texts:
        for trusted, part in parts_of(text):
            if not parts or parts[-1][0] != trusted:
                parts.append((trusted, []))
            parts[-1][1].append(part)
    return Fragment.of([(trusted, "".join(pieces)) for trusted, pieces in parts])


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A rendered template with a mark in the place of each value, to be split into messages before they are filled in.

    A mark is a character that the template's own text does not have, a number, and the character again.
    """

    text: str
    values: tuple[str, ...]
    mark: str

    @classmethod
    def of(cls, rendered: Fragment) -> Skeleton:
        parts = list(parts_of(rendered))
        own = "".join(text for trusted, text in parts if trusted)
        used = set(own)
        # The first of Unicode's private use characters that the template leaves free.
        mark = next(char for char in map(chr, range(0xE000, 0x110000)) if char not in used)
        pieces: list[str] = []
        values: list[str] = []
        for trusted, text in parts:
            if trusted:
                pieces.append(text)
            else:
                pieces.append(f"{mark}{len(values)}{mark}")
                values.append(text)
        return cls("".join(pieces), tuple(values), mark)

    def filled(self, piece: str) -> str:
        if self.mark not in piece:
            return piece
        outside, *rest = piece.split(self.mark)
        filled = [outside]
        for number, after in zip(rest[::2], rest[1::2], strict=True):
            filled += [self.values[int(number)], after]
        return "".join(filled)

    def is_own(self, piece: str) -> bool:
        return self.mark not in piece
