"""Simulators that tables in JSON files describe. `datasets author` writes them, as a class and a file of `tables`.

Resources create, read, update, delete and list records (`datasets author --openapi`):

    class Library(Resources):
        resources = {"book": Resource(key="isbn", makes="text")}
        actions = {
            "add_book": Action("create", "book", "Add a book.", {"title": {"type": "string"}}, required=["title"]),
            "get_book": Action("read", "book", "Get a book.", {"isbn": {"type": "string"}}, ["isbn"], key="isbn"),
        }

Recorded repeats the recorded answers of a real service, for each call in each state (`datasets author --mcp`):

    class Notes(Recorded):
        recording = Path(__file__).with_suffix(".recording.jsonl")
        tools = {"add_note": {"description": "Add a note.", "parameters": {"type": "object", "properties": {…}}}}
        writes = ["add_note"]

Write a method marked with `tool` for an operation that tables cannot describe.

A call of an action is answered in this order. Each failure is an error reply (SimulatorError):

1. The arguments fit the action's schema
2. Each argument in `refers` is the key of a record of its resource
3. `read`, `update`, `delete` and `act`: the record with the key exists and has the values of the arguments in `matches`
4. By the action's kind (`does`):

| kind | effect | answer |
|---|---|---|
| `create` | a record of the default fields and the arguments; its key is made if they have none | the record |
| `read` | none | the record, and repeated arguments |
| `update` | the arguments replace fields of the record | the record |
| `delete` | the record is gone | `{"deleted": key}` |
| `list` | none | `{"book": [the matching records]}`, and repeated arguments |
| `act` with `sets` | the fields `sets` and the arguments become fields | the record |
| `act` without `sets` | the arguments become an object in a field with the action's name | the record |

A call of `Recorded` is answered from the recording, by the state and the exact arguments; if it is not there, by the
live service while a data set is authored; else with an error reply.
"""

from __future__ import annotations

import functools
import types
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, cast

import msgspec

from tunecheck import DataError, plugins
from tunecheck.calls import FunctionDefinition, quoted
from tunecheck.datasets import JsonLinesSource
from tunecheck.episodes import leaves
from tunecheck.plugins import JSON
from tunecheck.simulators import Operation, Simulator, SimulatorError, copy_json, operations_of, tool_definition

if TYPE_CHECKING:
    from tunecheck_authoring._mcp.service import LiveServer

_MOST_BYTES = 64 << 20
"""The largest file of tables in bytes."""


class TableSimulator(Simulator):
    """Base of simulators with a table of functions. A method of the class replaces a function of the same name."""

    bounded: ClassVar[bool] = True
    tables: ClassVar[Path | None] = None
    """A JSON file with the class's tables by name, as `datasets author` writes it."""
    row_types: ClassVar[Mapping[str, type]] = {}
    """The type of the rows of each table in the file; rows of other tables stay as they are."""

    def __init_subclass__(cls) -> None:
        """Set the class attributes that the class's file of tables describes."""
        super().__init_subclass__()
        # Only a class's own file counts, so that a subclass does not read its parent's again.
        if cls.__dict__.get("tables") is not None:
            for name, table in _read_tables(cls, cls.__dict__["tables"]).items():
                setattr(cls, name, table)

    @classmethod
    def functions(cls) -> Mapping[str, Mapping[str, JSON]]:
        """Return each function's `description` and JSON Schema of the `parameters`, by the function's name."""
        return {}

    def answer(self, name: str, arguments: dict[str, JSON]) -> JSON:
        """Return the answer to a call of a function in the table.

        Raises:
            SimulatorError: The call fails.
        """
        raise NotImplementedError

    @classmethod
    @functools.cache
    def operations(cls) -> Mapping[str, Operation]:
        """Return the functions of the table by name; the class's own methods replace functions of the same name."""
        table: dict[str, Operation] = {}
        for name, function in cls.functions().items():
            schema = function.get("parameters")
            content = schema if isinstance(schema, dict) else {}
            properties, required = content.get("properties"), content.get("required")
            names = (*properties,) if isinstance(properties, dict) else ()
            needed = tuple(str(each) for each in required) if isinstance(required, list) else ()
            # All parameters may be given by position, in the order of the table.
            table[name] = Operation(name, functools.partial(_answer_call, name), names, needed, len(names))
        return types.MappingProxyType({**table, **operations_of(cls)})  # type: ignore[arg-type]

    @classmethod
    def tool_definitions(cls) -> list[dict[str, JSON]]:
        """Return the OpenAI tools of all operations, from methods or else from the table."""
        own, functions = operations_of(cls), cls.functions()  # type: ignore[arg-type]
        return [
            tool_definition(operation) if name in own else _table_tool(name, functions[name])
            for name, operation in cls.operations().items()
        ]


def _read_tables(simulator: type[TableSimulator], path: Path) -> Mapping[str, object]:
    """Return the class attributes in a simulator's file of tables, or raise DataError if it cannot be read.

    Rows of tables in the class's `row_types` get that type; other tables stay JSON.
    """
    try:
        content = plugins.loads(plugins.read_regular(path, _MOST_BYTES))
        tables: dict[str, JSON] = msgspec.convert(content, dict[str, Any])
        table_types = {name: dict[str, kind] for name, kind in simulator.row_types.items()}  # type: ignore[valid-type]
        return {**tables, **{name: msgspec.convert(tables.get(name, {}), kind) for name, kind in table_types.items()}}
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: the service's tables cannot be read: {error}; correct the file") from None


def _answer_call(name: str, simulator: TableSimulator, /, **arguments: JSON) -> JSON:
    return simulator.answer(name, arguments)


def _table_tool(name: str, content: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the OpenAI tool definition of a function that a table describes."""
    parameters = copy_json(content.get("parameters", {"type": "object", "properties": {}}))
    description = content.get("description", "")
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


# -- resources

Record: TypeAlias = dict[str, JSON]

_LONGEST_NUMBER = 18
"""Keys with this many digits or more are ids. New keys do not continue from them."""
_ONLY = ""
"""The key of the record if a resource has only one."""


class Resource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kind of records.

    `key` is the field that identifies a record; None if there is only one record. `makes` is the kind of key for a new
    record without a key: the next `number`, a `uuid`, or a `text`. `defaults` are the default fields of a new record.
    """

    key: str | None = "id"
    makes: Literal["number", "uuid", "text"] = "number"
    defaults: dict[str, Any] = {}


class Action(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An operation on a resource, and its tool definition: `parameters` are JSON Schemas by name.

    `create` stores the arguments as a new record. `read`, `update` and `delete` work on the record that the argument
    `key` identifies. `list` returns records in the field `answers`. `act` is any other change of a record: it sets the
    fields `sets`, or stores the arguments under the action's name.

    `matches` maps parameters to fields: a record is selected only if the field has the argument's value. `refers` maps
    parameters to resources: the resource must have a record with this key. `search` is the parameter for a text that a
    field must contain, `limit` the parameter for the most records to list. Parameters in `ignores` have no effect.
    Other required parameters that select nothing are repeated in the answer.
    """

    does: Literal["create", "read", "update", "delete", "list", "act"]
    resource: str
    description: str = ""
    parameters: dict[str, dict[str, Any]] = {}
    required: list[str] = []
    key: str | None = None
    matches: dict[str, str] = {}
    refers: dict[str, str] = {}
    search: str | None = None
    limit: str | None = None
    sets: dict[str, Any] = {}
    answers: str | None = None
    ignores: list[str] = []

    @property
    def schema(self) -> Record:
        """Return the JSON Schema of all arguments."""
        return {"type": "object", "properties": {**self.parameters}, "required": [*self.required]}

    def selecting(self) -> set[str | None]:
        """Return the parameters that select records, and those that have no effect."""
        return {self.key, self.search, self.limit, *self.matches, *self.ignores}

    def selects(self, record: Record, arguments: Record) -> bool:
        """Return True if each field in `matches` has the value of its argument; omitted arguments do not count."""
        # Two parameters may filter by the same field, such as `tag` and `tags`: both count.
        expected = [(field, arguments[name]) for name, field in self.matches.items() if name in arguments]
        return all(_holds(record, field, value) for field, value in expected)


class Resources(TableSimulator):
    """A simulator of resources, with arguments that are checked against their schemas.

    Configuration: a list of records for each resource, or its only record. State: the records by key for each resource,
    or its only record.
    """

    row_types = types.MappingProxyType({"resources": Resource, "actions": Action})
    resources: ClassVar[Mapping[str, Resource]] = {}
    actions: ClassVar[Mapping[str, Action]] = {}
    configuration: ClassVar[Mapping[str, JSON]] = {}
    """The initial configuration for `datasets author`; `$one_of`, `$some` and `$between` are drawn at random."""

    def load(self, config: Mapping[str, JSON], *, long_context: Mapping[str, JSON] | None = None) -> None:
        """Set the records from a configuration: a list of records by resource, or its only record.

        Resources that `config` lacks have no records. `long_context` has no effect.

        Raises:
            DataError: a resource is unknown, its records have another form, or a record lacks its key.
        """
        self._records: dict[str, dict[str, Record]] = {name: {} for name in self.resources}
        self._highest_numbers: dict[str, int] = dict.fromkeys(self.resources, 0)

        for name, content in config.items():
            if name not in self.resources:
                raise DataError(f"initial_config: {type(self).__name__} has no resource {name!r}; remove this entry")
            records = [content] if self.resources[name].key is None else content
            if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
                form = "a list of objects" if records is content else "an object, its only record"
                raise DataError(f"initial_config.{name} must be {form}, not {content!r:.60}")
            for record in cast("list[Record]", records):
                self._store(name, copy_json(record))

    def state(self) -> dict[str, object]:
        """Return the records by key for each resource, or the only record."""
        return {
            name: records if self.resources[name].key is not None else records.get(_ONLY, {})
            for name, records in self._records.items()
        }

    @classmethod
    def sample(cls) -> Mapping[str, JSON]:
        return cls.configuration

    def _store(self, name: str, record: Record) -> None:
        """Store a record of the resource `name` by its key as text. The only record of a resource has the key "".

        The highest number among the keys is kept, so that no new record gets an old key.

        Raises:
            DataError: a configured record has no key.
        """
        key_field = self.resources[name].key
        key = _ONLY if key_field is None else record.get(key_field)
        if key is None:
            raise DataError(f"initial_config.{name}: a record lacks the field {key_field!r}; add it to each record")

        text = str(key)
        self._records[name][text] = record
        if text.isdecimal() and len(text) < _LONGEST_NUMBER:
            self._highest_numbers[name] = max(self._highest_numbers[name], int(text))

    @classmethod
    def functions(cls) -> Mapping[str, Mapping[str, JSON]]:
        """Return the description and argument schema of each action by its name."""
        return {
            name: {"description": each.description, "parameters": each.schema} for name, each in cls.actions.items()
        }

    def answer(self, name: str, arguments: Record) -> Record:
        """Check the arguments, execute the action of this name, and return its answer.

        Raises:
            SimulatorError: the arguments break the schema, a record that they name does not exist, or the key of a new
                record is taken.
        """
        action = self.actions[name]

        check = FunctionDefinition(name, action.schema).check(arguments)
        if check.violations:
            raise SimulatorError(f"{name}: {'; '.join(check.violations)}")

        for parameter, resource in action.refers.items():
            if parameter in arguments and str(arguments[parameter]) not in self._records[resource]:
                raise _no_such_record(resource, self.resources[resource].key, arguments[parameter])

        if action.does in ("update", "act"):
            return self._change(name, action, arguments)
        # `_create`, `_read`, `_delete` or `_list`
        execute: Callable[[Action, Record], Record] = getattr(self, f"_{action.does}")
        return execute(action, arguments)

    def _create(self, action: Action, arguments: Record) -> Record:
        """Store a record of default fields, the arguments and, unless they have a key, a new key; return a copy.

        Raises:
            SimulatorError: another record has the key.
        """
        # An argument of the path is stored in its field, for example `ownerId` in `owner_id`.
        fields = {action.matches.get(name, name): arguments[name] for name in arguments if name not in action.ignores}
        kind, records = self.resources[action.resource], self._records[action.resource]
        # Copies, because later calls change records, but not the class's tables or a call's arguments.
        record = {**copy_json(kind.defaults), **copy_json(fields)}
        if kind.key is not None and record.get(kind.key) is None:
            record = {kind.key: self._next_key(action.resource, kind), **record}
        elif kind.key is not None and str(record[kind.key]) in records:
            raise SimulatorError(f"there is already a {action.resource} with {kind.key} {quoted(record[kind.key])}")

        self._store(action.resource, record)
        return copy_json(record)

    def _next_key(self, name: str, kind: Resource) -> JSON:
        """Return a key that no record has: 8 after 7, even if 7 was deleted. Equal series of calls get equal keys."""
        while True:
            self._highest_numbers[name] += 1
            key = made_key(name, kind.makes, self._highest_numbers[name])
            if str(key) not in self._records[name]:
                return key

    def _read(self, action: Action, arguments: Record) -> Record:
        """Return a copy of the selected record, with the required arguments that select nothing added."""
        return {**copy_json(self._find_record(action, arguments)), **_repeat_arguments(action, arguments)}

    def _delete(self, action: Action, arguments: Record) -> Record:
        """Delete the selected record and return its key, or the resource's name if the resource has no key."""
        self._find_record(action, arguments)

        key = arguments.get(action.key or "")
        del self._records[action.resource][_ONLY if action.key is None else str(key)]
        return {"deleted": key if action.key is not None else action.resource}

    def _list(self, action: Action, arguments: Record) -> Record:
        """Return copies of the matching records, at most as many as the `limit` argument says."""
        found: list[JSON] = [copy_json(record) for record in self._matching(action, arguments)]

        most = arguments.get(action.limit or "")
        if isinstance(most, int) and most >= 0:
            found = found[:most]
        return {action.answers or action.resource: found, **_repeat_arguments(action, arguments)}

    def _change(self, name: str, action: Action, arguments: Record) -> Record:
        """Change the selected record and return a copy of it. Arguments that select it or are ignored are not stored.

        `update` stores the other arguments as fields, and `act` stores them with the fields of `sets`. If `act` has no
        `sets`, it stores them as an object under the action's name, or true without arguments.
        """
        record = self._find_record(action, arguments)
        values = {key: value for key, value in arguments.items() if key not in action.selecting()}

        if action.does == "update":
            record.update(copy_json(values))
        elif action.sets:
            record.update(copy_json({**values, **action.sets}))
        else:
            record[name] = copy_json(values) or True
        return copy_json(record)

    def _find_record(self, action: Action, arguments: Record) -> Record:
        """Return the record that the arguments select; raise SimulatorError if there is none."""
        kind, records = self.resources[action.resource], self._records[action.resource]
        if action.key is None:
            if kind.key is not None:
                raise SimulatorError(f"the call does not say which {action.resource} is meant")
            # The only record of a resource exists from the beginning, without fields.
            return records.setdefault(_ONLY, {})

        record = records.get(str(arguments.get(action.key)))
        if record is None or not action.selects(record, arguments):
            raise _no_such_record(action.resource, kind.key, arguments.get(action.key), found=record is not None)
        return record

    def _matching(self, action: Action, arguments: Record) -> Iterator[Record]:
        """Yield the records that the arguments select and that contain the searched text, if one is given."""
        text = str(arguments.get(action.search or "", "")).casefold()
        for record in self._records[action.resource].values():
            texts = (each.casefold() for each in leaves(record) if isinstance(each, str))
            if action.selects(record, arguments) and (not text or any(text in each for each in texts)):
                yield record


def made_key(name: str, makes: str, number: int) -> int | str:
    """Return the key of the n-th record created in a resource, of the kind that its `makes` names.

    The key is a UUID that depends only on name and number, a text such as `pet-1`, or the number.
    """
    keys = {"uuid": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{name} {number}")), "text": f"{name}-{number}"}
    return keys.get(makes, number)


def _no_such_record(resource: str, key: str | None, value: JSON, *, found: bool = False) -> SimulatorError:
    """Return the error for a key without a record or, if `found`, for a record that another argument excludes."""
    return SimulatorError(f"there is no {resource} with {key} {quoted(value)}{' for these arguments' if found else ''}")


def _holds(record: Record, name: str, expected: JSON) -> bool:
    """Return True if a field has the expected value; if either is a list, one common value is enough.

    The tags `["red", "big"]` match the arguments `"red"` and `["red", "small"]`.
    """
    held, wanted = (value if isinstance(value, list) else [value] for value in (record.get(name), expected))
    return not {*map(plugins.canonical, held)}.isdisjoint(map(plugins.canonical, wanted))


def _repeat_arguments(action: Action, arguments: Record) -> Record:
    """Return the required arguments that select nothing, such as a message, to be repeated in the answer."""
    not_repeated = {*action.selecting(), *action.refers}
    return {name: arguments[name] for name in action.required if name in arguments and name not in not_repeated}


# -- recordings

_SHOWN = 200
"""The most characters of a call in an error reply."""


class RecordedState(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a recording: the content of a state (`holds`), and the state's name in other lines (`state`).

    For example `{"state": "0a1b2c3d4e5f6071", "holds": {"calls": []}}`.
    """

    state: str
    holds: dict[str, Any]


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a recording: a call made in a state, its answer, and the state after it.

    For example `{"before": "0a1b…", "call": "add_note", "arguments": {"text": "Hi"}, "answer": "added", "after":
    "5d6e…"}`. `error` is true if the service refused the call.
    """

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

    def record_start(self, holds: Mapping[str, JSON]) -> None:
        """Write a new file with the state in which the service starts; `holds` is the state's content."""
        self.path.write_bytes(plugins.dumps_line({"format_version": plugins.FORMAT_VERSION}))
        self.start = self.record_state(holds)

    def record_state(self, holds: Mapping[str, JSON]) -> str:
        """Return the name of the state with this content (`holds`); a new state is written to the file."""
        # The name is a hash, so equal states have one name.
        name = plugins.content_hash(dict(holds))[:16]
        if name not in self.states:
            self._append(RecordedState(state=name, holds=dict(holds)))
            self.states[name] = dict(holds)
        return name

    def record_call(self, call: RecordedCall) -> None:
        """Add a call to the recording and to its file."""
        self._append(call)
        self._index(call)

    def _append(self, line: msgspec.Struct) -> None:
        with self.path.open("ab") as file:
            file.write(plugins.dumps_line(msgspec.to_builtins(line)))

    def _index(self, call: RecordedCall) -> None:
        """Index a call by its state and arguments, and remember the first call that led to each new state."""
        self._calls[call.before, _key(call.call, call.arguments)] = call
        # A call that leads back to the start is no route to it.
        if call.after not in (call.before, self.start):
            self.reached.setdefault(call.after, call)

    def _read(self) -> None:
        """Read the states and calls in the file. The first state is the start.

        Raises:
            DataError: the file cannot be read, or a line is neither a state nor a call.
        """
        # A link or a pipe is refused.
        with plugins.raise_as(DataError, self.path), plugins.open_regular(self.path):
            for number, line in JsonLinesSource(self.path).records():
                where = f"{self.path}, line {number}"
                if number == 1:  # it has only the format version
                    plugins.check_version(line, self.path)
                elif "state" in line:
                    state = plugins.read_as(line, RecordedState, where, error=DataError)
                    self.start = self.start or state.state
                    self.states[state.state] = state.holds
                else:
                    self._index(plugins.read_as(line, RecordedCall, where, error=DataError))


def _key(name: str, arguments: Mapping[str, JSON]) -> bytes:
    return plugins.canonical([name, dict(arguments)])


class Recorded(TableSimulator):
    """A simulator that answers from a recording.

    Configuration: none. Each conversation begins in the first state of the recording.

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
    live: ClassVar[LiveServer | None] = None

    def load(self, config: Mapping[str, JSON], *, long_context: Mapping[str, JSON] | None = None) -> None:
        """Start in the recording's first state. `long_context` has no effect.

        Raises:
            DataError: the configuration is not empty, or the recording cannot be read.
        """
        if config:
            raise DataError(f"initial_config: {type(self).__name__} takes no configuration; remove its entry")
        self._recording = self.live.recording if self.live is not None else _recording(self.recording)
        self._state, self._lost_call = self._recording.start, ""

    def state(self) -> dict[str, object]:
        """Return the content of the recorded state, or the first call that may have changed it and is not recorded."""
        return {"not_recorded": self._lost_call} if self._lost_call else {**self._recording.states.get(self._state, {})}

    @classmethod
    def functions(cls) -> Mapping[str, Mapping[str, JSON]]:
        return cls.tools

    def answer(self, name: str, arguments: dict[str, JSON]) -> JSON:
        """Return the recorded answer, or that of the live service if there is one, and go to the state after it.

        Raises:
            SimulatorError: the service answered with an error, or the answer to this call or an earlier change is not
                recorded.
        """
        recorded = None if self._lost_call else self._recording.find(self._state, name, arguments)
        if recorded is None and self.live is not None:
            recorded = self.live.ask(self._state, name, arguments)

        if recorded is None:
            call = plugins.clean(f"{name}({plugins.dumps(arguments).decode()})", _SHOWN)
            # After a lost change, the true state is unknown, so all further answers are unknown, too.
            if name in self.writes:
                self._lost_call = self._lost_call or call

            is_first = self._lost_call in ("", call)
            because = "" if is_first else f", because {self._lost_call} before it is not recorded either"
            raise SimulatorError(f"the answer to {call} is not recorded{because}")

        self._state = recorded.after
        if recorded.error:
            raise SimulatorError(str(recorded.answer))
        return cast("JSON", copy_json(recorded.answer))


def _recording(path: Path) -> Recording:
    """Return a file's recording; an unchanged file is read only once.

    Raises:
        DataError: there is no such file.
    """
    if not path.is_file():
        raise DataError(f"{path}: the recording is missing; make it with: tunecheck datasets author NAME --mcp COMMAND")

    status = path.stat()
    return _read(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=16)
def _read(path: Path, modified: int, size: int) -> Recording:
    """Return a file's recording. The time and size are only keys of the cache: a changed file is read again."""
    return Recording(path)
