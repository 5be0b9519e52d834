"""The event log of one session: everything that its conversation came to, in order; its state is a fold over it.

One JSON object a line in `RUN/memory/<session>/events.jsonl`:

    {"k": "session", "format_version": 1, "start": µs, "made_of": {…}}      first: what the events depend on
    {"k": "do", "n": 12, "key": "…", "at": µs, "effect": {…}}       before something is asked of the agent or the judge
    {"k": "done", "n": 12, "outcome": {…}}                          what it came to
    {"k": "did", "n": 13, "effect": {…}, "outcome": {…}}            something that concerns nobody else

A `do` without its `done`, at the end, was in flight when the process died: it is carried out again under the same key.
The last line may be torn; it is cut off.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from tunecheck._errors import ConfigurationError, RunError, told_as
from tunecheck._files import FORMAT_VERSION, check_first_record
from tunecheck._json import JSON, loads
from tunecheck._records import RecordFile
from tunecheck._regular_files import read_regular
from tunecheck.memory._effects import Effect, Outcome

FOLDER, EVENTS = "memory", "events.jsonl"
"""The folder in a run's own, and in it, below each session's, the file of its events."""

_MOST_BYTES = 1 << 30


def session_name(trial: object) -> str:
    return f"session-{trial}"


def event_log_path(run: Path, trial: int) -> Path:
    return run / FOLDER / session_name(trial) / EVENTS


class _Record(msgspec.Struct, frozen=True, tag_field="k"): ...


class _Session(_Record, frozen=True, tag="session"):
    start: int
    made_of: dict[str, Any]
    format_version: int = FORMAT_VERSION


class _Do(_Record, frozen=True, tag="do"):
    n: int
    key: str
    at: int
    effect: Effect


class _Done(_Record, frozen=True, tag="done"):
    n: int
    outcome: Outcome


class _Did(_Record, frozen=True, tag="did"):
    n: int
    effect: Effect
    outcome: Outcome


AnyRecord: TypeAlias = _Session | _Do | _Done | _Did


class Event(msgspec.Struct, frozen=True):
    """A recorded effect; `outcome` is None where it was in flight, `key` where nobody was asked."""

    effect: Effect
    outcome: Outcome | None
    key: str | None = None
    at_us: int = 0


class EventLog:
    """The log of a session at work: `recorded` are its events so far, `start_us` is when its clock began.

    Every method that writes raises RunError where it cannot.
    """

    def __init__(self, path: Path, start_us: int, made_of: Mapping[str, JSON]) -> None:
        """Open the log, or begin it; `made_of` names what the events depend on, each with a hash or a setting.

        Raises:
            ConfigurationError: it was begun with something else, or is damaged; the text says what.
            RunError: it cannot be written.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot make the folder {path.parent}: {error.strerror}") from error
        self._file = RecordFile(path, f"the session {path.parent.name}")
        try:
            header, self.recorded = _read(path)
            if header is None:
                header = _Session(start_us, dict(made_of))
                self._file.append(header)
            before: Mapping[str, JSON] = header.made_of
            changed = [name for name in {**before, **made_of} if before.get(name) != made_of.get(name)]
            if changed:
                raise ConfigurationError(
                    f"{path.parent.name} was begun with other {' and other '.join(changed)}: "
                    "undo that, or start anew with --fresh"
                )
        except BaseException:  # noqa: BLE001 - nobody else closes a file whose owner was not made
            self._file.close()
            raise
        self.start_us = header.start
        self._next = len(self.recorded)

    def intend(self, effect: Effect, key: str, at_us: int) -> None:
        """Record what is about to be asked of the agent or the judge."""
        self._file.append(_Do(self._next, key, at_us, effect))

    def done(self, outcome: Outcome) -> None:
        self._file.append(_Done(self._next, outcome))
        self._next += 1

    def redone(self, outcome: Outcome) -> None:
        self._next -= 1
        self.done(outcome)

    def did(self, effect: Effect, outcome: Outcome) -> None:
        self._file.append(_Did(self._next, effect, outcome))
        self._next += 1

    def close(self) -> None:
        self._file.close()


def read_events(path: Path) -> list[Event]:
    """The events of a log; raises ConfigurationError where it cannot be read or is damaged."""
    return _read(path)[1]


def _read(path: Path) -> tuple[_Session | None, list[Event]]:
    check_first_record(path)
    with told_as(ConfigurationError, path):
        *lines, _ = read_regular(path, _MOST_BYTES).split(b"\n")  # what follows the last line's end is torn
    header: _Session | None = None
    events: list[Event] = []
    for number, line in enumerate(lines, 1):
        try:
            record: AnyRecord = msgspec.convert(loads(line), AnyRecord)
            if header is not None:
                _add(events, record)
            elif isinstance(record, _Session):
                header = record
            else:
                raise ValueError("no beginning of a session")
        except ValueError as error:
            raise ConfigurationError(
                f"{path}, line {number}: {error}; it is damaged, start anew with --fresh"
            ) from None
    return header, events


def _add(events: list[Event], record: AnyRecord) -> None:
    in_flight = bool(events) and events[-1].outcome is None
    match record:
        case _Done(n, outcome) if in_flight and n == len(events) - 1:
            events[-1] = msgspec.structs.replace(events[-1], outcome=outcome)
        case _Do(n, key, at_us, effect) if not in_flight and n == len(events):
            events.append(Event(effect, None, key, at_us))
        case _Did(n, effect, outcome) if not in_flight and n == len(events):
            events.append(Event(effect, outcome))
        case _:
            raise ValueError("out of order")
