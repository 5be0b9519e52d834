"""Panels that plug-ins add to a report: their row readers, and their part of a row's details."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tunecheck import plugins
from tunecheck._json import JSON


@dataclass(frozen=True, slots=True)
class PanelRow:
    """A panel's part of a row's details.

    `question` replaces the row's text in the table. `columns` are the target's columns that only the panel shows.
    """

    shown: JSON
    question: str = ""
    columns: frozenset[str] = frozenset()


class PanelReader(Protocol):
    """Reads the rows of one run for a panel."""

    def add(self, number: int, row: Mapping[str, JSON]) -> PanelRow | None:
        """Take the next row, counted from 0; return the panel's part of its details, or None."""

    def data(self) -> JSON:
        """Return the data for the panel's script, after all rows; None to show no panel."""


class PanelReaders:
    """The readers of all panels for one run; `folder` is the run folder, None for results of other programs."""

    def __init__(self, folder: Path | None) -> None:
        self._readers = {name: panel.reader(folder) for name, panel in plugins.panels().items()}

    def add(self, number: int, row: Mapping[str, JSON]) -> dict[str, PanelRow]:
        """Take the next row; return each panel's part of its details, by name."""
        read = ((name, reader.add(number, row)) for name, reader in self._readers.items())
        return {name: shown for name, shown in read if shown is not None}

    def data(self) -> dict[str, JSON]:
        """Return the data of each panel that has some, by name."""
        read = ((name, reader.data()) for name, reader in self._readers.items())
        return {name: data for name, data in read if data is not None}
