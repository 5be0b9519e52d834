"""Panels that plug-ins add to a report: their readers of rows, and their part of an opened row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tunecheck import plugins
from tunecheck._json import JSON


@dataclass(frozen=True, slots=True)
class PanelRow:
    """The part of an opened row that a panel shows.

    `question` replaces the text that names the row in the table. `columns` of the target are shown nowhere else.
    """

    shown: JSON
    question: str = ""
    columns: frozenset[str] = frozenset()


class PanelReader(Protocol):
    """Reads the rows of one run for a panel."""

    def add(self, number: int, row: Mapping[str, JSON]) -> PanelRow | None:
        """Take the next row, counted from 0; return what it shows when it is opened, or None for nothing."""

    def data(self) -> JSON:
        """Return what the panel's script draws after all rows, or None for no panel."""


class PanelReaders:
    """All panels' readers of one run; `folder` is its run folder, None for results of other programs."""

    def __init__(self, folder: Path | None) -> None:
        self._readers = {name: panel.reader(folder) for name, panel in plugins.panels().items()}

    def add(self, number: int, row: Mapping[str, JSON]) -> dict[str, PanelRow]:
        """Take the next row; return what it shows, by panel."""
        read = ((name, reader.add(number, row)) for name, reader in self._readers.items())
        return {name: shown for name, shown in read if shown is not None}

    def data(self) -> dict[str, JSON]:
        """Return the data that the page draws, by the name of the panel."""
        read = ((name, reader.data()) for name, reader in self._readers.items())
        return {name: data for name, data in read if data is not None}
