"""Simulators that repeat the recorded answers of a real service, for each call in each state.

    class Notes(Recorded):
        recording = Path(__file__).with_suffix(".recording.jsonl")
        tools = {"add_note": {"description": "Add a note.", "parameters": {"type": "object", "properties": {…}}}}
        writes = ["add_note"]

`tunecheck datasets author --mcp` writes such a class, with its tables in a JSON file (`tables`), and the recording.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

import msgspec

from tunecheck import DataError
from tunecheck.plugins import (
    FORMAT_VERSION,
    JSON,
    canonical,
    check_version,
    clean,
    content_hash,
    dumps,
    dumps_line,
    loads,
    read_as,
    read_regular,
)
from tunecheck.simulators import SimulatorError, copy_json
from tunecheck_authoring._services.resources import TableSimulator

_SHOWN = 200


class RecordedState(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a recording: the content of a state (`holds`), and the state's name in other lines (`state`)."""

    state: str
    holds: dict[str, Any]


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a recording: a call made in a state, its answer, and the state after it."""

    before: str
    call: str
    arguments: dict[str, Any]
    answer: Any
    error: bool = False
    after: str


class Recording:
    """The recorded answers of a service: `start` is its first state, `states` holds the content of each.

    Args:
        path: The recording's file, JSON Lines.

    Raises:
        DataError: The file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        """Read the recording at this path, or start an empty one in memory if there is no file."""
        self.path = path
        self.start = ""
        self.states: dict[str, dict[str, JSON]] = {}
        self.reached: dict[str, RecordedCall] = {}
        """For each state except the first: a call that led to it."""
        self._calls: dict[tuple[str, bytes], RecordedCall] = {}
        if path.exists():
            self._read()

    def find(self, state: str, name: str, arguments: Mapping[str, JSON]) -> RecordedCall | None:
        """Return the recorded call in this state, or None."""
        return self._calls.get((state, _key(name, arguments)))

    def begin(self, holds: Mapping[str, JSON]) -> None:
        """Write a new file with the state in which the service starts."""
        self.path.write_bytes(dumps_line({"format_version": FORMAT_VERSION}))
        self.start = self.hold(holds)

    def hold(self, holds: Mapping[str, JSON]) -> str:
        """Return the name of a state; a new state is written to the file."""
        name = content_hash(dict(holds))[:16]
        if name not in self.states:
            self._append(RecordedState(state=name, holds=dict(holds)))
            self.states[name] = dict(holds)
        return name

    def keep(self, made: RecordedCall) -> None:
        """Add a call to the recording and to its file."""
        self._append(made)
        self._add(made)

    def _append(self, line: msgspec.Struct) -> None:
        with self.path.open("ab") as file:
            file.write(dumps_line(msgspec.to_builtins(line)))

    def _add(self, made: RecordedCall) -> None:
        """Index a call by its state and arguments, and remember the first call that led to each new state."""
        self._calls[made.before, _key(made.call, made.arguments)] = made
        if made.after not in (made.before, self.start):
            self.reached.setdefault(made.after, made)

    def _read(self) -> None:
        """Read the states and calls in the file. The first state is the start.

        Raises:
            DataError: the file cannot be read, or a line is neither.
        """
        try:
            for number, text in enumerate(read_regular(self.path).splitlines()):
                line = loads(text)
                if number == 0 and isinstance(line, dict):
                    check_version(line, self.path)
                elif isinstance(line, dict) and "state" in line:
                    state = read_as(line, RecordedState, f"{self.path}, line {number + 1}", error=DataError)
                    self.start = self.start or state.state
                    self.states[state.state] = state.holds
                else:
                    self._add(read_as(line, RecordedCall, f"{self.path}, line {number + 1}", error=DataError))
        except (OSError, ValueError) as error:
            raise DataError(f"{self.path}: cannot be read as a recording: {error}") from None


def _key(name: str, arguments: Mapping[str, JSON]) -> bytes:
    return canonical([name, dict(arguments)])


class LiveService(Protocol):
    """The live service, which answers calls that are not recorded."""

    recording: Recording

    def ask(self, state: str, name: str, arguments: Mapping[str, JSON]) -> RecordedCall:
        """Make a call in a recorded state, and record it."""


class Recorded(TableSimulator):
    """A simulator that answers from a recording.

    Configuration: `before`, a list of calls (`{"name", "arguments"}`) that are made before a conversation begins.

    State: the answers of the tools in `state_from`, else the calls of `writes` so far, as `{"calls": [...]}`. A call
    that was not recorded gets an error reply. If it might have changed something, the state is from then on
    `{"not_recorded": <the call>}`.
    """

    recording: ClassVar[Path]
    tools: ClassVar[Mapping[str, Mapping[str, JSON]]] = {}
    """The tools by name: `description`, JSON Schema of the `parameters`, and `name`, the service's own name."""
    writes: ClassVar[Collection[str]] = ()
    """The tools that may change the service's state."""
    state_from: ClassVar[Mapping[str, Mapping[str, JSON]]] = {}
    """Tools with arguments; together their answers show the whole state. `{folder}` stands for the service's files."""
    live: ClassVar[LiveService | None] = None

    def load(self, config: Mapping[str, JSON], *, long_context: Mapping[str, JSON] | None = None) -> None:
        """Start in the recording's first state and make the calls of `before`.

        Raises:
            DataError: a call of `before` is malformed, fails, or was not recorded.
        """
        self._recording = self.live.recording if self.live is not None else _recording(self.recording)
        self._state, self._lost = self._recording.start, ""
        before = config.get("before", [])
        for call in before if isinstance(before, list) else [before]:
            match call:
                case {"name": str() as name, "arguments": dict() as arguments}:
                    self._first(name, arguments)
                case _:
                    raise DataError('initial_config: `before` must be a list of calls: {"name": …, "arguments": {…}}')

    def _first(self, name: str, arguments: dict[str, JSON]) -> None:
        """Make a call before the conversation begins. Its failure is an error of the configuration."""
        try:
            self.answer(name, arguments)
        except SimulatorError as error:
            raise DataError(f"initial_config: the call of {clean(name)} in `before` fails: {error}") from None

    def state(self) -> dict[str, object]:
        return {"not_recorded": self._lost} if self._lost else {**self._recording.states.get(self._state, {})}

    @classmethod
    def sample(cls) -> Mapping[str, JSON]:
        return {"before": []}

    @classmethod
    def functions(cls) -> Mapping[str, Mapping[str, JSON]]:
        return cls.tools

    def answer(self, name: str, arguments: dict[str, JSON]) -> JSON:
        """Return the recorded answer, or that of the live service if there is one, and go to the state after it.

        Raises:
            SimulatorError: the service answered with an error, or the answer is not recorded.
        """
        made = None if self._lost else self._recording.find(self._state, name, arguments)
        if made is None and self.live is not None:
            made = self.live.ask(self._state, name, arguments)
        if made is None:
            text = clean(f"{name}({dumps(arguments).decode()})", _SHOWN)
            if name in self.writes:
                self._lost = self._lost or text
            why = f", because {self._lost} before it is not recorded either" if self._lost not in ("", text) else ""
            raise SimulatorError(f"not recorded: the answer to {text} is unknown{why}")
        self._state = made.after
        if made.error:
            raise SimulatorError(str(made.answer))
        answer: JSON = copy_json(made.answer)
        return answer


def _recording(path: Path) -> Recording:
    """Return a file's recording; an unchanged file is read only once.

    Raises:
        DataError: there is no such file.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file; `tunecheck datasets author --mcp` writes the recording")
    status = path.stat()
    return _read(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=16)
def _read(path: Path, modified: int, size: int) -> Recording:
    return Recording(path)
