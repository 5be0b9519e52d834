"""The GoodAI benchmark's log of a run, `master_log.jsonl`: one event a line, read and written."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from tunecheck._describe import read_as
from tunecheck._errors import DataError, told_as
from tunecheck._json import JSON, dumps_line, loads
from tunecheck_memory._effects import (
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

_Amount: TypeAlias = Annotated[float, Meta(gt=-_LAST_TIMESTAMP, lt=_LAST_TIMESTAMP)]


class EventType(IntEnum):
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


SENT = (EventType.SEND_MESSAGE, EventType.SEND_FILL)
ANSWERED = (EventType.RESPONSE_MESSAGE, EventType.RESPONSE_FILL)

_TEXT_OF: Mapping[EventType, str] = {**dict.fromkeys((*SENT, *ANSWERED), "message"), EventType.LLM_CALL: "response"}


@dataclass(frozen=True, slots=True)
class LogEvent:
    """`at_us` is in µs since 1970; `line` is the line in the file, from 1; the rest depends on the type."""

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
        return self.type in SENT

    @property
    def answered(self) -> bool:
        return self.type in ANSWERED

    def says(self) -> str:
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
    """`torn`: the last line broke off and was left out."""

    name: str
    events: tuple[LogEvent, ...]
    torn: bool = False


def read_log(file: Path | str) -> LogFile:
    """All events of a log, in order; a last line that broke off is passed over.

    Raises:
        DataError: it cannot be read, or a line is not an event; names file and line.
    """
    path = Path(file)
    with told_as(DataError, path):
        raw = path.read_bytes()
    *whole, rest = raw.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    events = [_event(line, number, str(path)) for number, line in enumerate(whole, 1) if line.strip()]
    torn = False
    if rest.strip():
        try:
            events.append(_event(rest, len(whole) + 1, str(path)))
        except DataError:
            torn = True
    return LogFile(str(path), tuple(events), torn)


_OF_TESTS: Mapping[type[Effect], EventType] = {
    Begin: EventType.BEGIN,
    Waiting: EventType.WAIT,
    Consult: EventType.LLM_CALL,
    End: EventType.END,
    Register: EventType.REGISTER_CALLBACK,
    Deregister: EventType.DEREGISTER_CALLBACK,
    SuiteReset: EventType.SUITE_RESET,
}


def log_events(effect: Effect, before_us: int, outcome: Outcome) -> Iterator[LogEvent]:
    """The log's events of an effect and its outcome; `before_us` is the time before it."""
    if isinstance(effect, Send):
        test, question = effect.test, effect.question
        yield LogEvent(SENT[effect.filler], before_us, test, effect.message, question)
        yield LogEvent(ANSWERED[effect.filler], outcome.at_us, test, outcome.text or "", question)
    elif (kind := _OF_TESTS.get(type(effect))) is not None:
        yield LogEvent(
            kind,
            outcome.at_us,
            getattr(effect, "test", ""),
            outcome.text or "" if isinstance(effect, Consult) else None,
            tokens=getattr(effect, "tokens", 0),
            seconds=getattr(effect, "seconds", 0),
        )


def log_line(event: LogEvent) -> bytes:
    data: dict[str, JSON] = {}
    match event.type:
        case EventType.BEGIN:
            data = {"tokens": event.tokens}
        case EventType.WAIT:
            data = {"tokens": event.tokens, "time": event.seconds}
        case EventType.LLM_CALL:
            data = {"response": event.text}
        case sent_or_answered if sent_or_answered in _TEXT_OF:
            data = {"message": event.text, "is_question": event.question}
    return dumps_line(
        {"type": int(event.type), "timestamp": event.at_us / _MICROSECONDS, "test_id": event.test, "data": data}
    )


class _Data(msgspec.Struct, frozen=True):
    message: Any = None
    response: Any = None
    is_question: Any = False
    tokens: _Amount = 0
    time: _Amount = 0


class _Line(msgspec.Struct, frozen=True):
    type: EventType
    timestamp: Annotated[float, Meta(ge=0, lt=_LAST_TIMESTAMP)]
    test_id: str = ""
    data: Any = None


def _event(line: bytes, number: int, name: str) -> LogEvent:
    where = f"{name}, line {number}"
    try:
        value = loads(line)
    except ValueError as error:
        raise DataError(f"{where}: {error}") from None
    read = read_as(value, _Line, where, error=DataError)
    data = read_as(read.data if isinstance(read.data, dict) else {}, _Data, where, error=DataError)
    text = getattr(data, _TEXT_OF[read.type]) if read.type in _TEXT_OF else None
    if read.type in _TEXT_OF and not isinstance(text, str):
        raise DataError(f"{where}: {read.type.name} has no text {_TEXT_OF[read.type]!r}")
    seconds = int(read.timestamp)  # apart, so that no microsecond is lost to rounding before the year 2242
    return LogEvent(
        read.type,
        seconds * _MICROSECONDS + round((read.timestamp - seconds) * _MICROSECONDS),
        read.test_id,
        text,
        data.is_question is True,
        round(data.tokens),
        round(data.time),
        number,
    )
