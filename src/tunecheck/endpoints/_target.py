"""An endpoint as a target: make a request from a row's columns, and output columns from the answer.

Each part of a request is read from the first of its columns with a value:

    messages     the mapping's column; without a mapping `messages`, `query`, then the column of `read_also()`
    tools        the mapping's column; without a mapping `tools`, `tool_definitions`, then the column of `read_also()`
    parameters   the mapping's column; without a mapping only the column of `read_also()`

If a definition names a model family, calls are read from the answer's text in the family's format. `tools: text` also
describes the tools in the prompt.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, Missing, ValuePath, content_hash, find_value, loads, object_or_empty, parse_path
from tunecheck._messages import did_you_mean
from tunecheck._targets import CallContext, Load, Row, Target, TargetOutput
from tunecheck.calls._model import decode_calls, kind_of, write_calls
from tunecheck.endpoints import _base as base
from tunecheck.formats._reading import read_calls

if TYPE_CHECKING:
    from tunecheck.formats._profiles import Profile, ToolPrompt

Message = Mapping[str, JSON]
_Parts = tuple[Sequence[Message], Sequence[Message] | None, Mapping[str, JSON]]
"""Messages, tools and parameters of a request."""

# The parts of a request, with their default columns.
_DEFAULTS: Mapping[str, tuple[ValuePath, ...]] = {
    "messages": (("messages",), ("query",)),
    "tools": (("tools",), ("tool_definitions",)),
    "parameters": (),
}
_PARALLEL = "parallel_tool_calls"
"""Column and parameter: whether the model may make several calls at once."""


class EndpointTargetBase(Target):
    """A target with the name, settings and load of one endpoint."""

    def __init__(self, endpoint: base.Endpoint) -> None:
        self.endpoint = endpoint
        self.name = endpoint.name
        self.simulated = endpoint.simulated

    def load(self) -> Load | None:
        return self.endpoint.load()

    def fingerprint(self) -> str | None:
        """Return a hash of the endpoint's kind, its source code and the settings that answers depend on; never None."""
        kind = type(self.endpoint)

        text_format = [repr(self.endpoint.profile), self.endpoint.tools_as_text] if self.endpoint.profile else []
        code = [kind.__module__, kind.__qualname__, base.source_hash(sys.modules.get(kind.__module__))]
        return content_hash([*code, self.endpoint.answer_settings(), *text_format])

    def describe(self) -> dict[str, JSON]:
        """Return the endpoint's settings with secrets masked."""
        return {"name": self.name, "simulated": self.simulated, **self.endpoint.settings()}

    async def close(self) -> None:
        """Close the endpoint's connections."""
        await self.endpoint.close()


class EndpointTarget(EndpointTargetBase):
    """Answers a row by sending its messages and tools to an endpoint.

    `mapping` names the columns: `{"messages": "${data.prompt}", "tools": …, "parameters": …}` (or plain column names).
    By default, messages are read from the column `messages`, else `query`: a list of OpenAI messages, or a text, which
    becomes one user message. Tools are read from `tools`, else `tool_definitions`: OpenAI tools or bare function
    schemas, as a list or as JSON text. A column `parallel_tool_calls` (true or false) is sent if there are tools.
    No other column is used, except those of `read_also()`.

    Raises:
        ConfigurationError: the mapping has another key.
    """

    def __init__(
        self, endpoint: base.Endpoint, mapping: Mapping[str, str] | None = None, places: Mapping[str, str] | None = None
    ) -> None:
        """Read the mapping of request parts (messages, tools, parameters) to columns; None uses the default columns.

        `places` has the file and line of each entry that a file declares, for error messages.

        Raises:
            ConfigurationError: an entry's key is unknown, or its value is not a column of the data.
        """
        super().__init__(endpoint)
        self.concurrency = endpoint.concurrency
        self.pure = endpoint.pure
        self.columns = frozenset([*base.Completion().columns(), *base.SOME_COLUMNS, base.UNPARSED])
        self._paths = {**_DEFAULTS, **read_paths(mapping or {}, places or {})}
        self._message_columns = " or ".join(map(_path_text, self._paths["messages"]))
        self._mapped = frozenset(mapping or {})
        self._latest: tuple[Row, _Parts] | None = None
        """The latest row and the parts of its request: its inputs are hashed just before it is asked."""

    async def answer(self, row: Row, context: CallContext) -> TargetOutput:
        """Return the output columns for a row; UNPARSED marks calls that the API left in the text or encoded wrongly.

        Raises:
            ValueError: tools or parameters have the wrong type, or the mapping names them and they are missing; or the
                endpoint needs the messages, and they are missing or of the wrong type.
            EndpointError: the call failed after all retries.
            StopRunError: the run must stop: its budget is spent, or every further call would fail in the same way.
        """
        request = self.request(row, context.idempotency_key())
        completion = await ask(self.endpoint, request)

        columns = completion.columns()

        # The API encoded calls wrongly: they are readable, but not as a client expects them.
        if decode_calls(columns["tool_calls"]):
            columns[base.UNPARSED] = base.COMPLETE

        # The API returned no calls, so look for calls that it left in the text.
        if request.tools and self.endpoint.returns_calls and not completion.tool_calls and completion.text:
            with suppress(ValueError):  # tool definitions in an unknown format
                reading = read_calls(completion.text, tools=request.tools)
                if reading.complete_calls or reading.cause == "cut_off":
                    columns[base.UNPARSED] = base.COMPLETE if reading.complete_calls else base.BEGUN

        return columns

    def read_also(self, name: str, path: ValuePath | None) -> None:
        """Add the column at `path` as the last source of the request part `name` (messages, tools or parameters).

        If the mapping names the part, or `path` is None, nothing changes.
        """
        if path is not None and name not in self._mapped:
            self._paths[name] = (*self._paths[name], path)
            self._latest = None
            self._message_columns = " or ".join(map(_path_text, self._paths["messages"]))

    def check_columns(self, columns: frozenset[str]) -> None:
        """Check that the data has a column with messages.

        Raises:
            ConfigurationError: the data has no column with messages, and the endpoint needs them.
        """
        names = [str(path[0]) for path in self._paths["messages"]]
        if not self.endpoint.depends_on_row and columns.isdisjoint(names):
            known = ", ".join(f"${{data.{column}}}" for column in sorted(columns)[:12])
            raise ConfigurationError(
                f"the data has no column {' or '.join(names)} with the messages to send: name their column with "
                f"--mapping target.messages='${{data.COLUMN}}' (columns: {known})"
            )

    def request(self, row: Row, idempotency_key: str | None = None) -> base.ChatRequest:
        """Return the request of a row.

        Raises:
            ValueError: tools or parameters have the wrong type, or the mapping names them and they are missing; or the
                endpoint needs the messages, and they are missing or of the wrong type.
        """
        messages, tools, parameters = self._parts(row)
        return base.ChatRequest(
            messages=messages, tools=tools, parameters=parameters, idempotency_key=idempotency_key, row=row
        )

    def inputs(self, row: Row) -> JSON:
        """Return the row's messages, tools and parameters.

        Return the whole row if the endpoint uses more of it, or if no request can be made from it.
        """
        if self.endpoint.depends_on_row:
            return dict(row.values)

        try:
            messages, tools, parameters = self._parts(row)
        except ValueError:
            return dict(row.values)  # `answer` will raise the same error for this row

        own_messages: list[JSON] = [dict(message) for message in messages]
        own_tools: list[JSON] | None = None if tools is None else [dict(tool) for tool in tools]
        return {"messages": own_messages, "tools": own_tools, "parameters": dict(parameters)}

    def _parts(self, row: Row) -> _Parts:
        """Return the messages, tools and parameters of a row's request.

        Raises:
            ValueError: see `request`.
        """
        if self._latest is not None and self._latest[0] is row:
            return self._latest[1]

        messages, tools = self._messages(row), openai_tools(self._request_part(row, "tools"))

        parameters = self._request_part(row, "parameters")
        if parameters is not None and not isinstance(parameters, dict):
            column = _path_text(self._paths["parameters"][0])
            raise ValueError(f'the column {column} must hold an object of parameters, such as {{"temperature": 0}}')

        # A row's `parallel_tool_calls` has no meaning without tools. An entry of its `parameters` takes precedence.
        parallel = row.values.get(_PARALLEL)
        if tools and isinstance(parallel, bool):
            parameters = {_PARALLEL: parallel, **(parameters or {})}

        parts = (messages, tools, parameters or {})
        self._latest = (row, parts)
        return parts

    def _request_part(self, row: Row, name: str) -> JSON:
        """Return a part of the request from the first of its columns with a value, or None.

        Raises:
            ValueError: the user's mapping names the column, and the row has no value in it.
        """
        for path in self._paths[name]:
            value = find_value(row.values, path)
            if not isinstance(value, Missing) and value is not None:
                return value

        if name in self._mapped:
            column = _path_text(self._paths[name][0])
            raise ValueError(f"column {column} is empty in this row: fill it, or map target.{name} to another column")
        return None

    def _messages(self, row: Row) -> Sequence[Mapping[str, JSON]]:
        """Return the row's messages. If they are unreadable, return none if the endpoint can answer by the row's id.

        Raises:
            ValueError: the endpoint needs the messages, and they are missing or of the wrong type.
        """
        try:
            return read_messages(self._request_part(row, "messages"), self._message_columns)
        except ValueError:
            if self.endpoint.depends_on_row:
                return []
            raise


def openai_tools(value: JSON) -> list[Mapping[str, JSON]] | None:
    """Return tool definitions as OpenAI tools, or None for null and empty text.

    They may be bare function schemas, a single tool, or JSON text.

    Raises:
        ValueError: the value is not a tool definition or a list of them.
    """
    if isinstance(value, str):
        try:
            value = loads(value) if value.strip() else None
        except ValueError as error:
            raise ValueError(f"the row's tools are a text that is not JSON ({error}): write a list of tools") from None

    if value is None:
        return None

    items = [value] if isinstance(value, dict) else value
    if not isinstance(items, list):
        raise ValueError(f"the row's tools must be a list of tool definitions, not {kind_of(items)}")
    return [_openai_tool(item, index) for index, item in enumerate(items)]


def _openai_tool(item: JSON, index: int) -> Mapping[str, JSON]:
    """Return a tool or a bare function schema as an OpenAI tool.

    Raises:
        ValueError: the item is neither; the message has its `index` in the list.
    """
    if isinstance(item, dict) and isinstance(item.get("function"), dict):
        return item if "type" in item else {"type": "function", **item}
    if isinstance(item, dict) and isinstance(item.get("name"), str):
        return {"type": "function", "function": {key: part for key, part in item.items() if key != "type"}}
    raise ValueError(f"tools[{index}] of the row must be an OpenAI tool, or a function schema with a name")


def parameters_by_name(tools: Iterable[Mapping[str, JSON]]) -> dict[str, dict[str, Any]]:
    """Return the JSON Schema of the parameters by function name. Tools without a name are left out."""
    schemas: dict[str, dict[str, Any]] = {}
    for tool in tools:
        wrapped = tool.get("function")
        function = wrapped if isinstance(wrapped, dict) else tool
        name = function.get("name")
        if isinstance(name, str):
            schemas[name] = object_or_empty(function.get("parameters"))
    return schemas


def read_messages(value: JSON, columns: str) -> Sequence[Mapping[str, JSON]]:
    """Return the messages in a column's value; a text becomes one user message. Errors name the `columns`.

    Raises:
        ValueError: the value is null, an empty list, or neither a text nor a list of messages with roles.
    """
    if value is None:
        raise ValueError(f"the column {columns} has no messages to send: add a text or messages")

    if isinstance(value, str):
        return [{"role": "user", "content": value}]

    if not isinstance(value, list) or not value:
        raise ValueError(f"the column {columns} must hold a text or a list of at least one message")

    messages = [item for item in value if isinstance(item, dict) and isinstance(item.get("role"), str)]
    if len(messages) != len(value):
        raise ValueError(f"the column {columns} holds a message without a role: add one, such as user")
    return messages


def read_paths(mapping: Mapping[str, str], places: Mapping[str, str]) -> dict[str, tuple[ValuePath]]:
    """Return a tuple of one path for each request part in the mapping, because parts of `_DEFAULTS` may have several.

    Values of the mapping are `${data.a.b}` or columns' names. `places` has the file and line of those read from a file.

    Raises:
        ConfigurationError: a name is unknown, or a reference is not to the data.
    """
    paths: dict[str, tuple[ValuePath]] = {}
    for name, column in mapping.items():
        place = f"{places[name]}: " if name in places else ""
        if name not in _DEFAULTS:
            hint = did_you_mean(name, _DEFAULTS)
            raise ConfigurationError(f"{place}the mapping has an unknown key 'target.{name}'{hint}")

        path = _column_path(column.strip())
        if path is None:
            problem = f"must read a column of the data: write ${{data.COLUMN}}, not {column}"
            raise ConfigurationError(f"{place}the mapping of target.{name} {problem}")
        paths[name] = (path,)
    return paths


def _column_path(text: str) -> ValuePath | None:
    """Return the path in a row that `${data.a.b}` or the name of a column means; None for any other reference."""
    if not (text.startswith("${") and text.endswith("}")):
        return (text,)

    # Only data can be mapped: outputs do not exist before the request.
    with suppress(ValueError):
        source, *steps = parse_path(text[2:-1])
        return tuple(steps) if source == "data" and steps else None
    return None


def _path_text(path: ValuePath) -> str:
    return ".".join(map(str, path))


# -- calls and tools as text in a model family's format


async def ask(endpoint: base.Endpoint, request: base.ChatRequest) -> base.Completion:
    """Return the endpoint's answer. If the definition names a `format`, calls in the text become tool calls.

    With `tools: text`, the messages describe tools, earlier calls and their results, and the API gets no tools.

    Raises:
        EndpointError: the call failed after all retries.
        StopRunError: the run must stop: its budget is spent, or every further call would fail in the same way.
    """
    profile = endpoint.profile
    if profile is None:
        return await endpoint.complete(request)

    prompt = profile.prompt if endpoint.tools_as_text else None
    sent = request if prompt is None else put_tools_in_text(request, prompt)
    return with_calls(await endpoint.complete(sent), profile, request.tools)


def with_calls(completion: base.Completion, profile: Profile | str, tools: object) -> base.Completion:
    """Return the completion with the calls in its text as tool calls, and the original text as `raw_text`.

    The profile (or "auto") is the format of the calls; the tools give the types of arguments. A completion without a
    readable call in its text is returned unchanged.
    """
    if completion.tool_calls or not completion.text:
        return completion

    try:
        reading = read_calls(completion.text, tools=tools, format=profile)
    except ValueError:  # tool definitions in an unknown format
        reading = read_calls(completion.text, format=profile)

    if not reading.complete_calls:
        return completion

    thoughts = [thought for thought in (completion.reasoning, reading.reasoning) if thought]
    return replace(
        completion,
        text=reading.text or None,
        tool_calls=tuple(cast("Sequence[Message]", write_calls(reading.calls, "openai"))),
        raw_text=completion.raw_text or completion.text,
        reasoning="\n".join(thoughts) or None,
    )


def put_tools_in_text(request: base.ChatRequest, prompt: ToolPrompt) -> base.ChatRequest:
    """Return the request with tools in the system message, and calls and results in the model family's format."""
    messages: list[Message] = []
    for are_results, group in groupby(request.messages, lambda message: message.get("role") == "tool"):
        if are_results:
            # Results of the calls of one turn become one user message.
            messages.append({"role": "user", "content": prompt.results([_text_parts(message) for message in group])})
        else:
            messages += [_write_calls(message, prompt) for message in group]

    if request.tools:
        messages = with_system(messages, prompt.system([dict(tool) for tool in request.tools]))
    return replace(request, messages=messages, tools=None)


def with_system(messages: Sequence[Message], text: str) -> list[Message]:
    """Return the messages with this text at the start of the system message, which is added if there is none."""
    if messages and messages[0].get("role") == "system":
        return [{**messages[0], "content": f"{text}\n\n{messages[0].get('content')}"}, *messages[1:]]
    return [{"role": "system", "content": text}, *messages]


def _write_calls(message: Message, prompt: ToolPrompt) -> Message:
    """Return a model's message with its `tool_calls` written into the text in the family's format."""
    if not message.get("tool_calls"):
        return message

    calls = read_calls({"role": "assistant", "tool_calls": message["tool_calls"]}).calls
    texts = [text for text in (_text_parts(message), prompt.written(calls)) if text]
    return {**{key: value for key, value in message.items() if key != "tool_calls"}, "content": "\n".join(texts)}


def _text_parts(message: Message) -> str:
    """Return the text parts of a message, one per line."""
    return "\n".join(part for part in base.content_parts(message) if isinstance(part, str))
