"""Read the calls of any value: recognise its format, and say why a call cannot be read.

    read_calls('<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>').calls
    (FunctionCall(name='f', arguments={'a': 1}, id=None),)

A text is read in this order. The first rule that fits decides:

1.  Skip reasoning at the beginning, even if only its closing mark is present.
2.  Read a text that begins like JSON or like a list of Python calls, with values or text after it.
3.  Before any mark of rule 4, read a fenced block with one such value, or a `{"tool_uses": …}` inside other text.
4.  Read calls after the marks of model families.
5.  If tools are known, read calls of these tools without a mark.

If tools are known, calls without a mark count only with the name of a tool, and so does JSON text that may be data,
such as `{"name": "f", "arguments": {}}`. Everything else is prose.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TypeVar

import msgspec

from tunecheck import _json as jsontext, plugins
from tunecheck._errors import PluginError
from tunecheck._trust import Trust
from tunecheck.calls._model import FunctionCall, Reading, UnreadableError, check_size, exact
from tunecheck.calls._schemas import ToolDefinitions
from tunecheck.formats._collector import CallCollector, failed_reading, may_hold_calls, may_hold_marks
from tunecheck.formats._profiles import Profile

# -- profiles by name

AUTO = "auto"
"""Recognise the family by unambiguous marks."""


def choose_profile(format: str | Profile, *, trust: Trust | None = None) -> Profile | None:
    """Return the profile of this name, or None for "auto"; a given profile is returned itself.

    `trust` limits the files that may be loaded.

    Raises:
        PluginError: no plug-in or several plug-ins have this name, or the plug-in is not a profile.
        UntrustedError: the origin of the name may not load files of the workspace.
    """
    if format == AUTO:
        return None
    return format if isinstance(format, Profile) else _find_profile(format, Path.cwd(), trust)


@functools.lru_cache(maxsize=64)
def _find_profile(name: str, workspace: Path, trust: Trust | None) -> Profile:
    """Return the profile of this name from the plug-ins and the workspace.

    Raises:
        PluginError: no plug-in or several plug-ins have this name, or the plug-in is not a profile.
        UntrustedError: the origin of the name may not load files of the workspace.
    """
    profile = plugins.find("formats", name, workspace=workspace, trust=trust)
    if not isinstance(profile, Profile):
        raise PluginError(f"the format {name!r} must be a tunecheck.formats.Profile, not {type(profile).__name__}")
    return profile


class UnreadText(str):
    """The text of an answer in which calls are not read."""

    __slots__ = ()


def read_calls(value: object, *, tools: object = None, format: str | Profile = "auto") -> Reading:
    """Return the function calls in a value of any format. Nothing is evaluated, and no value raises.

    Args:
        value: a text or its bytes, a dict or list in one of `FORMATS` or its JSON text, a message, a list of messages
            (all calls of the assistant, in order), a reply of another API, a `FunctionCall` or a list of them, a
            `Reading`, or an object of the OpenAI client. Any other value contains no call.
        tools: the definitions of the row's tools, in any form that `ToolDefinitions.read` accepts. They give the types
            of untyped text. If `tools` are given and `format` is "auto", unmarked calls in text, and JSON text that may
            be data, count only if they name one of them.
        format: the format of calls in text: "auto" recognises unambiguous marks; a profile, or the name of a family's
            profile, reads only that family's format.

    Returns:
        The calls and the rest of the text. Prose, data and None have no call and no problem. An announced call that
        cannot be read is a problem.

    Raises:
        ValueError: the tool definitions cannot be read.
        PluginError: there is no format of that name.
    """
    definitions = tools if tools is None or isinstance(tools, ToolDefinitions) else ToolDefinitions.read(tools)
    profile = None if format == AUTO else choose_profile(format)

    # The run has decided that calls in this text do not count.
    if isinstance(value, UnreadText):
        return Reading(text=str(value))
    # A subclass of str is read as its plain text.
    if isinstance(value, str):
        return _read_text(value if type(value) is str else str.__str__(value), definitions or None, profile)
    if value is None or isinstance(value, Reading):
        return value or Reading()

    try:
        return _read_value(value, definitions or None, profile)
    except Exception as error:  # noqa: BLE001 - an object of any class may raise anything when it is looked at
        return Reading(problem=f"a {type(value).__name__} cannot be read: {type(error).__name__}")


_GLYPHS = re.compile(r'<\w{1,20}Ġname=|[>}\]]Ċ|Ċ[<{\[]|[:,]Ġ["\d{\[]')
"""Spaces (Ġ) and line breaks (Ċ) as in tokenizer vocabularies, at places where no language has these letters.

The text `{"a":Ġ1}Ċ` is read as `{"a": 1}` and a line break.
"""


def is_prose(text: str, *, gated: bool) -> bool:
    """Return True if a glance shows that a text has no call, as in most texts. `gated`: the row's tools are known."""
    return "Ġ" not in text and "Ċ" not in text and not may_hold_calls(text, gated=gated)


def _read_text(text: str, tools: ToolDefinitions | None, profile: Profile | None) -> Reading:
    """Return the calls and the content of a text, in the profile's format if one is given.

    Prose is recognised without loading the tables of all families.
    """
    # Most texts of answers end here.
    if profile is None and is_prose(text, gated=bool(tools)):
        return Reading((), text)

    # Some servers do not decode the tokenizer's vocabulary: Ġ stands for a space, Ċ for a line break. Such a text has
    # no plain space.
    if " " not in text and _GLYPHS.search(text):
        text = text.replace("Ġ", " ").replace("Ċ", "\n")

    from tunecheck.formats._texts import TextReader  # loads the tables of all families

    return TextReader(tools, profile).read(text)


def thought_of(text: str) -> str:
    """Return the reasoning at the beginning of a text with its marks.

    Return an empty text if there is none, or if end marks follow the answer.
    """
    answer = without_thoughts(text)[1]
    return text[: len(text) - len(answer)] if text.endswith(answer) else ""


def without_thoughts(text: str) -> tuple[str, str]:
    """Split a text into the reasoning at its beginning, without marks, and the answer. Never raises.

    A closing mark alone ends reasoning that the prompt has opened. Reasoning without a closing mark extends to the
    end of the text.
    """
    if not may_hold_marks(text):
        return "", text

    from tunecheck.formats._texts import TextReader

    return TextReader().without_thoughts(text)


def read_python_calls(text: str) -> Reading:
    """Return the calls of a text that contains only calls, with or without brackets: `cd(folder='x')`. Never raises.

    Use this function for data in which a bare call is not prose, such as BFCL's ground truth.
    """
    from tunecheck.calls._python_text import PythonScanner

    collector = CallCollector(format="bfcl_text")
    scanner = PythonScanner(text)

    try:
        check_size(text)
        for call in scanner.all_calls():
            collector.add("bfcl_text", call.name, call.arguments)
    except (UnreadableError, RecursionError) as error:
        return failed_reading(text, collector, error)
    return collector.reading()


def _read_value(value: object, tools: ToolDefinitions | None, profile: Profile | None) -> Reading:
    """Return the reading of any value but a text; bytes are read as text, and data becomes its JSON text."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _read_text(bytes(value).decode("utf-8", "backslashreplace"), tools, profile)

    from tunecheck.formats._json_shapes import read_value

    listed = [value] if isinstance(value, FunctionCall) else value
    # Lists may mix dicts, calls and objects of the OpenAI client.
    plain = [*map(_plain_object, listed)] if isinstance(listed, (list, tuple)) else _plain_object(listed)

    reading = read_value(plain, tools, lambda text: _read_text(text, tools, profile), strict=profile is not None)
    return Reading(text=text_of(value)) if reading is None else reading


def _plain_object(value: object) -> object:
    """Convert an object of the OpenAI client, or another pydantic model, to a dict; other values are unchanged."""
    if isinstance(value, (dict, list, tuple, str, int, float, FunctionCall)) or value is None:
        return value
    dump = getattr(value, "model_dump", None)
    return dump() if callable(dump) else value


def text_of(value: object) -> str:
    """Return the JSON text of a value, or an empty text if the value has no JSON form."""
    try:
        return jsontext.dumps(exact(value)).decode()
    except (UnreadableError, TypeError, ValueError):
        return ""


_Made = TypeVar("_Made")
_NOTHING = object()


class RowCache(msgspec.Struct):
    """Cache of values derived from one row. Its users must not change the values.

    Several evaluators read the same response with the same tools. The key of an entry is its task and the identities of
    its values. Only values of the row are keys: the row keeps them alive, so no other object gets the same identity.
    """

    given: Iterable[Mapping[str, object] | None]
    """The arguments of evaluators, which contain the row's values."""
    made: dict[Hashable, object] = {}
    _held: dict[int, object] | None = None

    def holds(self, value: object) -> bool:
        """Return whether this object (by identity) is one of the row's values."""
        if self._held is None:
            # The values are kept alive, so that no other object gets the id of one. Evaluators may share arguments.
            distinct = {id(arguments): arguments for arguments in self.given if arguments is not None}.values()
            self._held = {id(value): value for arguments in distinct for value in arguments.values()}
        return id(value) in self._held


_row: ContextVar[RowCache | None] = ContextVar("row", default=None)


def begin_row(row: RowCache | None) -> None:
    """Set the row cache of this context; None turns caching off."""
    _row.set(row)


def cached_per_row(task: Hashable, values: tuple[object, ...], make: Callable[[], _Made]) -> _Made:
    """Return the result of `make`, cached for the current row by task and by the identity of the values.

    Nothing is cached outside of a row, or if a value is not the row's own.
    """
    row = _row.get()
    if row is None:
        return make()

    key = (task, *map(id, values))
    made = row.made.get(key, _NOTHING)
    if made is _NOTHING:
        # A value that is not the row's may be freed, and another one may get its id.
        for value in values:
            if value is not None and not row.holds(value):
                return make()
        made = row.made[key] = make()
    return made  # type: ignore[return-value]  # the task always makes this type


def cached_reading(value: object, tools: ToolDefinitions | None = None) -> Reading:
    """Return `read_calls` of a value from the row's cache, for readers that do not change the calls."""
    tools = tools or None
    return cached_per_row(("read", tools), (value,), lambda: read_calls(value, tools=tools))


def cached_tools(value: object) -> ToolDefinitions:
    """Return the tool definitions in a value, from the row's cache.

    `cached_reading` finds a cached reading only with the same `ToolDefinitions` object.

    Raises:
        ValueError: the tool definitions cannot be read.
    """
    return cached_per_row("tools", (value,), lambda: ToolDefinitions.read(value))


def tools_of(*values: object) -> ToolDefinitions:
    """Return the tool definitions of the first value with readable ones, or empty definitions."""
    for value in values:
        if value is not None:
            with suppress(ValueError):
                if tools := cached_tools(value):
                    return tools
    return ToolDefinitions.read(None)
