"""Texts that record which of their parts come from the template and which from values.

Only the template's own text may open a message or an image. So a template renders to fragments. If a filter, a method
or an operator changes a fragment, the result is plain text and counts as a value. One kind of value may also open a
message: the role of a message in a list of messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from tunecheck._errors import PromptRenderError
from tunecheck._json import JSON

ROLES = ("system", "developer", "user", "assistant", "function", "tool")
_FIRST_MARK = "\ue000"

MAX_TEXT = 4 << 20
"""Most characters of a rendered template."""


class Fragment(str):
    """A text as pairs of (trusted, part). Trusted parts come from the template. `Inserted` parts are never joined."""

    __slots__ = ("_parts",)
    _parts: tuple[tuple[bool, str], ...]

    @classmethod
    def of(cls, parts: Sequence[tuple[bool, str]]) -> Self:
        fragment = cls("".join(text for _, text in parts))
        fragment._parts = tuple(parts)
        return fragment

    def __str__(self) -> str:
        return self  # Jinja calls str() on all output, which must keep the parts

    def iter_parts(self) -> Iterator[tuple[bool, str]]:
        return iter(self._parts)


def literal(text: str) -> Fragment:
    return Fragment.of([(True, text)])


class Role(Fragment):
    """The role of a message in a list of messages. It stays trusted if its case is changed."""

    __slots__ = ()

    def lower(self) -> Role:
        return Role.of([(True, super().lower())])

    def upper(self) -> Role:
        return Role.of([(True, super().upper())])

    def capitalize(self) -> Role:
        return Role.of([(True, super().capitalize())])


def with_roles(value: JSON) -> JSON:
    """Return a copy of a value in which the roles of messages may open a message in the template.

    Roles are marked in each list that contains messages only.
    """
    if isinstance(value, dict):
        return {key: with_roles(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    items = [with_roles(item) for item in value]
    if not all(map(_is_message, items)):
        return items
    return [{**item, "role": Role.of([(True, str(item["role"]))])} for item in items if isinstance(item, dict)]


def _is_message(value: JSON) -> bool:
    """Return True for an object with content and one of the known roles."""
    role = value.get("role") if isinstance(value, dict) and "content" in value else None
    return isinstance(role, str) and role.lower() in ROLES


class Inserted(Fragment):
    """A value that is not text, in the place of a text: messages, or a part of a message such as an image."""

    __slots__ = ("messages", "part")
    messages: Sequence[dict[str, JSON]]
    part: dict[str, JSON] | None

    @classmethod
    def instead(cls, kind: str, messages: Sequence[dict[str, JSON]] = (), part: dict[str, JSON] | None = None) -> Self:
        """Return a value that stands in the text as `[kind]`, and becomes these messages or this part of one."""
        value = cls(f"[{kind}]")
        value._parts = ((False, value),)
        value.messages, value.part = messages, part
        return value


def parts_of(text: str) -> Iterable[tuple[bool, str]]:
    """Return the parts of a text. A plain text is one untrusted part."""
    return text.iter_parts() if isinstance(text, Fragment) else ((False, str.__str__(text)),)


def join(texts: Iterable[str]) -> Fragment:
    """Concatenate texts into one fragment that still knows which parts came from the template.

    Adjacent parts of the same trust are merged, except messages and images (`Inserted`). A value is a part even if it
    is empty: its content must not decide whether the line around it is a role header.

    Raises:
        PromptRenderError: the result is longer than MAX_TEXT.
    """
    parts: list[tuple[bool, list[str]]] = []
    size = 0
    for text in texts:
        size += len(text)
        if size > MAX_TEXT:
            raise PromptRenderError(f"the template writes more than {MAX_TEXT >> 20} MB: give it shorter values")
        for trusted, part in parts_of(text):
            if (
                not parts
                or trusted != parts[-1][0]
                or isinstance(part, Inserted)
                or isinstance(parts[-1][1][0], Inserted)
            ):
                parts.append((trusted, []))
            parts[-1][1].append(part)
    return Fragment.of([(trusted, pieces[0] if len(pieces) == 1 else "".join(pieces)) for trusted, pieces in parts])


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A rendered template with a mark in place of each value. It is split into messages before values are filled in.

    A mark is a number between two characters that the template's own text does not contain.
    """

    text: str
    values: tuple[str, ...]
    mark: str

    @classmethod
    def of(cls, rendered: Fragment) -> Skeleton:
        """Return the rendered template with a numbered mark in the place of each value."""
        parts = list(parts_of(rendered))
        own = "".join(text for trusted, text in parts if trusted)
        # The first private use character of Unicode that the template does not contain. Checking the very first one is
        # faster than collecting all characters of the text for each call of a judge.
        used = set(own) if _FIRST_MARK in own else ()
        mark = next(char for char in map(chr, range(ord(_FIRST_MARK), 0x110000)) if char not in used)
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
        """Return a piece of the skeleton with its values in place of the marks."""
        return "".join(self.divided(piece))

    def divided(self, piece: str) -> Iterator[str | Inserted]:
        """Yield the parts of a piece of the skeleton with its values: texts, and values such as images between them."""
        texts: list[str] = []
        for index, part in enumerate(piece.split(self.mark)):
            value = self.values[int(part)] if index % 2 else part
            if not isinstance(value, Inserted):
                texts.append(value)
                continue
            yield "".join(texts)
            yield value
            texts = []
        yield "".join(texts)

    def is_own(self, piece: str) -> bool:
        return self.mark not in piece
