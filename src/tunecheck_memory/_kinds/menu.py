"""A restaurant's menu: sections of dishes and drinks, numbered through."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, TypeAlias

from msgspec import Meta

from tunecheck import ConfigurationError
from tunecheck.plugins import JSON, read_as

DRINKS = "Beverages"
"""The section of drinks."""

_MOST_TEXT = 200_000
_Line: TypeAlias = Annotated[str, Meta(pattern=r"^[^\r\n]*\S[^\r\n]*$", max_length=500)]
_ENTRY = re.compile(r"[0-9]{1,6}\. (.+)")


@dataclass(frozen=True)
class Menu:
    """Sections by name, each with its entries, numbered from 1 in their order."""

    sections: Mapping[str, tuple[str, ...]]

    @classmethod
    def read(cls, value: JSON, source: str) -> Menu:
        """Read the menu of a file: `{"Starters": ["Tomato Soup", …], …, "Beverages": […]}`.

        Raises:
            ConfigurationError: The value is no menu, or is too small for a mix-up; names `source` and the section.
        """
        sections = read_as(value, dict[_Line, list[_Line]], source)
        for section, entries in sections.items():
            if section != DRINKS and len(set(entries)) < 3:
                raise ConfigurationError(
                    f"{source}: the section {section!r} needs three entries or more: one that runs out, "
                    "one in its place, and one that the waiter brings by mistake"
                )
        menu = cls({section: tuple(entries) for section, entries in sections.items()})
        if not menu.dishes:
            raise ConfigurationError(f"{source}: no section but {DRINKS!r}, so there is nothing to eat")
        return menu

    @classmethod
    def of_text(cls, text: str) -> Menu:
        """Read the menu in a text. Other lines are ignored."""
        sections: dict[str, list[str]] = {}
        entries: list[str] = []
        for line in text[:_MOST_TEXT].splitlines():
            if numbered := _ENTRY.match(line):
                entries.append(numbered[1])
            elif line.endswith(":"):
                entries = sections.setdefault(line[:-1], [])
        return cls({section: tuple(listed) for section, listed in sections.items()})

    @cached_property
    def entries(self) -> tuple[str, ...]:
        """Return all entries; the first has the number 1."""
        return tuple(entry for entries in self.sections.values() for entry in entries)

    @cached_property
    def dishes(self) -> Mapping[int, str]:
        return {number: entry for number, section, entry in self.numbered() if section != DRINKS}

    @cached_property
    def drinks(self) -> Mapping[int, str]:
        return {number: entry for number, section, entry in self.numbered() if section == DRINKS}

    @cached_property
    def text(self) -> str:
        lines: dict[str, list[str]] = {section: [f"{section}:"] for section in self.sections}
        for number, section, entry in self.numbered():
            lines[section].append(f"{number}. {entry}")
        return "\n\n".join("\n".join(section) for section in lines.values())

    def numbered(self) -> Iterator[tuple[int, str, str]]:
        pairs = ((section, entry) for section, entries in self.sections.items() for entry in entries)
        for number, (section, entry) in enumerate(pairs, 1):
            yield number, section, entry

    def has(self, item: str) -> bool:
        return item.lower() in self.text.lower()

    def like(self, item: str) -> tuple[str, Sequence[str]] | None:
        """Return the first entry that contains the item, with all entries of its section."""
        return next(
            ((entry, entries) for entries in self.sections.values() for entry in entries if item in entry), None
        )
