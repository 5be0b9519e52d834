"""The panel of the report: the people whom the model greeted."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from tunecheck.plugins import JSON
from tunecheck.report import PanelRow


class GreetingsReader:
    """Reads the rows of one run."""

    def __init__(self) -> None:
        self._people: list[JSON] = []

    def add(self, number: int, row: Mapping[str, JSON]) -> PanelRow | None:
        """Take the next row of the run."""
        if row.get("outputs.greets.greets_passed") is not True:
            return None
        self._people.append(row.get("inputs.person"))
        return PanelRow("greeted")

    def data(self) -> JSON:
        """Return what the script draws, or None for a run without greetings."""
        return self._people or None


class GreetingsPanel:
    """The panel, with its script and its style."""

    script = files("greetings").joinpath("panel.js").read_text("utf-8")
    style = ".greetings { font-style: italic }"

    def reader(self, folder: Path | None) -> GreetingsReader:
        """Return what reads the rows of one run."""
        return GreetingsReader()


GREETINGS_PANEL = GreetingsPanel()
