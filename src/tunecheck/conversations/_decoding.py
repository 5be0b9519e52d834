"""One answer of a model, as it stands in a result file, decoded into the calls that it asks for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import cast

from tunecheck._json import plain
from tunecheck.calls._bounds import MAX_CALLS, MAX_CHARACTERS, UnreadableError
from tunecheck.calls._strict_json import decode
from tunecheck.conversations._compat_text import decode_text_as_bfcl
from tunecheck.conversations._nested import NestedCall
from tunecheck.conversations._text_calls import Decoded, decode_text

_SURELY_PLAIN = 200
"""Characters of JSON that hold neither more levels nor longer numbers than any limit of ours."""

_NO_CALL = "the answer holds no call"


def decode_step(step: object, *, text_mode: bool = False, compat: bool = False) -> Decoded:
    """The calls of one step of a result file.

    A step of a function-calling endpoint is `[{"name": "<arguments as JSON>"}, …]`, or the text that it answered
    instead of calling, which holds no call. With `text_mode` a step is text in which calls are looked for; a list is
    read as calls in that mode too. `compat` decodes as BFCL does, oddities included, for verdicts equal to its own.

    It never raises and evaluates nothing.
    """
    decoded = _decoded(step, text_mode=text_mode, compat=compat)
    if len(decoded.calls) > MAX_CALLS:
        return Decoded(problem=f"{len(decoded.calls)} calls in one answer; up to {MAX_CALLS} are made")
    return decoded


def _decoded(step: object, *, text_mode: bool, compat: bool) -> Decoded:
    if isinstance(step, str) and text_mode:
        return decode_text_as_bfcl(step) if compat else decode_text(step)
    if step is None or (isinstance(step, str) and not step.strip()):
        return Decoded(problem=_NO_CALL) if compat and step != "" else Decoded()
    if not isinstance(step, (list, tuple)):
        return Decoded(problem=_NO_CALL if isinstance(step, str) else "the answer is neither calls nor text")
    try:
        return Decoded(tuple(_calls_as_bfcl(step) if compat else _calls(step)))
    except (UnreadableError, ValueError, TypeError, RecursionError) as error:
        return Decoded(problem=" ".join(str(error).split())[:400])


def _calls(step: object) -> Iterator[NestedCall]:
    for number, (name, arguments) in enumerate(_entries(step), 1):
        value = arguments
        if isinstance(arguments, str):
            try:
                value = decode(arguments)
            except UnreadableError as error:
                raise UnreadableError(f"call {number} ({name[:60]!r}): the arguments are not JSON: {error}") from None
        if not isinstance(value, Mapping):
            raise UnreadableError(f"call {number} ({name[:60]!r}): the arguments are no object")
        yield NestedCall(name, dict(value))


def _calls_as_bfcl(step: object) -> Iterator[NestedCall]:
    for name, arguments in _entries(step):
        if isinstance(arguments, str) and len(arguments) > MAX_CHARACTERS:
            raise UnreadableError(f"arguments of {len(arguments)} characters")
        # The standard library's reader takes NaN, and the last of two equal keys, as BFCL does.
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
        if not (isinstance(arguments, str) and len(arguments) <= _SURELY_PLAIN):
            plain(value)  # refuses what is nested too deeply to be walked
        if not isinstance(value, Mapping):
            raise UnreadableError("the arguments are no object")
        yield NestedCall(name, cast("Mapping[str, object]", value))


def _entries(step: object) -> Iterator[tuple[str, object]]:
    for number, item in enumerate(cast("list[object]", step), 1):
        if not isinstance(item, Mapping):
            raise UnreadableError(f"call {number} is no object of a name and its arguments")
        for name, arguments in item.items():
            if not isinstance(name, str):
                raise UnreadableError(f"call {number} has a name that is no text")
            yield name, arguments
