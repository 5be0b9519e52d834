"""The event log of one session: everything that its conversation came to, in order; its state is a fold over it.

One JSON object a line in `RUN/memory/<session>/events.jsonl`:

    {"k": "session", "format_version": 1, "start": µs, "made_of": {…}}      first: what the events depend on
    {"k": "do", "n": 12, "key": "…", "at": µs, "effect": {…}}       before something is asked of the agent or the judge
    {"k": "done", "n": 12, "outcome": {…}}                          what it came to
    {"k": "did", "n": 13, "effect": {…}, "outcome": {…}}            something that concerns nobody else

An effect that is said to be done and was not (`do` without `done`, at the end) was in flight when the process died: it
is carried out again under the same key. The last line may be torn; it is cut off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tunecheck._errors import ConfigurationError, RunError
from tunecheck._files.versions import check_first_record, versioned
from tunecheck._json import JSON, loads
from tunecheck._records import RecordFile
from tunecheck.memory._effects import Effect, Outcome
from tunecheck.memory._event_data import effect_data, outcome_data, read_effect, read_outcome


@dataclass(frozen=True, slots=True)
class Event:
    """A recorded effect; `outcome` is None where it was in flight, `key` where nobody was asked."""

    effect: Effect
    data: Mapping[str, JSON]
    outcome: Outcome | None
    key: str | None = None
    at_us: int = 0


@dataclass(frozen=True, slots=True)
class _Header:
    start_us: int
    made_of: Mapping[str, JSON]


class EventLog:
    """The log of a session at work.

    `recorded` are the events of before, when it is taken up again; `start_us` is when its clock began.
    """

    def __init__(self, path: Path, start_us: int, made_of: Mapping[str, JSON]) -> None:
        """Take the log up, or begin it; `made_of` names what the events depend on, each with a hash or a setting.

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
                header = _Header(start_us, made_of)
                self._file.append(versioned({"k": "session", "start": start_us, "made_of": dict(made_of)}))
            _check_same(path, header.made_of, made_of)
        except BaseException:
            self._file.close()
            raise
        self.start_us = header.start_us
        self._next = len(self.recorded)

    def intend(self, effect: Effect, key: str, at_us: int) -> None:
        """Record what is about to be asked of somebody else.

        Raises:
            RunError: it cannot be written.
        """
        self._file.append({"k": "do", "n": self._next, "key": key, "at": at_us, "effect": effect_data(effect)})

    def done(self, outcome: Outcome) -> None:
        """Record what that came to.

        Raises:
            RunError: it cannot be written.
        """
        self._file.append({"k": "done", "n": self._next, "outcome": outcome_data(outcome)})
        self._next += 1

    def redone(self, outcome: Outcome) -> None:
        """Record what an effect came to that was in flight when the log was taken up."""
        self._next -= 1
        self.done(outcome)

    def did(self, effect: Effect, outcome: Outcome) -> None:
        """Record an effect that concerns nobody else, with its outcome.

        Raises:
            RunError: it cannot be written.
        """
        data, came_to = effect_data(effect), outcome_data(outcome)
        self._file.append({"k": "did", "n": self._next, "effect": data, "outcome": came_to})
        self._next += 1

    def close(self) -> None:
        """Sync and release the file."""
        self._file.close()


def _check_same(path: Path, before: Mapping[str, JSON], now: Mapping[str, JSON]) -> None:
    changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if changed:
        others = " and other ".join(changed)
        raise ConfigurationError(
            f"{path.parent.name} was begun with other {others}: undo that, or start anew with --fresh"
        )


def read_events(path: Path) -> list[Event]:
    """The events of a log, for reading only.

    Raises:
        ConfigurationError: it cannot be read, or is damaged.
    """
    return _read(path)[1]


def _read(path: Path) -> tuple[_Header | None, list[Event]]:
    check_first_record(path)
    header: _Header | None = None
    events: list[Event] = []
    for number, record in _records(path):
        try:
            if header is None:
                header = _read_header(record)
            else:
                _add(events, record)
        except ValueError as error:
            raise ConfigurationError(
                f"{path}, line {number}: {error}; it is damaged, start anew with --fresh"
            ) from None
    return header, events


def _records(path: Path) -> Iterator[tuple[int, dict[str, JSON]]]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.endswith(b"\n"):  # else torn: what the process was writing when it died
                    yield number, _record(path, number, line)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None


def _record(path: Path, number: int, line: bytes) -> dict[str, JSON]:
    try:
        record = loads(line)
    except ValueError as error:
        raise ConfigurationError(f"{path}, line {number}: {error}; it is damaged, start anew with --fresh") from None
    return record if isinstance(record, dict) else {}


def _read_header(record: Mapping[str, JSON]) -> _Header:
    start, made_of = record.get("start"), record.get("made_of")
    if record.get("k") != "session" or not isinstance(start, int) or not isinstance(made_of, dict):
        raise ValueError("no beginning of a session")
    return _Header(start, made_of)


def _add(events: list[Event], record: Mapping[str, JSON]) -> None:
    kind = record.get("k")
    in_flight = bool(events) and events[-1].outcome is None
    if kind == "done" and in_flight and record.get("n") == len(events) - 1:
        event = events[-1]
        events[-1] = Event(event.effect, event.data, read_outcome(_object(record, "outcome")), event.key, event.at_us)
        return
    if kind not in ("do", "did") or in_flight or record.get("n") != len(events):
        raise ValueError("out of order")
    data = _object(record, "effect")
    if kind == "did":
        events.append(Event(read_effect(data), data, read_outcome(_object(record, "outcome"))))
    else:
        key, at = record.get("key"), record.get("at")
        if not isinstance(key, str) or not isinstance(at, int):
            raise ValueError("an effect without its key or its time")
        events.append(Event(read_effect(data), data, None, key, at))


def _object(record: Mapping[str, JSON], key: str) -> dict[str, JSON]:
    value = record.get(key)
    if not isinstance(value, dict):
        raise ValueError(f"{key} is no object")
    return value
