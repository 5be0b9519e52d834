"""The panel of a memory run's report: its figures, its timeline, and the log of each test."""

from collections.abc import Mapping
from functools import cached_property
from importlib.resources import files
from pathlib import Path

from tunecheck.plugins import JSON, real_number
from tunecheck.report import PanelRow
from tunecheck_memory._session_log import is_test_log, last_question, shown_log
from tunecheck_memory._timeline import Timeline, memory_figures

_LOG = "outputs.log"


class TimelineReader:
    """Reads the rows of one run."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._timeline = Timeline()

    def add(self, number: int, row: Mapping[str, JSON]) -> PanelRow | None:
        """Take a test; return its own log."""
        log = row.get(_LOG)
        if not is_test_log(log):
            return None
        self._timeline.add(number, row, real_number(row.get("outputs.memory.memory")))
        return PanelRow(shown_log(log), last_question(log) or "", frozenset({"log"}))

    def data(self) -> JSON:
        """Return the sessions and the run's figures."""
        sessions = self._timeline.written()
        figures = None if self._folder is None else memory_figures(self._folder)
        return None if sessions is None else {"sessions": sessions, "figures": figures}


class TimelinePanel:
    """How the tests of a run were interleaved in their conversations."""

    @cached_property
    def script(self) -> str:
        """Return the script that draws it."""
        return _browser_file("timeline.js")

    @cached_property
    def style(self) -> str:
        """Return the style of its elements."""
        return _browser_file("timeline.css")

    def reader(self, folder: Path | None) -> TimelineReader:
        """Return what reads the rows of the run in a folder."""
        return TimelineReader(folder)


TIMELINE_PANEL = TimelinePanel()


def _browser_file(name: str) -> str:
    return files("tunecheck_memory").joinpath("browser", name).read_text("utf-8")
