"""A run as the GoodAI benchmark leaves it: `<benchmark>/results/<agent>/`, its log, definitions and configuration."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from tunecheck import _yaml as yamltext
from tunecheck._describe import Document, read_as
from tunecheck._errors import ConfigurationError, DataError, PluginError, raise_as
from tunecheck._json import JSON, dumps, dumps_line, loads, whole_number
from tunecheck._trust import Trust
from tunecheck.plugins import discover
from tunecheck_memory import FillerPool, GenerationContext, Kind, MemoryTest, SessionWording, Tokenizer, find_kind
from tunecheck_memory._benchmark import COMMON_ARGUMENTS, SUFFIX, read_definition
from tunecheck_memory._events import Effect, Outcome
from tunecheck_memory._kind import is_kind_file
from tunecheck_memory._run_files import EventType, log_lines
from tunecheck_memory._scheduler import MAX_MESSAGE_TOKENS, Settings, Test

SENT = (EventType.SEND_MESSAGE, EventType.SEND_FILL)
ANSWERED = (EventType.RESPONSE_MESSAGE, EventType.RESPONSE_FILL)

TEXT_OF: Mapping[EventType, str] = {**dict.fromkeys((*SENT, *ANSWERED), "message"), EventType.LLM_CALL: "response"}


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


def log_events(effect: Effect, before_us: int, outcome: Outcome) -> Iterator[LogEvent]:
    """Yield the events that our own log has of an effect and its outcome; `before_us` is the time before it."""
    for data, _ in log_lines(effect, before_us, outcome):
        yield replace(_event(dumps(data), 0, "log"), line=0)


def log_line(event: LogEvent) -> bytes:
    """Return the line of a log that says this event."""
    data: dict[str, JSON] = {}
    match event.type:
        case EventType.BEGIN:
            data = {"tokens": event.tokens}
        case EventType.WAIT:
            data = {"tokens": event.tokens, "time": event.seconds}
        case EventType.LLM_CALL:
            data = {"response": event.text}
        case sent_or_answered if sent_or_answered in TEXT_OF:
            data = {"message": event.text, "is_question": event.question}
    return dumps_line(
        {"type": int(event.type), "timestamp": event.at_us / 1_000_000, "test_id": event.test, "data": data}
    )


def describe(event: LogEvent) -> str:
    parts = [event.type.name, f"{event.test!r}" if event.test else ""]
    if event.type in TEXT_OF:
        parts.append(f"{event.text!r}{' (question)' if event.question else ''}")
    if event.type in (EventType.BEGIN, EventType.WAIT):
        parts.append(f"{event.tokens} tokens")
    if event.type is EventType.WAIT:
        parts.append(f"{event.seconds} s")
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
    with raise_as(DataError, path):
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


_LAST_TIMESTAMP = 253_402_300_800.0
"""The end of the year 9999, in seconds since 1970."""

_Amount: TypeAlias = Annotated[float, Meta(gt=-_LAST_TIMESTAMP, lt=_LAST_TIMESTAMP)]


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
    text = getattr(data, TEXT_OF[read.type]) if read.type in TEXT_OF else None
    if read.type in TEXT_OF and not isinstance(text, str):
        raise DataError(f"{where}: {read.type.name} has no text {TEXT_OF[read.type]!r}")
    seconds = int(read.timestamp)  # apart, so that no microsecond is lost to rounding before the year 2242
    return LogEvent(
        read.type,
        seconds * 1_000_000 + round((read.timestamp - seconds) * 1_000_000),
        read.test_id,
        text,
        data.is_question is True,
        round(data.tokens),
        round(data.time),
        number,
    )


@dataclass(frozen=True)
class LegacyConfiguration:
    """A configuration as it was published, or as a run of ours keeps it.

    `given` says that somebody named the file, and did not just have it lying beside the definitions: only then are
    data sets in files that it names loaded, which for a Python file means that it is run.
    """

    document: Document
    given: bool

    @property
    def memory_span(self) -> int | None:
        """The memory span of all data sets that have none of their own, in tokens."""
        return self._span(_below(self.document.value, "datasets", "args"), "datasets", "args")

    @property
    def filler_seed(self) -> int:
        """The filler's seed. A run of ours, which says whether it is isolated, keeps it; the reference's is 0."""
        value = self.document.value
        seed = _below(value, "datasets", "args", "seed")
        ours = isinstance(_below(value, "config", "isolated"), bool)
        return (whole_number(seed) or 0) if ours else 0

    def spans(self, titles: Mapping[str, str]) -> Mapping[str, int]:
        """By title, the memory spans of data sets that have their own; `titles` are by the names of kinds."""
        spans = {}
        for place, entry in enumerate(self._list("datasets", "datasets")):
            span = self._span(_below(entry, "args"), "datasets", "datasets", place, "args")
            title = titles.get(str(_below(entry, "name")))
            if span is not None and title is not None:
                spans[title] = span
        return spans

    def incompatibilities(self, titles: Mapping[str, str]) -> list[frozenset[str]]:
        """Sets of titles of which no two are at work at once; names that are none of these kinds' are passed over."""
        sets = []
        for place, group in enumerate(self._list("config", "incompatibilities")):
            if not isinstance(group, list):
                where = self.document.where("config", "incompatibilities", place)
                raise ConfigurationError(f"{where}: incompatibilities are lists of data sets' names")
            sets.append(frozenset(titles[str(name)] for name in group if str(name) in titles))
        return sets

    def kinds_of_files(self, trust: Trust | None) -> Iterator[Kind]:
        """The kinds of data sets that are files, relative to a configuration that was given."""
        for place, entry in enumerate(self._list("datasets", "datasets") if self.given else ()):
            name, arguments = _below(entry, "name"), _below(entry, "args")
            if isinstance(name, str) and is_kind_file(name):
                where = self.document.where("datasets", "datasets", place)
                own = arguments if isinstance(arguments, dict) else {}
                own = {key: value for key, value in own.items() if key not in COMMON_ARGUMENTS}
                try:
                    yield find_kind(name, own, folder=Path(self.document.name).parent, trust=trust)
                except ConfigurationError as error:
                    raise type(error)(f"{where}: {error}") from None

    def _list(self, *path: str) -> list[JSON]:
        value = _below(self.document.value, *path)
        return value if isinstance(value, list) else []

    def _span(self, arguments: JSON, *path: str | int) -> int | None:
        span = _below(arguments, "memory_span")
        if span is not None and (whole_number(span) or 0) <= 0:
            where = self.document.where(*path, "memory_span")
            raise ConfigurationError(f"{where}: memory_span must be a whole number over 0")
        return whole_number(span)


def _below(value: JSON, *path: str) -> JSON:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def read_definitions(folder: Path | str) -> list[MemoryTest]:
    """All definitions of a benchmark's folder `definitions`, sorted by id.

    Raises:
        DataError: it holds none, or one of them cannot be read; names the file.
    """
    place = Path(folder)
    with raise_as(DataError, place):
        files = [file for file in place.glob(f"*/*{SUFFIX}") if file.is_file()]
    if not files:
        raise DataError(f"{place}: holds no definitions, such as Colours/0{SUFFIX}")
    return sorted(map(read_definition, files), key=lambda definition: definition.id)


LOG = "master_log.jsonl"

_SPAN_IN_NAME = re.compile(r"(\d{1,6})\s*k\b", re.IGNORECASE)


@dataclass(frozen=True)
class LegacyRun:
    """All that a replay needs. `span_from` says where the memory span comes from.

    `seed` is the filler's. `incompatibilities` are sets of titles; None where no configuration says any, and the
    kinds' topics decide.
    """

    log: LogFile
    tests: Sequence[Test]
    memory_span: int
    span_from: str
    incompatibilities: Sequence[frozenset[str]] | None
    isolated: bool
    seed: int = 0

    def settings(
        self,
        wording: SessionWording,
        filler: FillerPool,
        tokenizer: Tokenizer,
        *,
        seed: int | None = None,
        max_message_tokens: int = MAX_MESSAGE_TOKENS,
    ) -> Settings:
        """How its tests are interleaved; `seed` is the filler's where it is not the run's own."""
        return Settings(
            memory_span=self.memory_span,
            wording=wording,
            filler=filler,
            tokenizer=tokenizer,
            start_us=self.log.events[0].at_us,
            incompatibilities=self.incompatibilities or (),
            by_topics=self.incompatibilities is None,
            isolated=self.isolated,
            seed=self.seed if seed is None else seed,
            max_message_tokens=max_message_tokens,
        )


class ScriptedKind(Kind):
    """A data set that is known by its definitions alone: its tests go by their scripts."""

    resets = True

    @classmethod
    def of(cls, title: str) -> ScriptedKind:
        made: type[ScriptedKind] = type("ScriptedKind", (cls,), {"title": title, "name": title})
        return made()

    def definitions(self, count: int, making: GenerationContext) -> list[MemoryTest]:
        raise ConfigurationError(f"{self.title!r} is known by its definitions only: none can be made")


def read_legacy_run(
    folder: Path | str,
    *,
    definitions: Path | str | None = None,
    configuration: Path | str | None = None,
    memory_span: int | None = None,
    trust: Trust | None = None,
) -> LegacyRun:
    """Read a run's folder, its definitions and their configuration; what is given as an option wins.

    `trust` says who names the kinds of a configuration that is given; without it, somebody who may.

    Raises:
        DataError: a file is missing or cannot be read; names file and line.
        ConfigurationError: the memory span is said nowhere.
    """
    run = Path(folder)
    run = run.parent if run.name == LOG else run
    if not (run / LOG).is_file():
        raise DataError(f"{run}: has no {LOG}; name a run's folder, <benchmark>/results/<agent>")
    benchmark = run.resolve().parent.parent
    made = Path(definitions) if definitions is not None else benchmark / "definitions"
    log = read_log(run / LOG)
    if not log.events:
        raise DataError(f"{log.name}: holds no events")
    tests = read_definitions(made)
    known = {definition.id for definition in tests}
    for event in log.events:
        if event.test and event.test not in known:
            raise DataError(f"{log.name}, line {event.line}: the test {event.test!r} has no definition in {made}")
    file = Path(configuration) if configuration is not None else made / "config.yml"
    settings = None
    if configuration is not None or file.is_file():
        settings = LegacyConfiguration(yamltext.read_yaml(file), given=configuration is not None)
    kinds = _kinds({definition.title for definition in tests}, settings, trust)
    titles = {kind.name: kind.title for kind in kinds.values()}
    isolated = log.events[0].type is EventType.BEGIN
    span, span_from = _span(memory_span, settings, benchmark.name, isolated)
    spans = settings.spans(titles) if settings is not None and memory_span is None else {}
    return LegacyRun(
        log=log,
        tests=[Test(each, kinds[each.title], spans.get(each.title)) for each in tests],
        memory_span=span,
        span_from=span_from,
        incompatibilities=settings.incompatibilities(titles) if settings is not None else None,
        isolated=isolated,
        seed=settings.filler_seed if settings is not None else 0,
    )


def _kinds(titles: Iterable[str], settings: LegacyConfiguration | None, trust: Trust | None) -> dict[str, Kind]:
    """The kinds of these titles: a user's own from the files that a given configuration names, else those installed."""
    by_title = {kind.title: kind for kind in _installed_kinds()}
    by_title |= {kind.title: kind for kind in (settings.kinds_of_files(trust) if settings is not None else ())}
    return {title: by_title.get(title) or ScriptedKind.of(title) for title in titles}


def _installed_kinds() -> Iterator[Kind]:
    for candidate in discover("memory"):
        with contextlib.suppress(PluginError):
            yield find_kind(candidate.name)


def _span(given: int | None, settings: LegacyConfiguration | None, name: str, isolated: bool) -> tuple[int, str]:
    if given is not None:
        return given, "--memory-span"
    if settings is not None and settings.memory_span is not None:
        return settings.memory_span, settings.document.name
    if in_name := _SPAN_IN_NAME.search(name):
        return int(in_name[1]) * 1_000, f"the folder's name, {name!r}"
    if isolated:
        return 1, "isolated tests, which have none"
    raise ConfigurationError(
        "the memory span stands in no configuration beside the definitions: give --memory-span or --configuration"
    )
