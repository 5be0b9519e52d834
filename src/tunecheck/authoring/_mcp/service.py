"""An MCP server as a simulator: its file, for people to edit, and the server itself, asked what is not recorded."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import cast

from tunecheck._errors import ConfigurationError, told_as
from tunecheck._json import JSON, canonical
from tunecheck._whole_files import write_file
from tunecheck.authoring._author.values import plain_values
from tunecheck.authoring._author.world import Schema
from tunecheck.authoring._mcp.client import Message, ServerGoneError, Session, shown_server
from tunecheck.authoring._openapi.document import one_line
from tunecheck.authoring._openapi.operations import identifier, unused
from tunecheck.authoring._openapi.source import class_name, require_name, written
from tunecheck.calls._model import FunctionCall
from tunecheck.calls._writing import canonical_text
from tunecheck.endpoints._masking import Redactor, Secret, looks_secret
from tunecheck.simulators._backend import Backends
from tunecheck.simulators._recorded import Recorded, RecordedCall, Recording

_TIME_LIMIT_S = 30.0
_PROBES = 2
_MOST_KEPT = 12
_HEAD = '''\
"""A service that answers as an MCP server did, made by `tunecheck datasets author --mcp`: edit it as you like.

`writes` are the tools that may change what the server holds. `state_from` are tools whose answers, with these
arguments, show together all that it holds: {"read_graph": {}}; where it is empty, the state is the list of `writes`
that were made. Whoever changes either deletes the recording.
"""

from pathlib import Path

from tunecheck.simulators import Recorded
'''


def write_recorded(server: str, path: Path, time_limit_s: float = _TIME_LIMIT_S) -> bool:
    """Write the simulator of an MCP server; False where the file is there: somebody may have edited it.

    Raises:
        ConfigurationError: the server does not answer, has no tools, or the file cannot be written.
    """
    if path.exists():
        return False
    require_name(path)
    with _told(), Session(server, time_limit_s) as session:
        offered = [tool for tool in session.tools() if tool.get("name")]
        if not offered:
            raise ConfigurationError(f"--mcp {shown_server(server)}: it offers no tools")
        tools: dict[str, Mapping[str, JSON]] = {}
        for tool in offered:
            tools[unused(identifier(str(tool["name"])), tools)] = _described(tool)
        writes = [name for name, tool in zip(tools, offered, strict=True) if not _hint(tool, "readOnlyHint")]
        shown = _showing_all(session, dict(zip(tools, offered, strict=True)), writes)
    tables = {"tools": tools, "writes": writes, "state_from": shown}
    body = "\n".join(f"    {name} = {written(content, '    ')}" for name, content in tables.items())
    recording = '    recording = Path(__file__).with_suffix(".recording.jsonl")'
    with told_as(ConfigurationError, path, "cannot be written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(
            path, "\n".join([_HEAD, "", f"class {class_name(path.stem)}(Recorded):\n{recording}", f"{body}\n"]).encode()
        )
        path.with_suffix(".recording.jsonl").unlink(missing_ok=True)  # of a simulator that is gone
    return True


def _described(tool: Message) -> dict[str, JSON]:
    schema = tool.get("inputSchema")
    parameters = {name: each for name, each in schema.items() if name != "$schema"} if isinstance(schema, dict) else {}
    description = one_line(str(tool.get("description") or tool.get("title") or ""))
    name = str(tool["name"])
    return {"name": name, "description": description, "parameters": {"type": "object", "properties": {}, **parameters}}


def _hint(tool: Message, name: str) -> bool:
    annotations = tool.get("annotations")
    return isinstance(annotations, dict) and annotations.get(name) is True


def _showing_all(session: Session, tools: Mapping[str, Message], writes: list[str]) -> dict[str, dict[str, JSON]]:
    """Tools that take no arguments and tell of all that was written, as far as trying shows: else none.

    What deletes may find nothing to delete, so that only what adds has to be seen.
    """
    readers = [name for name in tools if name not in writes and not _schema(tools[name]).get("required")]
    adding = [name for name in writes if _hint(tools[name], "destructiveHint") is False]

    def shown() -> dict[str, bytes]:
        return {name: canonical(session.call(str(tools[name]["name"]), {})) for name in readers}

    random, before, telling = Random(0), shown(), set[str]()
    for name in adding if readers else ():
        properties = cast("Mapping[str, Schema]", _schema(tools[name]).get("properties") or {})
        for _ in range(_PROBES):
            arguments = {each: random.choice(plain_values(each, schema, random)) for each, schema in properties.items()}
            _, failed = session.call(str(tools[name]["name"]), arguments)
            after = shown()
            changed = {each for each in readers if after[each] != before[each]}
            telling, before = telling | changed, after
            if not failed and not changed:
                return {}
            if changed:
                break
    return {name: {} for name in readers if name in telling}


def _schema(tool: Message) -> Message:
    schema = tool.get("inputSchema")
    return schema if isinstance(schema, dict) else {}


@contextmanager
def asking(server: str, name: str, backends: Backends) -> Iterator[Backends]:
    """The same simulators, of which that of this name asks the server what is not recorded.

    Raises:
        ConfigurationError: it is none of a recorded service, or the server does not answer as it should.
    """
    found = backends.find(name)
    if not issubclass(found, Recorded):
        raise ConfigurationError(f"simulators/{name}.py is not of an MCP server; choose another name, or delete it")
    with _told():
        live = LiveServer(found, server)
        try:
            yield backends.with_class(name, live.recorder())
        finally:
            live.close()


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except ServerGoneError as error:
        raise ConfigurationError(str(error)) from None


@dataclass
class _Begun:
    """A session with a server, the state it is in, and the calls that changed something since it began."""

    session: Session
    state: str = ""
    written: list[str] = field(default_factory=list)


class LiveServer:
    """A server in any state that is recorded: it is begun anew, and the calls made again that led there.

    To begin takes long, and most calls change nothing: some sessions are kept, each in a state of its own.

    Args:
        simulator: what it is recorded for.
        server: the command that starts it, or its URL.
        time_limit_s: the most that it may take to begin, and to answer.
    """

    def __init__(self, simulator: type[Recorded], server: str, time_limit_s: float = _TIME_LIMIT_S) -> None:
        self._simulator, self._server, self._time_limit_s = simulator, server, time_limit_s
        self.recording = Recording(simulator.recording)
        self._shown = shown_server(server)
        self._kept: dict[str, _Begun] = {}
        self._redactor = Redactor()
        for name, value in os.environ.items():
            if looks_secret(name):
                self._redactor.add(Secret(value))
        if not self.recording.start:
            self._keep(self._begin())

    def recorder(self) -> type[Recorded]:
        """The simulator, which asks the server what is not recorded."""
        members = {"live": self, "__module__": self._simulator.__module__}
        return type(self._simulator.__name__, (self._simulator,), members)

    def ask(self, state: str, name: str, arguments: Mapping[str, JSON]) -> RecordedCall:
        """Make a call in a state that is recorded, and record it.

        Raises:
            ServerGoneError: the server does not answer, or not as it did before.
        """
        begun = self._reach(state)
        made = self._make(begun, name, arguments)
        self._keep(begun)
        self.recording.keep(made)
        return made

    def close(self) -> None:
        for begun in self._kept.values():
            begun.session.close()
        self._kept.clear()

    def _keep(self, begun: _Begun) -> None:
        """Keep a session for calls in its state, and not too many of them."""
        if begun.state in self._kept:
            begun.session.close()
            return
        self._kept[begun.state] = begun
        if len(self._kept) > _MOST_KEPT:
            self._kept.pop(next(iter(self._kept))).session.close()

    def _begin(self) -> _Begun:
        begun = _Begun(Session(self._server, self._time_limit_s))
        try:
            holds = self._holds(begun)
            if not self.recording.start:
                self.recording.begin(holds)
            begun.state = self.recording.hold(holds)
            if begun.state != self.recording.start:
                raise ServerGoneError(
                    f"{self._shown}: it does not begin with what it held when it was recorded: {{folder}} in the "
                    f"command is a new folder each time. Or it is another one by now: delete {self.recording.path}"
                )
        except BaseException:
            begun.session.close()
            raise
        return begun

    def _reach(self, state: str) -> _Begun:
        """A session in a state: one that is on the way there, else a new one, and the calls that are missing."""
        route: list[RecordedCall] = []
        at = state
        while at not in self._kept and at != self.recording.start:
            route.append(self.recording.reached[at])
            at = route[-1].before
        begun = self._kept.pop(at) if at in self._kept else self._begin()
        for call in reversed(route):
            self._make(begun, call.call, call.arguments)
            if begun.state != call.after:
                begun.session.close()
                text = canonical_text([FunctionCall(call.call, call.arguments)])
                raise ServerGoneError(
                    f"{self._shown}: {text} does not leave what it left before, as where it makes ids by chance: "
                    f"take {call.call} out of state_from or tools in {self.recording.path.name.partition('.')[0]}.py, "
                    f"and delete {self.recording.path}"
                )
        return begun

    def _make(self, begun: _Begun, name: str, arguments: Mapping[str, JSON]) -> RecordedCall:
        before = begun.state
        try:
            answer, failed = self._call(begun, name, arguments)
            if name in self._simulator.writes:
                if not failed:
                    begun.written.append(canonical_text([FunctionCall(name, dict(arguments))]))
                begun.state = self.recording.hold(self._holds(begun))
        except BaseException:
            begun.session.close()
            raise
        return RecordedCall(
            before=before, call=name, arguments=dict(arguments), answer=answer, error=failed, after=begun.state
        )

    def _holds(self, begun: _Begun) -> dict[str, JSON]:
        if not self._simulator.state_from:
            return {"calls": [*begun.written]}
        return {name: self._call(begun, name, arguments)[0] for name, arguments in self._simulator.state_from.items()}

    def _call(self, begun: _Begun, name: str, arguments: Mapping[str, JSON]) -> tuple[JSON, bool]:
        answer, failed = begun.session.call(str(self._simulator.tools[name].get("name", name)), arguments)
        return self._redactor.answer(answer), failed
