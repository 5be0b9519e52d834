"""An MCP server as a simulator: write its file, and ask the server for answers that are not recorded.

**The state of a server** cannot be read directly. `state_from` says what shows it (`_tools_that_show_state`):

1. the answers of tools that need no arguments, if each tried write changes one of them
2. else the files in the server's folder, if each tried write changes them
3. else the list of successful calls that may write

**An answer that is not recorded** (`LiveServer.ask`) needs a session in the right state. The first way is used that is
possible:

1. a kept session that is in this state
2. a kept session in an earlier state on the recorded route to this state; it repeats the calls after it
3. a new session, which must start in the recorded first state; it repeats all calls of the route

If a repeated call leads to another state than recorded, for example because of random ids, authoring ends with an
error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import cast

import msgspec

from tunecheck import ConfigurationError
from tunecheck.calls import FunctionCall, canonical_text
from tunecheck.endpoints import Redactor, Secret, looks_secret
from tunecheck.plugins import JSON
from tunecheck.simulators import Backends
from tunecheck_authoring._author.world import Schema, plain_values
from tunecheck_authoring._mcp.client import McpSession, Message, ServerGoneError, files_in, shown_server
from tunecheck_authoring._openapi import identifier, one_line, unused_name
from tunecheck_authoring._service_file import require_name, write_service
from tunecheck_authoring._table_simulators import Recorded, RecordedCall, Recording

_TIME_LIMIT_S = 30.0
"""Seconds for a server's start, and for each answer."""
_PROBES = 2
"""Trial calls of a tool that only adds, until one succeeds or changes an answer."""
_MOST_KEPT = 12
"""The most sessions that are kept open."""
FILES = "{folder}"
"""In `state_from`: the files in the server's folder."""

_TABLES = """\
It repeats the recorded answers of an MCP server. `writes` lists the tools that may change the server's state.
`state_from` lists the tools, with arguments, whose answers together show the whole state: {"read_graph": {}}, or
{"{folder}": {}} for the files in the server's folder. If `state_from` is empty, the state is the list of calls of
`writes` so far. If you change `writes` or `state_from`, delete the recording."""


def write_recorded(server: str, path: Path) -> bool:
    """Write the simulator of an MCP server; return False and keep the file if it exists, as it may be edited.

    Raises:
        ConfigurationError: The server does not answer or has no tools, or the file cannot be written or has an invalid
            name.
    """
    if path.exists():
        return False
    require_name(path)
    with _as_configuration_error(), closing(McpSession(server, _TIME_LIMIT_S)) as session:
        offered = [tool for tool in session.tools() if tool.get("name")]
        if not offered:
            raise ConfigurationError(f"--mcp {shown_server(server)}: the server offers no tools; give another server")

        tools: dict[str, Message] = {}
        for tool in offered:
            # A server's name such as `add-note` is no Python name; the table keeps the server's own as `name`.
            tools[unused_name(identifier(str(tool["name"])), tools)] = tool

        # A tool without the annotation may write.
        writes = [name for name, tool in tools.items() if _hint(tool, "readOnlyHint") is not True]
        state_from = _tools_that_show_state(session, tools, writes)

    line = '    recording = Path(__file__).with_suffix(".recording.jsonl")\n'
    described: JSON = {name: _describe(tool) for name, tool in tools.items()}
    tables: dict[str, JSON] = {"tools": described, "writes": [*writes], "state_from": {**state_from}}
    write_service(path, Recorded.__name__, _TABLES, tables, line)
    path.with_suffix(".recording.jsonl").unlink(missing_ok=True)  # of an earlier simulator
    return True


def _describe(tool: Message) -> dict[str, JSON]:
    """Return a server's tool as a tool of the simulator, with its description on one line."""
    parameters = {name: each for name, each in _schema(tool).items() if name != "$schema"}
    description = one_line(str(tool.get("description") or tool.get("title") or ""))
    name = str(tool["name"])
    return {"name": name, "description": description, "parameters": {"type": "object", "properties": {}, **parameters}}


def _hint(tool: Message, name: str) -> JSON:
    """Return an annotation of a server's tool, or None."""
    annotations = tool.get("annotations")
    return annotations.get(name) if isinstance(annotations, dict) else None


def _tools_that_show_state(
    session: McpSession, tools: Mapping[str, Message], writes: Sequence[str]
) -> dict[str, dict[str, JSON]]:
    """Return the tools that need no arguments and together show every write, for `state_from`; found by trial calls.

    If there are no such tools, return {FILES: {}} if the server's files show every write, else {}. Only additions are
    tried: a deletion may find nothing to delete. `session` is a new session, `tools` has the server's descriptions by
    the simulator's names, and `writes` the names of tools that may change something.
    """
    readers = {name: tool for name, tool in tools.items() if name not in writes and not _schema(tool).get("required")}
    random, before, changes = Random(0), _state_answers(session, readers), []

    # A tool counts as adding only if the server declares that it destroys nothing.
    for name in (each for each in writes if _hint(tools[each], "destructiveHint") is False):
        for _ in range(_PROBES):
            _, failed = session.call(str(tools[name]["name"]), _draw_arguments(name, tools[name], random))
            after = _state_answers(session, readers)
            changed = {each for each in after if after[each] != before.get(each)}
            # The next trial is compared with the state after this one.
            before = after
            if changed or not failed:
                changes.append(changed)
                break

    if changes and all(changed - {FILES} for changed in changes):
        return {name: {} for name in readers if any(name in changed for changed in changes)}
    return {FILES: {}} if changes and all(FILES in changed for changed in changes) else {}


def _state_answers(session: McpSession, readers: Mapping[str, Message]) -> dict[str, JSON]:
    """Return the current answers of `readers`, tools that need no arguments, by name, and the server's files."""
    answers: dict[str, JSON] = {name: [*session.call(str(tool["name"]), {})] for name, tool in readers.items()}

    # A server at a URL has no folder here.
    files = None if session.folder is None else files_in(session.folder)
    return answers if files is None else {**answers, FILES: files}


def _draw_arguments(name: str, tool: Message, random: Random) -> dict[str, JSON]:
    """Draw plausible arguments for all parameters of the tool with this name."""
    properties = cast("Mapping[str, Schema]", _schema(tool).get("properties") or {})
    drawn = {each: plain_values(each, schema, random, name) for each, schema in properties.items()}
    return {each: random.choice(values) for each, values in drawn.items()}


def _schema(tool: Message) -> Message:
    """Return the schema of a tool's arguments, {} if it has none."""
    schema = tool.get("inputSchema")
    return schema if isinstance(schema, dict) else {}


@contextmanager
def recording_backends(server: str, name: str, backends: Backends) -> Iterator[Backends]:
    """Yield the simulators; the one with this name asks the server for answers that are not recorded.

    Raises:
        ConfigurationError: The simulator is not of a recorded service, or the server gives no valid answer.
    """
    found = backends.find(name)
    if not issubclass(found, Recorded):
        raise ConfigurationError(f"simulators/{name}.py simulates no MCP server; delete the file or change NAME")

    with _as_configuration_error(), closing(LiveServer(found, server)) as live:
        yield backends.with_class(name, live.recorder())


@contextmanager
def _as_configuration_error() -> Iterator[None]:
    """Turn a ServerGoneError, which no simulator may catch, into a ConfigurationError."""
    try:
        yield
    except ServerGoneError as error:
        raise ConfigurationError(str(error)) from None


class _LiveSession(msgspec.Struct):
    """A session with a server, its state, and the calls since its start that may have changed something."""

    session: McpSession
    state: str = ""
    written: list[str] = msgspec.field(default_factory=list)


class LiveServer:
    """A server that can be brought to any recorded state: a new session repeats the recorded calls.

    A start is slow and most calls change nothing, so some sessions are kept, each in its own state.

    Args:
        simulator: The simulator of the recording.
        server: The command that starts the server, or its URL.
    """

    def __init__(self, simulator: type[Recorded], server: str) -> None:
        """Open the recording of `simulator`. `server` is the server's command or URL.

        Values of environment variables with secret-looking names are masked in answers.
        """
        self._simulator, self._server = simulator, server
        self.recording = Recording(simulator.recording)
        self._sessions: list[_LiveSession] = []
        """All open sessions, the last used one at the end."""
        self._pool = ThreadPoolExecutor(2, "tunecheck-mcp")
        self._started: list[Future[McpSession]] = []
        """The next session and a spare one, started in threads: if a server starts in 1 s, this halves the time."""

        self._redactor = Redactor()
        for name, value in os.environ.items():
            if looks_secret(name):
                self._redactor.add(Secret(value))

    def recorder(self) -> type[Recorded]:
        """Return the simulator that asks the server for answers that are not recorded.

        A new recording gets the state in which the server starts, which needs a session with the server.
        """
        if not self.recording.start:
            self._start_session()
        # A class of its own: the simulator in the workspace stays without a server.
        members = {"live": self, "__module__": self._simulator.__module__}
        return type(self._simulator.__name__, (self._simulator,), members)

    def ask(self, state: str, name: str, arguments: Mapping[str, JSON]) -> RecordedCall:
        """Make a call in a recorded state, and add it to the recording.

        Raises:
            ServerGoneError: The server does not answer, or differs from the recording.
        """
        live = self._reach(state)
        call = self._make_call(live, name, arguments)
        self.recording.record_call(call)

        # One session in each state is enough; of too many, the one goes that was not used for the longest time.
        in_state = [each for each in self._sessions if each.state == live.state]
        if len(in_state) > 1:
            self._close_session(live)
        elif len(self._sessions) > _MOST_KEPT:
            self._close_session(self._sessions[0])
        return call

    def close(self) -> None:
        """End all sessions."""
        for live in [*self._sessions]:
            self._close_session(live)
        for started in self._started:
            with suppress(ConfigurationError, ServerGoneError):
                started.result().close()
        self._pool.shutdown()

    def _close_session(self, live: _LiveSession) -> None:
        self._sessions.remove(live)
        live.session.close()

    def _start_session(self) -> _LiveSession:
        """Start a session in the recorded first state; the very first session records that state.

        Raises:
            ServerGoneError: the server starts in another state.
        """
        while len(self._started) < 2:
            self._started.append(self._pool.submit(McpSession, self._server, _TIME_LIMIT_S))
        try:
            self._sessions.append(live := _LiveSession(self._started[0].result()))
        except (ConfigurationError, ServerGoneError):
            del self._started[0]  # the next start tries again
            raise
        del self._started[0]  # only now, so that `close` ends it if Ctrl-C comes while it starts

        state = self._state(live)
        if not self.recording.start:
            self.recording.record_start(state)
        live.state = self.recording.record_state(state)

        if live.state != self.recording.start:
            advice = "let its command use '{folder}', a new folder for each start, or record the server again"
            reason = f"the server did not start in the recorded state; {advice} (delete {self.recording.path})"
            raise ServerGoneError(self._server, reason)
        return live

    def _reach(self, state: str) -> _LiveSession:
        """Return a session in a state: a kept session, or one that repeats the recorded calls up to that state.

        Raises:
            ServerGoneError: a repeated call leads to a state that differs from the recording.
        """
        kept = {live.state: live for live in self._sessions}
        # Go back along the calls that led to the state, to a kept session or to the start.
        route: list[RecordedCall] = []
        at = state
        while at not in kept and at != self.recording.start:
            route.append(self.recording.reached[at])
            at = route[-1].before

        live = kept[at] if at in kept else self._start_session()
        self._sessions.remove(live)
        self._sessions.append(live)

        for call in reversed(route):
            self._make_call(live, call.call, call.arguments)
            if live.state != call.after:
                text = canonical_text([FunctionCall(call.call, call.arguments)])
                advice = f"remove {call.call} from the tables in {self._file}, and delete {self.recording.path}"
                reason = f"the state after {text} differs from the recording (random ids?); {advice}"
                raise ServerGoneError(self._server, reason)
        return live

    @property
    def _file(self) -> str:
        """The name of the simulator's file of tables, for messages."""
        return f"{self.recording.path.name.partition('.')[0]}.tables.json"

    def _make_call(self, live: _LiveSession, name: str, arguments: Mapping[str, JSON]) -> RecordedCall:
        """Make a call in a session and return it with the states before and after it.

        A call that may write changes the session's state; a new state is recorded.
        """
        before = live.state
        answer, failed = self._call(live, name, arguments)
        # The state is read after a failed call, too: it may have changed something.
        if name in self._simulator.writes:
            if not failed:
                live.written.append(canonical_text([FunctionCall(name, dict(arguments))]))
            live.state = self.recording.record_state(self._state(live))

        return RecordedCall(
            before=before, call=name, arguments=dict(arguments), answer=answer, error=failed, after=live.state
        )

    def _state(self, live: _LiveSession) -> dict[str, JSON]:
        """Return the server's state in a session.

        It consists of the answers of the tools in `state_from` and the files. Without these, it is the list of writes
        so far.
        """
        tools = self._simulator.state_from
        if not tools:
            return {"calls": [*live.written]}

        answers = {name: self._call(live, name, arguments)[0] for name, arguments in tools.items() if name != FILES}
        return {**answers, "files": self._file_texts(live)} if FILES in tools else answers

    def _file_texts(self, live: _LiveSession) -> JSON:
        """Return the content of the server's files, without secrets.

        Raises:
            ServerGoneError: the files cannot be read completely.
        """
        folder = live.session.folder
        files = None if folder is None else files_in(folder)

        if files is None:
            reason = "the server's folder cannot be recorded: it is missing, contains a link or exceeds 1 MB"
            raise ServerGoneError(self._server, f"{reason}; remove {FILES} from state_from in {self._file}")
        return self._redactor.answer(files)

    def _call(self, live: _LiveSession, name: str, arguments: Mapping[str, JSON]) -> tuple[JSON, bool]:
        """Return the answer of a call, without secrets of the environment, and True if it failed."""
        answer, failed = live.session.call(str(self._simulator.tools[name].get("name", name)), arguments)
        return self._redactor.answer(answer), failed
