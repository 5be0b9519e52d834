"""Write calls in each wire format, so that reading returns the same calls, and as text for people."""

import difflib
import re
from collections.abc import Callable, Iterable, Sequence

from tunecheck import _json as jsontext
from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck.calls._model import PARALLEL, FunctionCall, as_value
from tunecheck.calls._python_text import NAME, positional_count
from tunecheck.calls._strict_json import MAX_CALLS, UnreadableError, exact, quoted

_PYTHON_NAME = re.compile(NAME)


def write_calls(calls: Iterable[FunctionCall], format: str) -> JSON:
    """Write calls in one of `FORMATS`: as text for text formats, else as a JSON list or object.

    Calls without an id get one (`call_0`, …) if the format needs it. `function_call` is an object for one call, and a
    list for any other number of calls.

    Raises:
        ConfigurationError: there is no such format.
        ValueError: there are over 1,000 calls, a call has no name, its arguments have no JSON form (NaN, objects), or
            its name is not valid in Python (only for `bfcl_text`).
    """
    write = _WRITERS.get(format)
    if write is None:
        near = difflib.get_close_matches(str(format), FORMATS, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(FORMATS)}"
        raise ConfigurationError(f"unknown format of function calls {format!r}; {hint}")
    checked = [_check_call(call) for call in calls]
    if len(checked) > MAX_CALLS:
        raise ValueError(f"{len(checked)} calls are too many: write at most {MAX_CALLS} at once")
    return write(checked)


def canonical_text(calls: Iterable[FunctionCall]) -> str:
    """Write one line for each call, `name(key=json, …)`, with sorted keys: equal calls give equal text.

    Raises:
        TypeError: arguments contain a value without a JSON form; calls that were read never do.
    """
    return "\n".join(_canonical(call) for call in calls)


def _canonical(call: FunctionCall) -> str:
    arguments = (f"{key}={jsontext.canonical(call.arguments[key]).decode()}" for key in sorted(call.arguments))
    return f"{call.name}({', '.join(arguments)})"


def _text(value: object) -> str:
    return jsontext.dumps(value).decode()


def _check_call(call: FunctionCall) -> FunctionCall:
    """Return a copy of the call with plain JSON arguments.

    Raises:
        ValueError: the name is empty or the wrapper's of parallel calls, or the arguments have no JSON form.
    """
    if not call.name.strip() or call.name == PARALLEL:
        raise ValueError(f"{quoted(call.name)} is not a function name")
    try:
        arguments = exact(call.arguments)
    except UnreadableError as error:
        raise ValueError(f"the arguments of {quoted(call.name)} are not JSON: {error}") from None
    assert isinstance(arguments, dict)
    return FunctionCall(call.name, arguments, call.id)


def _with_ids(calls: Sequence[FunctionCall]) -> list[tuple[str, FunctionCall]]:
    """Return each call with its id; calls without an id get `call_0`, `call_1`, …, skipping ids that are taken."""
    taken = {call.id for call in calls}
    free = (name for number in range(2 * len(calls)) if (name := f"call_{number}") not in taken)
    return [(call.id if call.id is not None else next(free), call) for call in calls]


def _openai(calls: Sequence[FunctionCall]) -> JSON:
    """Write the calls as OpenAI's `tool_calls`, with the arguments as JSON text."""
    return [
        {"id": identity, "type": "function", "function": {"name": call.name, "arguments": _text(call.arguments)}}
        for identity, call in _with_ids(calls)
    ]


def _function_call(calls: Sequence[FunctionCall]) -> JSON:
    written: list[JSON] = [{"function_call": {"name": call.name, "arguments": _text(call.arguments)}} for call in calls]
    return written[0] if len(written) == 1 else written


def _tool_uses(calls: Sequence[FunctionCall]) -> JSON:
    return {"tool_uses": [{"recipient_name": f"functions.{call.name}", "parameters": call.arguments} for call in calls]}


def _tool_uses_text(calls: Sequence[FunctionCall]) -> JSON:
    return repr(_tool_uses(calls))


def _glaive(calls: Sequence[FunctionCall]) -> JSON:
    """Write each call on a line of its own after `<functioncall>`, with the arguments as JSON text in apostrophes."""
    return "\n".join(
        f'<functioncall> {{"name": {_text(call.name)}, "arguments": \'{_text(call.arguments)}\'}}' for call in calls
    )


def _bfcl(calls: Sequence[FunctionCall]) -> JSON:
    return [{call.name: _text(call.arguments)} for call in calls]


def _bfcl_text(calls: Sequence[FunctionCall]) -> JSON:
    return f"[{', '.join(map(_python, calls))}]"


def _python(call: FunctionCall) -> str:
    """Write a call in Python's syntax; arguments with names that Python does not allow go into `**{…}`.

    Raises:
        ValueError: the function's name is not valid in Python.
    """
    if not _PYTHON_NAME.fullmatch(call.name):
        raise ValueError(f"{quoted(call.name)} is not a valid Python name; write these calls in another format")
    positions = [str(position) for position in range(positional_count(call.arguments))]
    positional = set(positions)
    written = [repr(call.arguments[position]) for position in positions]
    named = {key: value for key, value in call.arguments.items() if key not in positional}
    plain = {key: value for key, value in named.items() if _PYTHON_NAME.fullmatch(key)}
    written += [f"{key}={value!r}" for key, value in plain.items()]
    if len(plain) < len(named):
        written.append(f"**{ ({key: value for key, value in named.items() if key not in plain})!r}")
    return f"{call.name}({', '.join(written)})"


def _hermes(calls: Sequence[FunctionCall]) -> JSON:
    return "\n".join(f"<tool_call>\n{_text(as_value(call))}\n</tool_call>" for call in calls)


def _mistral(calls: Sequence[FunctionCall]) -> JSON:
    """Write the calls as a JSON list after `[TOOL_CALLS]`; no calls give an empty text."""
    if not calls:
        return ""
    objects = [as_value(call) | ({"id": call.id} if call.id is not None else {}) for call in calls]
    return f"[TOOL_CALLS] {_text(objects)}"


def _llama(calls: Sequence[FunctionCall]) -> JSON:
    """Write the calls as JSON objects after `<|python_tag|>`, separated by semicolons; no calls give an empty text."""
    if not calls:
        return ""
    return "<|python_tag|>" + "; ".join(_text({"name": call.name, "parameters": call.arguments}) for call in calls)


def _azure_agent(calls: Sequence[FunctionCall]) -> JSON:
    """Write the calls as the content of one assistant message of Azure AI agents; no calls give an empty list."""
    if not calls:
        return []
    content: list[JSON] = [
        {"type": "tool_call", "tool_call_id": identity, "name": call.name, "arguments": call.arguments}
        for identity, call in _with_ids(calls)
    ]
    return [{"role": "assistant", "content": content}]


_WRITERS: dict[str, Callable[[Sequence[FunctionCall]], JSON]] = {
    "openai": _openai,
    "function_call": _function_call,
    "tool_uses": _tool_uses,
    "tool_uses_text": _tool_uses_text,
    "glaive": _glaive,
    "bfcl_text": _bfcl_text,
    "bfcl": _bfcl,
    "hermes": _hermes,
    "mistral": _mistral,
    "llama": _llama,
    "azure_agent": _azure_agent,
}

FORMATS = tuple(_WRITERS)
"""The wire formats that `write_calls` writes and `read_calls` reads."""
