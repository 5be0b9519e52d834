"""The panel of a memory run's report: figures, a timeline of the interleaved tests, and the log of each test.

The report passes each result row to `TimelineReader.add`. The row's log becomes the row's own panel, and its messages
and marks become part of the conversation's timeline. The limits keep the page small: further conversations are left
out, further log entries are counted, and long texts are cut.
"""

import contextlib
import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from tunecheck import ConfigurationError, NewerFileError
from tunecheck.plugins import JSON, convert_value, plural, read_object, real_number
from tunecheck.report import PanelRow, as_json, cut

_MARKS = ("statement", "question", "judge", "callback", "callback over", "wait", "end")
"""The marks of the timeline; the page refers to them by index."""

# The most conversations on the page, marks of a test, entries of a test's log, and characters of a text in it
_MOST_SESSIONS = 10
_MOST_MARKS = 100
_MOST_ENTRIES = 300
_MOST_TEXT = 6_000
_JUMP_S = 60
"""The timeline shows that time passed if there are more seconds between two messages."""

_Count: TypeAlias = Annotated[int, Meta(ge=0, lt=1 << 53)]


class LogEntry(msgspec.Struct, frozen=True):
    """An entry of a test's own log, as `output_columns` describes it."""

    what: str
    message: _Count
    tokens: _Count
    at: Annotated[datetime, Meta(tz=True)]
    size: _Count | None = None
    said: str | None = None
    reply: str | None = None
    reasoning: str | None = None
    purpose: str | None = None
    values: Any = None
    for_tokens: _Count = 0
    for_seconds: Annotated[int, Meta(ge=0, le=10**12)] = 0
    adopted: bool = False
    declined: bool = False

    @property
    def time(self) -> str:
        """The conversation's time: "2025-01-06 09:00:00"."""
        return f"{self.at:%Y-%m-%d %H:%M:%S}"

    @property
    def page_entry(self) -> JSON:
        """The entry for the page: `[what, where, [[speaker, text], …], note]`."""
        judged = self.what == "judge"
        spoken = (
            ("test", f"{self.purpose}: {as_json(self.values)}" if judged else self.said),
            ("reasoning", self.reasoning),
            ("judge" if judged else "agent", self.reply),
        )

        notes = (
            f"for {plural(self.for_tokens, 'token')}" if self.for_tokens else "",
            f"for {timedelta(seconds=self.for_seconds)}" if self.for_seconds else "",
            "the agent adopted the suggested reply" if self.adopted else "",
            "the agent's service declined to answer" if self.declined else "",
            f"{plural(self.size, 'token')} with the reply" if self.size is not None else "",
        )

        where = f"message {self.message:,} · {self.tokens:,} tokens · {self.time}"
        texts: list[JSON] = [[speaker, cut(text, _MOST_TEXT)] for speaker, text in spoken if text is not None]
        return [self.what[:40], where, texts, "; ".join(filter(None, notes))]


def read_log(column: JSON) -> list[LogEntry]:
    """Return the readable entries of a test's log; empty if there are none, or the first is not "begin"."""
    entries: list[LogEntry] = []
    for each in column if isinstance(column, list) else []:
        with contextlib.suppress(msgspec.ValidationError, UnicodeEncodeError):  # a damaged row
            entries.append(msgspec.convert(each, LogEntry))
    return entries if entries and entries[0].what == "begin" else []


class _PanelConversation(msgspec.Struct):
    """One conversation: its tests, and their messages."""

    tests: list[dict[str, Any]] = msgspec.field(default_factory=list)
    messages: list[LogEntry] = msgspec.field(default_factory=list)

    def add(self, number: int, row: Mapping[str, JSON], log: list[LogEntry]) -> None:
        """Add a test and its messages; `number` is the number of its row."""
        self.messages += [entry for entry in log if entry.size is not None]
        score = real_number(row.get("outputs.memory.memory"))
        marks = [[_MARKS.index(each.what), each.tokens, each.message, each.time] for each in log if each.what in _MARKS]
        self.tests.append(
            {
                "id": str(row.get("row_id"))[:200],
                "row": number,
                "score": score if score is not None and math.isfinite(score) else None,
                "begin": log[0].tokens,
                "end": next((each.tokens for each in log if each.what == "end"), log[0].tokens),
                "marks": marks[:_MOST_MARKS],
            }
        )

    def page_data(self, name: str) -> JSON:
        """Return the data from which the page draws the conversation with this name.

        Tokens between the tests' messages are filler. A pause of over a minute between two messages is a time jump.
        """
        messages = sorted(self.messages, key=lambda entry: entry.message)
        filler, end = list[JSON](), 0
        for entry in messages:
            # Tokens since the last message of a test are filler.
            if entry.tokens > end:
                filler.append([end, entry.tokens])
            end = entry.tokens + (entry.size or 0)

        pauses = [(after, int((after.at - before.at).total_seconds())) for before, after in pairwise(messages)]
        time_jumps: list[JSON] = [[after.tokens, seconds] for after, seconds in pauses if seconds > _JUMP_S]

        return {
            "name": name,
            "tokens": max((entry.tokens + (entry.size or 0) for entry in messages), default=0),
            "messages": messages[-1].message + 1 if messages else 0,
            "tests": [*sorted(self.tests, key=lambda test: (test["begin"], test["row"]))],
            "filler": filler,
            "passed": time_jumps,
        }


class TimelineReader:
    """Reader of the rows of one run."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._conversations: dict[str, _PanelConversation] = {}

    def add(self, number: int, row: Mapping[str, JSON]) -> PanelRow | None:
        """Add the row with this number to its conversation, and return the test's log for the row's panel.

        Conversations beyond the limit are left out, and a long log is cut. Return None if the row is no memory test.
        """
        log = read_log(row.get("outputs.log"))
        if not log:
            return None

        name = str(row.get("outputs.session"))[:100]
        if name in self._conversations or len(self._conversations) < _MOST_SESSIONS:
            self._conversations.setdefault(name, _PanelConversation()).add(number, row, log)

        shown = [entry.page_entry for entry in log[:_MOST_ENTRIES]]
        if len(log) > _MOST_ENTRIES:
            shown.append(["", "", [], f"and {len(log) - _MOST_ENTRIES:,} more entries"])

        question = next((entry.said for entry in reversed(log) if entry.what == "question" and entry.said), "")
        return PanelRow(shown, question, frozenset({"log"}))

    def data(self) -> JSON:
        """Return the conversations and the run's figures for the page; None if no row is a memory test."""
        sessions = [conversation.page_data(name) for name, conversation in self._conversations.items()]
        figures = memory_figures(self._folder) if sessions and self._folder is not None else None
        return {"sessions": sessions, "figures": figures} if sessions else None


def memory_figures(run: Path) -> JSON:
    """Return the figures in a run's `memory/summary.json`, or None if they cannot be read.

    The rest of the report does not need them. Only a file of a newer version raises an error (NewerFileError).
    """
    from tunecheck_memory._run_files import MemorySummary  # not loaded for other runs

    try:
        summary: JSON = msgspec.to_builtins(convert_value(read_object(run / "memory" / "summary.json"), MemorySummary))
    except NewerFileError:
        raise
    except (ConfigurationError, msgspec.ValidationError):
        return None
    return summary


class TimelinePanel:
    """The timeline of a run's interleaved tests."""

    def __init__(self) -> None:
        folder = files("tunecheck_memory").joinpath("browser")
        self.script = folder.joinpath("timeline.js").read_text("utf-8")
        self.style = folder.joinpath("timeline.css").read_text("utf-8")

    def reader(self, folder: Path | None) -> TimelineReader:
        """Return a reader of the rows of the run in a folder."""
        return TimelineReader(folder)


TIMELINE_PANEL = TimelinePanel()
