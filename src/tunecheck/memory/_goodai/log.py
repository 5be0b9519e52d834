"""The GoodAI benchmark's log of a run, `master_log.jsonl`: one event a line, read and written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from tunecheck._errors import DataError
from tunecheck._json import JSON, dumps_line, loads
from tunecheck.memory._effects import (
    Begin,
    Consult,
    Deregister,
    Effect,
    End,
    Outcome,
    Register,
    Send,
    SuiteReset,
    Waiting,
)

_MICROSECONDS = 1_000_000

_LAST_TIMESTAMP = 253_402_300_800.0
"""The end of the year 9999, in seconds since 1970."""

_SHOWN = 60


class EventType(IntEnum):
    """What a line of the log says, by its number there."""

    SEND_MESSAGE = 0
    BEGIN = 1
    END = 2
    SEND_FILL = 3
    RESPONSE_MESSAGE = 4
    RESPONSE_FILL = 5
    WAIT = 6
    SUITE_RESET = 7
    LLM_CALL = 8
    REGISTER_CALLBACK = 9
    DEREGISTER_CALLBACK = 10


SENT = frozenset({EventType.SEND_MESSAGE, EventType.SEND_FILL})
ANSWERED = frozenset({EventType.RESPONSE_MESSAGE, EventType.RESPONSE_FILL})

_TEXT_OF: Mapping[EventType, str] = {
    **dict.fromkeys(SENT | ANSWERED, "message"),
    EventType.LLM_CALL: "response",
}


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One event. `at_us` is in µs since 1970; the rest is what its type has: texts, tokens and seconds of waits.

    `line` is its line in the file, from 1.
    """

    type: EventType
    at_us: int
    test: str = ""
    text: str | None = None
    question: bool = False
    tokens: int = 0
    seconds: int = 0
    line: int = 0

    @property
    def sent(self) -> bool:
        """Whether it is a message to the agent."""
        return self.type in SENT

    @property
    def answered(self) -> bool:
        """Whether it is a reply of the agent."""
        return self.type in ANSWERED

    def says(self) -> str:
        """The event in a line, for people."""
        parts = [self.type.name, f"{self.test!r}" if self.test else ""]
        if self.type in _TEXT_OF:
            parts.append(f"{self.text!r}{' (question)' if self.question else ''}")
        if self.type in (EventType.BEGIN, EventType.WAIT):
            parts.append(f"{self.tokens} tokens")
        if self.type is EventType.WAIT:
            parts.append(f"{self.seconds} s")
        return " ".join(filter(None, parts))


@dataclass(frozen=True)
class LogFile:
    """The events of a log; `torn` says that its last line broke off and was left out."""

    name: str
    events: tuple[LogEvent, ...]
    torn: bool = False


def read_log(file: Path | str) -> LogFile:
    """All events of a log, in order; a last line that broke off is passed over.

    Raises:
        DataError: it cannot be read, or a line is no event; names file and line.
    """
    path = Path(file)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    events: list[LogEvent] = []
    *whole, rest = raw.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    for number, line in enumerate(whole, 1):
        if line.strip():
            events.append(_event(line, number, str(path)))
    torn = False
    if rest.strip():
        try:
            events.append(_event(rest, len(whole) + 1, str(path)))
        except DataError:
            torn = True
    return LogFile(str(path), tuple(events), torn)


def log_events(effect: Effect, before_us: int, outcome: Outcome) -> Iterator[LogEvent]:
    """What the log says of an effect and of what it came to, if anything; `before_us` is the time before it."""
    at_us = outcome.at_us
    match effect:
        case Send(test, message, question):
            kinds = (EventType.SEND_MESSAGE, EventType.RESPONSE_MESSAGE) if test else _FILL
            yield LogEvent(kinds[0], before_us, test, message, question)
            yield LogEvent(kinds[1], at_us, test, outcome.text or "", question)
        case Consult(test):
            yield LogEvent(EventType.LLM_CALL, at_us, test, outcome.text or "")
        case Begin(test, tokens):
            yield LogEvent(EventType.BEGIN, at_us, test, tokens=tokens)
        case Waiting(test, tokens, seconds):
            yield LogEvent(EventType.WAIT, at_us, test, tokens=tokens, seconds=seconds)
        case End(test):
            yield LogEvent(EventType.END, at_us, test)
        case Register(test):
            yield LogEvent(EventType.REGISTER_CALLBACK, at_us, test)
        case Deregister(test):
            yield LogEvent(EventType.DEREGISTER_CALLBACK, at_us, test)
        case SuiteReset():
            yield LogEvent(EventType.SUITE_RESET, at_us)


_FILL = (EventType.SEND_FILL, EventType.RESPONSE_FILL)


def log_line(event: LogEvent) -> bytes:
    """The event as a line of the log."""
    return dumps_line(
        {
            "type": int(event.type),
            "timestamp": event.at_us / _MICROSECONDS,
            "test_id": event.test,
            "data": _data(event),
        }
    )


def _data(event: LogEvent) -> dict[str, JSON]:
    match event.type:
        case EventType.BEGIN:
            return {"tokens": event.tokens}
        case EventType.WAIT:
            return {"tokens": event.tokens, "time": event.seconds}
        case EventType.LLM_CALL:
            return {"response": event.text}
    return {"message": event.text, "is_question": event.question} if event.type in _TEXT_OF else {}


def _event(line: bytes, number: int, name: str) -> LogEvent:
    try:
        value = loads(line)
        if not isinstance(value, dict):
            raise ValueError("an event is one JSON object")
        return _read(value, number)
    except ValueError as error:
        raise DataError(f"{name}, line {number}: {error}") from None


def _read(value: dict[str, JSON], number: int) -> LogEvent:
    kind, data = _type(value.get("type")), value.get("data")
    data = data if isinstance(data, dict) else {}
    test = value.get("test_id", "")
    if not isinstance(test, str):
        raise ValueError("test_id must be a text")
    text = data.get(_TEXT_OF[kind]) if kind in _TEXT_OF else None
    if kind in _TEXT_OF and not isinstance(text, str):
        raise ValueError(f"{kind.name} has no text {_TEXT_OF[kind]!r}")
    return LogEvent(
        kind,
        _time(value.get("timestamp")),
        test,
        str(text) if kind in _TEXT_OF else None,
        data.get("is_question") is True,
        _whole(data.get("tokens", 0), "tokens"),
        _whole(data.get("time", 0), "time"),
        number,
    )


def _type(value: JSON) -> EventType:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(EventType):
        return EventType(value)
    raise ValueError(f"there is no type of event {str(value)[:_SHOWN]!r}; known: 0 to {len(EventType) - 1}")


def _time(value: JSON) -> int:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < _LAST_TIMESTAMP:
        seconds = int(value)  # apart from the rest, so that no microsecond is lost to rounding before the year 2242
        return seconds * _MICROSECONDS + round((value - seconds) * _MICROSECONDS)
    raise ValueError("timestamp must be seconds since 1970")


def _whole(value: JSON, name: str) -> int:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _LAST_TIMESTAMP:
        return round(value)
    raise ValueError(f"{name} must be a number")
