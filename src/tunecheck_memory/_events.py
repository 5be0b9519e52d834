"""The events of one session: the scheduler's effects with their outcomes, and the log that keeps them in order.

The scheduler is a generator that makes no calls itself: it yields an effect and is sent an `Outcome`. A live session
executes and logs the effects. A resumed session first sends the outcomes in its event log, and a replay sends those in
another run's log. All three drive the same generator, so they cannot diverge.

The log has one JSON object per line in `RUN/memory/<session>/events.jsonl`:

    {"k": "session", "format_version": 1, "start": µs, "made_of": {…}}      first: the settings that events depend on
    {"k": "do", "n": 12, "key": "…", "at": µs, "effect": {…}}       before a call to the agent or the judge
    {"k": "done", "n": 12, "outcome": {…}}                          the outcome of the call
    {"k": "did", "n": 13, "effect": {…}, "outcome": {…}}            an effect without a call

It stores the fields of effects and outcomes by name, order and `rename`: a change breaks existing logs. If a run was
resumed with another prompt size or judge, the first event after that has `"changed": {…}`. A last `do` without a `done`
was in flight when the process died: it is repeated with the same key. A torn last line is removed.
"""

import shutil
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec

from tunecheck import ConfigurationError, RunError, plugins
from tunecheck.plugins import FORMAT_VERSION, JSON, CallsMade, loads, plural, raise_as
from tunecheck_memory._kind import Points


class Outcome(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    rename={
        "at_us": "at",
        "latency_ms": "ms",
        "input_tokens": "in",
        "output_tokens": "out",
        "cached_input_tokens": "cached",
    },
):
    """The text of a reply or judgement, its time (`at_us`, µs since 1970, UTC), and its cost.

    adopted: the agent took the suggested reply without a call.
    declined: the service declined the content; the text is empty, and later prompts leave the exchange out.
    asked: the number of characters sent, if the service did not report input tokens.
    masked: the reply repeated a secret, which is masked in `text`.
    reasoning: the model's reasoning.
    calls: the calls that the outcome sums up; a judge may be asked again.
    """

    at_us: int
    text: str | None = None
    latency_ms: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    adopted: bool = False
    simulated: bool = False
    declined: bool = False
    cached_input_tokens: int | None = None
    asked: int = 0
    masked: bool = False
    reasoning: str | None = None
    calls: int = 1

    @property
    def made(self) -> CallsMade:
        """The calls and their tokens; no call for an adopted reply.

        Characters stand in for tokens that the service did not report.
        """
        if self.adopted:
            return CallsMade()
        characters = len(self.text or "") + len(self.reasoning or "") if self.output_tokens is None else 0
        tokens = self.input_tokens, self.output_tokens, self.cached_input_tokens
        return CallsMade(self.calls, *tokens, self.asked, characters, int(self.masked))


# -- effects. Their tags and field names are those of the log.


class _Effect(msgspec.Struct, frozen=True, tag_field="do"):
    """A step of the conversation; `test` is the id of the test that it belongs to."""


class Send(_Effect, frozen=True, tag="send"):
    """Send a message to the agent; `test` is "" for the introduction and filler.

    `suggested` is a reply that the agent may adopt; `draws` are the indexes of a filler's entries in the pool.
    """

    test: str
    message: str
    question: bool = False
    suggested: str | None = None
    draws: tuple[int, ...] = ()

    @property
    def filler(self) -> bool:
        """True if the message belongs to no test: filler, or the introduction."""
        return not self.test


class Consult(_Effect, frozen=True, tag="consult"):
    """A running test asks the judge a question; see `AskJudge`."""

    test: str
    purpose: str
    values: dict[str, Any]


class Begin(_Effect, frozen=True, tag="begin"):
    """A test begins; `tokens` counts the tokens of the conversation before it."""

    test: str
    tokens: int


class End(_Effect, frozen=True, tag="end"):
    """A test ends; `points` is set if the test counts its points itself."""

    test: str
    points: Points | None = None


class Waiting(_Effect, frozen=True, tag="wait"):
    """A test waits for this many more tokens and seconds."""

    test: str
    tokens: int
    seconds: int


class Register(_Effect, frozen=True, tag="register"):
    """A test's callback starts: from now on, its kind gets all replies."""

    test: str


class Deregister(_Effect, frozen=True, tag="deregister"):
    """A test's callback ends, because its kind needs no further replies."""

    test: str


class ResetAgent(_Effect, frozen=True, tag="reset_agent"):
    """Make the agent forget everything, after each test in isolated mode."""

    test: str


class Jump(_Effect, frozen=True, tag="jump", rename={"until_us": "until"}):
    """Let time pass until `until_us` (µs since 1970, UTC) without messages."""

    until_us: int


class SuiteReset(_Effect, frozen=True, tag="suite_reset"):
    """The tests start. The GoodAI benchmark logs this after its introduction, and when it resumes a run."""


Effect: TypeAlias = Send | Consult | Begin | End | Waiting | Register | Deregister | Jump | ResetAgent | SuiteReset

Schedule: TypeAlias = Generator[Effect, Outcome, None]


def to_data(value: Effect | Outcome) -> dict[str, JSON]:
    """Return an effect or an outcome as JSON, in the form of the event log."""
    data: dict[str, JSON] = msgspec.to_builtins(value)
    return data


# -- the log

PROMPT_SIZE, JUDGE = "prompt size", "judge"
CHANGEABLE = frozenset({PROMPT_SIZE, JUDGE})
"""Settings that may change when a session is resumed; they apply to later events."""

FOLDER = "memory"
"""The folder of memory runs in a run's folder."""


def session_name(trial: object) -> str:
    """Return the name of a repetition's session, which is also that of its folder."""
    return f"session-{trial}"


def event_log_path(run: Path, trial: int) -> Path:
    """Return the path of a session's event log in a run's folder."""
    return run / FOLDER / session_name(trial) / "events.jsonl"


class _EventRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="k"): ...


class _Session(_EventRecord, frozen=True, tag="session"):
    start: int
    made_of: dict[str, Any]
    format_version: int = FORMAT_VERSION


class Event(_EventRecord, frozen=True, kw_only=True, tag="do", omit_defaults=True, rename={"at_us": "at"}):
    """The n-th effect: a call with its idempotency `key`; `outcome` is None if the call was in flight.

    `changed` holds settings that changed with this event.
    """

    n: int
    key: str | None = None
    at_us: int = 0
    effect: Effect
    outcome: Outcome | None = None
    changed: dict[str, Any] | None = None


class _Did(Event, frozen=True, kw_only=True, tag="did"):
    """An effect without a call."""


class _Done(_EventRecord, frozen=True, tag="done", omit_defaults=True):
    n: int
    outcome: Outcome
    changed: dict[str, Any] | None = None


AnyRecord: TypeAlias = _Session | Event | _Done | _Did


class EventLog:
    """The event log of a running session: `recorded` holds its earlier events, `start_us` the start of its clock.

    `begun_with` holds the settings at the first event, `change` the settings that change with the next event. Methods
    that write raise RunError if the file cannot be written.
    """

    def __init__(self, path: Path, start_us: int, made_of: Mapping[str, JSON]) -> None:
        """Open the log, or create it with a clock that starts at `start_us` (µs since 1970).

        `made_of` holds the settings that events depend on, as values or hashes.

        Raises:
            ConfigurationError: The log was begun with other settings; the message names them.
            RunError: The log is damaged, or cannot be written.
        """
        log = _read_whole(path) if path.exists() else _Log(None, [], 0, None)
        header = log.header or _Session(start=start_us, made_of=dict(made_of))
        self.recorded = log.events

        # The settings of now: those of the first event, with every change that a later event recorded.
        before: dict[str, JSON] = {**header.made_of}
        for event in self.recorded:
            before |= event.changed or {}
        changed = [name for name in {**before, **made_of} if before.get(name) != made_of.get(name)]

        if not CHANGEABLE.issuperset(changed):
            raise ConfigurationError(
                f"{path.parent}: the session was started with different settings ({', '.join(changed)}); "
                "restore the settings, or start a new run with --fresh"
            )

        self.start_us = header.start
        self.begun_with: Mapping[str, JSON] = header.made_of
        self.change: dict[str, JSON] | None = {name: made_of.get(name) for name in changed} or None

        # If the last call is in flight, this is its number, which `done` writes.
        self._next = sum(event.outcome is not None for event in self.recorded)
        if self.change and self._next < len(self.recorded):  # the repeated call has the new settings
            last = self.recorded[-1]
            self.recorded[-1] = msgspec.structs.replace(last, changed={**(last.changed or {}), **self.change})

        with raise_as(RunError, path.parent, "cannot be made"):
            path.parent.mkdir(parents=True, exist_ok=True)
        self._file = plugins.RecordFile(path, f"the session {path.parent.name}", header=header)

    def intend(self, effect: Effect, key: str, at_us: int) -> None:
        """Record a call to the agent or the judge before it is made."""
        self._file.append(Event(n=self._next, key=key, at_us=at_us, effect=effect, changed=self._changed_settings()))

    def done(self, outcome: Outcome) -> None:
        """Record the outcome of the call that `intend` recorded."""
        self._file.append(_Done(n=self._next, outcome=outcome, changed=self._changed_settings()))
        self._next += 1

    def did(self, effect: Effect, outcome: Outcome) -> None:
        """Record an effect without a call."""
        self._file.append(_Did(n=self._next, effect=effect, outcome=outcome, changed=self._changed_settings()))
        self._next += 1

    def _changed_settings(self) -> dict[str, JSON] | None:
        """Return the changed settings to record with the next event, None without changes.

        They are forgotten, because only that event records them.
        """
        change, self.change = self.change, None
        return change

    def close(self) -> None:
        """Close the file; the log can be opened again."""
        self._file.close()


def read_events(path: Path) -> list[Event]:
    """Return the events of a log. Raise ConfigurationError if it is unreadable, RunError if it is damaged."""
    return _read_whole(path).events


def refuse_damage(path: Path, *, accept: bool) -> str | None:
    """Raise RunError for a damaged log; return None if it is whole.

    If `accept` is True, keep a copy instead, cut the log before the damage, and return a note.

    Raises:
        RunError: The log is damaged and `accept` is False, or it cannot be written.
    """
    log = _read_until_damage(path) if accept else _read_whole(path)
    if log.problem is None:
        return None

    with raise_as(RunError, path, "cannot be written"), plugins.open_regular(path, "r+b") as file:
        copy = shutil.copyfile(path, path.with_suffix(".damaged"))
        file.truncate(log.end)
        plugins.synced_file(path).unlink(missing_ok=True)  # its count of synced records is no longer true
    return f"{path.parent.name} continues where its log was damaged; {copy.name} is a copy of the damaged log"


class _Log(NamedTuple):
    """The content of a log up to its byte `end`, and the problem there; None if the log is whole."""

    header: _Session | None
    events: list[Event]
    end: int
    problem: str | None


def _read_whole(path: Path) -> _Log:
    """Return the content of a log; raise RunError if it is damaged, ConfigurationError if it cannot be opened."""
    log = _read_until_damage(path)
    if log.problem is not None:
        raise RunError(
            f"{path}: the log is damaged ({log.problem}); restore the file, cut off the damage with --accept-damage "
            "(accept_damage=True), or start a new run with --fresh"
        )
    return log


def _read_until_damage(path: Path) -> _Log:
    """Read a log up to its first damaged record; the result's problem describes the damage, None if there is none.

    Raises:
        ConfigurationError: The log cannot be opened, or a later version of Tunecheck wrote it.
    """
    plugins.check_first_record(path)
    header: _Session | None = None
    events: list[Event] = []
    end = calls = 0  # where the readable records end, and the number of calls after that
    problem = ""

    with raise_as(ConfigurationError, path), plugins.open_regular(path) as file:
        records = plugins.WholeRecords(path, file)
        for begin, line in records:
            if problem or records.damage.lost:  # only count what a continued session would repeat
                calls += 1 if b'"k":"do"' in line else 0
                continue

            try:
                record: AnyRecord = msgspec.convert(loads(line), _Session if header is None else AnyRecord)
                if isinstance(record, _Session):
                    header = record
                else:
                    _add(events, record)
                end = begin + len(line)
            except (IndexError, ValueError) as error:
                problem = f"the record at byte {begin} cannot be read: {error}"

    lost = records.damage.lost
    if not problem and not lost:
        return _Log(header, events, end, None)

    # Each lost record may be a call; so may the unreadable one.
    repeated = plural(calls + max(lost, 1), "call")
    return _Log(header, events, end, f"{problem or records.damage}; continuing from there repeats up to {repeated}")


def _add(events: list[Event], record: Event | _Done) -> None:
    """Add a new event, or the outcome of the call in flight, which is the last event.

    The numbers in the records' checksums show that none is missing.
    """
    if isinstance(record, _Done):
        changed = {**(events[-1].changed or {}), **(record.changed or {})} or None
        events[-1] = msgspec.structs.replace(events[-1], outcome=record.outcome, changed=changed)
    else:
        events.append(record)
